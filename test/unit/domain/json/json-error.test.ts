/** The explanation of invalid JSON: the position of the first error, the likely cause and the fix (design §9). */
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonError } from "../../../../src/domain/json/json-error.ts";
import * as errors from "../../../../src/domain/json/json-error.ts";
import { cpuMs } from "../../../support/cpu-ms.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const explainJsonError = (text: string): string => explainBytes(utf8(text));

function explainBytes(bytes: Uint8Array): string {
  return errors.describeJsonError(bytes, 0, bytes.length, errors.findJsonError(bytes, 0, bytes.length));
}

/** The error, with its position as an index into the text. */
function findJsonError(text: string): JsonError | null {
  const bytes = utf8(text);
  const error = errors.findJsonError(bytes, 0, bytes.length);
  return (
    error && {
      ...error,
      position: new TextDecoder("utf-8", { fatal: false, ignoreBOM: true }).decode(bytes.subarray(0, error.position))
        .length,
    }
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Valid JSON, cut, spliced and overwritten with fragments that matter to the grammar. */
const fragment = fc.oneof(
  fc.constantFrom(..."{}[]:,\"'\\0123eE+-.tfnu \n\t\r\u0000\u001f\u00a0\ufeff/é".split("")),
  fc.constantFrom(
    "true",
    "null",
    "nul",
    "\\u12",
    "\\u00e9",
    "\\x",
    '""',
    "01",
    "-",
    "1.",
    "1e",
    "1e+5",
    "NaN",
    "{{x}}",
    ",,",
    "\ud800",
  ),
);
const nearlyJson = fc
  .tuple(
    fc.json(),
    fc.boolean(),
    fc.array(fc.tuple(fc.nat(), fc.nat(2), fc.oneof(fragment, fc.constant(""))), { minLength: 1, maxLength: 3 }),
  )
  .map(([text, pretty, edits]) => {
    let edited = pretty ? JSON.stringify(JSON.parse(text), null, 1) : text;
    for (const [where, removed, inserted] of edits) {
      const at = where % (edited.length + 1);
      edited = edited.slice(0, at) + inserted + edited.slice(at + removed);
    }
    return edited;
  });
const soup = fc.array(fragment, { maxLength: 12 }).map((parts) => parts.join(""));

describe("findJsonError", () => {
  test("accepts exactly the texts that JSON.parse accepts", () => {
    fc.assert(
      fc.property(fc.oneof(nearlyJson, soup, fc.json()), (text) => {
        expect(findJsonError(text) === null).toBe(isJson(text));
      }),
      { numRuns: 3_000 },
    );
  });

  test("reports a position up to which the text is only truncated", () => {
    fc.assert(
      fc.property(fc.oneof(nearlyJson, soup), (text) => {
        const error = findJsonError(text);
        fc.pre(error !== null);
        expect(error.position).toBeGreaterThanOrEqual(0);
        expect(error.position).toBeLessThanOrEqual(text.length);
        const before = findJsonError(text.slice(0, error.position));
        expect(before === null || before.position === error.position).toBe(true);
        expect(["truncated", "empty"]).toContain(before?.kind ?? "truncated");
      }),
      { numRuns: 2_000 },
    );
  });

  test("finds the same first error as JSON.parse, if that reports a position", () => {
    fc.assert(
      fc.property(fc.oneof(nearlyJson, soup), (text) => {
        const parsePosition = positionOfJsonParse(text);
        const error = findJsonError(text);
        fc.pre(parsePosition !== null && error !== null);
        // Misspelt words and bad escapes are reported at their beginning, by JSON.parse at the wrong character.
        const slack = error.kind === "bad_escape" ? 5 : error.kind === "value_expected" ? 4 : 0;
        expect(parsePosition - error.position).toBeGreaterThanOrEqual(0);
        expect(parsePosition - error.position).toBeLessThanOrEqual(slack);
      }),
      { numRuns: 2_000 },
    );
  });
});

function positionOfJsonParse(text: string): number | null {
  try {
    JSON.parse(text);
  } catch (error) {
    const position = / at position (\d+)/.exec(String(error))?.[1];
    return position === undefined ? null : Number(position);
  }
  return null;
}

const ENCODE = /set Request Token Encoding to JSON and write the token without quotes/;

describe("the explanation of a typical mistake", () => {
  test.each<[string, string, string | RegExp, string]>([
    ["form-encoded body", "email=a%40b.c&event=x", /form-encoded.*Request Token Encoding to JSON/, "line 1, column 1"],
    [
      "multipart body",
      '--boundary-1\r\nContent-Disposition: form-data; name="event"\r\n\r\nx\r\n--boundary-1--',
      /: the body is multipart\/form-data\. Send a JSON object instead\.$/,
      "line 1, column 2",
    ],
    ["form-encoded nested", "\n user[email]=a&event=x", /form-encoded/, "line 2, column 2"],
    ["token not encoded", '{"company": Acme & Sons}', ENCODE, "column 13"],
    ["token not encoded, digits first", '{"company": 3M & Sons}', ENCODE, "column 14"],
    ["token not encoded, a word first", '{"company": null & Sons}', ENCODE, "column 18"],
    ["token not encoded, a foreign literal first", '{"company": None of us}', ENCODE, "column 13"],
    ["telephone number not encoded", '{"phone": +49 171}', ENCODE, "column 11"],
    ["empty token not encoded", '{"company": , "a": 1}', /a value is missing.*Request Token Encoding/, "column 13"],
    ["empty token at the end", '{"company": }', /a value is missing.*Request Token Encoding/, "column 13"],
    ["token quoted twice", '{"name": ""Jane""}', /quoted twice.*without quotes in the template/, "column 12"],
    ["token quoted twice, another text", '{"name": "" Jane""}', ENCODE, "column 13"],
    ["empty token quoted twice", '{"name": """"}', /quoted twice/, "column 12"],
    ["name quoted twice", '{""name"": 1}', /quoted twice/, "column 4"],
    ["quote within a text", '{"name": "The "Best" Co"}', /a quote within a text is written \\"/, "column 16"],
    ["escaped quote at the end of a text", '{"name": "6\\""x}', /a quote within a text/, "column 15"],
    ["an object for a name", '{ {"a": 1} }', /name in double quotes was expected/, "column 3"],
    [
      "line break within a text",
      '{\n"name": "Jane\nDoe"}',
      /a line break stands within.*Request Token Enc/,
      "line 2, column 14",
    ],
    ["carriage return within a text", '{"name": "Jane\r\nDoe"}', /a line break stands within/, "column 15"],
    ["tab within a text", '{"name": "Jane\tDoe"}', /a tab stands within/, "column 15"],
    ["control character within a text", '{"name": "Jane\u0001"}', /U\+0001\) stands within/, "column 15"],
    ["token not replaced", '{ "email": {{lead.Email Address}} }', /double braces was not replaced/, "column 13"],
    ["token not replaced, in an array", "[{{lead.Id}}]", /double braces was not replaced/, "column 3"],
    ["trailing comma in an object", '{"a": 1,\n}', /comma after the last entry/, "line 2, column 1"],
    ["trailing comma in an array", "[1, ]", /comma after the last entry/, "column 5"],
    ["single quotes around a name", "{'a': 1}", /single quote.*double quotes/, "column 2"],
    ["single quotes around a value", "{\"a\": 'x'}", /single quote.*double quotes/, "column 7"],
    ["typographic quotes", "{“a”: 1}", /“.*double quotes/, "column 2"],
    ["name without quotes", "{a: 1}", /name in double quotes was expected/, "column 2"],
    ["missing comma", '{"a": "x"\n "b": 1}', /comma is missing/, "line 2, column 2"],
    ["missing comma between objects", "[{}{}]", /comma is missing/, "column 4"],
    ["missing colon", '{"a" 1}', /colon was expected/, "column 6"],
    ["wrong bracket", '{"a": [1}', /brackets match/, "column 9"],
    ["wrong bracket after an object", "[{}}", /brackets match/, "column 4"],
    ["cut off in a text", '{"a": "x', /ends in the middle/, "column 9"],
    ["cut off between entries", '{"a": 1, ', /ends in the middle/, "column 10"],
    ["cut off in a word", '{"a": tru', /ends in the middle/, "column 10"],
    ["cut off in an escape", '"\\u00', /ends in the middle/, "column 6"],
    ["several objects", '{"a": 1}\n{"a": 2}', /Newline-delimited JSON is for the bulk endpoint/, "line 2, column 1"],
    ["text after the end", '{"a": 1}}', /complete, but "}" follows/, "column 9"],
    ["NaN", '{"a": NaN}', /no NaN/, "column 7"],
    ["negative Infinity", '{"a": -Infinity }', /no Infinity/, "column 8"],
    ["undefined", '{"a": undefined}', /no value is null/, "column 7"],
    ["None", '{"a": None}', /no value is null/, "column 7"],
    ["True", '{"a": True}', /small letters/, "column 7"],
    ["leading zeros", '{"zip": 01067}', /number begins with a zero/, "column 10"],
    ["bad escape", '{"path": "C:\\Users"}', /no escape/, "column 13"],
    ["bad unicode escape", '{"a": "\\u12"}', /no escape/, "column 8"],
    ["XML", "<signal/>", /cannot begin with "<"/, "column 1"],
    ["only white space", " \n ", /text is empty/, "line 2, column 2"],
  ])("%s", (_, text, cause, where) => {
    expect(isJson(text)).toBe(false);
    expect(explainJsonError(text)).toMatch(cause);
    expect(explainJsonError(text)).toMatch(new RegExp(`${where}\\b`));
  });

  test("a compressed body without its header", () => {
    const bytes = new Uint8Array(gzipSync('{"event":"Visit"}'));
    expect(explainBytes(bytes)).toMatch(/the body is compressed.*`Content-Encoding: gzip`/);
  });

  test("the position is the line, the column and the character of the text", () => {
    expect(explainJsonError('{\n  "a": 1,\n  "b": x\n}')).toMatch(
      /^Not valid JSON at line 3, column 8 \(character 20\): /,
    );
  });
});

test("positions count characters, not bytes, even far into a text", () => {
  const texts = fc.tuple(
    fc.constantFrom(0, 1, 40_000),
    fc.constantFrom("é", "ж", "漢", "😀"),
    fc.constantFrom("", "\n"),
  );
  fc.assert(
    fc.property(texts, ([count, letter, lineBreak]) => {
      const before = `["${letter.repeat(count)}",${lineBreak}`;
      const column = lineBreak === "" ? before.length + 1 : 1;
      const place = `line ${lineBreak === "" ? 1 : 2}, column ${column} (character ${before.length + 1})`;
      expect(explainJsonError(`${before}漢]`)).toContain(
        `${place}: a text stands without quotes; it goes wrong at "漢"`,
      );
    }),
  );
});

test("long white space before an error does not hide the text before it", () => {
  expect(explainJsonError(`[1,${" ".repeat(100_000)}]`)).toContain("comma after the last entry");
  expect(explainJsonError(`{"a": "x"${"\n".repeat(100_000)}"b": 1}`)).toContain("comma is missing");
});

describe("an explanation", () => {
  test("repeats at most one character of the body", () => {
    const bodies = fc.tuple(
      fc.constantFrom('{"a": ', '{"a": "', '{"a": ""', "", "{", "[1,", "a=", '{"a": {{', '{"a": 12'),
      fc.array(fc.constantFrom("ж", "Ω", "ñ"), { minLength: 2, maxLength: 9 }).map((letters) => letters.join("")),
      fc.constantFrom("", "}", '"}', '""}', "\n", " ж", '"ж', "}}}", "\\ж"),
    );
    fc.assert(
      fc.property(bodies, ([before, secret, after]) => {
        const text = before + secret + after;
        fc.pre(!isJson(text));
        expect(explainJsonError(text).match(/[жΩñ]/g)?.length ?? 0).toBeLessThanOrEqual(1);
      }),
    );
  });

  test.each([
    ["60,000 levels of arrays", "[".repeat(60_000)],
    ["60,000 levels of objects", '{"a":'.repeat(60_000)],
  ])("reports %s as truncated, without an overflow", (_, text) => {
    expect(explainJsonError(text)).toContain(`(character ${text.length + 1}): the text ends in the middle`);
  });

  test("checks the order of closing brackets in deep nesting", () => {
    const deep = `${'[{"a":'.repeat(20_000)}1${"}]".repeat(20_000)}`;
    expect(findJsonError(deep)).toBeNull();
    const swapped = `${deep.slice(0, -4)}]}}]`;
    expect(findJsonError(swapped)).toEqual({ position: swapped.length - 4, kind: "comma_expected" });
  });

  test.each([
    ["one long text", `{"a":"${"x".repeat(16_000_000)}`],
    ["brackets", "[".repeat(16_000_000)],
    ["lines", `${"\n".repeat(16_000_000)}x`],
    ["signals", `[${'{"event":"Filled Out Form"},'.repeat(590_000)}]`],
    ["white space within", `[1${" ".repeat(16_000_000)}x]`],
    ["escapes", `"${"\\u0041".repeat(2_600_000)}`],
    ["one long name without a value", "a".repeat(16_000_000)],
  ])("of 16 MB of %s takes linear time", (_, text) => {
    // A run takes less than a quarter of this; quadratic time would be hours.
    expect(cpuMs(() => void explainJsonError(text))).toBeLessThan(3_000);
  });
});
