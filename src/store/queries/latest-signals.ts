/** The latest signals, as the live page asks for them every two seconds. */
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import type { LatestSignals, LiveSignal } from "../protocol/stored-signals.ts";
import { lastDeadLetter } from "../record/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { ALL, newestFirst, type Places } from "./newest-signals.ts";
import { countedOf } from "./scored-entries.ts";
import { toSummary } from "./signal-list.ts";

/** Known signals that are skipped: some may have the same recording millisecond as new ones. */
const SEEN_LOOKED_AT = 100;

/**
 * Signals recorded after `cursor`, latest first; null: none. Without a cursor, or with one from before a restore: the
 * latest of all.
 */
export function latestSignals(state: StoreState, cursor: string | null, limit: number): LatestSignals | null {
  const last: Places = [state.signals.nextSeq - 1, state.held.nextSeq - 1, lastDeadLetter(state.sql)];
  const seen = placesOf(cursor, last);
  const newer = last.reduce((sum, place, source) => sum + place - (seen[source] ?? 0), 0);
  if (cursor !== null && newer === 0) return null;
  const names = new Names(state.sql);
  const signals: LiveSignal[] = [];
  let passed = 0;
  for (const { source, place, found } of newestFirst(state, {}, ALL, names)) {
    if (place <= seen[source]) passed++;
    if (passed > SEEN_LOOKED_AT || signals.length === limit) break;
    if (found === null || place <= seen[source]) continue;
    const { facts, dead } = found;
    signals.push({
      ...toSummary(found, names),
      duplicateOf: facts?.duplicateOf ?? null,
      deadReason: dead?.reason ?? null,
      points: facts === null ? 0 : pointsOf(countedOf(state, facts)),
    });
  }
  return { signals, more: signals.length < limit ? 0 : newer - signals.length, cursor: last.join(".") };
}

/** Position of this cursor in each of the three sources. */
function placesOf(cursor: string | null, last: Places): Places {
  const [, ...places] = /^(\d+)\.(\d+)\.(\d+)$/.exec(cursor ?? "") ?? [];
  const [signals = 0, held = 0, dead = 0] = places.map(Number);
  const isAhead = signals > last[0] || held > last[1] || dead > last[2];
  return isAhead ? [0, 0, 0] : [signals, held, dead];
}
