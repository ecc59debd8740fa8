/**
 * A workspace whose Quota Counter, or D1, was restored from a backup (design §2, §5): the others have gone on since then.
 * With its entry in the audit log.
 */
import { writeAuditEntry } from "../control/audit.ts";
import type { Change, ControlDatabase } from "../control/database.ts";
import { deactivatedKeyIds } from "../control/keys.ts";
import { passOverVersions } from "../control/restored-rules.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";
import { configureWorkspaces } from "./quota.ts";

/** A workspace that takes signals all the time is looked at again so often; repeating the operation does the rest. */
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
  /** Whether mapping rules were older than what the store has seen of them: they have got later versions. */
  rulesPassedOver: boolean;
}

/**
 * Keys first: until they are known again, calls with them are accepted. What of the outbox is on its way, or was recorded
 * since the backup, stays as it is, so that nothing is recorded twice. Repeating it finishes what was interrupted.
 */
export async function recoverWorkspace(
  env: Env,
  db: ControlDatabase,
  workspaceId: string,
  by: Change,
): Promise<Recovered> {
  const counter = quotaCounter(env, workspaceId);
  const revoked = await counter.revokeAll(await deactivatedKeyIds(db, workspaceId), by.nowMs);
  // Plan and overages may have changed too, and a counter that has lost everything gets its ledger so.
  await configureWorkspaces(env, db, [workspaceId]);
  const store = signalStore(env, workspaceId);
  const rulesPassedOver = await passOverVersions(db, workspaceId, await store.ruleVersions());
  const unsettled = await counter.goOnBehind(await store.highestRow());
  const { recorded, refused } = await store.knownRows(unsettled);
  await counter.settle(recorded);
  const renumbered = await counter.renumber(refused);
  const counted = await countForgotten(env, workspaceId);
  // Who wants to be told of what may have changed since the backup.
  await destinationsOf(env, workspaceId).tellSources();
  const detail = { renumbered, settled: recorded.length, revoked, counted, rulesPassedOver };
  await writeAuditEntry(db, by, { workspaceId, action: "workspace.recovered", target: workspaceId, detail });
  return detail;
}

/**
 * So that the books balance again: what the store has, and what it has not and waits in the outbox, is what was admitted. The
 * counts of the billing period stay as the backup had them: what was forgotten is not charged.
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
    // Fewer: the store was restored, and what it has lost stays visible.
    if (forgotten <= 0) return 0;
    if (await counter.countForgotten(forgotten, admitted)) return forgotten;
  }
  return 0;
}
