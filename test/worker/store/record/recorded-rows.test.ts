/** Which outbox rows are recorded, ignored or refused (src/store/record/books.ts): each once, and none taken for another. */
import { env } from "cloudflare:workers";
import { abortAllDurableObjects } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { RESEND_AFTER_MS } from "../../../../src/quota/drain.ts";
import type { RowToRecord } from "../../../../src/store/protocol/signals-to-record.ts";
import { EMPTY_BOOKS } from "../../../../src/store/state/store-meta.ts";
import { knownRows, takeFreshRows } from "../../../../src/store/state/recorded-rows.ts";
import { ROW_PAUSE_MS, ROW_PAUSES_KEPT, ROW_CLOCK_SKEW_MS } from "../../../../src/store/state/recorded-rows.ts";

const T = 1_000_000;
const row = (number: number, atMs: number): RowToRecord => ({ row: number, atMs, signals: [] });
const numbers = (rows: readonly { row: number }[]) => rows.map(({ row: number }) => number);

/** What becomes of batches, one after the other. */
function taken(...batches: RowToRecord[][]) {
  const books = structuredClone(EMPTY_BOOKS);
  return batches.map((rows) => {
    const { fresh, refused } = takeFreshRows(books, rows);
    return { fresh: numbers(fresh), refused };
  });
}

test("a row that is twice in a batch is recorded once, and not refused", () => {
  expect(taken([row(1, T), row(2, T + 1), row(1, T)], [row(2, T + 1)])).toEqual([
    { fresh: [1, 2], refused: [] },
    { fresh: [], refused: [] },
  ]);
});

describe("rows of a counter that was restored and gives numbers anew", () => {
  const before = [1, 2, 3, 4, 5].map((number) => row(number, T + number));

  test("are refused with a number that has been seen, before and after the counter has come past the highest of them", () => {
    expect(
      taken(
        before,
        [row(3, T + 103)],
        // The numbers 6 and 7 were never given before; they are recorded once.
        [row(7, T + 107), row(6, T + 106)],
        [row(3, T + 103), row(4, T + 104), row(5, T + 105), row(6, T + 106), row(5, T + 5)],
      ),
    ).toEqual([
      { fresh: [1, 2, 3, 4, 5], refused: [] },
      { fresh: [], refused: [3] },
      { fresh: [7, 6], refused: [] },
      { fresh: [], refused: [3, 4, 5] },
    ]);
  });

  test("are refused where seen and new numbers come in one batch, and where the counter is restored once more", () => {
    expect(
      taken(
        before,
        [row(6, T + 106), row(4, T + 104)],
        [row(4, T + 104), row(6, T + 106)],
        [row(6, T + 206), row(2, T + 202), row(8, T + 208)],
        [row(7, T + 207)],
        [row(6, T + 206), row(8, T + 208), row(6, T + 106)],
      ),
    ).toEqual([
      { fresh: [1, 2, 3, 4, 5], refused: [] },
      { fresh: [6], refused: [4] },
      { fresh: [], refused: [4] },
      { fresh: [8], refused: [6, 2] },
      { fresh: [7], refused: [] },
      { fresh: [], refused: [6] },
    ]);
  });

  test("are refused where a number behind all that were seen comes first, since the queue knows no order", () => {
    // A restore takes a while.
    const restored = (number: number) => row(number, T + ROW_PAUSE_MS + 1_000 + number);
    expect(
      taken(
        before,
        [restored(6)],
        [restored(4), row(4, T + 4)],
        [restored(5), restored(4), restored(6), restored(7)],
        [row(2, T + 2), restored(2)],
      ),
    ).toEqual([
      { fresh: [1, 2, 3, 4, 5], refused: [] },
      { fresh: [6], refused: [] },
      { fresh: [], refused: [4] },
      { fresh: [7], refused: [5, 4] },
      { fresh: [], refused: [2] },
    ]);
  });

  test("are not what was recorded where they are asked about before one of them has come", () => {
    const books = structuredClone(EMPTY_BOOKS);
    takeFreshRows(books, before);
    takeFreshRows(books, [row(6, T + ROW_PAUSE_MS + 106)]);
    const asked = [row(4, T + 4), row(5, T + ROW_PAUSE_MS + 105), row(6, T + ROW_PAUSE_MS + 106), row(7, T + 1)];
    expect(knownRows(books, asked)).toMatchObject({ recorded: [4, 6], refused: [5] });
  });

  test("are told from a row that comes late, and again, also where clocks differ a little", () => {
    const late = row(4, T + 5 + ROW_CLOCK_SKEW_MS);
    expect(
      taken([row(3, T + 3), row(5, T + 5)], [row(6, T + 2 * ROW_PAUSE_MS)], [late], [late], [row(3, T + 3)]),
    ).toEqual([
      { fresh: [3, 5], refused: [] },
      { fresh: [6], refused: [] },
      { fresh: [4], refused: [] },
      { fresh: [], refused: [] },
      { fresh: [], refused: [] },
    ]);
  });

  test("are recorded once with a number that had been left out, also where it comes with a later time than its neighbours", () => {
    const left = row(2, T + 5 * ROW_PAUSE_MS);
    const next = row(4, T + 2 * ROW_PAUSE_MS);
    expect(taken([row(1, T + 1), row(3, T + 3)], [next], [left], [left, next, row(3, T + 3)], [row(1, T + 1)])).toEqual(
      [
        { fresh: [1, 3], refused: [] },
        { fresh: [4], refused: [] },
        { fresh: [2], refused: [] },
        { fresh: [], refused: [] },
        { fresh: [], refused: [] },
      ],
    );
  });

  test("are told by the latest pauses between rows: how many are remembered is bounded", () => {
    const books = structuredClone(EMPTY_BOOKS);
    const at = (number: number) => T + number * (ROW_PAUSE_MS + 1);
    for (let number = 1; number <= 3 * ROW_PAUSES_KEPT; number++) takeFreshRows(books, [row(number, at(number))]);
    expect(books.pauses.map(([number]) => number)).toEqual(
      Array.from({ length: ROW_PAUSES_KEPT }, (_, index) => 2 * ROW_PAUSES_KEPT + index),
    );
    expect(ROW_PAUSES_KEPT * ROW_PAUSE_MS).toBeGreaterThanOrEqual(RESEND_AFTER_MS);
  });

  test("are refused with a number that has been seen also after a restart of the store", async () => {
    const store = () => env.SIGNAL_STORE.getByName("restored");
    const refused = async (...rows: RowToRecord[]) => {
      const result = await store().record(rows);
      return result.outcome === "recorded" ? result.refused : null;
    };
    expect(await refused(...before)).toEqual([]);
    expect(await refused(row(3, T + 103))).toEqual([3]);
    await abortAllDurableObjects();
    expect(await refused(row(6, T + 106))).toEqual([]);
    expect(await refused(row(3, T + 103), row(6, T + 106))).toEqual([3]);
  });
});
