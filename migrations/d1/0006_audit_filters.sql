CREATE INDEX `audit_log_action` ON `audit_log` (`workspace_id`,`action`,`id`);--> statement-breakpoint
CREATE INDEX `audit_log_actor` ON `audit_log` (`workspace_id`,`actor`,`id`);