CREATE TABLE `cold_objects` (
	`id` text PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`at` integer NOT NULL,
	`scrub` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE INDEX `cold_objects_unfinished` ON `cold_objects` (`state`,`at`) WHERE state <> 'stored';--> statement-breakpoint
CREATE INDEX `cold_objects_scrub` ON `cold_objects` (`id`) WHERE scrub > 0;--> statement-breakpoint
CREATE TABLE `cold_progress` (
	`id` integer PRIMARY KEY NOT NULL,
	`packed_seq` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `erased_names` (
	`hash` text PRIMARY KEY NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `erased_names_at` ON `erased_names` (`at`);--> statement-breakpoint
CREATE TABLE `erasures` (
	`id` text PRIMARY KEY NOT NULL,
	`email_hash` text NOT NULL,
	`requested_at` integer NOT NULL,
	`finished_at` integer,
	`email` text,
	`visitors` text,
	`person_id` integer,
	`dead_seq` integer NOT NULL,
	`people` integer NOT NULL,
	`identities` integer NOT NULL,
	`signals` integer NOT NULL,
	`anonymous` integer NOT NULL,
	`held` integer NOT NULL,
	`duplicates` integer NOT NULL,
	`dead_letters` integer NOT NULL,
	`scoring_signals` integer NOT NULL,
	`cold_objects` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `erasures_email_hash` ON `erasures` (`email_hash`,`requested_at`);--> statement-breakpoint
CREATE INDEX `erasures_finished` ON `erasures` (`finished_at`,`requested_at`);--> statement-breakpoint
CREATE INDEX `erasures_person` ON `erasures` (`person_id`) WHERE person_id IS NOT NULL;--> statement-breakpoint
CREATE TABLE `link_jobs` (
	`kind` text NOT NULL,
	`value` text NOT NULL,
	`due_at` integer NOT NULL,
	PRIMARY KEY(`kind`, `value`)
);
--> statement-breakpoint
CREATE INDEX `link_jobs_due` ON `link_jobs` (`due_at`);--> statement-breakpoint
CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`days` integer,
	`next_at` integer NOT NULL,
	`deleted_until` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `rule_days` (
	`rule_id` text PRIMARY KEY NOT NULL,
	`days` text NOT NULL
);
--> statement-breakpoint
DROP INDEX `event_groups_last`;--> statement-breakpoint
ALTER TABLE `event_groups` ADD `days` text;--> statement-breakpoint
CREATE INDEX `event_groups_shown` ON `event_groups` (last_seen DESC,`event`,`source`) WHERE count > 0;--> statement-breakpoint
ALTER TABLE `signals` ADD `cold_object` text;--> statement-breakpoint
ALTER TABLE `signals` ADD `cold_line` integer;--> statement-breakpoint
ALTER TABLE `signals` ADD `erased_at` integer;--> statement-breakpoint
CREATE INDEX `signals_aside_email` ON `signals` (`email`) WHERE status IN ('held', 'duplicate') AND email IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_aside_user_id` ON `signals` (`user_id`) WHERE status IN ('held', 'duplicate') AND user_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_aside_anonymous_id` ON `signals` (`anonymous_id`) WHERE status IN ('held', 'duplicate') AND anonymous_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_cold` ON `signals` (`cold_object`) WHERE cold_object IS NOT NULL AND status = 'anonymous';