ALTER TABLE `api_keys` ADD `created_by` text DEFAULT 'operator' NOT NULL;--> statement-breakpoint
ALTER TABLE `api_keys` ADD `overlap_ends_at` text;--> statement-breakpoint
ALTER TABLE `plans` ADD `offered_to` text;--> statement-breakpoint
ALTER TABLE `plans` ADD `overage_price` text;