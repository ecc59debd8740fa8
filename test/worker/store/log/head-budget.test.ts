/** The budget of the head besides lines: beyond it, pending changes move to their own rows. */
import { describe, expect, test } from "vitest";
import { latestDays, dayOf } from "../../../../src/domain/duration.ts";
import type { RuleMatch } from "../../../../src/domain/rules/mapping-rule.ts";
import { HEAD_META_MAX_BYTES } from "../../../../src/store/log/stored-log.ts";
import type { SignalToRecord } from "../../../../src/store/protocol/stored-signals.ts";
import { recordSignals } from "../../../../src/store/record-signals.ts";
import { readRuleDays } from "../../../../src/store/state/rule-outcomes.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { headMetaBytes, largestRows } from "../../../support/sql-cost.ts";
import { type TestStore, inStore } from "../../../support/store.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const DAY = 24 * 3_600_000;

/** The head is padded to full kilobytes. */
const META_MOST = HEAD_META_MAX_BYTES + 1_024;

const matchOf = (rule: number): RuleMatch => ({
  ruleId: `rule_019f0000-0000-7000-8000-${String(rule).padStart(12, "0")}`,
  ruleVersion: 1,
  scoringSignal: "Visited",
  points: 1,
});

/** A signal that all of these rules match. */
function matched(store: TestStore, atMs: number, rules: readonly RuleMatch[]): SignalToRecord {
  const signal = store.signal(atMs, {
    payload: { event: "Visit", email: "jane@example.com", messageId: `m${atMs}` },
    periodStartMs: NOW,
  });
  if (signal.work.kind !== "signal") throw new Error("not a signal");
  return { ...signal, work: { ...signal.work, evaluation: { rulesTried: rules.length, matches: [...rules] } } };
}

describe("counts by day of mapping rules", () => {
  test("move to their rows before the head exceeds its budget", () =>
    inStore((store) => {
      const rules = Array.from({ length: 100 }, (_, n) => matchOf(n));
      for (let day = 0; day < 200; day++) {
        const atMs = NOW + day * DAY;
        recordSignals(store.state, [matched(store, atMs, rules)], atMs, 1);
        expect(headMetaBytes(store.sql)).toBeLessThanOrEqual(META_MOST);
      }
      for (const { ruleId } of rules) {
        const scored = readRuleDays(store.state, ruleId);
        expect(scored?.count).toBe(200);
        expect(latestDays(scored?.days ?? "", dayOf(NOW) + 199, 30)).toEqual(Array.from({ length: 30 }, () => 1));
      }
    }));

  test("wait together for a thousand rules, and are written in hundreds", () =>
    inStore((store) => {
      const statements = countWrites(store.sql, "rule_days");
      for (let rule = 0; rule < 1_000; rule++) {
        recordSignals(store.state, [matched(store, NOW + rule, [matchOf(rule)])], NOW + rule, 1);
      }
      expect(headMetaBytes(store.sql)).toBeLessThanOrEqual(META_MOST);
      expect(statements()).toBeLessThanOrEqual(1_000);
      expect(readRuleDays(store.state, matchOf(0).ruleId)?.count).toBe(1);
    }));
});

describe("groups of the signal queue", () => {
  test.each([
    ["the widest characters", "😀".repeat(255)],
    ["control characters", "\u0001".repeat(255)],
    ["quotes", '"'.repeat(255)],
  ])("with names of %s move to their rows in time, while other signals are recorded", (_, filler) =>
    inStore((store) => {
      for (let group = 0; group < 400; group++) {
        const name = Array.from(`${group} ${filler}`).slice(0, 255).join("");
        const payload = { event: name, source: name, email: `p${group}@example.com` };
        store.record(NOW + group, { payload, periodStartMs: NOW });
        expect(headMetaBytes(store.sql)).toBeLessThanOrEqual(META_MOST);
      }
      store.record(NOW + 1_000, { payload: { event: "New", email: "jane@example.com" }, periodStartMs: NOW });
      expect(Math.max(...largestRows(store.sql).values())).toBeLessThan(600_000);
      expectStateToAddUp(store.state);
      store.restart();
      expectStateToAddUp(store.state);
    }),
  );

  test("are all written for a batch of many groups", () =>
    inStore((store) => {
      const batch = Array.from({ length: 3_000 }, (_, group) => ({
        payload: { event: `Event ${group} ${"x".repeat(200)}`, email: "jane@example.com" },
        periodStartMs: NOW,
      }));
      store.record(NOW, ...batch);
      expect(headMetaBytes(store.sql)).toBeLessThanOrEqual(META_MOST);
      expectStateToAddUp(store.state);
    }));
});

/** Counts statements that write to a table. */
function countWrites(sql: SqlStorage, table: string): () => number {
  const exec = sql.exec.bind(sql);
  let count = 0;
  sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
    if (!query.startsWith("SELECT") && query.includes(table)) count++;
    return exec(query, ...bindings);
  }) as typeof sql.exec;
  return () => count;
}
