CREATE TABLE `replacements` (
	`person_id` integer NOT NULL,
	`rule_id` text NOT NULL,
	`behind_seq` integer NOT NULL,
	PRIMARY KEY(`person_id`, `rule_id`)
) WITHOUT ROWID;
