ALTER TABLE `mapping_rules` ADD `points_last_days` integer;--> statement-breakpoint
ALTER TABLE `rule_versions` ADD `points_last_days` integer;