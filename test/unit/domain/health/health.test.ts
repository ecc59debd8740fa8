/** Which word and which sentence a workspace's figures come to (docs/operate.md has a section for each alarm). */
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import {
  ALARMS,
  alarmsOf,
  notAsked,
  unreachable,
  wordOf,
  type FailingDestination,
  type HealthFigures,
} from "../../../../src/domain/health/alarm.ts";

const NOW = Date.UTC(2031, 2, 1);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const WELL: HealthFigures = {
  store: { bytes: 100, maxBytes: 1_000 },
  outbox: { bytes: 100, maxBytes: 1_000 },
  unreadable: 0,
  waiting: 0,
  waitingSinceMs: null,
  booksBalanced: true,
  deadLetters: 0,
  deadLetterMs: null,
  failingChores: [],
  alarms: { store: { all: 0, idle: 0 }, counter: { all: 0, idle: 0 } },
  failingDestinations: [],
};

const alarms = (figures: Partial<HealthFigures>) => alarmsOf({ ...WELL, ...figures }, NOW);
const named = (figures: Partial<HealthFigures>) => alarms(figures).map(({ alarm, word }) => `${word} ${alarm}`);
const waiting = (sinceMs: number) => ({ waiting: 12_345, waitingSinceMs: NOW - sinceMs });
const dead = (sinceMs: number) => ({ deadLetters: 3, deadLetterMs: NOW - sinceMs });
const failing = (sinceMs: number) => ({
  failingChores: [{ chore: "cold", sinceMs: NOW - sinceMs, error: "R2 is down" }],
});
const waking = (all: number, idle: number) => ({ alarms: { ...WELL.alarms, counter: { all, idle } } });
const missed = (sinceMs: number, off: FailingDestination["off"] = null) => ({
  failingDestinations: [{ id: "dst_1", name: "CRM", sinceMs: NOW - sinceMs, off }],
});
const off = (sinceMs: number) => missed(sinceMs + 120 * HOUR, { reason: "failing", sinceMs: NOW - sinceMs });
const FULL = { bytes: 1_000, maxBytes: 1_000 };

describe("health of a workspace", () => {
  test.each<[what: string, figures: Partial<HealthFigures>, alarms: string[]]>([
    ["in which all is well", {}, []],
    ["with signals that wait for less than ten minutes", waiting(10 * MINUTE - 1), []],
    ["with signals that wait for ten minutes", waiting(10 * MINUTE), ["late signals_late"]],
    ["with signals that wait for nearly an hour", waiting(HOUR - 1), ["late signals_late"]],
    ["with signals that wait for an hour", waiting(HOUR), ["stuck signals_stuck"]],
    ["with signals of a clock that runs ahead", waiting(-MINUTE), []],
    ["with a store that is 79 % full", { store: { bytes: 799, maxBytes: 1_000 } }, []],
    ["with a store that is 80 % full", { store: { bytes: 800, maxBytes: 1_000 } }, ["late store_filling"]],
    ["with a full store", { store: FULL }, ["stuck store_full"]],
    ["with a full outbox", { outbox: FULL }, ["stuck senders_rejected"]],
    [
      "with a full store and a full outbox",
      { outbox: FULL, store: FULL },
      ["stuck senders_rejected", "stuck store_full"],
    ],
    ["with signals that cannot be read", { unreadable: 2 }, ["stuck signals_unreadable"]],
    ["whose books do not balance", { booksBalanced: false }, ["stuck books_open"]],
    ["with a chore that fails for less than ten minutes", failing(10 * MINUTE - 1), []],
    ["with a chore that fails for ten minutes", failing(10 * MINUTE), ["late chore_failing"]],
    ["with many alarms that have work", waking(1_000, 600), []],
    ["with more than ten alarms a minute without work", waking(601, 601), ["late alarms_idle"]],
    ["with a dead letter of today", dead(24 * HOUR - 1), ["late dead_letters"]],
    ["with dead letters of yesterday only", dead(24 * HOUR), []],
    ["with a destination that fails for less than an hour", missed(HOUR - 1), []],
    ["with a destination that fails for an hour", missed(HOUR), ["late destination_failing"]],
    ["with a destination that was switched off this week", off(168 * HOUR - 1), ["late destination_off"]],
    ["with a destination that was switched off last week", off(168 * HOUR), []],
    [
      "with several things wrong",
      { ...dead(0), store: FULL, ...waiting(HOUR) },
      ["stuck store_full", "stuck signals_stuck", "late dead_letters"],
    ],
  ])("%s", (_, figures, expected) => {
    expect(named(figures)).toEqual(expected);
  });

  test("is one word: the most severe alarm, of one workspace and of many", () => {
    expect(wordOf([])).toBe("ok");
    expect(wordOf(alarms(dead(0)))).toBe("late");
    expect(wordOf([...alarms(dead(0)), unreachable("timed out")])).toBe("stuck");
    expect(wordOf([notAsked()])).toBe("late");
    expect(wordOf([{ word: "ok" }, { word: "late" }, { word: "ok" }])).toBe("late");
  });

  const gone = missed(HOUR, { reason: "gone", sinceMs: NOW }).failingDestinations;
  const both = [...gone, ...off(HOUR).failingDestinations];
  const two = [...missed(HOUR).failingDestinations, ...missed(2 * HOUR).failingDestinations];
  test.each<[figures: Partial<HealthFigures>, says: RegExp]>([
    [waiting(12.5 * MINUTE), /^12,345 accepted signals wait, the oldest for 12 minutes\. Look/],
    [{ store: { bytes: 855, maxBytes: 1_000 } }, /^The store is 85% full\. Give the workspace a plan/],
    [failing(HOUR), /^The chore `cold` has failed for 60 minutes: R2 is down\. Look whether R2 and D1 answer\.$/],
    [{ unreadable: 1 }, /^1 accepted signal cannot be read/],
    [dead(MINUTE), /^3 signals could not be processed, the latest 1 minute ago\. Read/],
    [missed(2 * HOUR), /^The destination "CRM" \(dst_1\) has not been reached for 120 minutes\. Look/],
    [{ failingDestinations: two }, /"CRM" \(dst_1\), like 1 other, has not been reached for 120 minutes/],
    [off(HOUR), /^The destination "CRM" \(dst_1\) was switched off: no delivery has succeeded for five days\. Fix/],
    [{ failingDestinations: gone }, /has unsubscribed \(410\)/],
    [{ failingDestinations: both }, /no delivery has succeeded for five days/],
  ])("with %j states the problem and the remedy", (figures, says) => {
    expect(alarms(figures)[0]?.says).toMatch(says);
  });

  test("names the objects that do not answer", () => {
    expect(unreachable("no answer within 5000 ms").says).toContain("do not answer: no answer within 5000 ms.");
  });

  test("has a section in docs/operate.md for each alarm", () => {
    const operate = readFileSync(path.resolve(import.meta.dirname, "../../../../docs/operate.md"), "utf8");
    const headings = [...operate.matchAll(/^### `(\w+)`$/gm)].map(([, name]) => name);
    expect(headings).toEqual([...ALARMS]);
  });
});
