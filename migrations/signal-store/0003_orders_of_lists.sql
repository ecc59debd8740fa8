CREATE INDEX `people_last_seen` ON `people` (`last_seen`);--> statement-breakpoint
CREATE INDEX `people_score` ON `people` (`score`);--> statement-breakpoint
CREATE INDEX `people_name` ON `people` (name COLLATE NOCASE) WHERE name IS NOT NULL;--> statement-breakpoint
CREATE INDEX `product_orgs_last_seen` ON `product_orgs` (`last_seen`);