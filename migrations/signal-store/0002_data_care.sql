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
CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`days` integer,
	`next_at` integer NOT NULL,
	`deleted_until` integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE `signals` ADD `erased_at` integer;--> statement-breakpoint
CREATE INDEX `signals_aside_email` ON `signals` (`email`) WHERE status IN ('held', 'duplicate') AND email IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_aside_user_id` ON `signals` (`user_id`) WHERE status IN ('held', 'duplicate') AND user_id IS NOT NULL;--> statement-breakpoint
CREATE INDEX `signals_aside_anonymous_id` ON `signals` (`anonymous_id`) WHERE status IN ('held', 'duplicate') AND anonymous_id IS NOT NULL;