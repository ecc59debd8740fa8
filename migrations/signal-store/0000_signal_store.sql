CREATE TABLE `account_changes` (
	`account_id` integer NOT NULL,
	`field` text NOT NULL,
	`at` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`signal_id` text NOT NULL,
	`before` text,
	`after` text NOT NULL,
	`before_at` integer,
	`before_ordinal` integer,
	`before_signal_id` text,
	PRIMARY KEY(`account_id`, `field`, `at`, `ordinal`)
);
--> statement-breakpoint
CREATE INDEX `account_changes_latest` ON `account_changes` (`account_id`,`at`,`ordinal`);--> statement-breakpoint
CREATE TABLE `accounts` (
	`id` integer PRIMARY KEY NOT NULL,
	`external_id` text NOT NULL,
	`name` text,
	`plan` text,
	`user_count` text,
	`recurring_revenue` text,
	`trial_status` text,
	`feature_flags` text,
	`attributes` text NOT NULL,
	`claims` text NOT NULL,
	`first_named_at` integer,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL,
	`score` integer DEFAULT 0 NOT NULL,
	`score_before` integer,
	`people` integer DEFAULT 0 NOT NULL,
	`histories` text DEFAULT '{}' NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `accounts_external_id_unique` ON `accounts` (`external_id`);--> statement-breakpoint
CREATE INDEX `accounts_last_seen` ON `accounts` (`last_seen`);--> statement-breakpoint
CREATE TABLE `cold_objects` (
	`key` text PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`at` integer NOT NULL,
	`first_seq` integer NOT NULL,
	`last_seq` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `cold_objects_state` ON `cold_objects` (`state`,`at`);--> statement-breakpoint
CREATE TABLE `cold_scrubs` (
	`first_seq` integer PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE `dead_letters` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`status` text NOT NULL,
	`admission` text NOT NULL,
	`reason` text NOT NULL,
	`payload` text,
	`recorded_at` integer NOT NULL,
	`received_at` integer NOT NULL,
	`deleted_at` integer,
	`problems` text,
	`misfit_bytes` integer
);
--> statement-breakpoint
CREATE INDEX `dead_letters_id` ON `dead_letters` (`id`);--> statement-breakpoint
CREATE INDEX `dead_letters_received` ON `dead_letters` (`received_at`);--> statement-breakpoint
CREATE INDEX `dead_letters_misfits` ON `dead_letters` (`recorded_at`) WHERE misfit_bytes IS NOT NULL;--> statement-breakpoint
CREATE TABLE `deleted_names` (
	`hash` text NOT NULL,
	`mark` integer,
	`at` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`deletion` integer NOT NULL,
	`until` integer NOT NULL,
	PRIMARY KEY(`hash`, `at`, `ordinal`, `deletion`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `deleted_names_deletion` ON `deleted_names` (`deletion`);--> statement-breakpoint
CREATE TABLE `deletions` (
	`id` text PRIMARY KEY NOT NULL,
	`email_hash` text NOT NULL,
	`requested_at` integer NOT NULL,
	`last_requested_at` integer NOT NULL,
	`finished_at` integer,
	`person_id` integer NOT NULL,
	`step` text NOT NULL,
	`position` integer NOT NULL,
	`people` integer NOT NULL,
	`identities` integer NOT NULL,
	`signals` integer NOT NULL,
	`anonymous` integer NOT NULL,
	`held` integer NOT NULL,
	`dead_letters` integer NOT NULL,
	`scoring_signals` integer NOT NULL,
	`cold_objects` integer NOT NULL,
	`to_forward` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE INDEX `deletions_email_hash` ON `deletions` (`email_hash`,`requested_at`);--> statement-breakpoint
CREATE INDEX `deletions_finished` ON `deletions` (`finished_at`,`requested_at`);--> statement-breakpoint
CREATE INDEX `deletions_last_requested` ON `deletions` (`last_requested_at`);--> statement-breakpoint
CREATE UNIQUE INDEX `deletions_person` ON `deletions` (`person_id`);--> statement-breakpoint
CREATE TABLE `event_groups` (
	`event` text NOT NULL,
	`source` text NOT NULL,
	`count` integer NOT NULL,
	`held` integer NOT NULL,
	`anonymous` integer NOT NULL,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL,
	`last_day` integer NOT NULL,
	`sample_id` text NOT NULL,
	`sample_ordinal` integer NOT NULL,
	`sample_seq` integer NOT NULL,
	`days` text DEFAULT '' NOT NULL,
	PRIMARY KEY(`event`, `source`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `event_groups_last_day` ON `event_groups` (`last_day`);--> statement-breakpoint
CREATE TABLE `heads` (
	`log` integer PRIMARY KEY NOT NULL,
	`next_seq` integer NOT NULL,
	`meta` text NOT NULL,
	`facts` blob NOT NULL,
	`payloads` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `held_facts` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`version` integer DEFAULT 0 NOT NULL,
	`hashes` blob NOT NULL,
	`facts` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `held_late` (
	`id` text NOT NULL,
	`seq` integer NOT NULL,
	PRIMARY KEY(`id`, `seq`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `held_payloads` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`payloads` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `held_segments` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`last_seq` integer NOT NULL,
	`first_ms` integer NOT NULL,
	`last_ms` integer NOT NULL,
	`received_from` integer NOT NULL,
	`received_to` integer NOT NULL,
	`ordinal_from` integer NOT NULL,
	`ordinal_to` integer NOT NULL,
	`period_end` integer NOT NULL,
	`statuses` text NOT NULL,
	`cold` text,
	`cold_offset` integer DEFAULT 0 NOT NULL,
	`cold_bytes` integer DEFAULT 0 NOT NULL,
	`groups` blob NOT NULL
);
--> statement-breakpoint
CREATE INDEX `held_segments_time` ON `held_segments` (`first_ms`);--> statement-breakpoint
CREATE INDEX `held_segments_due` ON `held_segments` (`period_end`) WHERE instr(statuses, 'h') > 0;--> statement-breakpoint
CREATE INDEX `held_segments_order` ON `held_segments` (`ordinal_from`) WHERE instr(statuses, 'h') > 0;--> statement-breakpoint
CREATE TABLE `identities` (
	`key` blob NOT NULL,
	`at` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`person_id` integer NOT NULL,
	PRIMARY KEY(`key`, `at`, `ordinal`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `identities_person` ON `identities` (`person_id`,`at`,`ordinal`);--> statement-breakpoint
CREATE TABLE `lapse_crossings` (
	`person_id` integer NOT NULL,
	`threshold` integer NOT NULL,
	`score` integer NOT NULL,
	`score_before` integer NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`person_id`, `threshold`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `link_jobs` (
	`key` blob PRIMARY KEY NOT NULL,
	`due_at` integer NOT NULL,
	`counts` text DEFAULT '[]' NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `link_jobs_due` ON `link_jobs` (`due_at`);--> statement-breakpoint
CREATE TABLE `single_scores` (
	`person_id` integer NOT NULL,
	`rule_id` text NOT NULL,
	`day` integer NOT NULL,
	`signal_id` text NOT NULL,
	`seq` integer NOT NULL,
	`outcome` integer,
	`from_day` integer,
	PRIMARY KEY(`person_id`, `rule_id`, `day`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `pairs` (
	`key` blob NOT NULL,
	`other_key` blob NOT NULL,
	`at` integer NOT NULL,
	`ordinal` integer NOT NULL,
	PRIMARY KEY(`key`, `other_key`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `people` (
	`id` integer PRIMARY KEY NOT NULL,
	`email` text NOT NULL,
	`name` text,
	`company` text,
	`title` text,
	`names` text DEFAULT '' NOT NULL,
	`trait_orders` text DEFAULT '' NOT NULL,
	`score` integer DEFAULT 0 NOT NULL,
	`score_before` integer,
	`lapses` text DEFAULT '' NOT NULL,
	`next_lapse_at` integer,
	`account` text,
	`first_seen` integer NOT NULL,
	`last_seen` integer NOT NULL,
	`last_day` integer NOT NULL,
	`recent` text DEFAULT '' NOT NULL,
	`base` text DEFAULT '' NOT NULL,
	`anonymous_ids` integer DEFAULT 0 NOT NULL,
	`user_ids` integer DEFAULT 0 NOT NULL,
	`ids_dropped` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE INDEX `people_last_day` ON `people` (`last_day`);--> statement-breakpoint
CREATE INDEX `people_score` ON `people` (`score`) WHERE score <> 0;--> statement-breakpoint
CREATE INDEX `people_email` ON `people` (`email`,`names`);--> statement-breakpoint
CREATE INDEX `people_next_lapse` ON `people` (`next_lapse_at`) WHERE next_lapse_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `people_account` ON `people` (`account`) WHERE account IS NOT NULL;--> statement-breakpoint
CREATE INDEX `people_recomputed` ON `people` (`account`) WHERE score_before IS NOT NULL;--> statement-breakpoint
CREATE TABLE `raised_notifications` (
	`row` integer PRIMARY KEY NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `replacements` (
	`person_id` integer NOT NULL,
	`rule_id` text NOT NULL,
	`behind_seq` integer NOT NULL,
	PRIMARY KEY(`person_id`, `rule_id`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `replacements_rule` ON `replacements` (`rule_id`,`person_id`);--> statement-breakpoint
CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`days` integer,
	`next_at` integer NOT NULL,
	`deleted_until` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `resend_jobs` (
	`id` text PRIMARY KEY NOT NULL,
	`scope` text NOT NULL,
	`joined` text DEFAULT '[]' NOT NULL,
	`requested_at` integer NOT NULL,
	`last` integer NOT NULL,
	`held` integer NOT NULL,
	`batch` integer NOT NULL,
	`cursor` integer NOT NULL,
	`sent` integer NOT NULL,
	`due_at` integer NOT NULL,
	`ended_at` integer,
	`logged_at` integer
);
--> statement-breakpoint
CREATE TABLE `key_days` (
	`key_id` text NOT NULL,
	`period_start` integer NOT NULL,
	`count` integer NOT NULL,
	`days` text NOT NULL,
	PRIMARY KEY(`key_id`, `period_start`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `rule_days` (
	`rule_id` text PRIMARY KEY NOT NULL,
	`count` integer NOT NULL,
	`days` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `rule_jobs` (
	`rule_id` text PRIMARY KEY NOT NULL,
	`rule` text,
	`rule_version` integer,
	`rules_version` integer NOT NULL,
	`status` text NOT NULL,
	`requested_at` integer NOT NULL,
	`started_at` integer,
	`finished_at` integer,
	`due_at` integer NOT NULL,
	`last_seq` integer NOT NULL,
	`position` integer NOT NULL,
	`person_id` integer,
	`total` integer NOT NULL,
	`scanned` integer NOT NULL,
	`matched` integer NOT NULL,
	`added` integer NOT NULL,
	`changed` integer NOT NULL,
	`removed` integer NOT NULL,
	`points` integer DEFAULT 0 NOT NULL,
	`crossings` text DEFAULT '[]' NOT NULL
);
--> statement-breakpoint
CREATE INDEX `rule_jobs_unfinished` ON `rule_jobs` (`due_at`) WHERE status <> 'done';--> statement-breakpoint
CREATE INDEX `rule_jobs_rules_version` ON `rule_jobs` (`rules_version`);--> statement-breakpoint
CREATE TABLE `rule_outcomes` (
	`id` integer PRIMARY KEY NOT NULL,
	`rule_id` text NOT NULL,
	`rule_version` integer NOT NULL,
	`scoring_signal` text NOT NULL,
	`points` integer NOT NULL,
	`frequency` text,
	`last_days` integer
);
--> statement-breakpoint
CREATE UNIQUE INDEX `rule_outcomes_rule` ON `rule_outcomes` (`rule_id`,`rule_version`);--> statement-breakpoint
CREATE TABLE `signals_facts` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`version` integer DEFAULT 0 NOT NULL,
	`hashes` blob NOT NULL,
	`facts` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `signals_late` (
	`id` text NOT NULL,
	`seq` integer NOT NULL,
	PRIMARY KEY(`id`, `seq`)
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `signals_payloads` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`payloads` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `signals_segments` (
	`first_seq` integer PRIMARY KEY NOT NULL,
	`last_seq` integer NOT NULL,
	`first_ms` integer NOT NULL,
	`last_ms` integer NOT NULL,
	`received_from` integer NOT NULL,
	`received_to` integer NOT NULL,
	`ordinal_from` integer NOT NULL,
	`ordinal_to` integer NOT NULL,
	`period_end` integer NOT NULL,
	`statuses` text NOT NULL,
	`cold` text,
	`cold_offset` integer DEFAULT 0 NOT NULL,
	`cold_bytes` integer DEFAULT 0 NOT NULL,
	`groups` blob NOT NULL
);
--> statement-breakpoint
CREATE INDEX `signals_segments_time` ON `signals_segments` (`first_ms`);--> statement-breakpoint
CREATE TABLE `timelines` (
	`list` blob NOT NULL,
	`from_seq` integer NOT NULL,
	`first_ms` integer,
	`last_ms` integer,
	`fields` integer DEFAULT 0 NOT NULL,
	`traits_at` integer DEFAULT 0 NOT NULL,
	`lapse_day` integer,
	`entries` text NOT NULL,
	PRIMARY KEY(`list`, `from_seq`)
) WITHOUT ROWID;
