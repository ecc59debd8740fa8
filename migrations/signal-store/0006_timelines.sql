CREATE TABLE `person_signals` (
	`person_id` integer NOT NULL,
	`seq` integer NOT NULL,
	PRIMARY KEY(`person_id`, `seq`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `person_scoring_signals` (
	`person_id` integer NOT NULL,
	`id` integer NOT NULL,
	PRIMARY KEY(`person_id`, `id`)
) WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `person_signals` SELECT `person_id`, `seq` FROM `signals` WHERE `person_id` IS NOT NULL ORDER BY `person_id`, `seq`;--> statement-breakpoint
INSERT INTO `person_scoring_signals` SELECT `person_id`, `id` FROM `scoring_signals` ORDER BY `person_id`, `id`;--> statement-breakpoint
DROP INDEX `scoring_signals_person`;--> statement-breakpoint
DROP INDEX `signals_person`;--> statement-breakpoint
ALTER TABLE `people` ADD `recent_signals` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `people` ADD `recent_scoring_signals` text DEFAULT '' NOT NULL;--> statement-breakpoint
-- Where people's rows and the tables name what is whose: what is deleted, or becomes somebody else's, is taken out.
CREATE TRIGGER `signals_deleted` AFTER DELETE ON `signals` WHEN OLD.`person_id` IS NOT NULL
BEGIN
	DELETE FROM `person_signals` WHERE `person_id` = OLD.`person_id` AND `seq` = OLD.`seq`;
	UPDATE `people` SET `recent_signals` = trim(replace(',' || `recent_signals` || ',', ',' || OLD.`seq` || ',', ','), ',')
		WHERE `id` = OLD.`person_id` AND instr(',' || `recent_signals` || ',', ',' || OLD.`seq` || ',');
END;
--> statement-breakpoint
CREATE TRIGGER `signals_moved` AFTER UPDATE OF `person_id` ON `signals`
	WHEN OLD.`person_id` IS NOT NULL AND OLD.`person_id` IS NOT NEW.`person_id`
BEGIN
	DELETE FROM `person_signals` WHERE `person_id` = OLD.`person_id` AND `seq` = OLD.`seq`;
	UPDATE `people` SET `recent_signals` = trim(replace(',' || `recent_signals` || ',', ',' || OLD.`seq` || ',', ','), ',')
		WHERE `id` = OLD.`person_id` AND instr(',' || `recent_signals` || ',', ',' || OLD.`seq` || ',');
END;
--> statement-breakpoint
CREATE TRIGGER `scoring_signals_deleted` AFTER DELETE ON `scoring_signals`
BEGIN
	DELETE FROM `person_scoring_signals` WHERE `person_id` = OLD.`person_id` AND `id` = OLD.`id`;
	UPDATE `people` SET `recent_scoring_signals` = trim(replace(',' || `recent_scoring_signals` || ',', ',' || OLD.`id` || ',', ','), ',')
		WHERE `id` = OLD.`person_id` AND instr(',' || `recent_scoring_signals` || ',', ',' || OLD.`id` || ',');
END;
