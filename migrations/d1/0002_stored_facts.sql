CREATE TABLE `deletions` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`requested_at` text NOT NULL,
	`email_hash` text NOT NULL,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `deletions_workspace` ON `deletions` (`workspace_id`,`requested_at`);--> statement-breakpoint
CREATE INDEX `deletions_age` ON `deletions` (`requested_at`);--> statement-breakpoint
CREATE TABLE `restores` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`requested_at` text NOT NULL,
	`to_time` text,
	`undoes` text,
	`state` text NOT NULL,
	`before` text,
	`lost` integer,
	`acknowledged_at` text,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `restores_workspace` ON `restores` (`workspace_id`,`id`);--> statement-breakpoint
CREATE INDEX `restores_open` ON `restores` (`workspace_id`) WHERE acknowledged_at IS NULL;--> statement-breakpoint
ALTER TABLE `workspaces` ADD `config_version` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `workspaces` ADD `restoring` text;