CREATE TABLE `calls` (
	`key_id` text NOT NULL,
	`day` integer NOT NULL,
	`accepted` integer NOT NULL,
	`rejected` integer NOT NULL,
	`used_ms` integer NOT NULL,
	`accepted_ms` integer NOT NULL,
	PRIMARY KEY(`key_id`, `day`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `closed_periods` (
	`period_start_ms` integer PRIMARY KEY NOT NULL,
	`period_end_ms` integer NOT NULL,
	`signal_limit` integer NOT NULL,
	`overages` integer NOT NULL,
	`accepted` integer DEFAULT 0 NOT NULL,
	`held` integer DEFAULT 0 NOT NULL,
	`rejected` integer DEFAULT 0 NOT NULL,
	`overage` integer NOT NULL,
	`streak` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `configurations` (
	`config_version` integer PRIMARY KEY NOT NULL,
	`signal_limit` integer NOT NULL,
	`paid` integer NOT NULL,
	`overages` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `ledger` (
	`id` integer PRIMARY KEY NOT NULL,
	`anchor_ms` integer NOT NULL,
	`period_start_ms` integer NOT NULL,
	`period_end_ms` integer NOT NULL,
	`accepted` integer DEFAULT 0 NOT NULL,
	`held` integer DEFAULT 0 NOT NULL,
	`rejected` integer DEFAULT 0 NOT NULL,
	`overage` integer NOT NULL,
	`streak` integer NOT NULL,
	`admitted` integer NOT NULL,
	`next_row` integer NOT NULL,
	`day_ms` integer NOT NULL,
	`notified` integer NOT NULL,
	`late` integer NOT NULL,
	`extra_room_removed` integer NOT NULL,
	`budgets` text DEFAULT '{}' NOT NULL,
	`budget_use` text DEFAULT '{}' NOT NULL,
	CONSTRAINT "ledger_one_row" CHECK(id = 1)
);
--> statement-breakpoint
CREATE TABLE `outbox` (
	`row` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`period_start` integer NOT NULL,
	`count` integer NOT NULL,
	`bytes` integer NOT NULL,
	`accepted` integer DEFAULT 0 NOT NULL,
	`held` integer DEFAULT 0 NOT NULL,
	`rejected` integer DEFAULT 0 NOT NULL,
	`overage` integer NOT NULL,
	`admitted` integer NOT NULL,
	`budget_use` text DEFAULT '{}' NOT NULL,
	`body` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `raised_notifications` (
	`row` integer PRIMARY KEY NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `rejections` (
	`key_id` text NOT NULL,
	`code` text NOT NULL,
	`cause` text NOT NULL,
	`request_id` text NOT NULL,
	`detail` text NOT NULL,
	`calls` integer NOT NULL,
	`signals` integer NOT NULL,
	`first_ms` integer NOT NULL,
	`last_ms` integer NOT NULL,
	PRIMARY KEY(`key_id`, `code`, `cause`, `request_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `released` (
	`id` text PRIMARY KEY NOT NULL,
	`period_start` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `resend_jobs` (
	`job` text PRIMARY KEY NOT NULL,
	`batch` integer NOT NULL,
	`through` integer NOT NULL,
	`sent` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `deactivated_keys` (
	`key_id` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `key_ends` (
	`key_id` text PRIMARY KEY NOT NULL,
	`end_ms` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `public_keys` (
	`key_id` text PRIMARY KEY NOT NULL,
	`origin` text NOT NULL,
	`at_ms` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `unreadable_rows` (
	`row` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`period_start` integer NOT NULL,
	`count` integer NOT NULL,
	`body` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `usage_days` (
	`period_start_ms` integer NOT NULL,
	`day_ms` integer NOT NULL,
	`accepted` integer DEFAULT 0 NOT NULL,
	`held` integer DEFAULT 0 NOT NULL,
	`rejected` integer DEFAULT 0 NOT NULL,
	PRIMARY KEY(`period_start_ms`, `day_ms`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `wanted_notifications` (
	`id` integer PRIMARY KEY NOT NULL,
	`wanted` text NOT NULL,
	CONSTRAINT "wanted_notifications_one_row" CHECK(id = 1)
);
