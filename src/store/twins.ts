/**
 * Signals of the same content (design §8.2). In order of receipt, a signal is an original unless one was received up to
 * its window before; what is within an original's window is its duplicate.
 */
import type { WorkedSignal } from "./apply.ts";
import { INDEXED_CHARACTERS, UNTIMED_BELOW, bareHash, hashesInReach } from "../domain/content-hash.ts";
import { isLater } from "./people.ts";
import type { Receipt } from "./people.ts";

const shortOf = (hash: string) => `substr(${hash}, 1, ${INDEXED_CHARACTERS})`;
/** As the indexes have it. */
export const SHORT_HASH = shortOf("content_hash");

/** A condition: the hashes in the first parameter, a JSON array, and the few others that begin like one of them. */
export const LIKELY_HASH = `${SHORT_HASH} IN (SELECT ${shortOf("value")} FROM json_each(?1))`;

interface Original extends Receipt {
  id: string;
}

interface Originals {
  accepted: Original[];
  held: Original[];
}

/** Originals by bare content hash: those stored and those of the batch, which is given in order of receipt. */
export class Twins {
  readonly #byHash = new Map<string, Originals>();
  readonly #unsettled = new Map<string, WorkedSignal[]>();
  /** Held signals whose content has now been accepted: they become its duplicates. */
  readonly displaced: { heldId: string; acceptedId: string }[] = [];

  constructor(sql: SqlStorage, signals: readonly WorkedSignal[]) {
    const inReach = signals.flatMap((signal) => hashesOf(signal));
    if (inReach.length === 0) return;
    const hashes = new Set(hasUntimed(sql) ? [...inReach, ...inReach.map((hash) => bareHash(hash))] : inReach);
    const stored = sql.exec<{ content_hash: string; id: string; received_at: number; ordinal: number; status: string }>(
      `SELECT content_hash, id, received_at, ordinal, status FROM signals
       WHERE content_hash IS NOT NULL AND status <> 'duplicate' AND ${LIKELY_HASH}`,
      JSON.stringify([...hashes]),
    );
    for (const { content_hash, id, received_at, ordinal, status } of stored) {
      const originals = this.#originals(bareHash(content_hash));
      originals[status === "held" ? "held" : "accepted"].push({ id, receivedAtMs: received_at, ordinal });
    }
  }

  /**
   * Signals that came after a later twin of theirs, and those of the same content behind them: which of them all are
   * originals is to be settled again. Recorded as duplicates until then.
   */
  get unsettled(): WorkedSignal[] {
    return [...this.#unsettled.values()].flat();
  }

  /** Id of the signal that this one duplicates; null when it is an original, which it then counts as. */
  take(signal: WorkedSignal): string | null {
    const { contentHash, duplicateWindowMs } = signal.work;
    if (contentHash === null) return null;
    const content = bareHash(contentHash);
    const { id, receivedAtMs, ordinal, verdict } = signal.admission;
    const one = { id, receivedAtMs, ordinal };
    const originals = this.#originals(content);
    const near = originals.accepted.filter((other) => Math.abs(other.receivedAtMs - receivedAtMs) <= duplicateWindowMs);

    if (verdict === "held") {
      const isNear = (other: Original) => Math.abs(other.receivedAtMs - receivedAtMs) <= duplicateWindowMs;
      const twin = near[0] ?? originals.held.find(isNear);
      if (twin === undefined) originals.held.push(one);
      return twin?.id ?? null;
    }

    const earlier = near.find((other) => isLater(one, other));
    const twin = earlier ?? near[0];
    originals.held = originals.held.filter((held) => {
      if (Math.abs(held.receivedAtMs - receivedAtMs) > duplicateWindowMs) return true;
      this.displaced.push({ heldId: held.id, acceptedId: twin?.id ?? id });
      return false;
    });
    if (twin === undefined) originals.accepted.push(one);
    else {
      const unsettled = this.#unsettled.get(content);
      if (unsettled !== undefined) unsettled.push(signal);
      else if (earlier === undefined) this.#unsettled.set(content, [signal]);
    }
    return twin?.id ?? null;
  }

  #originals(hash: string): Originals {
    let originals = this.#byHash.get(hash);
    if (originals === undefined) this.#byHash.set(hash, (originals = { accepted: [], held: [] }));
    return originals;
  }
}

function hashesOf({ admission, work }: WorkedSignal): string[] {
  if (work.contentHash === null) return [];
  return hashesInReach(work.contentHash, admission.receivedAtMs, work.duplicateWindowMs);
}

/** Whether there are signals of an earlier version, whose hashes are stored without an hour. */
function hasUntimed(sql: SqlStorage): boolean {
  const found = sql.exec(
    `SELECT 1 FROM signals WHERE content_hash IS NOT NULL AND status <> 'duplicate' AND ${SHORT_HASH} < ? LIMIT 1`,
    UNTIMED_BELOW,
  );
  return found.toArray().length > 0;
}
