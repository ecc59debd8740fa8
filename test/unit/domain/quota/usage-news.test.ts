/** Which levels of usage, and which scores, are news. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fallenBelow, risenTo } from "../../../../src/domain/events/workspace-event.ts";
import { grouped } from "../../../../src/domain/text.ts";
import { usageNews } from "../../../../src/domain/quota/usage-news.ts";
import type { UsageStanding } from "../../../../src/domain/quota/usage-news.ts";

const standing = (accepted: number, more: Partial<UsageStanding> = {}): UsageStanding => ({
  accepted,
  held: 0,
  signalLimit: 100,
  overages: false,
  extraRoomRemoved: false,
  ...more,
});

/** What is news at each of these, one after the other. */
function newsOf(...steps: [now: UsageStanding, hasRefused?: boolean][]): string[][] {
  let before = 0;
  return steps.map(([now, hasRefused = false]) => {
    const { notified: after, news } = usageNews({ notified: before, now, hasRefused });
    before = after;
    return news;
  });
}

describe("a level of usage is news", () => {
  test("once, when it is reached, held signals counted too; several at a time in order", () => {
    expect(
      newsOf(
        [standing(79)],
        [standing(79, { held: 1 })],
        [standing(81)],
        [standing(100)],
        [standing(150)],
        [standing(100, { held: 100 })],
        [standing(200)],
      ),
    ).toEqual([[], ["80"], [], ["100"], [], ["200"], []]);
    expect(newsOf([standing(200)], [standing(200)])).toEqual([["80", "100", "200"], []]);
  });

  test("once more where the limit was raised, so that it was not reached any more, and is again", () => {
    expect(
      newsOf(
        [standing(100)],
        [standing(100, { signalLimit: 200 })],
        [standing(159, { signalLimit: 200 })],
        [standing(160, { signalLimit: 200 })],
      ),
    ).toEqual([["80", "100"], [], [], ["80"]]);
  });

  test("never where nothing has come", () => {
    expect(newsOf([standing(0, { signalLimit: 0 })], [standing(1, { signalLimit: 0 })])).toEqual([
      [],
      ["80", "100", "200"],
    ]);
  });
});

describe("a first refusal is news", () => {
  const full = standing(100, { held: 100 });

  test("once, as long as nothing further is taken", () => {
    expect(newsOf([full], [full, true], [full, true], [full])).toEqual([
      ["80", "100", "200"],
      ["first_refusal"],
      [],
      [],
    ]);
  });

  test("once more after signals were taken again: a larger plan, or overages", () => {
    const larger = standing(200, { signalLimit: 150 });
    expect(newsOf([full, true], [larger], [standing(200, { held: 100, signalLimit: 150 }), true]).at(-1)).toContain(
      "first_refusal",
    );
    expect(newsOf([full, true], [{ ...full, overages: true }], [full, true]).at(-1)).toEqual(["first_refusal"]);
  });

  test("at the limit, where there is no extra room", () => {
    const at = (accepted: number) => standing(accepted, { extraRoomRemoved: true });
    expect(newsOf([at(100), true], [at(100), true])).toEqual([["80", "100", "first_refusal"], []]);
  });
});

describe("the thresholds that a score crosses", () => {
  const thresholds = [-10, 0, 50, 100];

  test("are those that it rises to, or past", () => {
    expect(risenTo(0, 100, thresholds)).toEqual([50, 100]);
    expect(risenTo(49, 50, thresholds)).toEqual([50]);
    expect(risenTo(50, 99, thresholds)).toEqual([]);
    expect(risenTo(-11, -10, thresholds)).toEqual([-10]);
    expect(risenTo(100, 0, thresholds)).toEqual([]);
  });

  test("are those that it falls below", () => {
    expect(fallenBelow(100, 99, thresholds)).toEqual([100]);
    expect(fallenBelow(100, 100, thresholds)).toEqual([]);
    expect(fallenBelow(60, -5, thresholds)).toEqual([0, 50]);
    expect(fallenBelow(0, 60, thresholds)).toEqual([]);
  });
});

test("a number is grouped for people", () => {
  expect([0, 999, 1_000, 12_345_678, -1_234].map(grouped)).toEqual(["0", "999", "1,000", "12,345,678", "-1,234"]);
});

test("a level that is reached has been notified once, whatever changes in between, until it is reached no longer", () => {
  const change = fc.record({
    accepted: fc.nat(50),
    held: fc.nat(20),
    signalLimit: fc.integer({ min: 1, max: 40 }),
    overages: fc.boolean(),
    extraRoomRemoved: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(fc.tuple(change, fc.boolean()), { maxLength: 20 }), (changes) => {
      let before = 0;
      let known: string[] = [];
      for (const [now, hasRefused] of changes) {
        const { notified: after, news } = usageNews({ notified: before, now, hasRefused });
        const reached = usageNews({ notified: 0, now, hasRefused }).news as string[];
        expect(news.filter((level) => known.includes(level))).toEqual([]);
        expect([...known, ...news]).toEqual(expect.arrayContaining(reached));
        expect(usageNews({ notified: after, now, hasRefused: false }).news).toEqual([]);
        const ceiling = (now.extraRoomRemoved ? 1 : 2) * now.signalLimit;
        const isFull = !now.overages && now.accepted + now.held >= ceiling;
        known = [...known, ...news].filter((level) => reached.includes(level) || (level === "first_refusal" && isFull));
        before = after;
      }
    }),
  );
});
