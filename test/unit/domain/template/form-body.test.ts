/** Form-encoded bodies become the JSON that a template reads. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isFormBody, parseFormBody } from "../../../../src/domain/template/form-body.ts";
import { amount } from "../../../support/amount.ts";

function form(text: string): string {
  const parsed = parseFormBody(text);
  if (!parsed.ok) throw new Error(parsed.rejection.detail);
  return JSON.stringify(parsed.value);
}

describe("a form", () => {
  test.each([
    ["type=subscribe&data[email]=jane%40x.co", `{"type":"subscribe","data":{"email":"jane@x.co"}}`],
    ["data[merges][FNAME]=Jane+Doe&data[merges][LNAME]=", `{"data":{"merges":{"FNAME":"Jane Doe","LNAME":""}}}`],
    ["data%5Bemail%5D=a", `{"data":{"email":"a"}}`],
    ["a[]=1&a[]=2", `{"a":["1","2"]}`],
    ["a[]=1", `{"a":["1"]}`],
    ["a=1&a=2&a=3", `{"a":["1","2","3"]}`],
    ["a[b]=1&a[b]=2", `{"a":{"b":["1","2"]}}`],
    ["a[][b]=1&a[][b]=2", `{"a":[{"b":"1"},{"b":"2"}]}`],
    ["a[0][b]=1&a[1][b]=2", `{"a":{"0":{"b":"1"},"1":{"b":"2"}}}`],
    ["a[]=1&a=2", `{"a":["1","2"]}`],
    ["a=1&a[b]=2", `{"a":"1","a[b]":"2"}`],
    ["a[b]=1&a=2&a=3&a[c]=4", `{"a":{"b":"1","":["2","3"],"c":"4"}}`],
    ["a[b]=1&a[c]=3", `{"a":{"b":"1","c":"3"}}`],
    ["a[b=1&[a]=2&a]=3&a[b]c=4", `{"a[b":"1","[a]":"2","a]":"3","a[b]c":"4"}`],
    ["a&b=&=c&&d=1=2", `{"a":"","b":"","d":"1=2"}`],
    ["a=100%&b=%zz&c=%e2%82%ac", `{"a":"100%","b":"%zz","c":"€"}`],
    ["", "{}"],
  ])("of %s is %s", (text, json) => {
    expect(form(text)).toBe(json);
  });

  test("has the names of the prototype as own properties only", () => {
    const text = "__proto__[polluted]=1&a[__proto__][polluted]=1&a[constructor][prototype][polluted]=1&toString=1";
    expect(form(text)).toBe(
      `{"__proto__":{"polluted":"1"},"a":{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}}},"toString":"1"}`,
    );
    expect("polluted" in {}).toBe(false);
  });

  test("has at most 1,000 fields", () => {
    const fields = Array.from({ length: 1_000 }, (_, nth) => `a[]=${nth}`).join("&&");
    expect(parseFormBody(fields).ok).toBe(true);
    expect(parseFormBody(`${fields}&b`)).toMatchObject({ ok: false, rejection: { code: "signal_too_large" } });
  });

  test("in another encoding is rejected, because different letters would become the same", () => {
    expect(parseFormBody("a=1&b=M%FCller")).toEqual({
      ok: false,
      rejection: {
        code: "signal_not_utf8",
        detail: "Field 2 of the form is not UTF-8. Send the form in that encoding.",
      },
    });
  });

  test("nests at most as deep as a signal may be", () => {
    const name = (levels: number): string => `a${"[b]".repeat(levels)}`;
    const depth = (value: unknown): number =>
      typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0;
    expect(depth(JSON.parse(form(`${name(30)}=1`)))).toBe(31);
    expect(depth(JSON.parse(form(`${name(30)}=1&${name(30)}=2`)))).toBe(32);
    expect(form(`${name(31)}=1`)).toBe(JSON.stringify({ [name(31)]: "1" }));
  });

  test("loses no value", () => {
    const part = fc.constantFrom("a", "b", "[]", "[a]", "[b]", "[", "]", "__proto__");
    const field = fc.tuple(fc.array(part, { minLength: 1, maxLength: 5 }), fc.nat());
    const leaves = (value: unknown): unknown[] =>
      typeof value === "object" && value !== null ? Object.values(value).flatMap(leaves) : [value];
    fc.assert(
      fc.property(fc.array(field, { maxLength: 8 }), (fields) => {
        const text = fields
          .map(([name, value], nth) => `${encodeURIComponent(name.join(""))}=${nth}-${value}`)
          .join("&");
        const sent = fields.map(([, value], nth) => `${nth}-${value}`);
        expect(leaves(JSON.parse(form(text))).sort()).toEqual(sent.sort());
      }),
      { numRuns: amount(500, 20_000) },
    );
  });
});

test.each([
  ["type=x", true],
  ["data%5Bemail%5D=a", true],
  ["a[b]=1", true],
  [`{"a":1}`, false],
  ["<xml a='='>", false],
  ["", false],
  ["a", false],
  [" a=1", false],
])("the beginning of %j is that of a form: %s", (text, expected) => {
  expect(isFormBody(text)).toBe(expected);
});
