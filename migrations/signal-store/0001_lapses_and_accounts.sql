ALTER TABLE `accounts` ADD `score` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `accounts` ADD `people` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `people` ADD `lapses` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `people` ADD `next_lapse_at` integer;--> statement-breakpoint
ALTER TABLE `people` ADD `account` text;--> statement-breakpoint
CREATE INDEX `people_next_lapse` ON `people` (`next_lapse_at`) WHERE next_lapse_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `people_account` ON `people` (`account`) WHERE account IS NOT NULL;--> statement-breakpoint
ALTER TABLE `once` ADD `outcome` integer;--> statement-breakpoint
ALTER TABLE `once` ADD `from_day` integer;--> statement-breakpoint
ALTER TABLE `rule_outcomes` ADD `last_days` integer;