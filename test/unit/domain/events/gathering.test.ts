/** How events of scoring signals are gathered. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fittingEvents, gatherIntervalMs, gathered, GATHER_MAX_MS } from "../../../../src/domain/events/gathering.ts";
import type { EventOf, ScoringSignalMade } from "../../../../src/domain/events/workspace-event.ts";
import { GATHER_EVERY_MS, PERSON_SCORED_MAX_SIGNALS } from "../../../../src/limits.ts";

function scored(n: number, signals: number): EventOf<"person.scored"> {
  const one = (index: number): ScoringSignalMade => ({
    email: "jane@example.com",
    scoring_signal: "visit",
    points: 1,
    score: index,
    rule_id: "rule_1",
    signal_id: `sig_${n}_${index}`,
    event: "Visit",
    received_at: "2026-11-20T13:26:59.523Z",
  });
  return {
    id: `evt_${n}`,
    type: "person.scored",
    time: n,
    data: { scoring_signals: Array.from({ length: signals }, (_, index) => one(index)) },
  };
}

test("split as it fits, every scoring signal is in one delivery, in its order, under the id of the first event in it", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 12 }), (counts) => {
      const events = counts.map((signals, n) => scored(n, signals));
      const deliveries: EventOf<"person.scored">[] = [];
      for (let left = events; left.length > 0;) {
        const fitting = fittingEvents(left.map(({ data }) => data.scoring_signals.length));
        const [first, ...others] = left.slice(0, fitting);
        if (first === undefined) throw new Error("nothing fits");
        expect(left[0]?.id).toBe(first.id);
        deliveries.push(gathered([first, ...others]));
        left = left.slice(fitting);
      }
      for (const { data } of deliveries)
        expect(data.scoring_signals.length).toBeLessThanOrEqual(PERSON_SCORED_MAX_SIGNALS);
      const ids = (of: readonly EventOf<"person.scored">[]) =>
        of.flatMap(({ data }) => data.scoring_signals.map((one) => one.signal_id));
      expect(ids(deliveries)).toEqual(ids(events));
      expect(new Set(deliveries.map(({ id }) => id)).size).toBe(deliveries.length);
    }),
  );
});

test("an event that is too large by itself goes alone", () => {
  expect(fittingEvents([PERSON_SCORED_MAX_SIGNALS + 1, 1])).toBe(1);
  expect(fittingEvents([1, PERSON_SCORED_MAX_SIGNALS])).toBe(1);
  expect(fittingEvents([PERSON_SCORED_MAX_SIGNALS])).toBe(1);
});

describe("the pause between two deliveries", () => {
  test("is a second while all is well, and grows with the time for which nothing arrived, up to an hour", () => {
    expect(gatherIntervalMs(0)).toBe(GATHER_EVERY_MS);
    expect(gatherIntervalMs(3_600_000)).toBe(180_000);
    expect(gatherIntervalMs(5 * 24 * 3_600_000)).toBe(GATHER_MAX_MS);
  });

  test("makes some 240 deliveries of three days of failures", () => {
    let deliveries = 0;
    for (let ms = 0; ms < 3 * 24 * 3_600_000; ms += gatherIntervalMs(ms)) deliveries++;
    expect(deliveries).toBeGreaterThan(200);
    expect(deliveries).toBeLessThan(260);
  });
});
