/** The latest signals, as the live page begins with them. */
import { pointsOf } from "../../domain/rules/evaluation.ts";
import type { LiveSignal } from "../protocol/recorded-signals.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { ALL, newestFirst } from "./newest-signals.ts";
import { countedOf } from "./scored-entries.ts";
import { toSummary } from "./signal-list.ts";

/** The latest signals, the latest first. */
export function latestSignals(state: StoreState, limit: number): LiveSignal[] {
  const names = new Names(state.sql);
  const latest: LiveSignal[] = [];
  if (limit === 0) return latest;
  for (const { found } of newestFirst(state, {}, ALL, names)) {
    if (found === null) continue;
    const { facts, dead } = found;
    latest.push({
      ...toSummary(found, names),
      duplicateOf: facts?.duplicateOf ?? null,
      deadReason: dead?.reason ?? null,
      points: facts === null ? 0 : pointsOf(countedOf(state, facts)),
    });
    if (latest.length === limit) break;
  }
  return latest;
}
