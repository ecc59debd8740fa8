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

describe("§8.5 dot paths", () => {
  test.each([
    ["a property", `{"a":1}`, "a", [1]],
    ["a nested property", `{"a":{"b":{"c":"x"}}}`, "a.b.c", ["x"]],
    ["null counts as a value", `{"a":null}`, "a", [null]],
    ["false, 0 and the empty text count as values", `{"a":{"b":[false,0,""]}}`, "a.b[]", [false, 0, ""]],
    ["a missing property", `{"a":1}`, "b", []],
    ["a property of a text", `{"a":"text"}`, "a.length", []],
    ["a property of null", `{"a":null}`, "a.b", []],
    ["an element", `{"items":[{"sku":"A"},{"sku":"B"}]}`, "items[1].sku", ["B"]],
    ["an element beyond the end", `{"items":[{"sku":"A"}]}`, "items[1].sku", []],
    ["an element of an object", `{"items":{"0":{"sku":"A"}}}`, "items[0].sku", []],
    ["any element", `{"items":[{"sku":"A"},{},{"sku":"C"}]}`, "items[].sku", ["A", "C"]],
    ["any element itself", `{"tags":["a","b"]}`, "tags[]", ["a", "b"]],
    ["any element of a text", `{"tags":"a"}`, "tags[]", []],
    ["any of any", `{"o":[{"t":[1,2]},{"t":[3]}]}`, "o[].t[]", [1, 2, 3]],
    ["an element of an element", `{"m":[[1,2],[3,4]]}`, "m[1][0]", [3]],
    ["any of an element", `{"m":[[1,2],[3,4]]}`, "m[0][]", [1, 2]],
    ["an array has no named properties", `{"a":[1,2]}`, "a.length", []],
    ["names with spaces", `{"Form Name":"x"}`, "Form Name", ["x"]],
    ["brackets without an index belong to the name", `{"utm[source]":"x"}`, "utm[source]", ["x"]],
    ["a name with such brackets can hold an array", `{"f[a]":["x"]}`, "f[a][0]", ["x"]],
    ["a name with a dot in it", `{"a.b":1}`, "a.b", [1]],
    ["a name with a dot in it wins over the steps", `{"a":{"b":2},"a.b":1}`, "a.b", [1]],
    ["a name with a dot in it wins further down too", `{"x":{"a":{"b":2},"a.b":1}}`, "x.a.b", [1]],
    ["a name that ends like an index wins too", `{"a[0]":1,"a":[2]}`, "a[0]", [1]],
    ["a name of a longer path does not win over the steps", `{"a.b":{"c":1}}`, "a.b", [{ c: 1 }]],
  ])("%s", (_, json, path, values) => expect(read(json, path)).toEqual(values));

  test.each(["constructor", "__proto__", "toString", "a.constructor.name", "a.__proto__", "hasOwnProperty"])(
    "%s never reaches the prototype",
    (path) => expect(read(`{"a":{}}`, path)).toEqual([]),
  );
  test("a name of the prototype is read if it was sent", () => {
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "__proto__.x")).toEqual([1]);
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "constructor")).toEqual(["c"]);
    expect(read(`{"__proto__":{"x":1}}`, "x")).toEqual([]);
  });

  test.each(["", ".", "a.", ".a", "a..b", "[0]", "a.[]"])("%j is not a path", (path) =>
    expect(parseDotPath(path)).toBeUndefined(),
  );

  test("readValue returns the first value of a path", () => {
    const path = parseDotPath("items[].sku");
    if (path === undefined) throw new Error("does not parse");
    expect(readValue({ items: [{}, { sku: "B" }, { sku: "C" }] }, path)).toBe("B");
    expect(readValue({ items: [] }, path)).toBeUndefined();
    expect(readValue("no object", path)).toBeUndefined();
  });
});
