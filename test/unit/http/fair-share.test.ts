import { array, assert, constantFrom, nat, property, tuple } from "fast-check";
import { describe, expect, test } from "vitest";
import { bodyWaitMs, chargeBody, FairShare, OPERATOR_HOLDER } from "../../../src/http/workspace-share.ts";

const CAPACITY = { perSecond: 100, burst: 200 };
const START_MS = Date.UTC(2026, 10, 1);

/** Uses one unit as often as the share allows. @returns the units that each holder got in a second. */
function useForASecond(share: FairShare, holders: readonly string[], fromMs: number): Record<string, number> {
  const got: Record<string, number> = Object.fromEntries(holders.map((holder) => [holder, 0]));
  for (let atMs = fromMs; atMs < fromMs + 1_000; atMs++) {
    for (const holder of holders) {
      if (share.waitMs(holder, atMs, CAPACITY) > 0) continue;
      share.charge(holder, 1, atMs, CAPACITY);
      got[holder] = (got[holder] ?? 0) + 1;
    }
  }
  return got;
}

describe("a capacity that holders share", () => {
  test("is all for a holder alone: a burst, then the rate", () => {
    const share = new FairShare(1);
    expect(useForASecond(share, ["a"], START_MS)["a"]).toBeCloseTo(300, -1);
    expect(useForASecond(share, ["a"], START_MS + 1_000)["a"]).toBeCloseTo(100, -1);
  });

  test("is divided equally among the holders that use it, with the burst", () => {
    const share = new FairShare(1);
    const holders = ["a", "b", "c", "d"];
    for (const got of Object.values(useForASecond(share, holders, START_MS))) expect(got).toBeCloseTo(75, -1);
    for (const got of Object.values(useForASecond(share, holders, START_MS + 1_000))) expect(got).toBeCloseTo(25, -1);
  });

  test("lets a holder without debt begin at once, whatever the others use", () => {
    const share = new FairShare(1);
    for (let n = 0; n < 50; n++) share.charge(`attacker ${n}`, 200, START_MS, CAPACITY);
    expect(share.waitMs("neighbour", START_MS, CAPACITY)).toBe(0);
  });

  test("gives each holder its own burst, however many there are", () => {
    const share = new FairShare(10);
    for (let n = 0; n < 1_000; n++) share.charge(`other ${n}`, 200, START_MS, CAPACITY);
    share.charge("a", 9, START_MS, CAPACITY);
    expect(share.waitMs("a", START_MS, CAPACITY)).toBe(0);
    share.charge("a", 1, START_MS, CAPACITY);
    expect(share.waitMs("a", START_MS, CAPACITY)).toBeGreaterThan(0);
  });

  test("says when the holder may use it again", () => {
    const share = new FairShare(1);
    share.charge("a", 200, START_MS, CAPACITY);
    share.charge("b", 50, START_MS, CAPACITY);
    share.charge("a", 100, START_MS, CAPACITY);
    const waitMs = share.waitMs("a", START_MS, CAPACITY);
    expect(waitMs).toBe(4_000);
    expect(share.waitMs("a", START_MS + waitMs + 1, CAPACITY)).toBe(0);
  });

  test("leaves what a holder does not need to the others", () => {
    const share = new FairShare(1);
    share.charge("small", 1, START_MS, CAPACITY);
    share.charge("large", 200, START_MS, CAPACITY);
    share.charge("large", 99, START_MS, CAPACITY);
    // One unit of a hundred pays off the small debt.
    expect(share.waitMs("large", START_MS + 1_000, CAPACITY)).toBe(1);
    expect(share.waitMs("large", START_MS + 1_010, CAPACITY)).toBe(0);
  });

  test("takes back a charge that was too high", () => {
    const share = new FairShare(1);
    share.charge("a", 200, START_MS, CAPACITY);
    share.charge("a", -100, START_MS, CAPACITY);
    expect(share.waitMs("a", START_MS, CAPACITY)).toBe(0);
    share.charge("a", -1_000, START_MS, CAPACITY);
    share.charge("a", 300, START_MS, CAPACITY);
    expect(share.waitMs("a", START_MS, CAPACITY)).toBe(1_000);
  });

  test("counts no time as passed if the clock is set back", () => {
    const share = new FairShare(1);
    share.charge("a", 200, START_MS, CAPACITY);
    expect(share.waitMs("a", START_MS - 3_600_000, CAPACITY)).toBeGreaterThan(0);
    expect(share.waitMs("a", START_MS - 3_600_000 + 1_000, CAPACITY)).toBe(0);
  });

  test("gives no more than the capacity in all, at any times", () => {
    const uses = array(tuple(constantFrom("a", "b", "c"), nat(50), nat(20)), {
      minLength: 50,
      maxLength: 400,
    });
    assert(
      property(uses, (list) => {
        const share = new FairShare(5);
        let [atMs, used] = [START_MS, 0];
        for (const [holder, afterMs, units] of list) {
          atMs += afterMs;
          if (share.waitMs(holder, atMs, CAPACITY) > 0) continue;
          share.charge(holder, units, atMs, CAPACITY);
          used += units;
        }
        // Each of the three may exceed its part of the burst by its last use.
        expect(used).toBeLessThanOrEqual(
          CAPACITY.burst + ((atMs - START_MS) * CAPACITY.perSecond) / 1_000 + 3 * 20 + 3 * 5,
        );
      }),
    );
  });
});

describe("the bytes of bodies, as requests", () => {
  const rate = { perSecond: 500, burst: 1_000 };
  let nowMs = START_MS;

  test.each([
    ["beyond a quarter of the burst wait, at half the rate", ["a"], 500, 1_000],
    ["count as at most one burst", ["a"], 1_000_000, 3_000],
    ["of one holder among others have 128 at once", ["a", "b", "c", "d"], 178, 800],
    ["of the operator never wait", [OPERATOR_HOLDER], 1_000, 0],
    ["that were charged too much are given back", ["a"], -500, 0],
  ])("%s", (_, holders, requests, waitMs) => {
    // Each case has the whole share.
    nowMs += 3_600_000;
    for (const holder of holders) chargeBody(holder, requests, nowMs, rate);
    expect(bodyWaitMs(holders[0] ?? "", nowMs, rate)).toBe(waitMs);
  });
});
