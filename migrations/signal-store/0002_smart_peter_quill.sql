DROP INDEX `event_groups_last`;--> statement-breakpoint
CREATE INDEX `event_groups_shown` ON `event_groups` (last_seen DESC,`event`,`source`) WHERE count > 0;