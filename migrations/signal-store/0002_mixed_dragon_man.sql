CREATE TABLE `retention` (
	`id` integer PRIMARY KEY NOT NULL,
	`days` integer,
	`next_at` integer NOT NULL,
	`deleted_until` integer NOT NULL
);
