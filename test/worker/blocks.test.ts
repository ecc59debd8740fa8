/** Rows of one value among many, in order and from anywhere: whatever blocks they are in. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { rowsByBlock } from "../../src/store/blocks.ts";

const INDEX = { table: "things", row: "number", value: "kind" };
const KINDS = ["frequent", "rare", "gone"];
/** Many in one block, around the ends of blocks, and with empty blocks between them. */
const rowNumber = fc.oneof(
  fc.integer({ min: 1, max: 200 }),
  fc.nat(50).map((block) => block * 2_048 + 1),
  fc.nat(50).map((block) => block * 2_048),
  fc.nat(50).map((block) => block * 2_048 + 2_047),
);

test("every row of a value is found once, in order, on the side that is asked for", async () => {
  await runInDurableObject(env.SIGNAL_STORE.getByName("wsp_blocks"), (_, { storage: { sql } }) => {
    sql.exec("CREATE TABLE things (number INTEGER PRIMARY KEY, kind TEXT NOT NULL)");
    sql.exec("CREATE INDEX things_kind ON things (number / 2048, kind)");
    const things = fc.uniqueArray(fc.tuple(rowNumber, fc.constantFrom("frequent", "frequent", "frequent", "rare")), {
      selector: ([number]) => number,
      maxLength: 300,
      size: "max",
    });
    const from = fc.oneof(rowNumber, fc.constant(0), fc.constant(Number.MAX_SAFE_INTEGER));
    const limit = fc.constantFrom({}, { limit: 1 }, { limit: 33 }, { limit: 100 });
    fc.assert(
      fc.property(things, fc.constantFrom(...KINDS), from, limit, rowNumber, (rows, kind, start, most, until) => {
        sql.exec("DELETE FROM things");
        sql.exec("INSERT INTO things SELECT value ->> 0, value ->> 1 FROM json_each(?)", JSON.stringify(rows));
        const numbers = rows.flatMap(([number, one]) => (one === kind ? [number] : [])).toSorted((a, b) => a - b);
        const found = (to: "earlier" | "later") =>
          [...rowsByBlock(sql, INDEX, { value: kind, from: start, to, ...most })].map(({ row }) => row);
        expect(found("later")).toEqual(numbers.filter((number) => number > start).slice(0, most.limit));
        expect(found("earlier")).toEqual(
          numbers
            .filter((number) => number < start)
            .toReversed()
            .slice(0, most.limit),
        );
        const some = { value: kind, from: start, to: "later", until, where: "number % 2 = 0", ...most } as const;
        expect([...rowsByBlock(sql, INDEX, some)].map(({ row }) => row)).toEqual(
          numbers.filter((number) => number > start && number <= until && number % 2 === 0).slice(0, most.limit),
        );
      }),
    );
  });
});
