CREATE TABLE `rule_versions` (
	`workspace_id` text NOT NULL,
	`rule_id` text NOT NULL,
	`version` integer NOT NULL,
	`size` integer NOT NULL,
	`at` text NOT NULL,
	`by` text NOT NULL,
	`name` text NOT NULL,
	`event` text NOT NULL,
	`match` text NOT NULL,
	`scoring_signal` text NOT NULL,
	`points` integer NOT NULL,
	`frequency` text NOT NULL,
	`enabled` integer NOT NULL,
	`conditions` text NOT NULL,
	PRIMARY KEY(`workspace_id`, `rule_id`, `version`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
ALTER TABLE `mapping_rules` ADD `updated_by` text DEFAULT 'operator' NOT NULL;