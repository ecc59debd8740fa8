/** Depths and slices agree with JSON.parse for any text that it accepts (design §9). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import * as scan from "../../../../src/domain/json/json-scan.ts";
import type { ItemSpans } from "../../../../src/domain/json/json-scan.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const shape = (text: string, limits: Parameters<typeof scan.jsonShape>[1] = {}) => scan.jsonShape(utf8(text), limits);
const scanItems = (text: string, where: "array" | "batch", max: number): ItemSpans | null =>
  scan.scanItems(utf8(text), where, max);

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const anyUnits = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 })
  .map((units) => String.fromCharCode(...units));
const awkward = fc.constantFrom("\\", '"', '\\"', '\\\\"', "{", "]", "[[{", ',"batch":[1]', "\u2028", "😀", "");
const texts = fc.oneof(anyUnits, awkward, fc.string({ unit: "grapheme", maxLength: 8 }));
/** After an object with the key `\`, Node 24 reads other escaped keys of one character as `\`. The pinned workerd does not. */
const keys = fc.oneof(texts, fc.constantFrom("batch", "__proto__", "event")).filter((key) => key !== "\\");
const json = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.oneof(texts, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.boolean(), fc.constant(null)),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.array(fc.tuple(keys, tie("value")), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs)),
  ),
})).value;

/** Numbers that choose, cyclically, the white space and escapes of a text. */
const noise = fc.array(fc.nat(9), { minLength: 1, maxLength: 12 });
const SPACES = ["", "", "", "", " ", "\n", "\r\n", "\t", "  ", " \n\t "];

function writer(noiseNumbers: number[]): {
  write: (value: Json) => string;
  text: (text: string) => string;
  space: () => string;
} {
  let turn = 0;
  const next = (): number => noiseNumbers[turn++ % noiseNumbers.length] ?? 0;
  const space = (): string => SPACES[next()] ?? "";
  const text = (of: string): string => {
    const units = of.split("").map((unit) => {
      const escaped = `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
      return next() === 9 ? escaped : JSON.stringify(unit).slice(1, -1);
    });
    return `"${units.join("")}"`;
  };
  const write = (value: Json): string => {
    const inner =
      typeof value === "string"
        ? text(value)
        : Array.isArray(value)
          ? `[${value.length === 0 ? space() : value.map(write).join(",")}]`
          : typeof value === "object" && value !== null
            ? `{${Object.keys(value).length === 0 ? space() : members(value)}}`
            : JSON.stringify(value);
    return space() + inner + space();
  };
  const members = (of: { [key: string]: Json }): string =>
    Object.entries(of)
      .map(([key, value]) => `${space()}${text(key)}${space()}:${write(value)}`)
      .join(",");
  return { write, text, space };
}

function naiveDepth(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(naiveDepth));
}

interface Item {
  json: string;
  depth: number | undefined;
}

/** The slices as parsed. A slice with white space around it is left as it is, so that it fails the comparison. */
function scanned(text: string, where: "array" | "batch"): Item[] | undefined {
  const spans = scanItems(text, where, Infinity);
  return spans?.starts.map((start, index) => {
    const slice = new TextDecoder().decode(utf8(text).subarray(start, spans.ends[index]));
    return { json: slice === slice.trim() ? JSON.stringify(JSON.parse(slice)) : slice, depth: spans.depths[index] };
  });
}

function described(items: unknown[]): Item[] {
  return items.map((item) => ({ json: JSON.stringify(item), depth: naiveDepth(item) }));
}

describe("jsonShape", () => {
  test("counts depth and an upper bound of values, for any white space and escapes", () => {
    // The first entry of an array or object has no comma, so it counts as the bracket.
    const countOf = (value: unknown): number => {
      if (typeof value !== "object" || value === null) return 0;
      const entries: unknown[] = Object.values(value);
      return entries.reduce<number>((sum, entry) => sum + countOf(entry), 1 + Math.max(0, entries.length - 1));
    };
    fc.assert(
      fc.property(json, noise, (value, numbers) => {
        const text = writer(numbers).write(value);
        const parsed: unknown = JSON.parse(text);
        const { depth, values } = shape(text);
        expect(depth).toBe(naiveDepth(parsed));
        expect(values).toBeGreaterThanOrEqual(countOf(parsed));
      }),
    );
    expect(shape('{"a,[{":[1,"\\",[",{"b":2}]}')).toEqual({ depth: 3, values: 5 });
    expect(shape("[".repeat(1_000_000) + "]".repeat(1_000_000)).depth).toBe(1_000_000);
  });

  test("stops at the first value or level beyond the maximum", () => {
    expect(shape("[1,1,1,1", { maxValues: 2 })).toEqual({ depth: 1, values: 3 });
    expect(shape("[[[[[", { maxDepth: 2 })).toEqual({ depth: 3, values: 3 });
    expect(shape("[[[]]]", { maxDepth: 3 }).depth).toBe(3);
    expect(shape("[[1,[2]]]", { start: 3, end: 7 })).toEqual({ depth: 1, values: 2 });
  });
});

describe("scanItems", () => {
  test("returns the elements' slices without white space around them, and the array's", () => {
    const none = { starts: [], ends: [], depths: [], count: 0, open: 1, close: 6 };
    expect(scanItems(" [ \n ] ", "array", 9)).toEqual(none);
    const slices = { starts: [2, 5, 11], ends: [3, 8, 15], depths: [0, 0, 0] };
    expect(scanItems('[ 1 ,"," , null\n]', "array", 9)).toEqual({ ...slices, count: 3, open: 0, close: 17 });
  });

  test("counts elements beyond the maximum without keeping their slices", () => {
    const spans = scanItems(`{"batch":[${Array(1_000).fill("[]").join(",")}]}`, "batch", 3);
    expect(spans).toMatchObject({ starts: [10, 13, 16], ends: [12, 15, 18], depths: [1, 1, 1], count: 1_000 });
  });

  test("returns slices that parse to the elements of an array, with their depths", () => {
    fc.assert(
      fc.property(fc.array(json, { maxLength: 6 }), noise, (items, numbers) => {
        const text = writer(numbers).write(items);
        expect(scanned(text, "array")).toEqual(described(JSON.parse(text) as unknown[]));
      }),
    );
  });

  test("returns the elements of a batch that JSON.parse reads", () => {
    const members = fc.array(fc.tuple(keys, json), { maxLength: 4 });
    fc.assert(
      fc.property(members, fc.array(json, { maxLength: 5 }), members, noise, (before, items, after, numbers) => {
        const { write, text, space } = writer(numbers);
        const pairs = [...before, ["batch", items] as const, ...after];
        const body = `{${pairs.map(([key, value]) => `${space()}${text(key)}${space()}:${write(value)}`).join(",")}}`;
        const { batch } = JSON.parse(body) as { batch: unknown };
        fc.pre(Array.isArray(batch));
        expect(scanned(body, "batch")).toEqual(described(Array.isArray(batch) ? batch : []));
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ['{"sentAt":"x","batch":[1,{}]}', [1, {}]],
    // The last of several counts, however it is written.
    ['{"batch":[1,2],"batch":[3,4]}', [3, 4]],
    ['{"batch":[1,2],"b\\u0061tch":[3,4]}', [3, 4]],
    ['{"\\u0062atch":[1,2],"batch":[3,4]}', [3, 4]],
    ['{"context":{"batch":[1]},"batch":[2],"other":[{"batch":[3]}]}', [2]],
    ['{"batch":[{"batch":[1]}]}', [{ batch: [1] }]],
    ['{"a":"batch","b":[1],"batch":[2],"c":["batch",[3]]}', [2]],
    ['{"batch":[1],"batch ":[2],"xbatch":[3],"a\\"batch":[4]}', [1]],
  ])("reads only the top-level key `batch` of %s", (text, items) => {
    expect(JSON.parse(text)).toHaveProperty("batch", items);
    expect(scanned(text, "batch")).toEqual(described(items));
  });

  test.each([
    ["array", '{"batch":[]}'],
    ...["[]", "{}", '{"a":[1]}', '{"batch":{"batch":[1]}}', '{"batch":[1],"batch":null}', "1"].map(
      (text) => ["batch", text] as const,
    ),
  ] as const)("returns null if there is no %s in %s", (where, text) => {
    expect(scanItems(text, where, 9)).toBeNull();
  });
});
