CREATE TABLE `returns` (
	`id` text PRIMARY KEY NOT NULL,
	`scope` text NOT NULL,
	`joined` text DEFAULT '[]' NOT NULL,
	`requested_at` integer NOT NULL,
	`last` integer NOT NULL,
	`held` integer NOT NULL,
	`page` integer NOT NULL,
	`cursor` integer NOT NULL,
	`sent` integer NOT NULL,
	`due_at` integer NOT NULL,
	`ended_at` integer,
	`logged_at` integer
);
--> statement-breakpoint
ALTER TABLE `deletions` ADD `hand_over` integer DEFAULT 0 NOT NULL;