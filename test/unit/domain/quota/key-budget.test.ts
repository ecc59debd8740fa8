/** Budgets of keys: the bound that comes first decides, and each level is announced when a change reaches it. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keyLevel, newKeyLevels, roomOfKey, useWithin } from "../../../../src/domain/quota/key-budget.ts";
import { decideQuotaRun, ordinalsTaken, quotaBounds } from "../../../../src/domain/quota/quota.ts";

const plan = fc.record({ signalLimit: fc.nat(20), overages: fc.boolean(), extraRoomRemoved: fc.boolean() });

test("a run under a budget is decided like its signals one by one", () => {
  fc.assert(
    fc.property(fc.nat(50), fc.nat(20), plan, fc.nat(20), (used, count, terms, room) => {
      const run = decideQuotaRun(used, count, terms, room);
      const { accept, hold, rejection } = quotaBounds(terms);
      const counts = { accepted: 0, held: 0, rejected: 0 };
      let reason: string | null = null;
      for (let nth = 0; nth < count; nth++) {
        const kept = counts.accepted + counts.held;
        const ordinal = used + kept + 1;
        const isWithinKey = kept < room;
        if (ordinal <= hold && isWithinKey) counts[ordinal <= accept ? "accepted" : "held"]++;
        else {
          counts.rejected++;
          reason ??= ordinal <= hold ? "key_limit_exceeded" : rejection;
        }
      }
      expect(run).toEqual({ ...counts, rejection: reason });
    }),
  );
});

test("without a budget a run has the verdicts of the plan", () => {
  fc.assert(
    fc.property(fc.nat(50), fc.nat(20), plan, (used, count, terms) => {
      const without = decideQuotaRun(used, count, terms, roomOfKey({ budgets: { other: 0 }, budgetUse: {} }, "key_1"));
      expect(without).toEqual(decideQuotaRun(used, count, terms));
      expect(without.rejection).not.toBe("key_limit_exceeded");
      expect(ordinalsTaken(without) + without.rejected).toBe(count);
    }),
  );
});

test("the room of a key is what its limit leaves, and never below zero", () => {
  const budgets = { key_1: 5, key_2: 3 };
  expect(roomOfKey({ budgets, budgetUse: {} }, "key_1")).toBe(5);
  expect(roomOfKey({ budgets, budgetUse: { key_1: 2 } }, "key_1")).toBe(3);
  expect(roomOfKey({ budgets, budgetUse: { key_2: 7 } }, "key_2")).toBe(0);
  expect(useWithin({ key_1: 2, key_3: 9 }, budgets)).toEqual({ key_1: 2 });
});

describe("levels", () => {
  test.each([
    [0, 1, null],
    [79, 100, null],
    [80, 100, 80],
    [99, 100, 80],
    [100, 100, 100],
    [5, 1, 100],
  ])("with %i of %i signals used, the level is %s", (used, limit, level) => {
    expect(keyLevel(used, limit)).toBe(level);
  });

  const levels = (before: [limit: number | null, used: number], now: [limit: number, used: number]) =>
    newKeyLevels(
      { budgets: before[0] === null ? {} : { key_1: before[0] }, budgetUse: { key_1: before[1] } },
      { budgets: { key_1: now[0] }, budgetUse: { key_1: now[1] } },
    ).map(({ level }) => level);

  test("are new with the change that reaches them, also with a lower limit", () => {
    expect(levels([10, 7], [10, 8])).toEqual([80]);
    expect(levels([10, 8], [10, 9])).toEqual([]);
    expect(levels([10, 7], [10, 10])).toEqual([80, 100]);
    expect(levels([10, 8], [10, 10])).toEqual([100]);
    expect(levels([20, 10], [10, 10])).toEqual([80, 100]);
    expect(levels([10, 10], [20, 10])).toEqual([]);
    expect(levels([20, 10], [20, 16])).toEqual([80]);
    expect(levels([null, 0], [10, 0])).toEqual([]);
    const [unused, used] = [
      { budgets: { key_1: 1 }, budgetUse: {} },
      { budgets: { key_1: 1 }, budgetUse: { key_1: 1 } },
    ];
    expect(newKeyLevels(unused, used).map(({ level }) => level)).toEqual([80, 100]);
  });

  test("cost nothing if no budget has changed", () => {
    const same = { budgets: { key_1: 1 }, budgetUse: { key_1: 1 } };
    expect(newKeyLevels(same, { ...same })).toEqual([]);
  });
});
