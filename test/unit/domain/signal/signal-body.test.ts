/** Bodies read signal by signal (spec §4, design §9), with the same result as parsing the whole. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readSignals, type SignalBody, type SignalBodyRules } from "../../../../src/domain/signal/signal-body.ts";
import type { SignalRejection } from "../../../../src/domain/keys/rejection.ts";
import { ok, reject, type Result } from "../../../../src/domain/result.ts";
import { isAbsent } from "../../../../src/domain/json/json-value.ts";
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";

const anything: SignalBodyRules = { maxSignals: 10, lines: false, check: ok };
const lines = { ...anything, lines: true };
const read = (text: string, rules = anything) => readSignals(new TextEncoder().encode(text), rules);
/** The code of the body's rejection, or of each signal's; null: the signal is good. */
const codes = (text: string, rules = anything) => {
  const result = read(text, rules);
  return result.ok ? result.value.signals.map(({ rejection }) => rejection?.code ?? null) : result.rejection.code;
};
/** The detail of the body's rejection, or of each signal's. */
const details = (text: string, rules = anything) => {
  const result = read(text, rules);
  return result.ok ? result.value.signals.map(({ rejection }) => rejection?.detail) : [result.rejection.detail];
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
  if (!result.ok) return result.rejection.code === "batch_empty" ? { several: [] } : null;
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
    const check = (): Result<never, SignalRejection> => reject({ code: "event_missing", detail: "" });
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
  /** The details of the signals that are not UTF-8; null: the others. */
  const notUtf8 = (bytes: Uint8Array, rules = anything): (string | null)[] => {
    const result = readSignals(bytes, rules);
    if (!result.ok) throw new Error(result.rejection.code);
    return result.value.signals.map(({ rejection }) => {
      if (rejection !== null) expect(rejection.code).toBe("signal_not_utf8");
      return rejection && rejection.detail;
    });
  };

  test("reject the affected signal alone if they are not UTF-8, and name the byte and the likely encoding", () => {
    const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
    expect(notUtf8(latin1('[{"a":"M\xfcnchen"},{"b":"\xc3\xa9"},{"c":1}]'))).toEqual([
      "Byte 9 of the body, 0xFC, is not UTF-8. JSON is UTF-8: convert the text, which seems to be ISO 8859-1 or Windows-1252.",
      null,
      null,
    ]);
    expect(notUtf8(latin1('{"a":"\x93quoted\x94"}'))).toEqual([expect.stringContaining("seems to be Windows-1252.")]);
    const asLines = { ...anything, lines: true };
    expect(notUtf8(latin1('{"a":1}\n{"a":"\xe9"}\n'), asLines)).toEqual([null, expect.stringMatching(/^Byte 15 /)]);
  });

  test("are UTF-8 exactly if a decoder says so", () => {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const part = fc.oneof(
      fc.string({ unit: "binary" }).map((text) => new TextEncoder().encode(text)),
      fc.uint8Array({ maxLength: 4 }),
    );
    fc.assert(
      fc.property(fc.array(part), (parts) => {
        const inner = Buffer.concat(parts).filter((byte: number) => byte >= 0x20 && byte !== 0x22 && byte !== 0x5c);
        const bytes = Buffer.concat([Buffer.from('{"a":"'), inner, Buffer.from('"}')]);
        let position: number | null = null;
        for (let end = 1; position === null && end <= bytes.length; end++) {
          const rest = bytes.subarray(0, end);
          // A streaming decoder fails at the byte that cannot continue the text.
          try {
            new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(rest, { stream: true });
          } catch {
            position = end;
          }
        }
        const [detail] = notUtf8(bytes);
        expect(detail === null).toBe(position === null);
        if (detail !== null && position !== null) {
          const named = Number(/^Byte (\d+)/.exec(detail ?? "")?.[1]);
          // The named byte begins the character that breaks off.
          expect(position - named).toBeLessThan(4);
          expect(() => decoder.decode(bytes.subarray(0, named - 1))).not.toThrow();
        }
      }),
    );
  });

  test.each<[string, BufferEncoding, number[]]>([
    ["with a mark", "utf16le", [0xff, 0xfe]],
    ["without a mark", "utf16le", []],
  ])("in UTF-16 %s get an answer that says so", (_, encoding, mark) => {
    const body = Buffer.concat([Buffer.from(mark), Buffer.from('{"event":"Form"}', encoding)]);
    for (const sent of [body, Buffer.from(body).swap16()]) {
      expect(readSignals(sent, anything)).toMatchObject({
        rejection: { code: "body_not_json", detail: expect.stringContaining("the body is UTF-16.") as string },
      });
    }
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
  ])("are rejected individually, unless no line is JSON or a text spans lines: %j", (text, expectedCodes) =>
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
      value: { signals: [{ rejection: null }, { rejection: { code: "signal_too_large" } }] },
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

  test("is rejected individually, without parsing or validation", () => {
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
