/**
 * Ten years of a workspace with the maximum number of mapping rules. Each rule scores every day. No row of the Signal
 * Store grows with the days, and the counts of the rules stay correct.
 */
import { expect, test, vi } from "vitest";
import { latestDays, dayOf } from "../../src/domain/duration.ts";
import type { RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { DAYS_COUNTED, WORKSPACE_MAX_RULES } from "../../src/limits.ts";
import { deleteExpired, setRetention } from "../../src/store/deletion/retention.ts";
import { recordSignals } from "../../src/store/record-signals.ts";
import { readRuleDays } from "../../src/store/state/rule-outcomes.ts";
import { expectStateToAddUp } from "../support/adds-up.ts";
import { amount } from "../support/amount.ts";
import { headMetaBytes, largestRows, PLATFORM_ROW_MAX_BYTES } from "../support/sql-cost.ts";
import { type TestStore, inStore } from "../support/store.ts";
import { nextRetentionMs } from "../../src/store/state/due.ts";
import { expectLogged } from "../support/logged.ts";

// Jobs of ten years run late.
expectLogged();

const DAY = 24 * 3_600_000;
const START = Date.UTC(2026, 0, 1);
/** Ten years in the long run. In `npm test` twice the retention, so that most of the days are deleted again. */
const DAYS = amount(180, 3_652);
const RETENTION_DAYS = 90;
/** Signals of a day: each matches a share of the rules, so that each rule scores once a day. */
const SIGNALS_A_DAY = 5;
const PEOPLE = 40;
/** One in this many rules scores a person only once a day. */
const ONCE_EVERY = 50;
/** Days between restarts of the object. Each restart is followed by a check of rows and charts. */
const CHECKED_EVERY = amount(45, 365);

vi.setConfig({ testTimeout: 600_000 });

const RULES: readonly RuleMatch[] = Array.from({ length: WORKSPACE_MAX_RULES }, (_, n) => ({
  ruleId: `rule_019f0000-0000-7000-8000-${String(n).padStart(12, "0")}`,
  ruleVersion: 1,
  scoringSignal: `Scored by ${n}`,
  points: 1,
  ...(n % ONCE_EVERY === 0 ? { frequency: "once_per_day" as const } : {}),
}));

test("records years of 1,000 rules that score daily, with bounded rows and correct charts", () =>
  inStore(async (store) => {
    setRetention(store.state, { retentionDays: RETENTION_DAYS }, START);
    for (let day = 0; day < DAYS; day++) {
      recordDay(store, day);
      retain(store, START + (day + 1) * DAY - 1);
      if (day % CHECKED_EVERY === CHECKED_EVERY - 1) {
        await store.storage.sync();
        store.restart();
        expectBounded(store);
        expectCharts(store, day);
      }
    }
    expectBounded(store);
    expectCharts(store, DAYS - 1);
    expectStateToAddUp(store.state, { hasDropped: true });
    const { score } = store.sql.exec<{ score: number }>("SELECT sum(score) AS score FROM people").one();
    expect(score).toBe(DAYS * WORKSPACE_MAX_RULES);
  }));

/** Records the signals of a day one by one. */
function recordDay(store: TestStore, day: number): void {
  const share = WORKSPACE_MAX_RULES / SIGNALS_A_DAY;
  for (let n = 0; n < SIGNALS_A_DAY; n++) {
    const atMs = START + day * DAY + n * 3_600_000;
    const { periodStartMs, periodEndMs } = monthOf(atMs);
    const email = `person${(day * 7 + n) % PEOPLE}@example.com`;
    const payload = { event: `Event ${n}`, source: "web", email, messageId: `${day}-${n}` };
    const signal = store.signal(atMs, { payload, periodStartMs, periodEndMs });
    if (signal.work.kind !== "signal") throw new Error("not a signal");
    const matches = RULES.slice(n * share, (n + 1) * share);
    const work = { ...signal.work, evaluation: { rulesTried: RULES.length, matches } };
    recordSignals(store.state, [{ ...signal, work }], atMs, 1);
  }
}

/** Runs retention as the alarm would. */
function retain(store: TestStore, nowMs: number): void {
  for (let steps = 0; (nextRetentionMs(store.state) ?? Number.POSITIVE_INFINITY) <= nowMs; steps++) {
    if (steps > 10) throw new Error("retention does not come to an end");
    deleteExpired(store.state, nowMs);
  }
}

function expectBounded({ sql }: TestStore): void {
  const rows = largestRows(sql);
  expect(rows.size).toBeGreaterThan(5);
  for (const [table, bytes] of rows) expect(bytes, table).toBeLessThan(PLATFORM_ROW_MAX_BYTES / 4);
  expect(headMetaBytes(sql)).toBeLessThan(100_000);
  const { lines } = sql
    .exec<{ lines: number }>("SELECT sum(last_seq - first_seq + 1) AS lines FROM signals_segments")
    .one();
  expect(lines).toBeLessThan((RETENTION_DAYS + 5) * SIGNALS_A_DAY);
}

/** Each rule has scored once on each day. */
function expectCharts({ state }: TestStore, day: number): void {
  const everyDay = Array.from({ length: DAYS_COUNTED }, () => 1);
  for (const { ruleId } of RULES) {
    const scored = readRuleDays(state, ruleId);
    expect(scored?.count).toBe(day + 1);
    expect(latestDays(scored?.days ?? "", dayOf(START) + day, DAYS_COUNTED)).toEqual(everyDay);
  }
}

function monthOf(ms: number): { periodStartMs: number; periodEndMs: number } {
  const date = new Date(ms);
  const month = (plus: number): number => Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + plus, 1);
  return { periodStartMs: month(0), periodEndMs: month(1) };
}
