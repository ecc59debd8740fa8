/** Counts per day as the store keeps them, and as its signals and scoring signals add up to. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";

const STORED = `SELECT event || ' ' || source AS name, days FROM event_groups WHERE ifnull(days, '{}') <> '{}'
  UNION ALL SELECT rule_id, days FROM rule_days`;

const COUNTED = `SELECT name, json_group_object(CAST(day AS TEXT), count) AS days FROM (
    SELECT event || ' ' || source AS name, received_at / 86400000 AS day, count(*) AS count FROM signals
    WHERE kind = 'signal' AND status IN ('processed', 'anonymous', 'held') GROUP BY name, day
    UNION ALL SELECT rule_id, at / 86400000 AS day, count(*) FROM scoring_signals GROUP BY rule_id, day
  ) GROUP BY name`;

export async function expectDaysToAddUp(workspaceId: string): Promise<void> {
  const read = (query: string) =>
    runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) =>
      sql
        .exec<{ name: string; days: string }>(query)
        .toArray()
        .map(({ name, days }) => [name, JSON.parse(days) as unknown] as const)
        .sort(([one], [other]) => one.localeCompare(other)),
    );
  expect(await read(STORED)).toEqual(await read(COUNTED));
}
