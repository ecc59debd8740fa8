/** Design §8.2: the canonical text that is hashed to detect duplicates. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  canonicalJson,
  DELIVERY_FIELDS,
  duplicateKey,
  mappedDuplicateKey,
} from "../../../../src/domain/signal/canonical-form.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { readPayload, type JsonObject } from "../../../../src/domain/json/json-value.ts";
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

describe("§8.2 the canonical form", () => {
  test.each([
    [`{"b":1,"a":{"d":[{"z":1,"y":2}],"c":null}}`, `{"a":{"c":null,"d":[{"y":2,"z":1}]},"b":1}`],
    [`{"10":1,"9":2,"1":3}`, `{"1":3,"10":1,"9":2}`],
    [`{"\uff5e":1,"😀":2,"z":3}`, `{"z":3,"😀":2,"\uff5e":1}`],
    [`[3,1,2]`, `[3,1,2]`],
    [`{"sentAt":"x","receivedAt":"y","_metadata":{},"a":{"sentAt":"x"}}`, `{"a":{"sentAt":"x"}}`],
    [`{"a":-0,"b":1.0,"c":1e2}`, `{"a":0,"b":1,"c":100}`],
    [`{"a":1e999,"b":-1e999,"c":null}`, `{"a":1e999,"b":-1e999,"c":null}`],
    [`{"b":1,"__proto__":{"x":1}}`, `{"__proto__":{"x":1},"b":1}`],
    [`{"a\\"":"\\n\\u0001"}`, `{"a\\"":"\\n\\u0001"}`],
    [`["\\ud800","\\udfff"]`, `["\\ud800","\\udfff"]`],
    [`"a"`, `"a"`],
    [`null`, `null`],
  ])("of %s is %s", (sent, form) => expect(canonicalForm(JSON.parse(sent))).toBe(form));

  test("exists for the deepest signal that the edge admits", () => {
    const deep = "[".repeat(SIGNAL_MAX_DEPTH) + "]".repeat(SIGNAL_MAX_DEPTH);
    expect(canonicalForm(JSON.parse(deep))).toBe(deep);
  });

  test("ignores the order of keys, is idempotent, and omits only the delivery fields", () => {
    fc.assert(
      fc.property(json, (value) => {
        const form = canonicalForm(value);
        expect(canonicalForm(reversed(value))).toBe(form);
        expect(canonicalForm(JSON.parse(form))).toBe(form);
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(plainZeros(value)));
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
const formOf = (text: string) => canonicalForm(readPayload(text));

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

describe("§8.2 numbers", () => {
  test.each([
    [`{"id":9007199254740993}`, `{"id":9007199254740992}`, false],
    [`{"a":9007199254740993}`, `{"a":"9007199254740993"}`, false],
    [`[1.0]`, `[1]`, true],
    [`[-0.00000000000000000000]`, `[0]`, true],
    [`[1e400]`, `[1e401]`, false],
    [`[1e400]`, `[10E+399]`, true],
    [`[1e-400]`, `[0]`, false],
    [`[1000000000000000000000]`, `[1e21]`, true],
    [`[12345678901234567000]`, `[12345678901234567e3]`, true],
  ])("are compared as written: %s and %s are the same: %s", (first, second, isSame) =>
    expect(formOf(first) === formOf(second)).toBe(isSame),
  );

  test("keep all digits in the canonical form, which is idempotent", () => {
    const form = `{"a":[9007199254740993e0,12345678901234567e-3],"b":"9007199254740993","c":9007199254740992}`;
    const sent = `{"c":9007199254740992, "b":"9007199254740993", "a":[9007199254740993, 12345678901234.5670], "sentAt":0}`;
    expect(formOf(sent)).toBe(form);
    expect(formOf(form)).toBe(formOf(sent));
  });

  test("stay as they are beside a number with more digits", () => {
    fc.assert(
      fc.property(json, (value) => {
        const long = JSON.stringify({ value, long: "1234567890123456" });
        expect(formOf(long)).toBe(canonicalForm(JSON.parse(long)));
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
  });
});

const DAY_MS = 24 * 3_600_000;
function keyOf(payload: JsonObject, pathSource?: string, idempotencyKey?: string) {
  return textKeyOf(JSON.stringify(payload), pathSource, idempotencyKey);
}
function textKeyOf(text: string, pathSource?: string, idempotencyKey?: string) {
  const payload = readPayload(text) as JsonObject;
  return duplicateKey({ payload, normalised: normalise(payload, pathSource), pathSource, idempotencyKey });
}

describe("§8.2 the duplicate key", () => {
  const call = { email: "jane@example.com", event: "Filled Out Form", properties: { lead_id: 7 } };
  const identify = { type: "identify", anonymousId: "a-1", traits: { email: "jane@example.com" } };
  const TEN_MINUTES = 600_000;
  const WEEK = 7 * DAY_MS;

  test.each<[payload: JsonObject, windowMs: number | undefined]>([
    [{ ...call, messageId: "m1" }, WEEK],
    [{ ...call, id: 12 }, WEEK],
    [call, TEN_MINUTES],
    [{ ...call, messageId: null, id: "" }, TEN_MINUTES],
    // These identify no person.
    [{ event: "A", properties: {} }, undefined],
    [{ event: "A", email: "", userId: "null", anonymousId: "0" }, undefined],
    [{ event: "A", userId: "u-1" }, TEN_MINUTES],
    [{ event: "A", anonymousId: "a-1" }, TEN_MINUTES],
    [{ event: "A", id: "1" }, WEEK],
    // Repeating an identify may undo another change.
    [identify, undefined],
    [{ ...identify, timestamp: "", originalTimestamp: null, sentAt: "2026-02-23T22:28:55Z" }, undefined],
    [{ ...identify, timestamp: "2026-02-23T22:28:55Z" }, TEN_MINUTES],
    [{ ...identify, originalTimestamp: "2026-02-23T22:28:55Z" }, TEN_MINUTES],
    [{ ...identify, messageId: "m-1" }, WEEK],
    [{ ...identify, type: "track", event: "A" }, TEN_MINUTES],
  ])("of %j is valid for %s ms", (payload, windowMs) => {
    expect(keyOf(payload)?.windowMs).toBe(windowMs);
    expect(keyOf(payload, undefined, "k1#0")?.windowMs).toBe(WEEK);
  });

  test("of an event that is delivered again is the same", () => {
    const event = { type: "track", event: "A", messageId: "m1", userId: "u-1" };
    const first = { ...event, sentAt: "2026-02-23T22:28:55Z", receivedAt: "2026-02-23T22:28:56Z" };
    const again = { sentAt: "2026-02-24T01:00:00Z", _metadata: { nodeVersion: "24" }, ...event };
    expect(keyOf(first)).toEqual(keyOf(again));
  });

  test("differs by content, path source, id, all digits of an id, and idempotency key", () => {
    const withId = (id: string) => textKeyOf(`{"event":"A","id":${id}}`);
    const texts = [
      keyOf(call),
      keyOf({ ...call, event: "Filled out form" }),
      keyOf({ ...call, id: "1" }),
      keyOf({ ...call, id: "2" }),
      keyOf(call, "hubspot"),
      keyOf(call, "null"),
      withId("9007199254740993"),
      withId("9007199254740992"),
      keyOf(call, undefined, "k1#0"),
      keyOf(call, undefined, "k1#1"),
    ].map((key) => key?.text);
    expect(new Set(texts).size).toBe(texts.length);
    expect(withId("9007199254740993.0")).toEqual(withId("9007199254740993"));
  });

  test("of a mapped id differs by key, source, event and id, and never equals that of a payload", () => {
    const signal = { keyId: "key_1", source: "crm", event: "opened", id: "1" };
    const others = [
      { keyId: "key_2" },
      { source: "crm2" },
      { event: "clicked" },
      { id: "2" },
      { source: "", event: "crmopened" },
    ];
    const keys = [signal, ...others.map((other) => ({ ...signal, ...other }))].map(mappedDuplicateKey);
    expect(new Set(keys.map(({ text }) => text)).size).toBe(keys.length);
    expect(mappedDuplicateKey({ ...signal })).toEqual(keys[0]);
    expect(keys.map(({ windowMs }) => windowMs)).toEqual(keys.map(() => WEEK));
    expect(keys.every(({ text }) => text.startsWith("id\n"))).toBe(true);
  });

  test("depends only on the idempotency key if there is one, and never equals that of a payload", () => {
    expect(keyOf(call, "hubspot", "k1#0")).toEqual(keyOf({ event: "A" }, undefined, "k1#0"));
    const text = keyOf(call)?.text ?? "";
    const lines = text.split("\n");
    for (const from of lines.keys()) {
      expect(keyOf({ event: "A" }, undefined, lines.slice(from).join("\n"))?.text).not.toBe(text);
    }
  });
});
