ALTER TABLE `api_keys` ADD `silent_after_days` integer;
