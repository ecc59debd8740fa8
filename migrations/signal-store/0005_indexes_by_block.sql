-- A rule has a row of counts per day for exactly as long as it has scoring signals, of whatever day.
WITH RECURSIVE `rule` (`id`) AS (
	SELECT min(`rule_id`) FROM `scoring_signals`
	UNION ALL SELECT (SELECT min(`rule_id`) FROM `scoring_signals` WHERE `rule_id` > `rule`.`id`) FROM `rule` WHERE `id` IS NOT NULL
)
INSERT OR IGNORE INTO `rule_days` (`rule_id`, `days`) SELECT `id`, '' FROM `rule` WHERE `id` IS NOT NULL;
--> statement-breakpoint
DELETE FROM `rule_days` WHERE NOT EXISTS (SELECT 1 FROM `scoring_signals` WHERE `scoring_signals`.`rule_id` = `rule_days`.`rule_id`);
--> statement-breakpoint
DROP INDEX `scoring_signals_rule`;--> statement-breakpoint
CREATE INDEX `scoring_signals_rule` ON `scoring_signals` (id / 2048,`rule_id`);--> statement-breakpoint
DROP INDEX `signals_originals`;--> statement-breakpoint
DROP INDEX `signals_duplicates`;--> statement-breakpoint
DROP INDEX `signals_event`;--> statement-breakpoint
CREATE INDEX `signals_originals` ON `signals` (substr(content_hash, 1, 10)) WHERE content_hash IS NOT NULL AND status <> 'duplicate';--> statement-breakpoint
CREATE INDEX `signals_duplicates` ON `signals` (substr(content_hash, 1, 10)) WHERE content_hash IS NOT NULL AND status = 'duplicate';--> statement-breakpoint
CREATE INDEX `signals_event` ON `signals` (seq / 2048,`event`);