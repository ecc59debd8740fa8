-- Counts per day become the latest day, its count, and the counts of the days before it: `{"20764":12,"20766":4}`
-- becomes `20766,4,0,12`, `idle` being the zeros between a day and the later one. As ever, of thirty days at most.
UPDATE `event_groups` SET `days` = (
	SELECT ifnull(max(`day`) || group_concat(`idle` || ',' || `count`, '' ORDER BY `day` DESC), '') FROM (
		SELECT `day`, `count`, replace(hex(zeroblob(ifnull(`later` - `day` - 1, 0))), '00', ',0') AS `idle` FROM (
			SELECT `day`, `count`, lead(`day`) OVER (ORDER BY `day`) AS `later`, max(`day`) OVER () AS `latest`
			FROM (SELECT CAST(`key` AS INTEGER) AS `day`, `value` AS `count` FROM json_each(`event_groups`.`days`))
		) WHERE `day` > `latest` - 30
	)
) WHERE `days` IS NOT NULL;
--> statement-breakpoint
UPDATE `rule_days` SET `days` = (
	SELECT ifnull(max(`day`) || group_concat(`idle` || ',' || `count`, '' ORDER BY `day` DESC), '') FROM (
		SELECT `day`, `count`, replace(hex(zeroblob(ifnull(`later` - `day` - 1, 0))), '00', ',0') AS `idle` FROM (
			SELECT `day`, `count`, lead(`day`) OVER (ORDER BY `day`) AS `later`, max(`day`) OVER () AS `latest`
			FROM (SELECT CAST(`key` AS INTEGER) AS `day`, `value` AS `count` FROM json_each(`rule_days`.`days`))
		) WHERE `day` > `latest` - 30
	)
);
