/** §8.2–§8.4: notices about usage. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NO_VERDICTS } from "../../../../src/domain/quota/quota.ts";
import { usageLevel, newUsageLevels, type UsageStanding } from "../../../../src/domain/quota/usage-levels.ts";

const standing = (accepted: number, more: Partial<UsageStanding> = {}): UsageStanding => ({
  ...NO_VERDICTS,
  accepted,
  signalLimit: 100,
  overages: false,
  extraRoomRemoved: false,
  ...more,
});
const full = standing(100, { held: 100 });
const larger = (accepted: number, held = 0) => standing(accepted, { held, signalLimit: 150 });
const capped = standing(100, { extraRoomRemoved: true });

/** The notices of each step; a step with `true` has rejected a signal. */
function levelsOf(steps: [now: UsageStanding, hasRejected?: boolean][]): string[] {
  let before = 0;
  return steps.map(([now, hasRejected = false]) => {
    const { notified, levels } = newUsageLevels({ notified: before, now, hasRejected });
    before = notified;
    return levels.join();
  });
}

describe("a usage level is announced", () => {
  test.each<[string, steps: Parameters<typeof levelsOf>[0], levels: string[]]>([
    ["once, with held signals counted", [[standing(79)], [standing(79, { held: 1 })], [standing(81)]], ["", "80", ""]],
    ["with all levels reached at once", [[standing(200)], [standing(200)]], ["80,100,200", ""]],
    ["again after a higher limit", [[standing(120)], [larger(119)], [larger(120)]], ["80,100", "", "80"]],
    ["never without signals", [[standing(0, { signalLimit: 0 })]], [""]],
    ["once for rejections", [[full], [full, true], [full, true], [full]], ["80,100,200", "first_rejection", "", ""]],
    [
      "again if overages accepted in between",
      [[full, true], [{ ...full, overages: true }], [full, true]],
      ["80,100,200,first_rejection", "", "first_rejection"],
    ],
    [
      "again after a larger plan is full too",
      [[full, true], [larger(200)], [larger(200, 100), true]],
      ["80,100,200,first_rejection", "", "200,first_rejection"],
    ],
    [
      "at the limit without extra room",
      [
        [capped, true],
        [capped, true],
      ],
      ["80,100,first_rejection", ""],
    ],
  ])("%s", (_, steps, levels) => expect(levelsOf(steps)).toEqual(levels));

  test("once while it stays reached, through any changes", () => {
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
        for (const [changed, hasRejected] of changes) {
          const now = { ...NO_VERDICTS, ...changed };
          const { notified: after, levels } = newUsageLevels({ notified: before, now, hasRejected });
          const reached = newUsageLevels({ notified: 0, now, hasRejected }).levels as string[];
          expect(levels.filter((level) => announced.includes(level))).toEqual([]);
          expect([...announced, ...levels]).toEqual(expect.arrayContaining(reached));
          expect(newUsageLevels({ notified: after, now, hasRejected: false }).levels).toEqual([]);
          const ceiling = (now.extraRoomRemoved ? 1 : 2) * now.signalLimit;
          const isFull = !now.overages && now.accepted + now.held >= ceiling;
          announced = [...announced, ...levels].filter(
            (level) => reached.includes(level) || (level === "first_rejection" && isFull),
          );
          before = after;
        }
      }),
    );
  });
});

test("§8.2–§8.4: the usage level is exact to the signal", () => {
  expect([79, 80, 99, 100, 199, 200, 201].map((used) => usageLevel(used, 100))).toEqual([
    null,
    80,
    80,
    100,
    100,
    200,
    200,
  ]);
  // The percentages of 7 signals are no whole numbers.
  expect([5, 6].map((used) => usageLevel(used, 7))).toEqual([null, 80]);
  expect(usageLevel(799_999_999_999, 1e12)).toBeNull();
});
