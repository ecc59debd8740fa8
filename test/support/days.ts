/** Counts by day as the store keeps them, and as its lines and lists add up to. */
import { expect } from "vitest";
import { dayOf } from "../../src/domain/quota/day-counts.ts";
import { readEntries } from "../../src/store/people/timeline-text.ts";
import { ascendingEntries } from "../../src/store/people/timelines.ts";
import { personList } from "../../src/store/people/visitor-keys.ts";
import type { Log } from "../../src/store/log/log.ts";
import { countedOf, linesOf, ruleDaysOf } from "./adds-up.ts";
import { readStore } from "./read-store.ts";

type Counts = Record<string, Record<string, number>>;

export async function expectDaysToAddUp(workspaceId: string): Promise<void> {
  await readStore(workspaceId, (state) => {
    const { sql, signals, held } = state;
    const kept: Counts = {};
    for (const { name, days } of sql.exec<{ name: string; days: string }>(
      `SELECT event || ' ' || source AS name, days FROM event_groups WHERE days <> ''`,
    )) {
      kept[name] = stored(days);
    }
    for (const [ruleId, { days }] of ruleDaysOf(state)) kept[ruleId] = stored(days);

    const counted: Counts = {};
    const count = (name: string, atMs: number): void => {
      const days = (counted[name] ??= {});
      days[dayOf(atMs)] = (days[dayOf(atMs)] ?? 0) + 1;
    };
    for (const { facts } of [...linesOf(signals as unknown as Log), ...linesOf(held)]) {
      const { kind, status, event, source, admission } = facts;
      if (kind !== "signal" || !["processed", "anonymous", "held"].includes(status)) continue;
      count(`${event} ${source}`, admission.receivedAtMs);
    }
    for (const { id, recent } of sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people")) {
      const scored = [...ascendingEntries(sql, personList(id), readEntries(recent))].flatMap(
        (entry) => entry.scored ?? [],
      );
      for (const { ruleId, atMs } of countedOf(state, id, scored)) count(ruleId, atMs);
    }
    expect(kept).toEqual(counted);
  });
}

function stored(days: string): Record<string, number> {
  const [latest = 0, ...counts] = days.split(",").map(Number);
  return Object.fromEntries(counts.map((count, ago) => [latest - ago, count]).filter(([, count]) => count !== 0));
}
