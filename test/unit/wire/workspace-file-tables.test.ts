/** Each stored table is in the file of a workspace, or is named here with the reason why not. */
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { TABLES } from "../../../src/wire/workspace-file.ts";

const MIGRATIONS = path.resolve(import.meta.dirname, "../../../migrations");

const LEFT_OUT = {
  d1: {
    "of the deployment": "plans plan_versions sessions sign_in_attempts",
    "the file's header": "workspaces workspace_versions",
    secrets: "api_tokens",
    "of the watch over all workspaces": "health_reports open_alarms",
    "of ends and imports": "ended_workspaces workspace_imports imported_rows",
  },
  "quota-counter": {
    "statistics of calls": "calls rejections",
    "waiting notifications": "raised_notifications wanted_notifications",
  },
  "signal-store": { "waiting notifications": "raised_notifications" },
  destinations: {
    "waiting deliveries": "deliveries notifications notifications_seen failed_not_kept switched_off",
    secrets: "old_secrets",
  },
};

const ORIGINS = {
  d1: "d1",
  "quota-counter": "counter",
  "signal-store": "store",
  destinations: "destinations",
} as const;

test.each(Object.keys(ORIGINS) as (keyof typeof ORIGINS)[])(
  "every table of %s is in the file, or left out on purpose",
  (folder) => {
    const [file = ""] = globSync("*.sql", { cwd: path.join(MIGRATIONS, folder) });
    const text = readFileSync(path.join(MIGRATIONS, folder, file), "utf8");
    const stored = [...text.matchAll(/CREATE TABLE `(\w+)`/g)].map(([, table]) => table);
    const leftOut = Object.values(LEFT_OUT[folder]).flatMap((tables) => tables.split(" "));
    expect([...TABLES[ORIGINS[folder]], ...leftOut].toSorted()).toEqual(stored.toSorted());
  },
);
