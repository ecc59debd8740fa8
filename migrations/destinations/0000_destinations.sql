CREATE TABLE `deleted_people` (
	`email_hash` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`destination_id` text NOT NULL,
	`id` text NOT NULL,
	`notification_id` text NOT NULL,
	`type` text NOT NULL,
	`lane` integer NOT NULL,
	`notifications` text NOT NULL,
	`bytes` integer NOT NULL,
	`state` text NOT NULL,
	`end_reason` text,
	`due_ms` integer,
	`taken_ms` integer,
	`attempt` integer NOT NULL,
	`failed` integer NOT NULL,
	`attempts` text NOT NULL,
	`answers_hidden` integer NOT NULL,
	`created_ms` integer NOT NULL,
	`ended_ms` integer,
	PRIMARY KEY(`destination_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deliveries_due` ON `deliveries` (`destination_id`,`lane`,`due_ms`) WHERE due_ms IS NOT NULL;--> statement-breakpoint
CREATE TABLE `destinations` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`type` text NOT NULL,
	`target` text NOT NULL,
	`notifications` text NOT NULL,
	`headers` text NOT NULL,
	`pages_url` text NOT NULL,
	`state` text NOT NULL,
	`disabled_reason` text,
	`created_ms` integer NOT NULL,
	`secret` text,
	`confirmation` text,
	`failing_since_ms` integer,
	`failing_last_ms` integer,
	`failures` integer NOT NULL,
	`not_before_ms` integer NOT NULL,
	`delivered_ms` integer,
	`dropped` integer NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `failed_not_kept` (
	`destination_id` text NOT NULL,
	`hour_ms` integer NOT NULL,
	`deliveries` integer NOT NULL,
	PRIMARY KEY(`destination_id`, `hour_ms`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `key_notices` (
	`key_id` text NOT NULL,
	`notice` text NOT NULL,
	`of` text NOT NULL,
	PRIMARY KEY(`key_id`, `notice`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `notifications` (
	`seq` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`type` text NOT NULL,
	`time_ms` integer NOT NULL,
	`data` text
);
--> statement-breakpoint
CREATE TABLE `notifications_seen` (
	`id` text PRIMARY KEY NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `old_secrets` (
	`destination_id` text NOT NULL,
	`secret` text NOT NULL,
	`ends_ms` integer NOT NULL,
	PRIMARY KEY(`destination_id`, `secret`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `settings` (
	`name` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `switched_off` (
	`destination_id` text PRIMARY KEY NOT NULL,
	`at_ms` integer NOT NULL,
	`detail` text NOT NULL
) WITHOUT ROWID;
