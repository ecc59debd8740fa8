/** Bodies read signal by signal (spec §4, design §9), with the same result as parsing the whole. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readSignals, type SignalBody, type SignalBodyRules } from "../../../../src/domain/signal/signal-body.ts";
import type { SignalRefusal } from "../../../../src/domain/keys/refusal.ts";
import { ok, refuse, type Result } from "../../../../src/domain/result.ts";
import { isAbsent } from "../../../../src/domain/json/json-value.ts";
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";

const anything: SignalBodyRules = { maxSignals: 10, lines: false, check: ok };
const lines = { ...anything, lines: true };
const read = (text: string, rules = anything) => readSignals(new TextEncoder().encode(text), rules);
/** The code of the body's refusal, or of each signal's; null: the signal is good. */
const codes = (text: string, rules = anything) => {
  const result = read(text, rules);
  return result.ok ? result.value.signals.map(({ refusal }) => refusal?.code ?? null) : result.refusal.code;
};
/** The detail of the body's refusal, or of each signal's. */
const details = (text: string, rules = anything) => {
  const result = read(text, rules);
  return result.ok ? result.value.signals.map(({ refusal }) => refusal?.detail) : [result.refusal.detail];
};
const texts = ({ signals, text }: SignalBody): string[] => signals.map(({ start, end }) => text.slice(start, end));
const values = (body: SignalBody): unknown[] => texts(body).map((text) => JSON.parse(text) as unknown);

const MEGABYTE = 1024 * 1024;

/** The values of a body by JSON.parse: several, one, or none. */
function expected(text: string): unknown {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  if (Array.isArray(body)) return { several: body };
  const { batch, event, type } = Object(body) as Record<string, unknown>;
  if (Array.isArray(batch) && isAbsent(event) && isAbsent(type)) return { several: batch };
  return { single: body };
}

function found(text: string): unknown {
  const result = read(text, { ...anything, maxSignals: 1_000 });
  if (!result.ok) return result.refusal.code === "batch_empty" ? { several: [] } : null;
  const all = values(result.value);
  return result.value.isList ? { several: all } : { single: all[0] };
}

describe("a body is read as if it were parsed as a whole", () => {
  const item = fc.jsonValue({ maxDepth: 2 });
  const bodies = fc
    .oneof(
      fc.array(item, { maxLength: 4 }),
      item,
      fc.record({ batch: fc.oneof(fc.array(item, { maxLength: 4 }), item), sentAt: fc.string() }),
      fc.record({ batch: fc.array(item, { maxLength: 2 }), event: fc.constant("x") }),
    )
    .map((value) => JSON.stringify(value));
  const spoilt = fc
    .tuple(
      bodies,
      fc.array(fc.tuple(fc.nat(), fc.constantFrom("[", "]", "{", "}", ",", ":", '"', "\\", " ", "\n", "0", "a", "")), {
        maxLength: 3,
      }),
    )
    .map(([text, edits]) =>
      edits.reduce((changed, [at, put]) => {
        const where = at % (changed.length + 1);
        return changed.slice(0, where) + put + changed.slice(where + (at % 2));
      }, text),
    );

  test("for any breakage", () => {
    fc.assert(
      fc.property(fc.oneof(bodies, spoilt), (text) => {
        expect(found(text)).toEqual(expected(text));
      }),
      { numRuns: 3_000 },
    );
  });

  test.each([
    ['{"b\\u0061tch":[1],"x":2}', { several: [1] }],
    ['{"\\x":[1]}', null],
    ['{"batch":[1],"batch":[2,3]}', { several: [2, 3] }],
    ['{"batch":[1],"batch":5}', { single: { batch: 5 } }],
    ['{"a":{"batch":[1]}}', { single: { a: { batch: [1] } } }],
    // An object that names an event is a signal, regardless of its other fields.
    ['{"event":"x","batch":[1]}', { single: { event: "x", batch: [1] } }],
    ['{"type":"x","batch":[1]}', { single: { type: "x", batch: [1] } }],
    ['{"event":null,"type":" ","batch":[1]}', { several: [1] }],
  ])("%s", (text, result) => {
    expect(found(text)).toEqual(result);
  });

  test("ignores any amount of white space around it", () => {
    const space = " ".repeat(2 * SIGNAL_MAX_BYTES);
    expect(found(`${space}[1]${space}`)).toEqual({ several: [1] });
    expect(found(`${space}{"batch":[1]}${space}`)).toEqual({ several: [1] });
  });

  test("does not parse values larger than a signal, but validates them", () => {
    const large = `{"event":"x","zeros":[${"0,".repeat(SIGNAL_MAX_BYTES)}0]}`;
    const check = (): Result<never, SignalRefusal> => refuse({ code: "event_missing", detail: "" });
    const rules = { ...anything, check };
    expect(codes(large, rules)).toEqual(["signal_too_large"]);
    expect(codes(`[1,${large}]`, rules)).toEqual(["event_missing", "signal_too_large"]);
    expect(codes(`{"batch":[1],"more":${large}}`, rules)).toEqual(["signal_too_large"]);
    expect(codes(`[1,${large.replace("0]", "0")}]`, rules)).toBe("body_not_json");
    expect(codes(large.slice(0, -1), rules)).toBe("body_not_json");
  });

  test("reports a truncated body of several megabytes as invalid, never as too large", () => {
    const element = '{"a\\"[":["x\\\\",{}],"b":-1.5e3},';
    const body = `{"event":"x","list":[${element.repeat((1.2 * MEGABYTE) / element.length)}true,"\\u00e9"]}`;
    expect(codes(body)).toEqual(["signal_too_large"]);
    expect(codes("1".repeat(2 * MEGABYTE))).toEqual(["signal_too_large"]);
    fc.assert(
      fc.property(fc.integer({ min: MEGABYTE - 100, max: body.length - 1 }), (length) => {
        expect(codes(body.slice(0, length))).toBe("body_not_json");
      }),
      { numRuns: 20 },
    );
    expect(codes(`${body}x`)).toBe("body_not_json");
    expect(codes(`[${"1,".repeat(MEGABYTE)}1`)).toBe("body_not_json");
  });
});

describe("the bytes of a body", () => {
  const readBytes = (bytes: Uint8Array) => {
    const result = readSignals(bytes, anything);
    if (!result.ok) return result.refusal.code;
    return texts(result.value);
  };

  test("become U+FFFD in the affected signal if they are not UTF-8, and count as such", () => {
    // The first is Latin-1.
    expect(readBytes(Buffer.from('[{"a":"\xe9"},{"b":"\xc3\xa9"},{"c":1}]', "latin1"))).toEqual([
      '{"a":"\ufffd"}',
      '{"b":"é"}',
      '{"c":1}',
    ]);
    const tooLarge = Buffer.concat([Buffer.from('"'), Buffer.alloc(SIGNAL_MAX_BYTES / 2, 0xe9), Buffer.from('"')]);
    expect(readSignals(tooLarge, anything)).toMatchObject({
      value: { signals: [{ refusal: { code: "signal_too_large" } }] },
    });
  });

  test("do not allow a byte order mark as white space", () => {
    expect(["[1,\ufeff2]", "[\ufeff1]"].map((text) => codes(text))).toEqual(["body_not_json", "body_not_json"]);
  });

  test("give the same signals in a large body, for letters of any width", () => {
    const item = fc.record({ text: fc.string({ unit: "binary" }), wide: fc.constantFrom("", "é", "ж", "漢", "😀") });
    fc.assert(
      fc.property(fc.array(item, { minLength: 1, maxLength: 9 }), (items) => {
        const padding = " ".repeat(MEGABYTE / 2);
        expect(found(`[${padding}${items.map((value) => JSON.stringify(value)).join(`,${padding}`)}]`)).toEqual({
          several: items,
        });
      }),
      { numRuns: 20 },
    );
  });
});

describe("lines of JSON", () => {
  test.each<[text: string, ReturnType<typeof codes>]>([
    [`\n\n${"1\r\n\n \n".repeat(10)}\n`, Array(10).fill(null) as null[]],
    ['{"a":1}\n{"a":\n[2]', [null, "signal_not_json", null]],
    // No line is JSON.
    ["{\n'a'\n}", "body_not_json"],
    ["x\n".repeat(100), "body_not_json"],
    // The first line may be truncated anywhere.
    ...["{", '{"a":[1,{', '{"a":"x', '{"a":1', '{"a":1,', '{"a"', '{"a":tru'].map(
      (first): [string, ReturnType<typeof codes>] => [`${first}\n\n{"a":2}\n{"a":3}`, ["signal_not_json", null, null]],
    ),
    // A text over several lines.
    ['[\n\n{"a":2}\n{"a":3}', "body_not_json"],
    ['[1,\ntru\n{"a":1}', "body_not_json"],
    // A first line that is too deep.
    [`${'{"a":{'.repeat(40)}\n{"b":1}\n{"c":2}`, ["signal_too_deep", null, null]],
    [`${"[".repeat(70)}x\n{"b":1}\n{"c":2}`, ["signal_too_deep", null, null]],
    ["[\n".repeat(100), "body_not_json"],
    [`${"[\n".repeat(100)}${"]".repeat(100)}`, ["signal_too_deep"]],
  ])("are refused individually, unless no line is JSON or a text spans lines: %j", (text, expectedCodes) =>
    expect(codes(text, lines)).toEqual(expectedCodes),
  );

  test.each([
    ['{"a":1}\n', false],
    ['{\n"a":\n1\n}', false],
    ["[\n1,\n2\n]", true],
    ['\n{\n{"a":1}', true],
  ])("are not assumed for a single line or object: %j", (text, isList) =>
    expect(read(text, lines)).toMatchObject({ value: { isList } }),
  );

  test.each([
    ["an array that lacks a comma", '[\n {"a":1},\n {"a":2}\n {"a":3}\n]', "line 4, column 2"],
    ["an array that is cut off", '[{"a":1},\n{"a":2}\n', "line 3, column 1"],
    ["an envelope that is cut off", '{"batch":[\n{"a":1}\n\n', "line 4, column 1"],
    ["an object that lacks a comma", '{\n"a": 1,\n"b":\n{"c":2}\n"d":3}', "line 5, column 1"],
    ["objects over several lines", '{\n"a":1}\n{"a":2}\n{"a":3}', "line 3, column 1"],
  ])("are not assumed for %s", (_, text, where) => {
    expect(codes(text, lines)).toBe("body_not_json");
    expect(details(text, lines)).toEqual([expect.stringContaining(where)]);
  });

  test("are reported with line number and bytes if they are invalid, counting empty lines", () => {
    const text = '{"a":1}\n\n{"a":}\n{"a":2}\r\n \r\nx\n';
    const [third, sixth] = [
      expect.stringMatching(/ at line 3, column 6: /),
      expect.stringMatching(/ at line 6, column 1: /),
    ];
    expect(details(text, lines)).toEqual([undefined, third, undefined, sixth]);
    expect(read(text, lines)).toMatchObject({
      value: { signals: [{}, { start: 9, end: 15 }, {}, {}] },
    });
  });
});

describe("the limits of a body", () => {
  const ofBytes = (bytes: number) => `"${"x".repeat(bytes - 2)}"`;
  const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;

  test("allow SIGNAL_MAX_BYTES for each signal, without the white space around it", () => {
    const [most, more] = [ofBytes(SIGNAL_MAX_BYTES), ofBytes(SIGNAL_MAX_BYTES + 1)];
    expect(codes(most)).toEqual([null]);
    expect(codes(`[1, ${most} ,${more},2]`)).toEqual([null, null, "signal_too_large", null]);
    const sizes = `${SIGNAL_MAX_BYTES + 1} bytes; at most ${SIGNAL_MAX_BYTES}`;
    expect(details(more)).toEqual([`The signal has ${sizes} are taken. Send fewer or shorter properties.`]);
    expect(read(`[${most},${more}]`)).toMatchObject({
      value: { signals: [{ refusal: null }, { refusal: { code: "signal_too_large" } }] },
    });
  });

  test("allow the same size around the signals of an envelope", () => {
    const envelope = (bytes: number) => `{"x":"${"x".repeat(bytes - 17)}","batch":[1,2]}`;
    expect(codes(envelope(SIGNAL_MAX_BYTES))).toEqual([null, null]);
    expect(codes(envelope(SIGNAL_MAX_BYTES + 1))).toEqual(["signal_too_large"]);
  });

  test("allow at most SIGNAL_MAX_DEPTH levels", () => {
    const [most, more] = [`{"a":${nested(SIGNAL_MAX_DEPTH - 1)}}`, `{"a":${nested(SIGNAL_MAX_DEPTH)}}`];
    expect([codes(most), codes(more)]).toEqual([[null], ["signal_too_deep"]]);
    expect(codes(`[${most},${more}]`)).toEqual([null, "signal_too_deep"]);
    const levels = `${SIGNAL_MAX_DEPTH + 1} levels deep; at most ${SIGNAL_MAX_DEPTH}`;
    expect(details(more)).toEqual([`The signal is nested ${levels} are taken. Flatten its properties.`]);
  });

  test("allow the maximum of signals, and count the signals beyond it only in valid JSON", () => {
    const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
    expect(codes(JSON.stringify(numbers(10)))).toHaveLength(10);
    const tooLong = (count: string) => [`The body holds ${count} signals; at most 10 are taken per request.`];
    expect(details(JSON.stringify(numbers(11)))).toEqual(tooLong("11"));
    expect(codes(`[${numbers(11).join()},x]`)).toBe("body_not_json");
    expect(codes(numbers(10).join("\n"), lines)).toHaveLength(10);
    expect(details(numbers(11).join("\n"), lines)).toEqual(tooLong("more than 10"));
    expect(codes("{\n".repeat(11), lines)).toBe("body_not_json");
  });
});

describe("a signal that is nested more than 64 levels deep", () => {
  const nested = (levels: number) => `${'{"a":['.repeat(levels / 2)}${"]}".repeat(levels / 2)}`;
  const never = { ...anything, check: () => expect.fail("it was parsed") };
  const detailOf = (levels: string) =>
    `The signal is nested ${levels} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;

  test("is refused individually, without parsing or validation", () => {
    for (const text of [nested(66), `{"event":"x","a":${nested(100)}}`, "[".repeat(1_000), '{"a":'.repeat(1_000)]) {
      expect(details(text, never)).toEqual([detailOf("more than 64")]);
    }
    const [bad, garbage] = [nested(66), `${"[".repeat(65)}x y${"]".repeat(65)}`];
    const expectedCodes = [null, "signal_too_deep", "signal_too_deep", null];
    expect(codes(`[1,${bad},${garbage},2]`)).toEqual(expectedCodes);
    expect(codes(`{"batch":[1,${bad},${garbage},2]}`)).toEqual(expectedCodes);
    expect(codes(`1\n${bad}\n${garbage}\n2`, lines)).toEqual(expectedCodes);
  });

  test("is parsed and counted up to 64 levels", () => {
    expect(details(nested(64))).toEqual([detailOf("64")]);
    expect(codes(`[${nested(64).replace("[]", "[x]")}]`)).toBe("body_not_json");
  });
});
