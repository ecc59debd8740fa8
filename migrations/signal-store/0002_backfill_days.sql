-- Counts per day of what is stored already, from the latest signals and scoring signals: bounded, since it runs before
-- anything else is answered.
UPDATE `event_groups` SET `days` = `counted`.`days` FROM (
	SELECT `event`, `source`, json_group_object(CAST(`day` AS TEXT), `count`) AS `days` FROM (
		SELECT `event`, `source`, `received_at` / 86400000 AS `day`, count(*) AS `count`
		FROM (SELECT `event`, `source`, `kind`, `status`, `received_at` FROM `signals` ORDER BY `seq` DESC LIMIT 200000)
		WHERE `kind` = 'signal' AND `status` IN ('processed', 'anonymous', 'held')
		GROUP BY `event`, `source`, `day`
	) GROUP BY `event`, `source`
) AS `counted` WHERE `counted`.`event` = `event_groups`.`event` AND `counted`.`source` = `event_groups`.`source`;
--> statement-breakpoint
INSERT INTO `rule_days` (`rule_id`, `days`)
SELECT `rule_id`, json_group_object(CAST(`day` AS TEXT), `count`) FROM (
	SELECT `rule_id`, `at` / 86400000 AS `day`, count(*) AS `count`
	FROM (SELECT `rule_id`, `at` FROM `scoring_signals` ORDER BY `id` DESC LIMIT 200000)
	GROUP BY `rule_id`, `day`
) GROUP BY `rule_id`;
