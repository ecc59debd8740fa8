CREATE TABLE `rule_days` (
	`rule_id` text PRIMARY KEY NOT NULL,
	`days` text NOT NULL
);
--> statement-breakpoint
ALTER TABLE `event_groups` ADD `days` text;