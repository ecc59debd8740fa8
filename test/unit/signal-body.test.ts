/** Bodies taken apart (spec §4, design §9): signal by signal, and never another answer than parsing the whole would give. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readSignals } from "../../src/domain/signal/signal-body.ts";
import type { SignalRefusal } from "../../src/domain/keys/refusal.ts";
import type { BodySignal, SignalBodyRules } from "../../src/domain/signal/signal-body.ts";
import type { Result } from "../../src/domain/result.ts";
import { ok, refuse } from "../../src/domain/result.ts";
import { utf8Length } from "../../src/platform/utf8-length.ts";
import { SIGNAL_MAX_BYTES } from "../../src/limits.ts";

const anything: SignalBodyRules = { maxSignals: 10, lines: false, check: ok };
const read = (text: string, rules = anything) => readSignals(text, utf8Length(text), rules);
const values = (signals: BodySignal[]): unknown[] => signals.map(({ text }) => JSON.parse(text) as unknown);

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
  if (Array.isArray(batch) && event === undefined && type === undefined) return { several: batch };
  return { one: body };
}

function found(text: string): unknown {
  const result = read(text, { ...anything, maxSignals: 1_000 });
  if (!result.ok) return result.refusal.code === "batch_empty" ? { several: [] } : null;
  const all = values(result.value.signals);
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

  test("also where it is broken anywhere", () => {
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

  test("of too many the number is told, where the body is JSON at all", () => {
    const detail = expect.stringContaining("holds 11 signals");
    expect(read(`[${Array(11).fill(1).join(",")}]`)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
    expect(read(`[${Array(11).fill(1).join(",")},x]`)).toMatchObject({ refusal: { code: "body_not_json" } });
  });
});

describe("lines of JSON", () => {
  const lines = { ...anything, lines: true };

  test("are walked, and no further than there may be", () => {
    const started = performance.now();
    const detail = expect.stringContaining("more than 10");
    expect(read("1\n".repeat(8 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "batch_too_long", detail } });
    expect(read("\n".repeat(16 * MEGABYTE), lines)).toMatchObject({ refusal: { code: "body_empty" } });
    // Half a second on an idle machine; a string for each of 16 million lines takes many times that.
    expect(performance.now() - started).toBeLessThan(6_000);
  });

  test("as many as there may be are read, whatever is blank between and around them", () => {
    const result = read(`\n\n${"1\r\n\n \n".repeat(10)}\n`, lines);
    expect(result.ok && values(result.value.signals)).toEqual(Array(10).fill(1));
  });

  test("a broken one is refused alone; where none is JSON it was not meant as lines", () => {
    const result = read('{"a":1}\n{"a":\n[2]', lines);
    expect(result.ok && result.value.signals.map(({ text, refusal }) => [text, refusal?.code])).toEqual([
      ['{"a":1}', undefined],
      ['{"a":', "signal_not_json"],
      ["[2]", undefined],
    ]);
    expect(read("{\n'a'\n}", lines)).toMatchObject({ refusal: { code: "body_not_json" } });
    expect(read("x\n".repeat(100), lines)).toMatchObject({ refusal: { code: "body_not_json" } });
  });

  test("one line is one signal, an object over several lines too", () => {
    expect(read('{"a":1}\n', lines)).toMatchObject({ value: { several: false } });
    expect(read('{\n"a":\n1\n}', lines)).toMatchObject({ value: { several: false } });
    expect(read("[\n1,\n2\n]", lines)).toMatchObject({ value: { several: true } });
  });
});
