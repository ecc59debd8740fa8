/** Bodies read signal by signal (spec §4, design §9), with the same result as parsing the whole. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readSignals, type SignalBody, type SignalBodyRules } from "../../../../src/domain/signal/signal-body.ts";
import type { SignalRefusal } from "../../../../src/domain/keys/refusal.ts";
import { ok, refuse, type Result } from "../../../../src/domain/result.ts";
import { isAbsent } from "../../../../src/domain/json/json-value.ts";
import { SIGNAL_MAX_BYTES, SIGNAL_MAX_DEPTH } from "../../../../src/limits.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

const anything: SignalBodyRules = { maxSignals: 10, lines: false, check: ok };
const read = (text: string, rules = anything) => readSignals(new TextEncoder().encode(text), rules);
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
  return result.value.several ? { several: all } : { single: all[0] };
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

  test("reports a truncated body of several megabytes as invalid, never as too large", () => {
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

  test("reports the number of too many signals only for valid JSON", () => {
    const detail = expect.stringContaining("holds 11 signals");
    expect(read(`[${Array(11).fill(1).join(",")}]`)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
    expect(read(`[${Array(11).fill(1).join(",")},x]`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });
});

describe("the bytes of a body", () => {
  const readBytes = (bytes: Uint8Array) => {
    const result = readSignals(bytes, anything);
    if (!result.ok) return result.refusal.code;
    return texts(result.value).map((text, index) => [text, result.value.signals[index]?.bytes]);
  };

  test("become U+FFFD in the affected signal if they are not UTF-8, and count as stored", () => {
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

  test("do not allow a byte order mark as white space", () => {
    expect(readBytes(Buffer.from("[1,\ufeff2]"))).toBe("body_not_json");
    expect(readBytes(Buffer.from("[\ufeff1]"))).toBe("body_not_json");
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
  const lines = { ...anything, lines: true };

  test("are read no further than the maximum of signals", () => {
    const ms = cpuMs(() => {
      const detail = expect.stringContaining("more than 10");
      expect(read("1\n".repeat(8 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
      expect(read("\n".repeat(16 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "body_empty" } });
    });
    // Takes half a second; allocating a string for each of 16 million lines takes many times that.
    expect(ms).toBeLessThan(6_000);
  });

  test("are read up to the maximum, ignoring blank lines", () => {
    const result = read(`\n\n${"1\r\n\n \n".repeat(10)}\n`, lines);
    expect(result.ok && values(result.value)).toEqual(Array(10).fill(1));
  });

  test("are refused individually if broken, unless no line is JSON", () => {
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
  ])("are not assumed for a single text over several lines: %s", (_, text, where) => {
    expect(read(text, lines)).toMatchObject({
      refusal: { code: "body_not_json", detail: expect.stringContaining(where) },
    });
  });

  test("are not assumed for a text truncated in its second line", () => {
    expect(read('[1,\ntru\n{"a":1}', lines)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("may be truncated anywhere in the first line", () => {
    for (const first of ["{", '{"a":[1,{', '{"a":"x', '{"a":1', '{"a":1,', '{"a"', '{"a":tru', "["]) {
      const result = read(`${first}\n\n{"a":2}\n{"a":3}`, lines);
      const sent = { first, codes: result.ok && result.value.signals.map(({ refusal }) => refusal?.code ?? null) };
      expect(sent).toEqual({ first, codes: first === "[" ? false : ["signal_not_json", null, null] });
    }
  });

  test("that are invalid are reported by line number, counting empty lines", () => {
    const result = read('{"a":1}\n\n{"a":}\n{"a":2}\r\n \r\nx\n', lines);
    const details = result.ok ? result.value.signals.map(({ refusal }) => refusal?.detail) : [];
    expect(details).toEqual([
      undefined,
      expect.stringMatching(/ at line 3, column 6: /),
      undefined,
      expect.stringMatching(/ at line 6, column 1: /),
    ]);
  });

  test("are not assumed for a single line or a single object over several lines", () => {
    expect(read('{"a":1}\n', lines)).toMatchObject({ value: { several: false } });
    expect(read('{\n"a":\n1\n}', lines)).toMatchObject({ value: { several: false } });
    expect(read("[\n1,\n2\n]", lines)).toMatchObject({ value: { several: true } });
  });
});

describe("the limits of a body", () => {
  const ofBytes = (bytes: number) => `"${"x".repeat(bytes - 2)}"`;
  const refusalsOf = (text: string, rules = anything) => {
    const result = read(text, rules);
    return result.ok
      ? result.value.signals.map(({ bytes, refusal }) => [bytes, refusal?.code ?? null])
      : result.refusal;
  };

  test("allow SIGNAL_MAX_BYTES for each signal, without the white space around it", () => {
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

  test("allow the same size around the signals of an envelope", () => {
    const envelope = (bytes: number) => {
      const around = '{"x":"","batch":[]}'.length;
      return `{"x":"${"x".repeat(bytes - around + 2)}","batch":[1,2]}`;
    };
    expect(refusalsOf(envelope(SIGNAL_MAX_BYTES))).toHaveLength(2);
    expect(refusalsOf(envelope(SIGNAL_MAX_BYTES + 1))).toEqual([[expect.any(Number), "signal_too_large"]]);
  });

  test("allow SIGNAL_MAX_DEPTH levels and no more", () => {
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

  test("allow the maximum of signals, and count the signals beyond it", () => {
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

  test("treat an object with a type or an event as a signal, even with a batch", () => {
    for (const name of ["type", "event"]) {
      const sent = { [name]: "x", batch: [1, 2] };
      expect(found(JSON.stringify(sent))).toEqual({ single: sent });
      for (const none of [null, "", " "]) {
        expect(found(JSON.stringify({ [name]: none, batch: [1, 2] }))).toEqual({ several: [1, 2] });
      }
    }
  });

  test("report the bytes and the reason of a broken line", () => {
    const result = read('{"a":1}\n{"b":\n', { ...anything, lines: true });
    expect(result).toMatchObject({
      value: {
        several: true,
        signals: [{ refusal: null }, { start: 8, end: 13, bytes: 5, refusal: { code: "signal_not_json" } }],
      },
    });
    expect(read('\n{\n{"a":1}', { ...anything, lines: true })).toMatchObject({ value: { several: true } });
  });
});

describe("a signal that is nested more than 64 levels deep", () => {
  const detail = `The signal is nested more than 64 levels deep; at most ${SIGNAL_MAX_DEPTH} are taken. Flatten its properties.`;
  const refusal = { code: "signal_too_deep", detail };
  const nested = (levels: number) => `${'{"a":['.repeat(levels / 2)}${"]}".repeat(levels / 2)}`;
  const never = { ...anything, check: () => expect.fail("it was parsed") };
  const lines = { ...anything, lines: true };

  test("is refused individually, without parsing or validation", () => {
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

  test("is parsed and counted up to 64 levels", () => {
    expect(read(nested(64))).toMatchObject({
      value: { signals: [{ refusal: { detail: expect.stringContaining(" 64 ") } }] },
    });
    expect(read(`[${nested(64).replace("[]", "[x]")}]`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("does not affect valid lines, even as a truncated first line", () => {
    for (const first of ['{"a":{'.repeat(40), `${"[".repeat(70)}x`]) {
      const result = read(`${first}\n{"b":1}\n{"c":2}`, lines);
      const codes = result.ok && result.value.signals.map((signal) => signal.refusal?.code ?? null);
      expect(codes).toEqual(["signal_too_deep", null, null]);
    }
    expect(read("[\n".repeat(100), lines)).toMatchObject({ refusal: { code: "body_not_json" } });
    expect(read(`${"[\n".repeat(100)}${"]".repeat(100)}`, lines)).toMatchObject({ value: { signals: [{ refusal }] } });
  });
});
