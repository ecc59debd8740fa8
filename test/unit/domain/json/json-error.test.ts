/** The explanation of invalid JSON: the position of the first error, the likely cause and the fix (design §9). */
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { describeJsonError } from "../../../../src/domain/json/json-error.ts";
import * as scan from "../../../../src/domain/json/json-scan.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const explainJsonError = (text: string): string => explainBytes(utf8(text));

function explainBytes(bytes: Uint8Array): string {
  return describeJsonError(bytes, 0, bytes.length, scan.findJsonError(bytes, 0, bytes.length));
}

/** The error, with its position as an index into the text. */
function findJsonError(text: string): scan.JsonError | null {
  const bytes = utf8(text);
  const error = scan.findJsonError(bytes, 0, bytes.length);
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
  fc.constantFrom(...'true null nul \\u12 \\u00e9 \\x "" 01 - 1. 1e 1e+5 NaN {{x}} ,, \ud800'.split(" ")),
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

  test("checks the order of closing brackets in deep nesting", () => {
    const deep = `${'[{"a":'.repeat(20_000)}1${"}]".repeat(20_000)}`;
    expect(findJsonError(deep)).toBeNull();
    const swapped = `${deep.slice(0, -4)}]}}]`;
    expect(findJsonError(swapped)).toEqual({ position: swapped.length - 4, kind: "comma_expected" });
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

describe("the explanation", () => {
  test.each<[text: string, cause: RegExp, where: string]>([
    ["email=a%40b.c&event=x", /form-encoded.*Request Token Encoding to JSON/, "line 1, column 1"],
    [
      '--boundary-1\r\nContent-Disposition: form-data; name="event"\r\n\r\nx\r\n--boundary-1--',
      /: the body is multipart\/form-data\. Send a JSON object instead\.$/,
      "line 1, column 2",
    ],
    ["\n user[email]=a&event=x", /form-encoded/, "line 2, column 2"],
    ['{"company": Acme & Sons}', ENCODE, "column 13"],
    ['{"company": 3M & Sons}', ENCODE, "column 14"],
    ['{"company": null & Sons}', ENCODE, "column 18"],
    ['{"company": None of us}', ENCODE, "column 13"],
    ['{"phone": +49 171}', ENCODE, "column 11"],
    ['{"company": , "a": 1}', /a value is missing.*Request Token Encoding/, "column 13"],
    ['{"company": }', /a value is missing.*Request Token Encoding/, "column 13"],
    ['{"name": ""Jane""}', /quoted twice.*without quotes in the template/, "column 12"],
    ['{"name": "" Jane""}', ENCODE, "column 13"],
    ['{"name": """"}', /quoted twice/, "column 12"],
    ['{""name"": 1}', /quoted twice/, "column 4"],
    ['{"name": "The "Best" Co"}', /a quote within a text is written \\"/, "column 16"],
    ['{"name": "6\\""x}', /a quote within a text/, "column 15"],
    ['{ {"a": 1} }', /name in double quotes was expected/, "column 3"],
    ['{\n"name": "Jane\nDoe"}', /a line break stands within.*Request Token Enc/, "line 2, column 14"],
    ['{"name": "Jane\r\nDoe"}', /a line break stands within/, "column 15"],
    ['{"name": "Jane\tDoe"}', /a tab stands within/, "column 15"],
    ['{"name": "Jane\u0001"}', /U\+0001\) stands within/, "column 15"],
    ['{ "email": {{lead.Email Address}} }', /double braces was not replaced/, "column 13"],
    ["[{{lead.Id}}]", /double braces was not replaced/, "column 3"],
    ['{"a": 1,\n}', /comma after the last entry/, "line 2, column 1"],
    ["[1, ]", /comma after the last entry/, "column 5"],
    ["{'a': 1}", /single quote.*double quotes/, "column 2"],
    ["{\"a\": 'x'}", /single quote.*double quotes/, "column 7"],
    ["{“a”: 1}", /“.*double quotes/, "column 2"],
    ["{a: 1}", /name in double quotes was expected/, "column 2"],
    ['{"a": "x"\n "b": 1}', /comma is missing/, "line 2, column 2"],
    ["[{}{}]", /comma is missing/, "column 4"],
    ['{"a" 1}', /colon was expected/, "column 6"],
    ['{"a": [1}', /brackets match/, "column 9"],
    ["[{}}", /brackets match/, "column 4"],
    ['{"a": "x', /ends in the middle/, "column 9"],
    ['{"a": 1, ', /ends in the middle/, "column 10"],
    ['{"a": tru', /ends in the middle/, "column 10"],
    ['"\\u00', /ends in the middle/, "column 6"],
    ['{"a": 1}\n{"a": 2}', /Newline-delimited JSON is for the bulk endpoint/, "line 2, column 1"],
    ['{"a": 1}}', /complete, but "}" follows/, "column 9"],
    ['{"a": NaN}', /no NaN/, "column 7"],
    ['{"a": -Infinity }', /no Infinity/, "column 8"],
    ['{"a": undefined}', /no value is null/, "column 7"],
    ['{"a": None}', /no value is null/, "column 7"],
    ['{"a": True}', /small letters/, "column 7"],
    ['{"zip": 01067}', /number begins with a zero/, "column 10"],
    ['{"path": "C:\\Users"}', /no escape/, "column 13"],
    ['{"a": "\\u12"}', /no escape/, "column 8"],
    ["<signal/>", /cannot begin with "<"/, "column 1"],
    [" \n ", /text is empty/, "line 2, column 2"],
  ])("of %j names the cause and the place: %s at %s", (text, cause, where) => {
    expect(isJson(text)).toBe(false);
    expect(explainJsonError(text)).toMatch(cause);
    expect(explainJsonError(text)).toMatch(new RegExp(`${where}\\b`));
  });

  test("of a compressed body without its header names the header", () => {
    const bytes = new Uint8Array(gzipSync('{"event":"Visit"}'));
    expect(explainBytes(bytes)).toMatch(/the body is compressed.*`Content-Encoding: gzip`/);
  });

  test("begins with the line, the column and the character of the text", () => {
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
});
