/** §8.2–§8.4: notices about usage, and the thresholds that a score crosses. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fallenBelow, risenTo } from "../../../../src/domain/events/workspace-event.ts";
import { usageLevel, usageNews, type UsageStanding } from "../../../../src/domain/quota/usage-news.ts";

const standing = (accepted: number, more: Partial<UsageStanding> = {}): UsageStanding => ({
  accepted,
  held: 0,
  signalLimit: 100,
  overages: false,
  extraRoomRemoved: false,
  ...more,
});

/** The notices of each step. */
function newsOf(...steps: [now: UsageStanding, hasRefused?: boolean][]): string[][] {
  let before = 0;
  return steps.map(([now, hasRefused = false]) => {
    const { notified: after, news } = usageNews({ notified: before, now, hasRefused });
    before = after;
    return news;
  });
}

describe("a usage level is announced", () => {
  test("once when it is reached, with held signals counted, several at a time in order", () => {
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

  test("again if a higher limit made it unreached in between", () => {
    expect(
      newsOf(
        [standing(100)],
        [standing(100, { signalLimit: 200 })],
        [standing(159, { signalLimit: 200 })],
        [standing(160, { signalLimit: 200 })],
      ),
    ).toEqual([["80", "100"], [], [], ["80"]]);
  });

  test("never without signals", () => {
    expect(newsOf([standing(0, { signalLimit: 0 })], [standing(1, { signalLimit: 0 })])).toEqual([
      [],
      ["80", "100", "200"],
    ]);
  });
});

describe("the first refusal is announced", () => {
  const full = standing(100, { held: 100 });

  test("once, as long as no further signal is accepted", () => {
    expect(newsOf([full], [full, true], [full, true], [full])).toEqual([
      ["80", "100", "200"],
      ["first_refusal"],
      [],
      [],
    ]);
  });

  test("again after a larger plan or overages accepted signals in between", () => {
    const larger = standing(200, { signalLimit: 150 });
    expect(newsOf([full, true], [larger], [standing(200, { held: 100, signalLimit: 150 }), true]).at(-1)).toContain(
      "first_refusal",
    );
    expect(newsOf([full, true], [{ ...full, overages: true }], [full, true]).at(-1)).toEqual(["first_refusal"]);
  });

  test("at the limit, without extra room", () => {
    const at = (accepted: number) => standing(accepted, { extraRoomRemoved: true });
    expect(newsOf([at(100), true], [at(100), true])).toEqual([["80", "100", "first_refusal"], []]);
  });
});

describe("the thresholds that a score crosses", () => {
  const thresholds = [-10, 0, 50, 100];

  test("include those that it rises to or past", () => {
    expect(risenTo(0, 100, thresholds)).toEqual([50, 100]);
    expect(risenTo(49, 50, thresholds)).toEqual([50]);
    expect(risenTo(50, 99, thresholds)).toEqual([]);
    expect(risenTo(-11, -10, thresholds)).toEqual([-10]);
    expect(risenTo(100, 0, thresholds)).toEqual([]);
  });

  test("include those that it falls below", () => {
    expect(fallenBelow(100, 99, thresholds)).toEqual([100]);
    expect(fallenBelow(100, 100, thresholds)).toEqual([]);
    expect(fallenBelow(60, -5, thresholds)).toEqual([0, 50]);
    expect(fallenBelow(0, 60, thresholds)).toEqual([]);
  });
});

test("each usage level is announced once while it stays reached, through any changes", () => {
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
      let announced: string[] = [];
      for (const [now, hasRefused] of changes) {
        const { notified: after, news } = usageNews({ notified: before, now, hasRefused });
        const reached = usageNews({ notified: 0, now, hasRefused }).news as string[];
        expect(news.filter((level) => announced.includes(level))).toEqual([]);
        expect([...announced, ...news]).toEqual(expect.arrayContaining(reached));
        expect(usageNews({ notified: after, now, hasRefused: false }).news).toEqual([]);
        const ceiling = (now.extraRoomRemoved ? 1 : 2) * now.signalLimit;
        const isFull = !now.overages && now.accepted + now.held >= ceiling;
        announced = [...announced, ...news].filter(
          (level) => reached.includes(level) || (level === "first_refusal" && isFull),
        );
        before = after;
      }
    }),
  );
});

describe("§8.2–§8.4: the usage level", () => {
  test.each([
    [79, null],
    [80, 80],
    [99, 80],
    [100, 100],
    [199, 100],
    [200, 200],
    [201, 200],
  ])("at %i of 100 signals: %s", (used, level) => {
    expect(usageLevel(used, 100)).toBe(level);
  });

  test("is exact to the signal, even if a percentage is not a whole number of signals", () => {
    expect(usageLevel(5, 7)).toBeNull();
    expect(usageLevel(6, 7)).toBe(80);
    expect(usageLevel(0, 1)).toBeNull();
    expect(usageLevel(1, 1)).toBe(100);
    expect(usageLevel(799_999_999_999, 1e12)).toBeNull();
  });
});
