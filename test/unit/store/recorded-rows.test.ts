/** Recorded outbox rows (store/state/store-state.ts): each row is recorded once, in any order. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  RECORDED_RANGES_MAX,
  forgetRowsBelow,
  canTrackRows,
  hasRow,
  takeFreshRows,
  type RecordedRows,
} from "../../../src/store/state/store-state.ts";

const ROWS = 60;
const row = fc.integer({ min: 1, max: ROWS });
const step = fc.oneof(fc.record({ take: fc.array(row, { maxLength: 8 }) }), fc.record({ settled: row }));

test("rows are recorded if they came or are settled", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const recorded: RecordedRows = { lowestUnsettledRow: 0, rows: [] };
      const model = new Set<number>();
      for (const taken of steps) {
        if ("take" in taken) {
          const fresh = takeFreshRows(
            recorded,
            taken.take.map((number) => ({ row: number })),
          );
          expect(fresh.map((entry) => entry.row)).toEqual(
            [...new Set(taken.take)].filter((number) => !model.has(number)),
          );
          for (const number of taken.take) model.add(number);
        } else {
          forgetRowsBelow(recorded, taken.settled);
          for (let number = 0; number < taken.settled; number++) model.add(number);
        }
        for (let number = 1; number <= ROWS; number++) expect(hasRow(recorded, number)).toBe(model.has(number));
      }
    }),
  );
});

test("stored ranges do not grow with settled rows, across gaps", () => {
  const recorded: RecordedRows = { lowestUnsettledRow: 0, rows: [] };
  for (let start = 1; start <= 1_000; start++) {
    takeFreshRows(recorded, [{ row: start * 1_000 }, { row: start * 1_000 + 1 }]);
    forgetRowsBelow(recorded, start * 1_000);
  }
  expect(recorded.rows).toEqual([[1_000_000, 1_000_001]]);
});

test.each([
  ["the row before a range", [999], true],
  ["rows of a range", [1_000, 1_001], true],
  ["the row after a range", [1_002], true],
  ["a settled row", [7], true],
  ["a row apart", [1_003], false],
  ["a row of a range and a row apart", [1_000, 998], false],
])("with as many ranges as may be stored, %s: %j fits: %j", (_, rows, fits) => {
  const ranges = Array.from({ length: RECORDED_RANGES_MAX }, (_range, n) => 1_000 * (n + 1));
  const recorded: RecordedRows = {
    lowestUnsettledRow: 8,
    rows: ranges.map((first): [number, number] => [first, first + 1]),
  };
  const delivered = rows.map((number) => ({ row: number }));
  expect(canTrackRows(recorded, delivered)).toBe(fits);
  recorded.rows.pop();
  expect(canTrackRows(recorded, delivered)).toBe(true);
});

/** Rows that consumers report in any order, some of them repeatedly. */
function deliverAll(recorded: RecordedRows, rows: readonly number[]): { rounds: number; mostRanges: number } {
  let [left, rounds, mostRanges] = [[...rows], 0, 0];
  for (; left.length > 0 && rounds < 10_000; rounds++) {
    forgetRowsBelow(recorded, Math.min(...left));
    left = left.filter((number) => {
      const delivered = [{ row: number }];
      if (!canTrackRows(recorded, delivered)) return true;
      takeFreshRows(recorded, delivered);
      mostRanges = Math.max(mostRanges, recorded.rows.length);
      return false;
    });
  }
  return { rounds, mostRanges };
}

test("stored ranges are bounded, and every row is recorded in the end, in any order", () => {
  const numbers = Array.from({ length: 4 * RECORDED_RANGES_MAX }, (_, n) => 1_000 + n + Math.floor(n / 7) * 1_000);
  const odd = [...numbers.filter((_, n) => n % 2 === 1), ...numbers.filter((_, n) => n % 2 === 0)];
  for (const order of [numbers, numbers.toReversed(), odd, odd.toReversed()]) {
    const recorded: RecordedRows = { lowestUnsettledRow: 0, rows: [] };
    const { rounds, mostRanges } = deliverAll(recorded, order);
    // The lowest unsettled row may add a range.
    expect(mostRanges).toBeLessThanOrEqual(RECORDED_RANGES_MAX + 1);
    expect(rounds).toBeLessThan(10_000);
    expect(JSON.stringify(recorded.rows).length).toBeLessThan(20_000);
  }
});
