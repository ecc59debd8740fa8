CREATE TABLE `api_tokens` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`name` text NOT NULL,
	`token_hash` text NOT NULL,
	`token_first8` text NOT NULL,
	`token_last4` text NOT NULL,
	`scopes` text NOT NULL,
	`created_at` text NOT NULL,
	`created_by` text NOT NULL,
	`expires_at` text,
	`revoked_at` text,
	`revoked_reason` text,
	`last_used_at` text,
	`form_token` text,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_tokens_hash` ON `api_tokens` (`token_hash`);--> statement-breakpoint
CREATE UNIQUE INDEX `api_tokens_form` ON `api_tokens` (`workspace_id`,`form_token`);--> statement-breakpoint
CREATE INDEX `api_tokens_workspace` ON `api_tokens` (`workspace_id`,`id`);--> statement-breakpoint
CREATE INDEX `api_tokens_not_revoked` ON `api_tokens` (`workspace_id`,`created_by`) WHERE revoked_at IS NULL;