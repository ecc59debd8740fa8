/** Counts per day as the store keeps them, and as its signals and scoring signals add up to. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";

/** DayCounts. */
const STORED = `SELECT event || ' ' || source AS name, days FROM event_groups WHERE days <> ''
  UNION ALL SELECT rule_id, days FROM rule_days`;

/** JSON text of day → count. */
const COUNTED = `SELECT name, json_group_object(CAST(day AS TEXT), count) AS days FROM (
    SELECT event || ' ' || source AS name, received_at / 86400000 AS day, count(*) AS count FROM signals
    WHERE kind = 'signal' AND status IN ('processed', 'anonymous', 'held') GROUP BY name, day
    UNION ALL SELECT rule_id, at / 86400000 AS day, count(*) FROM scoring_signals GROUP BY rule_id, day
  ) GROUP BY name`;

export async function expectDaysToAddUp(workspaceId: string): Promise<void> {
  const read = (query: string, countsOf: (days: string) => Record<string, number>) =>
    runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) =>
      sql
        .exec<{ name: string; days: string }>(query)
        .toArray()
        .map(({ name, days }) => [name, countsOf(days)] as const)
        .sort(([one], [other]) => one.localeCompare(other)),
    );
  const counted = await read(COUNTED, (days) => JSON.parse(days) as Record<string, number>);
  expect(await read(STORED, stored)).toEqual(counted);
}

function stored(days: string): Record<string, number> {
  const [latest = 0, ...counts] = days.split(",").map(Number);
  return Object.fromEntries(counts.map((count, ago) => [latest - ago, count]).filter(([, count]) => count !== 0));
}
