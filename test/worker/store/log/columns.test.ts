/** Compressed columns (src/store/log/columns.ts) return all lines and payloads, character by character. */
import { zstdDecompressSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ROW_MAX_BYTES } from "../../../../src/limits.ts";
import { newId } from "../../../../src/platform/ids.ts";
import { COLUMNS, Lines, packPayloads, unpackPayloads, type Cell } from "../../../../src/store/log/columns.ts";
import { PORTION_MAX_LINES } from "../../../../src/store/log/signal-log.ts";

/** A few values, so that they repeat. */
const UUIDS = Array.from({ length: 4 }, () => crypto.randomUUID());
const IDS = Array.from({ length: 4 }, (_, n) => newId("sig", Date.UTC(2026, 5, 1) + n));
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("", "0", "\ud800", ...UUIDS, ...IDS, `sig_${UUIDS[0]}`, `${UUIDS[1]?.toUpperCase()}`, `${IDS[0]}x`),
  fc.uuid(),
);
const number = fc.oneof(
  fc.nat(100),
  fc.integer({ min: -(2 ** 51), max: 2 ** 52 }),
  fc.constantFrom(0, 63, 64, 127, 8_191, 8_192, 2 ** 52),
);
const cells: fc.Arbitrary<Cell[]> = fc.tuple(
  ...COLUMNS.map(({ is }) => (is === "number" ? number : fc.option(text, { nil: 0, freq: 2 }))),
);
/** Half of them have the same values, like most lines. */
const lines = fc
  .tuple(fc.array(cells, { minLength: 1, maxLength: 8 }), fc.nat(40))
  .map(([some, more]) => [...some, ...Array.from({ length: more }, () => some[0] ?? [])])
  .map((all) => {
    const made = new Lines();
    for (const line of all) made.push(line);
    return made;
  });
const part = fc.oneof(
  fc.constantFrom(
    "somebody",
    "@example.com",
    "-",
    "--------",
    "0-1-2-3",
    UUIDS[0]?.slice(0, 35) ?? "",
    "é",
    "\u{1f600}",
    "a".repeat(40),
  ),
  fc.constantFrom(...UUIDS, ...UUIDS.map((uuid) => uuid.toUpperCase())),
  fc.uuid(),
  fc.string({ maxLength: 5 }),
);
const payload = fc.array(part, { maxLength: 8 }).map((parts) => JSON.stringify({ "": parts.join("") }));

function cellsOf(all: Lines): Cell[][] {
  return Array.from({ length: all.length }, (_, index) => all.cells(index));
}

function packedLines(all: Lines): ArrayBuffer {
  return new Uint8Array(all.pack()).buffer;
}

function named(userId: Cell, anonymousId: Cell, email: Cell = 0, event: Cell = 0): Lines {
  const made = new Lines();
  const names: Partial<Record<string, Cell>> = { userId, anonymousId, email, event };
  made.push(COLUMNS.map(({ name }) => names[name] ?? 0));
  return made;
}

describe("a compressed segment", () => {
  test("has every cell of every line", () => {
    fc.assert(
      fc.property(lines, (all) => {
        expect(cellsOf(Lines.unpack(packedLines(all)))).toEqual(cellsOf(all));
      }),
      { numRuns: 300 },
    );
  });

  test("returns every payload unchanged, with any names", () => {
    // Some are part of others.
    const name = fc.oneof(fc.constantFrom<Cell>(0, "somebody", "somebody@example.com", "a", ...UUIDS), fc.uuid());
    const sent = fc.record({ payload: fc.option(payload), userId: name, anonymousId: name, email: name, event: name });
    fc.assert(
      fc.property(fc.array(sent, { minLength: 1, maxLength: 20 }), (all) => {
        const made = new Lines();
        for (const { userId, anonymousId, email, event } of all) {
          made.push(named(userId, anonymousId, email, event).cells(0));
        }
        const payloads = all.map((signal) => signal.payload);
        expect(unpackPayloads(packPayloads(payloads, made), made)).toEqual(payloads);
      }),
      { numRuns: 300 },
    );
  });

  test("loses the payload of a signal whose names are deleted, and keeps its neighbours", () => {
    const [user, visitor, otherUser] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
    const [sent, neighbour] = [
      JSON.stringify({ other: otherUser, user, visitor }),
      JSON.stringify({ other: otherUser }),
    ];
    const both = new Lines();
    both.push(named(user, visitor).cells(0));
    both.push(named(0, 0).cells(0));
    const bytes = packPayloads([sent, neighbour], both);
    expect(unpackPayloads(bytes, both)).toEqual([sent, neighbour]);
    expect(unpackPayloads(bytes, { cell: () => 0 })).toEqual([null, neighbour]);
    const marked = unpackPayloads(bytes, { cell: (_, name) => `(${name})` });
    expect(marked).toEqual([
      JSON.stringify({ other: otherUser, user: "(userId)", visitor: "(anonymousId)" }),
      neighbour,
    ]);
  });

  test("takes some thirty bytes a line with a visitor's id, and a payload does not repeat the id", () => {
    const made = new Lines();
    const payloads = Array.from({ length: PORTION_MAX_LINES }, (_, n) => {
      const anonymousId = crypto.randomUUID();
      const line: Partial<Record<string, Cell>> = {
        id: newId("sig", 1_800_000_000_000 + n * 37),
        event: "Visit",
        anonymousId,
      };
      made.push(COLUMNS.map(({ name }) => line[name] ?? (name === "ordinal" ? n : 0)));
      return JSON.stringify({ type: "track", anonymousId, event: "Visit" });
    });
    expect(made.pack().length / PORTION_MAX_LINES).toBeLessThan(36);
    expect(packPayloads(payloads, made).length / PORTION_MAX_LINES).toBeLessThan(1);
  });

  test("returns incompressible lines, and rejects a segment that is too long for a row", () => {
    const noise = (bytes: number) => {
      const all = new Uint8Array(bytes);
      for (let at = 0; at < bytes; at += 65_536) crypto.getRandomValues(all.subarray(at, at + 65_536));
      return JSON.stringify(Buffer.from(all).toString("base64"));
    };
    const payloads = [noise(50_000), noise(50_000)];
    const two = new Lines();
    two.push(named(0, 0).cells(0));
    two.push(named(0, 0).cells(0));
    expect(unpackPayloads(packPayloads(payloads, two), two)).toEqual(payloads);
    expect(() => packPayloads([noise(ROW_MAX_BYTES)], two)).toThrow("would be a row of");
  });
});

test("columns at the end that no line uses take no bytes", () => {
  const [without, withZeros] = [new Lines(), new Lines()];
  without.push(["sig_1", 0, 0, "Visit"]);
  withZeros.push(["sig_1", 0, 0, "Visit", ...COLUMNS.slice(4).map(() => 0)]);
  const bytes = withZeros.pack();
  expect(zstdDecompressSync(bytes).toString().split("\n")).toHaveLength(5);
  expect(bytes).toEqual(without.pack());
  expect(cellsOf(Lines.unpack(new Uint8Array(bytes).buffer))).toEqual(cellsOf(withZeros));
});
