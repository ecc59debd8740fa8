/** The text of a person's lapses (src/store/people/scoring.ts) is changed without being parsed: the same as a map of days. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { addPointsUntil, readLapses, removeLapsed, type LapsingScore } from "../../../src/store/people/scoring.ts";

const change = fc.record({ day: fc.integer({ min: 1_290, max: 1_310 }), points: fc.integer({ min: -40, max: 40 }) });
const acts = fc.array(fc.oneof({ weight: 9, arbitrary: change }, { weight: 1, arbitrary: fc.constant(null) }));

test("points added, removed and lapsed in any order leave each day's sum, the score and the next lapse", () => {
  fc.assert(
    fc.property(acts, (drawn) => {
      const person: LapsingScore = { score: 0, lapses: "", next_lapse_at: null };
      const days = new Map<number, number>();
      for (const act of drawn) {
        if (act === null) {
          const today = Math.min(...days.keys());
          removeLapsed(person, today);
          days.delete(today);
        } else {
          addPointsUntil(person, act.day, act.points);
          days.set(act.day, (days.get(act.day) ?? 0) + act.points);
          if (days.get(act.day) === 0) days.delete(act.day);
        }
        const sorted = [...days].sort(([a], [b]) => a - b);
        expect(readLapses(person.lapses)).toEqual(sorted.map(([day, points]) => ({ day, points })));
        expect(person).toMatchObject({
          score: sorted.reduce((sum, [, points]) => sum + points, 0),
          next_lapse_at: sorted[0] === undefined ? null : sorted[0][0] * DAY_MS,
        });
      }
    }),
    { numRuns: 500 },
  );
});

test("the text of a year of days is two characters a day", () => {
  const person: LapsingScore = { score: 0, lapses: "", next_lapse_at: null };
  for (let day = 20_600; day < 20_966; day++) addPointsUntil(person, day, 5);
  expect(person.lapses.length).toBeLessThan(740);
  addPointsUntil(person, 20_700, -5);
  expect(person.lapses).toMatch(/^g6d:5,(5,){264}2:5,(5,){99}$/);
});
