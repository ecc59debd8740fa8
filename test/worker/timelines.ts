/** What the store names as people's signals and scoring signals (src/store/timelines.ts), and whose they are. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";

const TABLES = ["signals", "scoring_signals"];
const NAMED = TABLES.map(
  (table) => `SELECT '${table}' AS "of", * FROM person_${table}
    UNION ALL SELECT '${table}', people.id, value FROM people, json_each('[' || recent_${table} || ']')`,
).join(" UNION ALL ");
const STORED = `SELECT 'signals' AS "of", person_id, seq FROM signals WHERE person_id IS NOT NULL
  UNION ALL SELECT 'scoring_signals', person_id, id FROM scoring_signals`;

/** Each is named once, and nothing else is. */
export function expectTimelines(sql: SqlStorage): void {
  const [named, stored] = [NAMED, STORED].map((query) => [...sql.exec(`${query} ORDER BY 1, 2, 3`).raw()]);
  expect(named).toEqual(stored);
}

/** As if all in the rows of people were too much for them: few histories make so much. */
export function spillTimelines(workspaceId: string): Promise<void> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => {
    for (const table of TABLES) {
      sql.exec(
        `INSERT INTO person_${table} SELECT people.id, value FROM people, json_each('[' || recent_${table} || ']')`,
      );
      sql.exec(`UPDATE people SET recent_${table} = ''`);
    }
  });
}

export function expectTimelinesOf(workspaceId: string): Promise<void> {
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage: { sql } }) => expectTimelines(sql));
}
