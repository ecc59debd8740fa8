/** The verdict of a signal (spec §3.2, §8.1–§8.6). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ADMITTED_VERDICTS,
  decideQuotaRun,
  overageOfRelease,
  overageOfRun,
  quotaCeiling,
  roomToRelease,
  verdictInRun,
  type AdmittedVerdict,
  type QuotaPlan,
  type QuotaRejection,
} from "../../../../src/domain/quota/quota.ts";

const L = 100;
const free: QuotaPlan = { signalLimit: L, overages: false, extraRoomRemoved: false };
const capped: QuotaPlan = { ...free, extraRoomRemoved: true };
const metered: QuotaPlan = { ...free, overages: true };

type Verdict = AdmittedVerdict | QuotaRejection;

/** The verdict of the `n`-th signal. */
function verdictOf(n: number, plan: QuotaPlan): Verdict | null {
  const run = decideQuotaRun(n - 1, 1, plan);
  return ADMITTED_VERDICTS.find((verdict) => run[verdict] === 1) ?? run.rejection;
}

/** The specification's rules, in its order. */
function specified(n: number, plan: QuotaPlan): Verdict {
  if (plan.overages) return "accepted";
  if (n <= plan.signalLimit) return "accepted";
  if (plan.extraRoomRemoved) return "allowance_exceeded";
  if (n <= 2 * plan.signalLimit) return "held";
  return "extra_room_exceeded";
}

describe("§8.2–§8.6: the verdict of the n-th signal", () => {
  test.each<[string, number, QuotaPlan, Verdict]>([
    ["§8.2: the first is processed", 1, free, "accepted"],
    ["§8.2: the L-th is processed", L, free, "accepted"],
    ["§8.3: the (L + 1)-th is held", L + 1, free, "held"],
    ["§8.3: the 2L-th is held", 2 * L, free, "held"],
    ["§8.4: the (2L + 1)-th is rejected", 2 * L + 1, free, "extra_room_exceeded"],
    ["§8.5: without the extra room the L-th is processed", L, capped, "accepted"],
    ["§8.5: without the extra room the (L + 1)-th is rejected", L + 1, capped, "allowance_exceeded"],
    ["§8.5: without the extra room the (2L + 1)-th is rejected alike", 2 * L + 1, capped, "allowance_exceeded"],
    ["§8.6: with overages the (L + 1)-th is processed", L + 1, metered, "accepted"],
    ["§8.6: with overages the (2L + 1)-th is processed", 2 * L + 1, metered, "accepted"],
    ["§8.6: with overages it is, even without the extra room", 2 * L + 1, { ...capped, overages: true }, "accepted"],
    ["a limit of 0 processes and holds nothing", 1, { ...free, signalLimit: 0 }, "extra_room_exceeded"],
  ])("%s", (_, n, plan, verdict) => {
    expect(verdictOf(n, plan)).toBe(verdict);
  });
});

const plans = fc.record<QuotaPlan>({
  signalLimit: fc.oneof(fc.constant(0), fc.nat(12), fc.nat(60)),
  overages: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  extraRoomRemoved: fc.boolean(),
});

describe("§8: a run of signals", () => {
  test("gets the same verdicts as its signals one by one, even as plans change; a rejected signal takes no ordinal", () => {
    const turns = fc.array(fc.tuple(plans, fc.nat(40)), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(turns, fc.nat(150), (calls, usedBefore) => {
        let used = usedBefore;
        for (const [plan, count] of calls) {
          const verdicts: Verdict[] = [];
          let ordinals = used;
          for (let signal = 0; signal < count; signal++) {
            const verdict = specified(ordinals + 1, plan);
            if (verdict === "accepted" || verdict === "held") ordinals++;
            verdicts.push(verdict);
          }
          const run = decideQuotaRun(used, count, plan);
          const inOrder = Array.from({ length: count }, (_, nth) => verdictInRun(nth, run));
          expect(inOrder.map((verdict) => (verdict === "rejected" ? run.rejection : verdict))).toEqual(verdicts);
          expect(run.rejection === null).toBe(run.rejected === 0);
          used = ordinals;
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("counts signals accepted beyond the limit as overage, even if it crosses the limit", () => {
    expect(overageOfRun(0, L, metered)).toBe(0);
    expect(overageOfRun(98, 5, metered)).toBe(3);
    expect(overageOfRun(2 * L, 5, metered)).toBe(5);
  });

  test("never passes the ceiling, the last ordinal that is not rejected", () => {
    fc.assert(
      fc.property(plans, (plan) => {
        const verdicts = Array.from({ length: 130 }, (_, index) => specified(index + 1, plan));
        const rejected = verdicts.findIndex((verdict) => verdict !== "accepted" && verdict !== "held");
        expect(quotaCeiling(plan)).toBe(rejected === -1 ? null : rejected);
      }),
    );
  });
});

test.each([
  ["as many held signals as fit the limit", { accepted: 40, held: 80 }, 60],
  ["all held signals if they fit", { accepted: 40, held: 30 }, 30],
  ["none after more than the limit was accepted", { accepted: L + 20, held: 5 }, 0],
  ["all held signals with overages on", { accepted: L, held: 80, overages: true }, 80],
])("a release has room for %s", (_, counts, room) => {
  expect(roomToRelease({ ...free, ...counts })).toBe(room);
});

describe("the overage of a release", () => {
  const now = { overages: true, signalLimit: 1_000, accepted: 1_000, overage: 0 };

  test("counts signals beyond the limit that were not metered yet", () => {
    expect(overageOfRelease(now, 500)).toBe(500);
    expect(overageOfRelease({ ...now, accepted: 700 }, 500)).toBe(200);
    expect(overageOfRelease({ ...now, accepted: 1_500, overage: 500 }, 500)).toBe(500);
    // The ordinals beyond the limit include the held signals before them.
    expect(overageOfRelease({ ...now, signalLimit: 2_000, accepted: 2_000, overage: 500 }, 500)).toBe(0);
    expect(overageOfRelease({ ...now, accepted: 100, overage: 900 }, 500)).toBe(0);
  });

  test("is zero with overages off", () => {
    expect(overageOfRelease({ ...now, overages: false }, 500)).toBe(0);
  });
});
