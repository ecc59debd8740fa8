/** Design §8.2: the text that is hashed to find duplicates. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  canonicalForm,
  canonicalJson,
  duplicateKey,
  WrittenNumber,
  asWritten,
} from "../../../../src/domain/signal/canonical-form.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../../../src/domain/json/json-value.ts";
import { SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

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

/** JSON objects with the keys that code trips over. */
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

  test("is made of the deepest signal that the edge lets in", () => {
    const deep = "[".repeat(SIGNAL_MAX_DEPTH) + "]".repeat(SIGNAL_MAX_DEPTH);
    expect(canonicalForm(JSON.parse(deep))).toBe(deep);
  });

  test("does not depend on the order of keys", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalForm(reversed(value))).toBe(canonicalForm(value));
      }),
    );
  });
  test("is JSON whose canonical form is itself", () => {
    fc.assert(
      fc.property(json, (value) => {
        const form = canonicalForm(value);
        expect(canonicalForm(JSON.parse(form))).toBe(form);
      }),
    );
  });
  test("loses nothing but the delivery fields", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(JSON.parse(canonicalForm([value]))).toEqual(JSON.parse(plainZeros([value])));
      }),
    );
  });
});

/** JSON.stringify, which makes -0 a 0; infinities as JSON.parse reads them. */
function plainZeros(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "number" && !Number.isFinite(member) ? `${Math.sign(member)} infinite` : member,
  ).replaceAll(/"(-?1) infinite"/g, "$1e999");
}

/** Of a payload as it was sent. */
const formOf = (text: string) => canonicalForm(asWritten(JSON.parse(text), text));

/** A decimal, and what it is worth: whole units of 10^-UNIT. */
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
/** A number of the same worth, written differently. */
const rewritten = ({ units }: Decimal): string => (units === 0n ? "0.0" : `${units}0000e-${UNIT + 4}`);
/** The number next to it, which JSON.parse takes for the same. */
const neighbour = ({ units }: Decimal, step: bigint): Decimal => ({
  text: `${units + step}e-${UNIT}`,
  units: units + step,
});

describe("§8.2 numbers count as they were written", () => {
  test.each([
    ["beyond 2^53", `{"id":9007199254740993}`, `{"id":9007199254740992}`],
    ["far beyond 2^53", `{"id":123456789012345678901}`, `{"id":123456789012345678902}`],
    ["below zero", `{"id":-9007199254740993}`, `{"id":-9007199254740992}`],
    ["nested", `{"a":[{"b":9007199254740993}]}`, `{"a":[{"b":9007199254740992}]}`],
    ["with an exponent", `{"a":90071992547409.93e2}`, `{"a":9007199254740992}`],
    ["of a fraction", `{"a":0.12345678901234567}`, `{"a":0.12345678901234568}`],
    ["beyond the largest number", `{"a":1000000000000001e300}`, `{"a":1000000000000002e300}`],
    ["a text of the same digits", `{"a":9007199254740993}`, `{"a":"9007199254740993"}`],
  ])("two that differ only in digits that are rounded away differ: %s", (_, one, other) =>
    expect(formOf(one)).not.toBe(formOf(other)),
  );
  test.each([
    ["1.0 and 1", `[1.0]`, `[1]`],
    ["1e2 and 100", `[1e2]`, `[100]`],
    ["zeros at the end of a fraction", `[1.00000000000000000000]`, `[1]`],
    ["zeros, with a sign", `[-0.00000000000000000000]`, `[0]`],
    ["an exponent and none", `[9.007199254740993e15]`, `[9007199254740993.0]`],
    ["two exponents", `[1000000000000001e300]`, `[1.000000000000001e+315]`],
  ])("one number is the same, however it is written: %s", (_, one, other) => expect(formOf(one)).toBe(formOf(other)));

  test("the canonical form has all digits, and is JSON whose canonical form is itself", () => {
    const form = `{"a":[9007199254740993e0,12345678901234567e-3],"b":"9007199254740993","c":9007199254740992}`;
    const sent = `{"c":9007199254740992, "b":"9007199254740993", "a":[9007199254740993, 12345678901234.5670], "sentAt":0}`;
    expect(formOf(sent)).toBe(form);
    expect(formOf(form)).toBe(formOf(sent));
  });
  test("a payload without long numbers is not looked at again", () => {
    const text = `{"id":123456789012345,"at":"2026-02-23T22:28:55.123Z","a":[1.5e300,-0.25]}`;
    const payload: unknown = JSON.parse(text);
    expect(asWritten(payload, text)).toBe(payload);
  });
  test("what has not been rounded stays as JSON.parse makes it", () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = JSON.stringify({ value, long: "1234567890123456" });
        expect(formOf(text)).toBe(canonicalForm(JSON.parse(text)));
      }),
    );
  });
  test("two numbers are the same if they are worth the same, to the last digit", () => {
    const step = fc.integer({ min: 0, max: UNIT }).map((zeros) => 10n ** BigInt(zeros));
    fc.assert(
      fc.property(decimal, decimal, step, (one, other, by) => {
        const form = formOf(`[${one.text}]`);
        expect(formOf(form)).toBe(form);
        expect(formOf(`[${rewritten(one)}]`)).toBe(form);
        expect(formOf(`[${neighbour(one, by).text}]`)).not.toBe(form);
        expect(formOf(`[${other.text}]`) === form).toBe(one.units === other.units);
      }),
      { numRuns: 1_000 },
    );
  });
  test("a number as long as a signal takes no longer than its length", () => {
    const zeros = "0".repeat(60_000);
    const ms = cpuMs(() => {
      expect(formOf(`[1${zeros}1]`)).toBe(`[1${zeros}1e0]`);
      expect(formOf(`[1${zeros}.${zeros}]`)).toBe("[1e60000]");
    });
    expect(ms).toBeLessThan(500);
  });
  test("it is the class that tells, whatever a sender calls its members", () => {
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

describe("§8.2 what makes a duplicate", () => {
  const call = { email: "jane@example.com", event: "Filled Out Form", properties: { lead_id: 7 } };

  test("a payload with an id of its own is looked for over 7 days", () => {
    expect(keyOf({ ...call, messageId: "m1" })?.windowMs).toBe(7 * DAY_MS);
    expect(keyOf({ ...call, id: 12 })?.windowMs).toBe(7 * DAY_MS);
  });
  test("a payload without an id of its own is looked for over 10 minutes", () => {
    expect(keyOf(call)?.windowMs).toBe(600_000);
    expect(keyOf({ ...call, messageId: null, id: "" })?.windowMs).toBe(600_000);
  });
  test("the same event delivered again is the same", () => {
    const event = { type: "track", event: "A", messageId: "m1", userId: "u-1" };
    const first = { ...event, sentAt: "2026-02-23T22:28:55Z", receivedAt: "2026-02-23T22:28:56Z" };
    const again = { sentAt: "2026-02-24T01:00:00Z", _metadata: { nodeVersion: "24" }, ...event };
    expect(keyOf(first)).toEqual(keyOf(again));
  });
  test("an event of another content, another path source or another id is not the same", () => {
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
  test("an id of its own counts to the last digit", () => {
    const text = (id: string) => textKeyOf(`{"event":"A","id":${id}}`)?.text;
    expect(text("9007199254740993")).not.toBe(text("9007199254740992"));
    expect(text("9007199254740993")).toBe(text("9007199254740993.0"));
  });
  test("a signal that names nobody and carries no id never is a duplicate", () => {
    expect(keyOf({ event: "A", properties: {} })).toBeNull();
    expect(keyOf({ event: "A", email: "", userId: "null", anonymousId: "0" })).toBeNull();
  });
  test.each([
    ["email", "a@example.com"],
    ["userId", "u-1"],
    ["anonymousId", "a-1"],
    ["id", "i-1"],
    ["messageId", "m-1"],
  ])("a signal that has %s can be a duplicate", (field, value) =>
    expect(keyOf({ event: "A", [field]: value })).not.toBeNull(),
  );

  describe("an identify", () => {
    const identify = { type: "identify", anonymousId: "a-1", traits: { email: "jane@example.com" } };
    test("that tells neither id nor time never is a duplicate: the same again may change back what another one changed", () => {
      expect(keyOf(identify)).toBeNull();
      expect(keyOf({ ...identify, timestamp: "", originalTimestamp: null, sentAt: "2026-02-23T22:28:55Z" })).toBeNull();
    });
    test.each(["timestamp", "originalTimestamp"])("that tells a %s can be a duplicate, within minutes", (field) =>
      expect(keyOf({ ...identify, [field]: "2026-02-23T22:28:55Z" })?.windowMs).toBe(600_000),
    );
    test("with an id, or an idempotency key, is a duplicate by that, over 7 days", () => {
      expect(keyOf({ ...identify, messageId: "m-1" })?.windowMs).toBe(7 * DAY_MS);
      expect(keyOf(identify, undefined, "k1#0")?.windowMs).toBe(7 * DAY_MS);
    });
    test("differs from any other call, of which the same content within minutes is a duplicate", () =>
      expect(keyOf({ ...identify, type: "track", event: "A" })?.windowMs).toBe(600_000));
  });

  test("an idempotency key decides alone, over 7 days, also for a signal that names nobody", () => {
    const key = keyOf({ event: "A" }, undefined, "k1#0");
    expect(key?.windowMs).toBe(7 * DAY_MS);
    expect(keyOf(call, "hubspot", "k1#0")).toEqual(key);
    expect(keyOf({ event: "A" }, undefined, "k1#1")).not.toEqual(key);
  });
  test("no idempotency key can pass for a payload", () => {
    const text = keyOf(call)?.text ?? "";
    const lines = text.split("\n");
    for (const from of lines.keys()) {
      expect(keyOf({ event: "A" }, undefined, lines.slice(from).join("\n"))?.text).not.toBe(text);
    }
  });
});

describe("§8.7 the text of a value", () => {
  test("is the same whatever the order of members, and leaves nothing out", () => {
    expect(canonicalJson({ sentAt: 1, b: [{ d: null, c: "x" }], a: true })).toBe(
      '{"a":true,"b":[{"c":"x","d":null}],"sentAt":1}',
    );
    expect(canonicalJson("12")).toBe('"12"');
    expect(canonicalJson(12)).toBe("12");
  });
});
