/** Which outbox rows are recorded, ignored or refused (src/store/record/books.ts): each once, and none taken for another. */
import { env } from "cloudflare:workers";
import { abortAllDurableObjects } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { RowToRecord } from "../../src/store/protocol.ts";
import { EMPTY_BOOKS, takeFreshRows } from "../../src/store/record/books.ts";

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

describe("of a counter that was restored and gives numbers anew", () => {
  const before = [1, 2, 3, 4, 5].map((number) => row(number, T + number));

  test("those that have been seen are refused, before and after it has come past the highest of them", () => {
    expect(
      taken(
        before,
        [row(3, T + 103)],
        // These were never given before; they are recorded once.
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

  test("likewise where both come in one batch, and where it is restored once more", () => {
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

  test("also after a restart of the store", async () => {
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
