/**
 * Recovers a workspace whose Quota Counter, or D1, was restored from a backup (design §2, §5), while the others have gone on,
 * and writes the entry in the audit log.
 */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { deactivatedKeyIds } from "../control/stored-keys.ts";
import { raiseConfigVersion } from "../control/workspaces.ts";
import { passOverVersions } from "../control/restored-rules.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";
import { configureCounter } from "./configure-workspace.ts";

/** How often the books of a workspace are looked at that takes signals meanwhile; repeating the operation does the rest. */
const COUNT_TRIES = 10;

export interface Recovered {
  /** Outbox rows that have new numbers: with their old ones the store refuses them. */
  renumbered: number;
  /** Outbox rows that the store had recorded, and that are settled now. */
  settled: number;
  /** Deactivated keys that the counter took for active. */
  revoked: number;
  /** Signals that the store has, and that the counter had not counted any more. */
  counted: number;
  /** Whether mapping rules were older than what the store had seen of them, and have got later versions. */
  rulesPassedOver: boolean;
}

/**
 * Deactivated keys come first: until the counter knows them again, calls with them are accepted. What of the outbox is on its
 * way, or was recorded since the backup, stays as it is, so that nothing is recorded twice. Repeating finishes what was
 * interrupted.
 */
export async function recoverWorkspace(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
): Promise<Recovered> {
  const counter = quotaCounter(env, workspaceId);
  const revoked = await counter.revokeAll(await deactivatedKeyIds(db, workspaceId), by.nowMs);
  // Plan and overages may have changed too, and a counter that has lost everything gets its ledger so. A restored D1 may have
  // an older version of them than the counter, which would ignore it.
  await raiseConfigVersion(db, workspaceId, (await counter.usage())?.configVersion ?? 0);
  await configureCounter(env, db, workspaceId);
  const store = signalStore(env, workspaceId);
  const rulesPassedOver = await passOverVersions(db, workspaceId, await store.ruleVersions());
  const unsettled = await counter.goOnBehind(await store.highestRow());
  const { recorded, refused } = await store.knownRows(unsettled);
  await counter.settle(recorded);
  const renumbered = await counter.renumber(refused);
  const counted = await countForgotten(env, workspaceId);
  // Whose events are wanted may have changed since the backup: the sources are told anew.
  await destinationsOf(env, workspaceId).tellSources();
  const detail = { renumbered, settled: recorded.length, revoked, counted, rulesPassedOver };
  await writeAuditEntry(db, by, { workspaceId, action: "workspace.recovered", target: workspaceId, detail });
  return detail;
}

/**
 * Counts as admitted what the backup had forgotten, so that the books balance again: what the store has, and what only the
 * outbox has. The counts of the billing period stay as the backup had them: what was forgotten is not charged.
 */
async function countForgotten(env: Env, workspaceId: string): Promise<number> {
  const counter = quotaCounter(env, workspaceId);
  const store = signalStore(env, workspaceId);
  for (let tries = 0; tries < COUNT_TRIES; tries++) {
    const { rows, admitted } = await counter.unsettledRows();
    const { recorded, totals } = await store.knownRows(rows);
    const known = new Set(recorded);
    const waiting = rows.reduce((sum, { row, signals }) => (known.has(row) ? sum : sum + signals), 0);
    const { processed, duplicates, held, purged, deadLettered } = totals;
    const forgotten = processed + duplicates + held + purged + deadLettered + waiting - admitted;
    // Below 0 the store was restored too: what it has lost stays visible in the books.
    if (forgotten <= 0) return 0;
    if (await counter.countForgotten(forgotten, admitted)) return forgotten;
  }
  return 0;
}
