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
CREATE TABLE `link_jobs` (
	`kind` text NOT NULL,
	`value` text NOT NULL,
	`due_at` integer NOT NULL,
	PRIMARY KEY(`kind`, `value`)
);
--> statement-breakpoint
CREATE INDEX `link_jobs_due` ON `link_jobs` (`due_at`);--> statement-breakpoint
ALTER TABLE `signals` ADD `cold_object` text;--> statement-breakpoint
ALTER TABLE `signals` ADD `cold_line` integer;--> statement-breakpoint
CREATE INDEX `signals_cold` ON `signals` (`cold_object`) WHERE cold_object IS NOT NULL AND status = 'anonymous';