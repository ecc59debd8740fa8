CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`name` text NOT NULL,
	`endpoint_type` text NOT NULL,
	`key_hash` text NOT NULL,
	`key_first8` text NOT NULL,
	`key_last4` text NOT NULL,
	`secret_hash` text,
	`template_id` text,
	`created_at` text NOT NULL,
	`created_by` text DEFAULT 'operator' NOT NULL,
	`expires_at` text,
	`overlap_ends_at` text,
	`deactivated_at` text,
	`first_key_id` text NOT NULL,
	`successor_of` text,
	`silent_after_days` integer,
	`misfits` text DEFAULT 'reject' NOT NULL,
	`answer` integer DEFAULT 202 NOT NULL,
	`form_token` text,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_hash` ON `api_keys` (`key_hash`);--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_form` ON `api_keys` (`workspace_id`,`form_token`);--> statement-breakpoint
CREATE INDEX `api_keys_successor` ON `api_keys` (`workspace_id`,`successor_of`);--> statement-breakpoint
CREATE INDEX `api_keys_workspace` ON `api_keys` (`workspace_id`,`id`);--> statement-breakpoint
CREATE INDEX `api_keys_active` ON `api_keys` (`workspace_id`,CASE WHEN expires_at < overlap_ends_at THEN expires_at WHEN overlap_ends_at IS NOT NULL THEN overlap_ends_at WHEN expires_at IS NOT NULL THEN expires_at ELSE '9999' END) WHERE deactivated_at IS NULL;--> statement-breakpoint
CREATE INDEX `api_keys_templates` ON `api_keys` (`template_id`) WHERE template_id IS NOT NULL;--> statement-breakpoint
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
CREATE INDEX `api_tokens_not_revoked` ON `api_tokens` (`workspace_id`,`created_by`) WHERE revoked_at IS NULL;--> statement-breakpoint
CREATE TABLE `audit_log` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text,
	`at` text NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`target` text NOT NULL,
	`detail` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `audit_log_workspace` ON `audit_log` (`workspace_id`,`id`);--> statement-breakpoint
CREATE INDEX `audit_log_action` ON `audit_log` (`workspace_id`,`action`,`id`);--> statement-breakpoint
CREATE INDEX `audit_log_actor` ON `audit_log` (`workspace_id`,`actor`,`id`);--> statement-breakpoint
CREATE INDEX `audit_log_target` ON `audit_log` (`workspace_id`,`target`,`id`);--> statement-breakpoint
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
CREATE TABLE `ended_workspaces` (
	`workspace_id` text PRIMARY KEY NOT NULL,
	`slug` text NOT NULL,
	`requested_at` text NOT NULL,
	`finished_at` text,
	`counts` text NOT NULL,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `ended_workspaces_finished` ON `ended_workspaces` (`finished_at`);--> statement-breakpoint
CREATE TABLE `imported_rows` (
	`workspace_id` text NOT NULL,
	`part` integer NOT NULL,
	`line` integer NOT NULL,
	`table_name` text NOT NULL,
	`row` text NOT NULL,
	PRIMARY KEY(`workspace_id`, `part`, `line`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `imported_rows_keys` ON `imported_rows` (row ->> 'key_hash') WHERE table_name = 'api_keys';--> statement-breakpoint
CREATE TABLE `key_budgets` (
	`first_key_id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`signal_limit` integer NOT NULL,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `key_budgets_workspace` ON `key_budgets` (`workspace_id`);--> statement-breakpoint
CREATE TABLE `mapping_rules` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace_id` text NOT NULL,
	`name` text NOT NULL,
	`event` text NOT NULL,
	`match` text NOT NULL,
	`conditions` text NOT NULL,
	`scoring_signal` text NOT NULL,
	`points` integer NOT NULL,
	`enabled` integer DEFAULT true NOT NULL,
	`version` integer DEFAULT 1 NOT NULL,
	`created_at` text NOT NULL,
	`updated_at` text NOT NULL,
	`size` integer DEFAULT 0 NOT NULL,
	`frequency` text DEFAULT 'every_time' NOT NULL,
	`updated_by` text DEFAULT 'operator' NOT NULL,
	`points_last_days` integer,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `mapping_rules_workspace` ON `mapping_rules` (`workspace_id`,`id`);--> statement-breakpoint
CREATE TABLE `exclusion_versions` (
	`workspace_id` text NOT NULL,
	`version` integer NOT NULL,
	`at` text NOT NULL,
	`by` text NOT NULL,
	`exclusions` text NOT NULL,
	PRIMARY KEY(`workspace_id`, `version`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `health_reports` (
	`workspace_id` text PRIMARY KEY NOT NULL,
	`reported_at` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `members` (
	`workspace_id` text NOT NULL,
	`email` text NOT NULL,
	`role` text NOT NULL,
	`created_at` text NOT NULL,
	PRIMARY KEY(`workspace_id`, `email`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `members_email` ON `members` (`email`);--> statement-breakpoint
CREATE TABLE `open_alarms` (
	`workspace_id` text NOT NULL,
	`alarm` text NOT NULL,
	`since` text NOT NULL,
	PRIMARY KEY(`workspace_id`, `alarm`)
);
--> statement-breakpoint
CREATE TABLE `payload_templates` (
	`id` text NOT NULL,
	`workspace_id` text NOT NULL,
	`template` text NOT NULL,
	`version` integer NOT NULL,
	`replaced_at` text,
	PRIMARY KEY(`id`, `version`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE INDEX `payload_templates_workspace` ON `payload_templates` (`workspace_id`);--> statement-breakpoint
CREATE TABLE `plan_versions` (
	`plan_id` text NOT NULL,
	`version` integer NOT NULL,
	`signal_limit` integer NOT NULL,
	`paid` integer NOT NULL,
	`retention_days` integer,
	PRIMARY KEY(`plan_id`, `version`),
	FOREIGN KEY (`plan_id`) REFERENCES `plans`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `plans` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`signal_limit` integer NOT NULL,
	`paid` integer NOT NULL,
	`retention_days` integer,
	`offered_to` text,
	`overage_price` text,
	`config_version` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
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
	`points_last_days` integer,
	PRIMARY KEY(`workspace_id`, `rule_id`, `version`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `sessions` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`driver` text NOT NULL,
	`created_at` text NOT NULL,
	`expires_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `sessions_email` ON `sessions` (`email`);--> statement-breakpoint
CREATE INDEX `sessions_expiry` ON `sessions` (`expires_at`);--> statement-breakpoint
CREATE TABLE `sign_in_attempts` (
	`token_hash` text PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`nonce` text NOT NULL,
	`code_verifier` text NOT NULL,
	`target` text NOT NULL,
	`expires_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `sign_in_attempts_expiry` ON `sign_in_attempts` (`expires_at`);--> statement-breakpoint
CREATE TABLE `workspace_imports` (
	`workspace_id` text PRIMARY KEY NOT NULL,
	`source_id` text NOT NULL,
	`manifest` text NOT NULL,
	`parts` text NOT NULL,
	`continued_at` text NOT NULL,
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `workspace_versions` (
	`workspace_id` text NOT NULL,
	`version` integer NOT NULL,
	`plan_id` text NOT NULL,
	`overages` integer NOT NULL,
	PRIMARY KEY(`workspace_id`, `version`),
	FOREIGN KEY (`workspace_id`) REFERENCES `workspaces`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`plan_id`) REFERENCES `plans`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE TABLE `workspaces` (
	`id` text PRIMARY KEY NOT NULL,
	`slug` text NOT NULL,
	`name` text NOT NULL,
	`plan_id` text NOT NULL,
	`overages` integer DEFAULT false NOT NULL,
	`anchor` text NOT NULL,
	`rules_version` integer DEFAULT 0 NOT NULL,
	`created_at` text NOT NULL,
	`config_version` integer DEFAULT 0 NOT NULL,
	`jurisdiction` text DEFAULT '' NOT NULL,
	`state` text DEFAULT 'active' NOT NULL,
	FOREIGN KEY (`plan_id`) REFERENCES `plans`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `workspaces_slug_unique` ON `workspaces` (`slug`);--> statement-breakpoint
CREATE INDEX `workspaces_plan` ON `workspaces` (`plan_id`,`config_version`);--> statement-breakpoint
-- The plans to begin with (spec §8: numbers not shown). `PUT /operator/plans/{id}` changes them and adds others.
INSERT INTO `plans` (`id`, `name`, `signal_limit`, `paid`) VALUES
	('free', 'Free', 1000, 0),
	('starter', 'Starter', 50000, 1),
	('growth', 'Growth', 500000, 1),
	('scale', 'Scale', 5000000, 1);--> statement-breakpoint
INSERT INTO `plan_versions` SELECT `id`, `config_version`, `signal_limit`, `paid`, `retention_days` FROM `plans`;
