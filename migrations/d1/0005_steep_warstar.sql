ALTER TABLE `api_keys` ADD `form_token` text;--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_form` ON `api_keys` (`workspace_id`,`form_token`);--> statement-breakpoint
CREATE INDEX `api_keys_successor` ON `api_keys` (`workspace_id`,`successor_of`);