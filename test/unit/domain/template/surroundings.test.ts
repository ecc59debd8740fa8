/** What stands around an item is kept with it, in at most 2 KB (spec §2.2, §6.5). */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyTemplate } from "../../../../src/domain/template/apply.ts";
import { compileStoredTemplate, type SignalMapping } from "../../../../src/domain/template/signal-template.ts";
import { SURROUNDINGS_MAX_BYTES, type Surroundings } from "../../../../src/domain/template/surroundings.ts";
import { amount } from "../../../support/amount.ts";

const MAPPINGS: SignalMapping[] = [
  { target: "items", paths: ["items", "*"] },
  { target: "event", paths: ["@header.x-topic", "@body.deep.down.type", "@key"] },
];

function around(body: object, headers: Record<string, string> = {}, template = MAPPINGS): Surroundings | undefined {
  const applied = applyTemplate(compileStoredTemplate(template), body, { headers, receivedAtMs: 0 });
  if (!applied.ok) throw new Error(applied.rejection.detail);
  return applied.value.items[0]?.around;
}
const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

describe("the surroundings of an item", () => {
  test("are texts, numbers and booleans at their places, without the items", () => {
    const body = { a: "x", n: 1, no: null, b: true, o: { p: ["y", {}, { q: 2 }] }, items: [{ secret: 1 }, 3, "z"] };
    expect(around(body)).toEqual({ body: { a: "x", n: 1, b: true, o: { p: ["y", null, { q: 2 }] } } });
  });

  test("are the key and the named headers too", () => {
    const headers = { "x-topic": "t", "x-other": "no", cookie: "no" };
    expect(around({ lead: { a: 1 }, at: 5 }, headers)).toEqual({
      key: "lead",
      headers: { "x-topic": "t" },
      body: { at: 5 },
    });
    expect(around({ at: 5 }, headers)).toEqual({ headers: { "x-topic": "t" } });
    expect(around({ at: 5 })).toBeUndefined();
  });

  test("leave out the text that holds the items", () => {
    const body = { items: JSON.stringify([{ a: 1 }]), b: "x" };
    expect(around(body)).toEqual({ body: { b: "x" } });
  });

  test("keep first what the template reads, then the outer values", () => {
    const filler = Object.fromEntries(Array.from({ length: 300 }, (_, nth) => [`filler${nth}`, "x".repeat(20)]));
    const kept = around({ ...filler, deep: { down: { type: "t", other: "o".repeat(40) } }, items: [{}] });
    expect(kept?.body?.["deep"]).toEqual({ down: { type: "t" } });
    expect(Object.keys(kept?.body ?? {}).length).toBeGreaterThan(30);
    const outer = around({ inner: filler, action: "add", items: [{}] });
    expect(outer?.body?.["action"]).toBe("add");
  });

  test("leave out a value that has no room, and keep a shorter one after it", () => {
    expect(around({ long: "x".repeat(3_000), short: "y", items: [{}] })?.body).toEqual({ short: "y" });
    expect(around({ ["k".repeat(600)]: { a: 1 } })).toEqual({ body: {} });
    expect(around({ items: [{}] }, { "x-topic": "x".repeat(1_100) })).toEqual({ body: {} });
  });

  test("count the objects around what they keep", () => {
    const nested = Array.from({ length: 150 }, (_, nth) => [`k${nth}`, { x: [{ y: { z: 1 } }] }]);
    const kept = around({ ...Object.fromEntries(nested), items: [{}] }) ?? {};
    expect(bytes(kept)).toBeLessThanOrEqual(SURROUNDINGS_MAX_BYTES);
    expect(bytes(kept)).toBeGreaterThan(1_300);
  });

  test("have the names of the prototype as own properties only", () => {
    const body = JSON.parse(`{"__proto__":{"polluted":1},"constructor":"c","items":[{}]}`) as object;
    const kept = around(body)?.body ?? {};
    expect(JSON.stringify(kept)).toBe(`{"constructor":"c","__proto__":{"polluted":1}}`);
    expect("polluted" in {}).toBe(false);
  });

  test("take at most 2 KB, whatever the body", () => {
    const name = fc.oneof(fc.constantFrom("deep", "down", "type", "a", "é\n"), fc.string({ maxLength: 40 }));
    const leaf = fc.oneof(fc.string({ maxLength: 300, size: "max" }), fc.double(), fc.boolean(), fc.constant(null));
    const { json } = fc.letrec<{ json: unknown }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.dictionary(name, tie("json"), { maxKeys: 12 }),
        fc.array(tie("json"), { maxLength: 12 }),
      ),
    }));
    const body = fc.tuple(
      fc.dictionary(name, json, { minKeys: 5, maxKeys: 40, size: "max" }),
      fc.string({ maxLength: 600, size: "max" }),
      fc.boolean(),
    );
    let largest = 0;
    fc.assert(
      fc.property(body, fc.string({ maxLength: 1_200 }), ([sent, key, isList], topic) => {
        const kept = around({ ...sent, ...(isList ? { items: [{}] } : { [key]: { item: 1 } }) }, { "x-topic": topic });
        largest = Math.max(largest, bytes(kept ?? {}));
        expect(bytes(kept ?? {})).toBeLessThanOrEqual(SURROUNDINGS_MAX_BYTES);
      }),
      { numRuns: amount(50, 2_000) },
    );
    expect(largest).toBeGreaterThan(SURROUNDINGS_MAX_BYTES / 2);
  });
});
