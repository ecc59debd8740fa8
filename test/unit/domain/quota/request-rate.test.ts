/** The request rate of a key (spec §8.7): a burst at once, then exactly the rate. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  FULL_BUCKET,
  REQUEST_BODY_BYTES,
  chargeRequests,
  requestsOfBody,
  takeRequest,
  type RequestRate,
} from "../../../../src/domain/quota/request-rate.ts";
import { BODY_MAX_BYTES, REQUEST_BURST, REQUEST_RATE_PER_SECOND } from "../../../../src/limits.ts";
import { SHED_FACTOR } from "../../../../src/http/workspace-share.ts";

const NOW = Date.UTC(2026, 1, 23, 22, 28, 55, 111);

/** Takes requests at this time until one is rejected. */
function takeAll(bucket: typeof FULL_BUCKET, nowMs: number, rate: RequestRate) {
  const remaining: number[] = [];
  for (;;) {
    const taken = takeRequest(bucket, nowMs, rate);
    if (!taken.allowed) return { bucket, remaining };
    bucket = taken.bucket;
    remaining.push(taken.remaining);
  }
}

test.each([
  [1, 1],
  [3, 7],
  [7, 1_000],
  [REQUEST_RATE_PER_SECOND, REQUEST_BURST],
  [REQUEST_RATE_PER_SECOND * SHED_FACTOR, REQUEST_BURST * SHED_FACTOR],
])(
  "§8.7: %i per second with a burst of %i allow exactly the burst at once, then exactly the rate",
  (perSecond, burst) => {
    const rate = { perSecond, burst };
    let { bucket, remaining } = takeAll(FULL_BUCKET, NOW, rate);
    expect(remaining).toEqual(Array.from({ length: burst }, (_, index) => burst - 1 - index));
    let allowed = 0;
    for (let ms = 1; ms < 60_000; ms++) {
      ({ bucket, remaining } = takeAll(bucket, NOW + ms, rate));
      allowed += remaining.length;
    }
    expect(allowed).toBe(Math.floor((59_999 * perSecond) / 1_000));
  },
);

const rates = fc.record({ perSecond: fc.integer({ min: 1, max: 4_000 }), burst: fc.integer({ min: 1, max: 40 }) });
const gaps = fc.array(fc.oneof(fc.constant(0), fc.nat(3), fc.nat(2_000)), { minLength: 1, maxLength: 120 });
const times = fc
  .tuple(fc.integer({ min: Date.UTC(2020), max: Date.UTC(2039) }), gaps)
  .map(([start, between]) => between.map((_, nth) => between.slice(0, nth + 1).reduce((at, gap) => at + gap, start)));

describe("§8.7 the request rate, for any rate and any calls", () => {
  test("agrees with an integer bucket of thousandths of requests, filled every millisecond", () => {
    fc.assert(
      fc.property(rates, times, (rate, calls) => {
        const full = rate.burst * 1_000;
        let level = full;
        let last = calls[0] ?? 0;
        let state = FULL_BUCKET;
        for (const at of calls) {
          level = Math.min(full, level + (at - last) * rate.perSecond);
          last = at;
          const allowed = level >= 1_000;
          const missing = allowed ? 0 : 1_000 - level;
          if (allowed) level -= 1_000;
          const taken = takeRequest(state, at, rate);
          state = taken.bucket;
          expect({
            allowed: taken.allowed,
            remaining: taken.remaining,
            resetMs: Math.ceil(taken.resetMs),
            retryAfterMs: Math.ceil(taken.retryAfterMs),
          }).toEqual({
            allowed,
            remaining: Math.floor(level / 1_000),
            resetMs: Math.ceil((full - level) / rate.perSecond),
            retryAfterMs: Math.ceil(missing / rate.perSecond),
          });
        }
      }),
      { numRuns: 500 },
    );
  });

  test("stays the same if the clock is set back by any time", () => {
    const bodies = fc.array(fc.integer({ min: 1, max: 600 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(rates, bodies, fc.nat(600), fc.integer({ min: 1, max: 1e9 }), (rate, sizes, more, backMs) => {
        let state = FULL_BUCKET;
        for (const requests of sizes) state = takeRequest(state, NOW, rate, requests).bucket;
        state = chargeRequests(state, NOW, rate, more);
        const { bucket: _, ...before } = takeRequest(state, NOW, rate);
        const { bucket, ...after } = takeRequest(state, NOW - backMs, rate);
        expect(after).toEqual(before);
        // The debt is paid off by the new clock.
        expect(takeRequest(bucket, NOW - backMs + Math.ceil(after.resetMs), rate).remaining).toBe(rate.burst - 1);
      }),
    );
  });
});

describe("a large body", () => {
  test("counts as one request for each started 32 KB, or for each started 100 signals if that is more", () => {
    const bytes = [0, 1, REQUEST_BODY_BYTES, REQUEST_BODY_BYTES + 1, BODY_MAX_BYTES];
    expect(bytes.map((length) => requestsOfBody(length))).toEqual([1, 1, 1, 2, 256]);
    expect([0, 1, 100, 101, 10_000].map((signals) => requestsOfBody(1, signals))).toEqual([1, 1, 1, 2, 100]);
    expect(requestsOfBody(3 * REQUEST_BODY_BYTES, 101)).toBe(3);
  });

  test("is allowed at any size and burst; the next request then waits for its charge", () => {
    const requests = requestsOfBody(BODY_MAX_BYTES);
    fc.assert(
      fc.property(rates, fc.nat(39), (rate, before) => {
        let state = FULL_BUCKET;
        for (let nth = 0; nth < before % rate.burst; nth++) state = takeRequest(state, NOW, rate).bucket;
        const body = takeRequest(state, NOW, rate, requests);
        expect(body.allowed).toBe(true);
        const next = takeRequest(body.bucket, NOW, rate);
        expect(next.allowed).toBe(false);
        const wait = Math.ceil(next.retryAfterMs);
        expect(wait).toBeLessThanOrEqual(Math.ceil((1_000 * rate.burst) / rate.perSecond));
        expect(takeRequest(body.bucket, NOW + wait, rate).allowed).toBe(true);
        expect(takeRequest(body.bucket, NOW + wait - 1, rate).allowed).toBe(false);
      }),
    );
  });

  test("never exceeds the rate in the long run, at any sizes", () => {
    const bodies = fc.array(fc.integer({ min: 1, max: 600 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(rates, bodies, (rate, sizes) => {
        let state = FULL_BUCKET;
        let [at, charged] = [NOW, 0];
        for (const requests of sizes) {
          let taken = takeRequest(state, at, rate, requests);
          if (!taken.allowed) {
            at += Math.ceil(taken.retryAfterMs);
            taken = takeRequest(state, at, rate, requests);
          }
          expect(taken.allowed).toBe(true);
          state = taken.bucket;
          charged += Math.min(requests, rate.burst);
        }
        expect(charged).toBeLessThanOrEqual(2 * rate.burst + (rate.perSecond * (at - NOW)) / 1_000);
      }),
    );
  });

  test("leaves the same state whether charged at once or later", () => {
    fc.assert(
      fc.property(rates, fc.integer({ min: 2, max: 600 }), (rate, requests) => {
        const atOnce = takeRequest(FULL_BUCKET, NOW, rate, Math.min(requests, rate.burst));
        const more = Math.min(requests, rate.burst) - 1;
        const later = chargeRequests(takeRequest(FULL_BUCKET, NOW, rate).bucket, NOW, rate, more);
        expect(later.paidOffAtMs).toBeCloseTo(atOnce.bucket.paidOffAtMs, 3);
      }),
    );
  });

  test("owes at most two bursts, however many are charged at once", () => {
    const rate = { perSecond: 2_000, burst: 4_000 };
    let state = takeRequest(FULL_BUCKET, NOW, rate).bucket;
    for (let nth = 0; nth < 100; nth++) state = chargeRequests(state, NOW, rate, 2_044);
    expect(takeRequest(state, NOW, rate)).toMatchObject({ allowed: false, resetMs: 4_000 });
    expect(takeRequest(state, NOW + 1_000, rate).allowed).toBe(false);
    expect(takeRequest(state, NOW + 2_001, rate).allowed).toBe(true);
  });
});
