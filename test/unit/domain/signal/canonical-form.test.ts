/** Design §8.2: the canonical text that is hashed to detect duplicates. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  canonicalJson,
  DELIVERY_FIELDS,
  duplicateKey,
  WrittenNumber,
  asWritten,
} from "../../../../src/domain/signal/canonical-form.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import { SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

const canonicalForm = (payload: unknown) => canonicalJson(payload, DELIVERY_FIELDS);

/** The same JSON with the members of every object in reverse order. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

/** JSON objects with hostile keys. */
const hostileKey = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("__proto__", "constructor", "toString", "10", "9", "é", "😀", "\ud800", "", "sentAt"),
);
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true }),
    fc.string({ unit: "binary" }),
    fc.array(tie("json"), { maxLength: 4 }),
    fc.array(fc.tuple(hostileKey, tie("json")), { maxLength: 5 }).map((members) => {
      const text = members.map(([key, member]) => `${JSON.stringify(key)}:${JSON.stringify(member)}`).join(",");
      const object: JsonObject = JSON.parse(`{${text}}`);
      return object;
    }),
  ),
}));

describe("§8.2 canonical form", () => {
  test.each([
    [
      "keys sorted at every level",
      `{"b":1,"a":{"d":[{"z":1,"y":2}],"c":null}}`,
      `{"a":{"c":null,"d":[{"y":2,"z":1}]},"b":1}`,
    ],
    ["keys like numbers sorted as text", `{"10":1,"9":2,"1":3}`, `{"1":3,"10":1,"9":2}`],
    ["keys sorted by UTF-16 code units", `{"\uff5e":1,"😀":2,"z":3}`, `{"z":3,"😀":2,"\uff5e":1}`],
    ["arrays keep their order", `[3,1,2]`, `[3,1,2]`],
    ["delivery fields left out", `{"sentAt":"x","receivedAt":"y","_metadata":{},"a":1}`, `{"a":1}`],
    ["delivery fields kept below the top", `{"properties":{"sentAt":"x"}}`, `{"properties":{"sentAt":"x"}}`],
    ["-0 is 0", `{"a":-0}`, `{"a":0}`],
    ["1.0 is 1", `{"a":1.0,"b":1e2}`, `{"a":1,"b":100}`],
    ["numbers beyond the largest are not null", `{"a":1e999,"b":-1e999,"c":null}`, `{"a":1e999,"b":-1e999,"c":null}`],
    ["__proto__ is a key like any other", `{"b":1,"__proto__":{"x":1}}`, `{"__proto__":{"x":1},"b":1}`],
    ["quotes and control characters escaped", `{"a\\"":"\\n\\u0001"}`, `{"a\\"":"\\n\\u0001"}`],
    ["lone surrogates kept apart", `["\\ud800","\\udfff"]`, `["\\ud800","\\udfff"]`],
    ["text", `"a"`, `"a"`],
    ["null", `null`, `null`],
  ])("%s", (_, sent, form) => expect(canonicalForm(JSON.parse(sent))).toBe(form));

  test("accepts the deepest signal that the edge admits", () => {
    const deep = "[".repeat(SIGNAL_MAX_DEPTH) + "]".repeat(SIGNAL_MAX_DEPTH);
    expect(canonicalForm(JSON.parse(deep))).toBe(deep);
  });

  test("ignores the order of keys, is idempotent, and omits only the delivery fields", () => {
    fc.assert(
      fc.property(json, (value) => {
        const form = canonicalForm(value);
        expect(canonicalForm(reversed(value))).toBe(form);
        expect(canonicalForm(JSON.parse(form))).toBe(form);
        expect(JSON.parse(canonicalForm([value]))).toEqual(JSON.parse(plainZeros([value])));
      }),
    );
  });
});

/** JSON.stringify, which writes -0 as 0; infinities as JSON.parse reads them. */
function plainZeros(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "number" && !Number.isFinite(member) ? `${Math.sign(member)} infinite` : member,
  ).replaceAll(/"(-?1) infinite"/g, "$1e999");
}

/** The canonical form of a payload as sent. */
const formOf = (text: string) => canonicalForm(asWritten(JSON.parse(text), text));

/** A decimal and its value in units of 10^-UNIT. */
interface Decimal {
  text: string;
  units: bigint;
}
const UNIT = 80;
const digits = (minLength: number, maxLength: number) =>
  fc.string({ unit: fc.constantFrom("0", "0", "1", "4", "9"), minLength, maxLength });
const decimal: fc.Arbitrary<Decimal> = fc
  .record({
    sign: fc.constantFrom("", "-"),
    whole: fc.oneof(
      digits(0, 24).map((text) => `9${text}`),
      fc.bigInt(2n ** 53n - 4n, 2n ** 53n + 9n).map(String),
      fc.constant("0"),
    ),
    fraction: fc.oneof(fc.constant(""), digits(1, 24)),
    exponent: fc.option(fc.integer({ min: -30, max: 30 })),
  })
  .map(({ sign, whole, fraction, exponent }) => ({
    text: `${sign}${whole}${fraction && `.${fraction}`}${exponent === null ? "" : `e${exponent}`}`,
    units: BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(UNIT + (exponent ?? 0) - fraction.length),
  }));
/** The same number, written differently. */
const rewritten = ({ units }: Decimal): string => (units === 0n ? "0.0" : `${units}0000e-${UNIT + 4}`);
/** A neighbouring number that JSON.parse may read as the same. */
const neighbour = ({ units }: Decimal, step: bigint): Decimal => ({
  text: `${units + step}e-${UNIT}`,
  units: units + step,
});

describe("§8.2 numbers are compared as written", () => {
  test.each([
    ["beyond 2^53", `{"id":9007199254740993}`, `{"id":9007199254740992}`],
    ["a text of the same digits", `{"a":9007199254740993}`, `{"a":"9007199254740993"}`],
  ])("differ if only rounded digits differ: %s", (_, first, second) => expect(formOf(first)).not.toBe(formOf(second)));
  test.each([
    ["1.0 and 1", `[1.0]`, `[1]`],
    ["zeros, with a sign", `[-0.00000000000000000000]`, `[0]`],
  ])("are equal in any notation: %s", (_, first, second) => expect(formOf(first)).toBe(formOf(second)));

  test("keep all digits in the canonical form, which is idempotent", () => {
    const form = `{"a":[9007199254740993e0,12345678901234567e-3],"b":"9007199254740993","c":9007199254740992}`;
    const sent = `{"c":9007199254740992, "b":"9007199254740993", "a":[9007199254740993, 12345678901234.5670], "sentAt":0}`;
    expect(formOf(sent)).toBe(form);
    expect(formOf(form)).toBe(formOf(sent));
  });
  test("are not parsed again in a payload without long numbers", () => {
    const text = `{"id":123456789012345,"at":"2026-02-23T22:28:55.123Z","a":[1.5e300,-0.25]}`;
    const payload: unknown = JSON.parse(text);
    expect(asWritten(payload, text)).toBe(payload);
  });
  test("stay as JSON.parse returns them if they were not rounded", () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = JSON.stringify({ value, long: "1234567890123456" });
        expect(formOf(text)).toBe(canonicalForm(JSON.parse(text)));
      }),
    );
  });
  test("are equal exactly if their values are equal to the last digit", () => {
    const step = fc.integer({ min: 0, max: UNIT }).map((zeros) => 10n ** BigInt(zeros));
    fc.assert(
      fc.property(decimal, decimal, step, (first, second, by) => {
        const form = formOf(`[${first.text}]`);
        expect(formOf(form)).toBe(form);
        expect(formOf(`[${rewritten(first)}]`)).toBe(form);
        expect(formOf(`[${neighbour(first, by).text}]`)).not.toBe(form);
        expect(formOf(`[${second.text}]`) === form).toBe(first.units === second.units);
      }),
      { numRuns: 1_000 },
    );
  });
  test("take linear time even if as long as a signal", () => {
    const zeros = "0".repeat(60_000);
    const ms = cpuMs(() => {
      expect(formOf(`[1${zeros}1]`)).toBe(`[1${zeros}1e0]`);
      expect(formOf(`[1${zeros}.${zeros}]`)).toBe("[1e60000]");
    });
    expect(ms).toBeLessThan(500);
  });
  test("are recognised by class, not by the names of members", () => {
    expect(formOf(`{"decimal":"1","a":{"decimal":9007199254740993}}`)).toBe(
      `{"a":{"decimal":9007199254740993e0},"decimal":"1"}`,
    );
    expect(canonicalForm(new WrittenNumber("9007199254740993e0"))).toBe("9007199254740993e0");
  });
});

const DAY_MS = 24 * 3_600_000;
function keyOf(payload: JsonObject, pathSource?: string, idempotencyKey?: string) {
  return textKeyOf(JSON.stringify(payload), pathSource, idempotencyKey);
}
function textKeyOf(text: string, pathSource?: string, idempotencyKey?: string) {
  const payload: JsonObject = JSON.parse(text);
  return duplicateKey({ payload, text, normalised: normalise(payload, pathSource), pathSource, idempotencyKey });
}

describe("§8.2 the duplicate key", () => {
  const call = { email: "jane@example.com", event: "Filled Out Form", properties: { lead_id: 7 } };

  test("of a payload with an id is valid for 7 days", () => {
    expect(keyOf({ ...call, messageId: "m1" })?.windowMs).toBe(7 * DAY_MS);
    expect(keyOf({ ...call, id: 12 })?.windowMs).toBe(7 * DAY_MS);
  });
  test("of a payload without an id is valid for 10 minutes", () => {
    expect(keyOf(call)?.windowMs).toBe(600_000);
    expect(keyOf({ ...call, messageId: null, id: "" })?.windowMs).toBe(600_000);
  });
  test("of an event that is delivered again is the same", () => {
    const event = { type: "track", event: "A", messageId: "m1", userId: "u-1" };
    const first = { ...event, sentAt: "2026-02-23T22:28:55Z", receivedAt: "2026-02-23T22:28:56Z" };
    const again = { sentAt: "2026-02-24T01:00:00Z", _metadata: { nodeVersion: "24" }, ...event };
    expect(keyOf(first)).toEqual(keyOf(again));
  });
  test("differs by content, path source and id", () => {
    const texts = [
      keyOf(call),
      keyOf({ ...call, event: "Filled out form" }),
      keyOf({ ...call, id: "1" }),
      keyOf({ ...call, id: "2" }),
      keyOf(call, "hubspot"),
      keyOf(call, "null"),
    ].map((key) => key?.text);
    expect(new Set(texts).size).toBe(texts.length);
  });
  test("uses all digits of an id", () => {
    const text = (id: string) => textKeyOf(`{"event":"A","id":${id}}`)?.text;
    expect(text("9007199254740993")).not.toBe(text("9007199254740992"));
    expect(text("9007199254740993")).toBe(text("9007199254740993.0"));
  });
  test("is null for a signal without names and id, and only then", () => {
    expect(keyOf({ event: "A", properties: {} })).toBeNull();
    expect(keyOf({ event: "A", email: "", userId: "null", anonymousId: "0" })).toBeNull();
    for (const field of ["email", "userId", "anonymousId", "id", "messageId"]) {
      expect(keyOf({ event: "A", [field]: "a@example.com" }), field).not.toBeNull();
    }
  });

  describe("of an identify", () => {
    const identify = { type: "identify", anonymousId: "a-1", traits: { email: "jane@example.com" } };
    test("is null without id and time: repeating it may undo another change", () => {
      expect(keyOf(identify)).toBeNull();
      expect(keyOf({ ...identify, timestamp: "", originalTimestamp: null, sentAt: "2026-02-23T22:28:55Z" })).toBeNull();
    });
    test.each(["timestamp", "originalTimestamp"])("with a %s is valid for 10 minutes", (field) =>
      expect(keyOf({ ...identify, [field]: "2026-02-23T22:28:55Z" })?.windowMs).toBe(600_000),
    );
    test("with an id or an idempotency key is valid for 7 days", () => {
      expect(keyOf({ ...identify, messageId: "m-1" })?.windowMs).toBe(7 * DAY_MS);
      expect(keyOf(identify, undefined, "k1#0")?.windowMs).toBe(7 * DAY_MS);
    });
    test("differs from that of any other call, which is valid for 10 minutes", () =>
      expect(keyOf({ ...identify, type: "track", event: "A" })?.windowMs).toBe(600_000));
  });

  test("depends only on the idempotency key if there is one, for 7 days", () => {
    const key = keyOf({ event: "A" }, undefined, "k1#0");
    expect(key?.windowMs).toBe(7 * DAY_MS);
    expect(keyOf(call, "hubspot", "k1#0")).toEqual(key);
    expect(keyOf({ event: "A" }, undefined, "k1#1")).not.toEqual(key);
  });
  test("of an idempotency key never equals that of a payload", () => {
    const text = keyOf(call)?.text ?? "";
    const lines = text.split("\n");
    for (const from of lines.keys()) {
      expect(keyOf({ event: "A" }, undefined, lines.slice(from).join("\n"))?.text).not.toBe(text);
    }
  });
});

describe("§8.7 the canonical text of a value", () => {
  test("ignores the order of members and omits nothing", () => {
    expect(canonicalJson({ sentAt: 1, b: [{ d: null, c: "x" }], a: true })).toBe(
      '{"a":true,"b":[{"c":"x","d":null}],"sentAt":1}',
    );
    expect(canonicalJson("12")).toBe('"12"');
    expect(canonicalJson(12)).toBe("12");
  });
});
