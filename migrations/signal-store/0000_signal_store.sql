CREATE TABLE `event_groups` (
	`event` text NOT NULL,
	`source` text NOT NULL,
	`count` integer NOT NULL,
	`held` integer NOT NULL,
	`anonymous` integer NOT NULL,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL,
	`sample_id` text NOT NULL,
	`sample_ordinal` integer NOT NULL,
	PRIMARY KEY(`event`, `source`)
);
--> statement-breakpoint
CREATE INDEX `event_groups_last` ON `event_groups` (`last_seen`);--> statement-breakpoint
CREATE TABLE `identities` (
	`kind` text NOT NULL,
	`value` text NOT NULL,
	`person_id` integer NOT NULL,
	`linked_at` integer NOT NULL,
	PRIMARY KEY(`kind`, `value`)
);
--> statement-breakpoint
CREATE INDEX `identities_person` ON `identities` (`person_id`);--> statement-breakpoint
CREATE TABLE `people` (
	`id` integer PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`name` text,
	`company` text,
	`title` text,
	`name_at` integer DEFAULT 0 NOT NULL,
	`name_ordinal` integer DEFAULT 0 NOT NULL,
	`company_at` integer DEFAULT 0 NOT NULL,
	`company_ordinal` integer DEFAULT 0 NOT NULL,
	`title_at` integer DEFAULT 0 NOT NULL,
	`title_ordinal` integer DEFAULT 0 NOT NULL,
	`score` integer DEFAULT 0 NOT NULL,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `people_email_unique` ON `people` (`email`);--> statement-breakpoint
CREATE TABLE `product_org_changes` (
	`product_org_id` integer NOT NULL,
	`field` text NOT NULL,
	`at` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`signal_id` text NOT NULL,
	`before` text,
	`after` text NOT NULL,
	`before_at` integer,
	`before_ordinal` integer,
	`before_signal_id` text,
	PRIMARY KEY(`product_org_id`, `field`, `at`, `ordinal`)
);
--> statement-breakpoint
CREATE INDEX `product_org_changes_latest` ON `product_org_changes` (`product_org_id`,`at`,`ordinal`);--> statement-breakpoint
CREATE TABLE `product_orgs` (
	`id` integer PRIMARY KEY NOT NULL,
	`external_id` text NOT NULL,
	`name` text,
	`plan` text,
	`user_count` text,
	`recurring_revenue` text,
	`trial_status` text,
	`feature_flags` text,
	`attributes` text NOT NULL,
	`claims` text NOT NULL,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `product_orgs_external_id_unique` ON `product_orgs` (`external_id`);--> statement-breakpoint
CREATE TABLE `rule_jobs` (
	`rule_id` text PRIMARY KEY NOT NULL,
	`rule` text,
	`rules_version` integer NOT NULL,
	`status` text NOT NULL,
	`requested_at` integer NOT NULL,
	`started_at` integer,
	`finished_at` integer,
	`last_seq` integer NOT NULL,
	`event` text,
	`position` integer NOT NULL,
	`total` integer NOT NULL,
	`scanned` integer NOT NULL,
	`matched` integer NOT NULL,
	`added` integer NOT NULL,
	`changed` integer NOT NULL,
	`removed` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `rule_jobs_unfinished` ON `rule_jobs` (`requested_at`) WHERE status <> 'done';--> statement-breakpoint
CREATE INDEX `rule_jobs_rules_version` ON `rule_jobs` (`rules_version`);--> statement-breakpoint
CREATE TABLE `scoring_signals` (
	`id` integer PRIMARY KEY NOT NULL,
	`signal_id` text NOT NULL,
	`rule_id` text NOT NULL,
	`rule_version` integer NOT NULL,
	`person_id` integer NOT NULL,
	`scoring_signal` text NOT NULL,
	`points` integer NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `scoring_signals_once` ON `scoring_signals` (`signal_id`,`rule_id`);--> statement-breakpoint
CREATE INDEX `scoring_signals_person` ON `scoring_signals` (`person_id`,`id`);--> statement-breakpoint
CREATE INDEX `scoring_signals_rule` ON `scoring_signals` (`rule_id`,`id`);--> statement-breakpoint
CREATE TABLE `signals` (
	`seq` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`status` text NOT NULL,
	`kind` text NOT NULL,
	`event` text,
	`source` text,
	`person_id` integer,
	`named_by` text,
	`email` text,
	`user_id` text,
	`anonymous_id` text,
	`key_id` text NOT NULL,
	`endpoint` text NOT NULL,
	`verdict` text NOT NULL,
	`ordinal` integer NOT NULL,
	`signal_limit` integer NOT NULL,
	`received_at` integer NOT NULL,
	`recorded_at` integer NOT NULL,
	`period_start` integer NOT NULL,
	`period_end` integer NOT NULL,
	`content_hash` text,
	`duplicate_of` text,
	`linked_at` integer,
	`rules_tried` integer NOT NULL,
	`dead_reason` text,
	`path_source` text,
	`idempotency_key` text,
	`payload` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `signals_id` ON `signals` (`id`);--> statement-breakpoint
CREATE INDEX `signals_originals` ON `signals` (`content_hash`) WHERE content_hash IS NOT NULL AND status <> 'duplicate';--> statement-breakpoint
CREATE INDEX `signals_duplicates` ON `signals` (`content_hash`) WHERE content_hash IS NOT NULL AND status = 'duplicate';--> statement-breakpoint
CREATE INDEX `signals_event` ON `signals` (`event`,`seq`);--> statement-breakpoint
CREATE INDEX `signals_person` ON `signals` (`person_id`,`seq`) WHERE person_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_status` ON `signals` (`status`,`seq`) WHERE status <> 'processed';--> statement-breakpoint
CREATE INDEX `signals_held` ON `signals` (`period_end`,`ordinal`) WHERE status = 'held';--> statement-breakpoint
CREATE INDEX `signals_anonymous_id` ON `signals` (`anonymous_id`,`seq`) WHERE status = 'anonymous' AND anonymous_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_user_id` ON `signals` (`user_id`,`seq`) WHERE user_id IS NOT NULL AND (status = 'anonymous' OR named_by = 'anonymous_id');--> statement-breakpoint
CREATE TABLE `totals` (
	`period_start` integer PRIMARY KEY NOT NULL,
	`processed` integer NOT NULL,
	`duplicates` integer NOT NULL,
	`held` integer NOT NULL,
	`purged` integer NOT NULL,
	`dead_lettered` integer NOT NULL
);
