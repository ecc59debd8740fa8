/**
 * What deleted persons were named by. A signal that was received before the deletion, and recorded after it, must not
 * bring the person back. Only hashes are kept, and only for as long as such a signal may be on its way.
 */
import { createHash } from "node:crypto";
import { isWorked } from "./apply.ts";
import type { SignalToRecord } from "./protocol.ts";

export type Name = { kind: "email" | "user_id" | "anonymous_id"; value: string };

export function hashOf({ kind, value }: Name): string {
  return createHash("sha256").update(`${kind} ${value}`).digest("base64url");
}

export function rememberNames(sql: SqlStorage, names: readonly Name[], nowMs: number): void {
  sql.exec(
    `INSERT INTO erased_names (hash, at) SELECT value, ?2 FROM json_each(?1) WHERE true
     ON CONFLICT (hash) DO UPDATE SET at = excluded.at`,
    JSON.stringify(names.map((name) => hashOf(name))),
    nowMs,
  );
}

/** Ids of those of the batch whose person has been deleted since they were received. Costs one row read if there are none. */
export function erasedAmong(sql: SqlStorage, batch: readonly SignalToRecord[]): ReadonlySet<string> {
  const latestMs = sql.exec<{ at: number | null }>("SELECT max(at) AS at FROM erased_names").one().at ?? 0;
  const erased = new Set<string>();
  for (const signal of batch) {
    const { id, receivedAtMs } = signal.admission;
    if (receivedAtMs > latestMs || !isWorked(signal)) continue;
    const hashes = namesOf(signal.work.normalised).map((name) => hashOf(name));
    const [found] = sql
      .exec(
        "SELECT 1 FROM erased_names WHERE hash IN (SELECT value FROM json_each(?)) AND at >= ? LIMIT 1",
        JSON.stringify(hashes),
        receivedAtMs,
      )
      .toArray();
    if (found !== undefined) erased.add(id);
  }
  return erased;
}

/** Design §8.3: an email counts for more than the ids beside it. */
function namesOf({ email, userId, anonymousId }: { email?: string; userId?: string; anonymousId?: string }): Name[] {
  if (email !== undefined) return [{ kind: "email", value: email }];
  const names: Name[] = [];
  if (userId !== undefined) names.push({ kind: "user_id", value: userId });
  if (anonymousId !== undefined) names.push({ kind: "anonymous_id", value: anonymousId });
  return names;
}
