/** Lists by a time whose index holds only the day (src/store/queries/by-day.ts), compared with sorted rows. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  byDay,
  readDayPlace,
  readCursor,
  writeCursor,
  type DayList,
  type DayPlace,
} from "../../../../src/store/queries/by-day.ts";

interface Row {
  day: number;
  at: number;
  id: number;
}

const CHUNK = 4;
const rows = fc.uniqueArray(fc.record({ day: fc.nat(5), at: fc.nat(3), id: fc.nat(60) }), {
  selector: ({ id }) => id,
  maxLength: 40,
  size: "max",
});
const byOrder = (
  [at = 0, id = 0]: readonly (string | number)[],
  [otherAt = 0, otherId = 0]: readonly (string | number)[],
) => Number(otherAt) - Number(at) || Number(otherId) - Number(id);
const byTime = (a: Row, b: Row) => b.day - a.day || byOrder([a.at, a.id], [b.at, b.id]);
type Direction = DayList<Row>["direction"];
const direction = fc.constantFrom<Direction>("down", "up");

function listOf(all: readonly Row[], towards: Direction): DayList<Row> {
  return {
    chunk: CHUNK,
    direction: towards,
    nextDay: (from) => {
      const days = all.map(({ day }) => day).filter((day) => (towards === "down" ? day <= from : day >= from));
      return days.length === 0 ? null : towards === "down" ? Math.max(...days) : Math.min(...days);
    },
    rows: (day, after) =>
      all
        .filter((row) => row.day === day && row.id < Number(after?.[0] ?? Number.MAX_SAFE_INTEGER))
        .toSorted((a, b) => b.id - a.id)
        .slice(0, CHUNK),
    keyOf: ({ id }) => [id],
    orderOf: ({ at, id }) => [at, id],
    compare: (a, b) => (towards === "down" ? byOrder(a, b) : byOrder(b, a)),
  };
}

/** Reads pages of this size, each from the previous cursor. */
function paged(all: readonly Row[], towards: Direction, size: number): Row[] {
  const found: Row[] = [];
  for (let place: DayPlace | null = null; ;) {
    const page: { row: Row; place: DayPlace }[] = [];
    for (const entry of byDay(listOf(all, towards), place)) if (page.push(entry) === size) break;
    found.push(...page.map(({ row }) => row));
    expect(found.length).toBeLessThanOrEqual(all.length);
    const last = page.at(-1);
    if (last === undefined) return found;
    place = readDayPlace(readCursor(writeCursor(last.place)), ["number"], ["number", "number"]);
    expect(place).toEqual(last.place);
  }
}

test("a list by day has every row once, for any days and page ends, and is sorted if no day exceeds a chunk", () => {
  fc.assert(
    fc.property(rows, direction, fc.integer({ min: 1, max: 9 }), (all, towards, size) => {
      const found = paged(all, towards, size);
      const inOrder = (some: readonly Row[]) =>
        towards === "down" ? some.toSorted(byTime) : some.toSorted(byTime).toReversed();
      expect(inOrder(found)).toEqual(inOrder(all));
      expect(found.map(({ day }) => day)).toEqual(inOrder(all).map(({ day }) => day));
      for (const [, ofDay] of Map.groupBy(found, ({ day }) => day)) {
        if (ofDay.length <= CHUNK) expect(ofDay).toEqual(inOrder(ofDay));
      }
    }),
  );
});
