ALTER TABLE `api_keys` ADD `silent_after_days` integer;--> statement-breakpoint
ALTER TABLE `plans` ADD `overage_price` text;