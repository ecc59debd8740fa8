/** Mapping rules in a D1 that was restored from a backup: what is stored has been scored by later versions of them. */
import { eq, lt, sql } from "drizzle-orm";
import type { RuleVersions } from "../domain/rules/rule-versions.ts";
import type { ControlDatabase } from "./database.ts";
import { mappingRules, workspaces } from "./control-schema.ts";

/**
 * How many versions beyond the last one seen are left out. Isolates remember rules by the workspace's version, and versions
 * made between the backup and the loss had other rules: nobody makes more changes than this in that time.
 */
const PASSED_OVER = 1_000;

/**
 * Puts the versions of a workspace's rules behind those that were seen, so that signals are processed again, and that a rule
 * which is applied to the past is the latest word. Returns whether that was necessary.
 */
export async function passOverVersions(db: ControlDatabase, workspaceId: string, seen: RuleVersions): Promise<boolean> {
  const versions = sql`(SELECT value ->> 1 AS seen FROM json_each(${JSON.stringify(seen.rules)}) WHERE value ->> 0 = ${mappingRules.id})`;
  const isBehind = sql`${mappingRules.version} < ${versions}`;
  const [passed, rules] = await db.batch([
    db
      .update(workspaces)
      .set({ rulesVersion: seen.workspace + PASSED_OVER })
      .where(sql`${eq(workspaces.id, workspaceId)} AND ${lt(workspaces.rulesVersion, seen.workspace)}`)
      .returning({ id: workspaces.id }),
    db
      .update(mappingRules)
      .set({ version: sql`1 + ${versions}` })
      .where(sql`${eq(mappingRules.workspaceId, workspaceId)} AND ${isBehind}`)
      .returning({ id: mappingRules.id }),
  ]);
  return passed.length + rules.length > 0;
}
