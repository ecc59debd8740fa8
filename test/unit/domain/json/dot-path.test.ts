/** Design §8.5: dot paths read own properties only. */
import { describe, expect, test } from "vitest";
import { PathReading, parseDotPath, readValue } from "../../../../src/domain/json/dot-path.ts";

function read(json: string, path: string): unknown[] {
  const steps = parseDotPath(path);
  if (steps === undefined) throw new Error(`${path} does not parse`);
  const reading = new PathReading(steps);
  reading.read(JSON.parse(json));
  return reading.found;
}

describe("§8.5 a dot path", () => {
  test.each([
    [`{"a":1}`, "a", [1]],
    [`{"a":{"b":{"c":"x"}}}`, "a.b.c", ["x"]],
    [`{"a":null}`, "a", [null]],
    [`{"a":{"b":[false,0,""]}}`, "a.b[]", [false, 0, ""]],
    [`{"a":1}`, "b", []],
    [`{"a":"text"}`, "a.length", []],
    [`{"a":null}`, "a.b", []],
    [`{"items":[{"sku":"A"},{"sku":"B"}]}`, "items[1].sku", ["B"]],
    [`{"items":[{"sku":"A"}]}`, "items[1].sku", []],
    [`{"items":{"0":{"sku":"A"}}}`, "items[0].sku", []],
    [`{"items":[{"sku":"A"},{},{"sku":"C"}]}`, "items[].sku", ["A", "C"]],
    [`{"tags":["a","b"]}`, "tags[]", ["a", "b"]],
    [`{"tags":"a"}`, "tags[]", []],
    [`{"o":[{"t":[1,2]},{"t":[3]}]}`, "o[].t[]", [1, 2, 3]],
    [`{"m":[[1,2],[3,4]]}`, "m[1][0]", [3]],
    [`{"m":[[1,2],[3,4]]}`, "m[0][]", [1, 2]],
    [`{"a":[1,2]}`, "a.length", []],
    [`{"Form Name":"x"}`, "Form Name", ["x"]],
    [`{"utm[source]":"x"}`, "utm[source]", ["x"]],
    [`{"f[a]":["x"]}`, "f[a][0]", ["x"]],
    [`{"a.b":1}`, "a.b", [1]],
    [`{"a":{"b":2},"a.b":1}`, "a.b", [1]],
    [`{"x":{"a":{"b":2},"a.b":1}}`, "x.a.b", [1]],
    [`{"a[0]":1,"a":[2]}`, "a[0]", [1]],
    [`{"a.b":{"c":1}}`, "a.b", [{ c: 1 }]],
  ])("reads from %s at %s: %j", (json, path, values) => expect(read(json, path)).toEqual(values));

  test.each(["constructor", "__proto__", "toString", "a.constructor.name", "a.__proto__", "hasOwnProperty"])(
    "never reaches the prototype: %s",
    (path) => expect(read(`{"a":{}}`, path)).toEqual([]),
  );
  test("reads a name of the prototype if it was sent", () => {
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "__proto__.x")).toEqual([1]);
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "constructor")).toEqual(["c"]);
    expect(read(`{"__proto__":{"x":1}}`, "x")).toEqual([]);
  });

  test.each(["", ".", "a.", ".a", "a..b", "[0]", "a.[]"])("with an empty name is refused: %j", (path) =>
    expect(parseDotPath(path)).toBeUndefined(),
  );

  test("reads its first value with readValue", () => {
    const path = parseDotPath("items[].sku");
    if (path === undefined) throw new Error("does not parse");
    expect(readValue({ items: [{}, { sku: "B" }, { sku: "C" }] }, path)).toBe("B");
    expect(readValue({ items: [] }, path)).toBeUndefined();
    expect(readValue("no object", path)).toBeUndefined();
  });
});
