/** Bodies taken apart (spec §4, design §9): signal by signal, and never another answer than parsing the whole would give. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readSignals } from "../../../../src/domain/signal/signal-body.ts";
import type { SignalRefusal } from "../../../../src/domain/keys/refusal.ts";
import type { SignalBody, SignalBodyRules } from "../../../../src/domain/signal/signal-body.ts";
import type { Result } from "../../../../src/domain/result.ts";
import { isAbsent } from "../../../../src/domain/json/json-value.ts";
import { ok, refuse } from "../../../../src/domain/result.ts";
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

const anything: SignalBodyRules = { maxSignals: 10, lines: false, check: ok };
const read = (text: string, rules = anything) => readSignals(new TextEncoder().encode(text), rules);
const texts = ({ signals, text }: SignalBody): string[] => signals.map(({ start, end }) => text.slice(start, end));
const values = (body: SignalBody): unknown[] => texts(body).map((text) => JSON.parse(text) as unknown);

const MEGABYTE = 1024 * 1024;

/** What JSON.parse makes of a body: several values, one, or none. */
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
  return { one: body };
}

function found(text: string): unknown {
  const result = read(text, { ...anything, maxSignals: 1_000 });
  if (!result.ok) return result.refusal.code === "batch_empty" ? { several: [] } : null;
  const all = values(result.value);
  return result.value.several ? { several: all } : { one: all[0] };
}

describe("a body is taken apart as if it were parsed as a whole", () => {
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

  test("wherever it is broken", () => {
    fc.assert(
      fc.property(fc.oneof(bodies, spoilt), (text) => {
        expect(found(text)).toEqual(expected(text));
      }),
      { numRuns: 3_000 },
    );
  });

  test.each([
    ["[1,2", null],
    ["[1,,2]", null],
    ["[1,]", null],
    ["[,1]", null],
    ["[1]]", null],
    ["[1}", null],
    ['{"batch":[1,2}', null],
    ['{"batch":[1,2]', null],
    ['{"batch":[1],}', null],
    ['{"b\\u0061tch":[1],"x":2}', { several: [1] }],
    ['{"\\x":[1]}', null],
    ['{"batch":[1],"batch":[2,3]}', { several: [2, 3] }],
    ['{"batch":[1],"batch":5}', { one: { batch: 5 } }],
    ['{"a":{"batch":[1]}}', { one: { a: { batch: [1] } } }],
    [" [ 1 , 2 ] ", { several: [1, 2] }],
  ])("%s", (text, result) => {
    expect(found(text)).toEqual(result);
  });

  test("white space around it, however much, is no part of it", () => {
    const space = " ".repeat(2 * SIGNAL_MAX_BYTES);
    expect(found(`${space}[1]${space}`)).toEqual({ several: [1] });
    expect(found(`${space}{"batch":[1]}${space}`)).toEqual({ several: [1] });
  });

  test("what is larger than a signal is not parsed, but must be JSON all the same", () => {
    const large = `{"event":"x","zeros":[${"0,".repeat(SIGNAL_MAX_BYTES)}0]}`;
    const check = (): Result<never, SignalRefusal> => refuse({ code: "event_missing", detail: "" });
    const codes = (text: string) => {
      const result = read(text, { ...anything, check });
      return result.ok ? result.value.signals.map(({ refusal }) => refusal?.code) : result.refusal.code;
    };
    expect(codes(large)).toEqual(["signal_too_large"]);
    expect(codes(`[1,${large}]`)).toEqual(["event_missing", "signal_too_large"]);
    expect(codes(`[1,${large.replace("0]", "0")}]`)).toBe("body_not_json");
    expect(codes(large.slice(0, -1))).toBe("body_not_json");
    expect(codes(`{"batch":[1],"more":${large}}`)).toEqual(["signal_too_large"]);
  });

  test("a body of several megabytes that is cut off anywhere is never taken for one that is too large", () => {
    const element = '{"a\\"[":["x\\\\",{}],"b":-1.5e3},';
    const body = `{"event":"x","list":[${element.repeat((1.2 * MEGABYTE) / element.length)}true,"\\u00e9"]}`;
    expect(read(body)).toMatchObject({ value: { signals: [{ refusal: { code: "signal_too_large" } }] } });
    fc.assert(
      fc.property(fc.integer({ min: MEGABYTE - 100, max: body.length - 1 }), (length) => {
        expect(read(body.slice(0, length))).toMatchObject({ refusal: { code: "body_not_json" } });
      }),
      { numRuns: 20 },
    );
    expect(read(`${body}x`)).toMatchObject({ refusal: { code: "body_not_json" } });
    expect(read("1".repeat(2 * MEGABYTE))).toMatchObject({
      value: { signals: [{ refusal: { code: "signal_too_large" } }] },
    });
    expect(read(`[${"1,".repeat(MEGABYTE)}1`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("of too many signals the number is told, where the body is JSON at all", () => {
    const detail = expect.stringContaining("holds 11 signals");
    expect(read(`[${Array(11).fill(1).join(",")}]`)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
    expect(read(`[${Array(11).fill(1).join(",")},x]`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });
});

describe("a body is bytes", () => {
  const readBytes = (bytes: Uint8Array) => {
    const result = readSignals(bytes, anything);
    if (!result.ok) return result.refusal.code;
    return texts(result.value).map((text, index) => [text, result.value.signals[index]?.bytes]);
  };

  test("bytes that are no UTF-8 become U+FFFD in the one signal that holds them, and count as what is passed on", () => {
    // The first is Latin-1.
    expect(readBytes(Buffer.from('[{"a":"\xe9"},{"b":"\xc3\xa9"},{"c":1}]', "latin1"))).toEqual([
      ['{"a":"\ufffd"}', 11],
      ['{"b":"é"}', 10],
      ['{"c":1}', 7],
    ]);
    const tooLarge = Buffer.concat([Buffer.from('"'), Buffer.alloc(SIGNAL_MAX_BYTES / 2, 0xe9), Buffer.from('"')]);
    expect(readSignals(tooLarge, anything)).toMatchObject({
      value: { signals: [{ refusal: { code: "signal_too_large" } }] },
    });
  });

  test("a byte order mark within is no white space", () => {
    expect(readBytes(Buffer.from("[1,\ufeff2]"))).toBe("body_not_json");
    expect(readBytes(Buffer.from("[\ufeff1]"))).toBe("body_not_json");
  });

  test("a large body gives the same signals as a small one, whatever its letters take", () => {
    const item = fc.record({ text: fc.string({ unit: "binary" }), wide: fc.constantFrom("", "é", "ж", "漢", "😀") });
    fc.assert(
      fc.property(fc.array(item, { minLength: 1, maxLength: 9 }), (items) => {
        const padding = " ".repeat(MEGABYTE / 2);
        expect(found(`[${padding}${items.map((one) => JSON.stringify(one)).join(`,${padding}`)}]`)).toEqual({
          several: items,
        });
      }),
      { numRuns: 20 },
    );
  });
});

describe("lines of JSON", () => {
  const lines = { ...anything, lines: true };

  test("are walked, and no further than there may be", () => {
    const ms = cpuMs(() => {
      const detail = expect.stringContaining("more than 10");
      expect(read("1\n".repeat(8 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
      expect(read("\n".repeat(16 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "body_empty" } });
    });
    // Half a second of a processor; a string for each of 16 million lines takes many times that.
    expect(ms).toBeLessThan(6_000);
  });

  test("are read, as many as there may be, whatever is blank between and around them", () => {
    const result = read(`\n\n${"1\r\n\n \n".repeat(10)}\n`, lines);
    expect(result.ok && values(result.value)).toEqual(Array(10).fill(1));
  });

  test("of which one is broken have that one refused alone; a body of which no line is JSON was not meant as lines", () => {
    const result = read('{"a":1}\n{"a":\n[2]', lines);
    expect(result.ok && texts(result.value)).toEqual(['{"a":1}', '{"a":', "[2]"]);
    const codes = result.ok && result.value.signals.map(({ refusal }) => refusal?.code);
    expect(codes).toEqual([undefined, "signal_not_json", undefined]);
    expect(read("{\n'a'\n}", lines)).toMatchObject({ refusal: { code: "body_not_json" } });
    expect(read("x\n".repeat(100), lines)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test.each([
    ["an array that lacks a comma", '[\n {"a":1},\n {"a":2}\n {"a":3}\n]', "line 4, column 2"],
    ["an array that is cut off", '[{"a":1},\n{"a":2}\n', "line 3, column 1"],
    ["an envelope that is cut off", '{"batch":[\n{"a":1}\n\n', "line 4, column 1"],
    ["an object that lacks a comma", '{\n"a": 1,\n"b":\n{"c":2}\n"d":3}', "line 5, column 1"],
    ["objects over several lines", '{\n"a":1}\n{"a":2}\n{"a":3}', "line 3, column 1"],
  ])("are not what one text over several lines is taken for, as when %s is broken", (_, text, where) => {
    expect(read(text, lines)).toMatchObject({
      refusal: { code: "body_not_json", detail: expect.stringContaining(where) },
    });
  });

  test("are not what a text is taken for whose value is cut off in the second line", () => {
    expect(read('[1,\ntru\n{"a":1}', lines)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("may break off in the first one, wherever that is", () => {
    for (const first of ["{", '{"a":[1,{', '{"a":"x', '{"a":1', '{"a":1,', '{"a"', '{"a":tru', "["]) {
      const result = read(`${first}\n\n{"a":2}\n{"a":3}`, lines);
      const sent = { first, codes: result.ok && result.value.signals.map(({ refusal }) => refusal?.code ?? null) };
      expect(sent).toEqual({ first, codes: first === "[" ? false : ["signal_not_json", null, null] });
    }
  });

  test("that are no JSON are named by their number in the body, empty lines counted", () => {
    const result = read('{"a":1}\n\n{"a":}\n{"a":2}\r\n \r\nx\n', lines);
    const details = result.ok ? result.value.signals.map(({ refusal }) => refusal?.detail) : [];
    expect(details).toEqual([
      undefined,
      expect.stringMatching(/ at line 3, column 6: /),
      undefined,
      expect.stringMatching(/ at line 6, column 1: /),
    ]);
  });

  test("one line is one signal, an object over several lines too", () => {
    expect(read('{"a":1}\n', lines)).toMatchObject({ value: { several: false } });
    expect(read('{\n"a":\n1\n}', lines)).toMatchObject({ value: { several: false } });
    expect(read("[\n1,\n2\n]", lines)).toMatchObject({ value: { several: true } });
  });
});

describe("sizes to the byte, and what is told of them", () => {
  const ofBytes = (bytes: number) => `"${"x".repeat(bytes - 2)}"`;
  const refusalsOf = (text: string, rules = anything) => {
    const result = read(text, rules);
    return result.ok
      ? result.value.signals.map(({ bytes, refusal }) => [bytes, refusal?.code ?? null])
      : result.refusal;
  };

  test("a signal may have SIGNAL_MAX_BYTES, by itself or among others; the white space around it does not count", () => {
    const [most, more] = [ofBytes(SIGNAL_MAX_BYTES), ofBytes(SIGNAL_MAX_BYTES + 1)];
    expect(refusalsOf(most)).toEqual([[SIGNAL_MAX_BYTES, null]]);
    expect(refusalsOf(more)).toEqual([[SIGNAL_MAX_BYTES + 1, "signal_too_large"]]);
    expect(refusalsOf(`[1, ${most} ,${more},2]`)).toEqual([
      [1, null],
      [SIGNAL_MAX_BYTES, null],
      [SIGNAL_MAX_BYTES + 1, "signal_too_large"],
      [1, null],
    ]);
    expect(read(more)).toMatchObject({
      value: {
        signals: [
          {
            refusal: {
              detail: `The signal has ${SIGNAL_MAX_BYTES + 1} bytes; at most ${SIGNAL_MAX_BYTES} are taken. Send fewer or shorter properties.`,
            },
          },
        ],
      },
    });
  });

  test("an envelope may have as much around its signals", () => {
    const envelope = (bytes: number) => {
      const around = '{"x":"","batch":[]}'.length;
      return `{"x":"${"x".repeat(bytes - around + 2)}","batch":[1,2]}`;
    };
    expect(refusalsOf(envelope(SIGNAL_MAX_BYTES))).toHaveLength(2);
    expect(refusalsOf(envelope(SIGNAL_MAX_BYTES + 1))).toEqual([[expect.any(Number), "signal_too_large"]]);
  });

  test("a signal may be so many levels deep, and no deeper", () => {
    const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
    const inOne = (levels: number) => `{"a":${nested(levels - 1)}}`;
    expect(refusalsOf(inOne(SIGNAL_MAX_DEPTH))).toMatchObject([[expect.any(Number), null]]);
    expect(refusalsOf(inOne(SIGNAL_MAX_DEPTH + 1))).toMatchObject([[expect.any(Number), "signal_too_deep"]]);
    expect(refusalsOf(`[${inOne(SIGNAL_MAX_DEPTH)},${inOne(SIGNAL_MAX_DEPTH + 1)}]`)).toMatchObject([
      [expect.any(Number), null],
      [expect.any(Number), "signal_too_deep"],
    ]);
    const deep = read(inOne(SIGNAL_MAX_DEPTH + 1));
    const detail = `The signal is nested ${SIGNAL_MAX_DEPTH + 1} levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
    expect(deep).toMatchObject({ value: { signals: [{ refusal: { detail } }] } });
  });

  test("as many signals as there may be are taken, and of one more it is told how many there are", () => {
    const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
    expect(refusalsOf(JSON.stringify(numbers(10)))).toHaveLength(10);
    expect(refusalsOf(JSON.stringify(numbers(11)))).toEqual({
      code: "batch_too_long",
      detail: "The body holds 11 signals; at most 10 are taken per request.",
    });
    const lines = { ...anything, lines: true };
    expect(refusalsOf(numbers(10).join("\n"), lines)).toHaveLength(10);
    expect(refusalsOf(numbers(11).join("\n"), lines)).toEqual({
      code: "batch_too_long",
      detail: "The body holds more than 10 signals; at most 10 are taken per request.",
    });
    expect(
      refusalsOf(
        numbers(11)
          .map(() => "{")
          .join("\n"),
        lines,
      ),
    ).toMatchObject({ code: "body_not_json" });
  });

  test("an object that names a type is a signal, whatever else it carries", () => {
    for (const name of ["type", "event"]) {
      const sent = { [name]: "x", batch: [1, 2] };
      expect(found(JSON.stringify(sent))).toEqual({ one: sent });
      for (const none of [null, "", " "]) {
        expect(found(JSON.stringify({ [name]: none, batch: [1, 2] }))).toEqual({ several: [1, 2] });
      }
    }
  });

  test("nothing at all is told apart from what is no JSON", () => {
    for (const text of ["", " ", "\n\t\r "]) expect(read(text)).toMatchObject({ refusal: { code: "body_empty" } });
    for (const text of ["x", " {", "[1"]) expect(read(text)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("lines are several, also two of them, and one that is broken has its own bytes and reason", () => {
    const result = read('{"a":1}\n{"b":\n', { ...anything, lines: true });
    expect(result).toMatchObject({
      value: {
        several: true,
        signals: [{ refusal: null }, { start: 8, end: 13, bytes: 5, refusal: { code: "signal_not_json" } }],
      },
    });
    expect(read('{"a":1}', { ...anything, lines: true })).toMatchObject({ value: { several: false } });
    expect(read('\n{\n{"a":1}', { ...anything, lines: true })).toMatchObject({ value: { several: true } });
  });
});

describe("a signal that is nested more than 64 levels deep", () => {
  const detail = `The signal is nested more than 64 levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
  const refusal = { code: "signal_too_deep", detail };
  const nested = (levels: number) => `${'{"a":['.repeat(levels / 2)}${"]}".repeat(levels / 2)}`;
  const never = { ...anything, check: () => expect.fail("it was parsed") };
  const lines = { ...anything, lines: true };

  test("is refused without being parsed or validated, alone, however it is sent", () => {
    for (const text of [nested(66), `{"event":"x","a":${nested(100)}}`, "[".repeat(1_000), '{"a":'.repeat(1_000)]) {
      expect(read(text, never)).toMatchObject({ value: { several: false, signals: [{ refusal }] } });
    }
    const [bad, garbage] = [nested(66), `${"[".repeat(65)}x y${"]".repeat(65)}`];
    for (const text of [`[1,${bad},${garbage},2]`, `{"batch":[1,${bad},${garbage},2]}`]) {
      const result = read(text);
      const refusals = result.ok && result.value.signals.map((signal) => signal.refusal);
      expect(refusals).toEqual([null, refusal, refusal, null]);
    }
    const result = read(`1\n${bad}\n${garbage}\n2`, lines);
    expect(result.ok && result.value.signals.map((signal) => signal.refusal)).toEqual([null, refusal, refusal, null]);
  });

  test("of 64 levels the number is told, and its JSON is looked at", () => {
    expect(read(nested(64))).toMatchObject({
      value: { signals: [{ refusal: { detail: expect.stringContaining(" 64 ") } }] },
    });
    expect(read(`[${nested(64).replace("[]", "[x]")}]`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("takes no good line along, also as the first line and cut off", () => {
    for (const first of ['{"a":{'.repeat(40), `${"[".repeat(70)}x`]) {
      const result = read(`${first}\n{"b":1}\n{"c":2}`, lines);
      const codes = result.ok && result.value.signals.map((signal) => signal.refusal?.code ?? null);
      expect(codes).toEqual(["signal_too_deep", null, null]);
    }
    expect(read("[\n".repeat(100), lines)).toMatchObject({ refusal: { code: "body_not_json" } });
    expect(read(`${"[\n".repeat(100)}${"]".repeat(100)}`, lines)).toMatchObject({ value: { signals: [{ refusal }] } });
  });
});
