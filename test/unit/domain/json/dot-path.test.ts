/** Design §8.5: dot paths read own properties only. */
import { describe, expect, test } from "vitest";
import { PathReading, parseDotPath, readValue } from "../../../../src/domain/json/dot-path.ts";
import { complaintsAbout } from "../../../support/worst-text.ts";

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
    [`{"a":{"x":{"id":1},"y":{"id":2},"z":3}}`, "a.*.id", [1, 2]],
    [`{"a":{"x":1},"b":[2]}`, "*", [{ x: 1 }, [2]]],
    [`{"a":[1,2]}`, "a.*", []],
    [`{"a":{"x":[1,2],"y":[3]}}`, "a.*[]", [1, 2, 3]],
    [`{"a":{"x":{"p":1},"y":{"q":2}}}`, "a.*.*", [1, 2]],
    [`{"*":1,"b":2}`, "*", [1]],
    [`{"*":{"c":1},"b":{"c":2}}`, "*.c", [1]],
    [`{"a":{"*":[1],"b":[2]}}`, "a.*[0]", [1]],
    [`{"a":{"*":5,"b":2}}`, `a."*"`, [5]],
    [`{"a":{"b":2}}`, `a."*"`, []],
    [`{"a.b":{"c d":{"e":1}}}`, `"a.b"."c d".e`, [1]],
    [`{"a.b":[1,2]}`, `"a.b"[1]`, [2]],
    [`{"a]":{"":1}}`, `"a]".""`, [1]],
    [`{"\\"a\\"":1,"a":2}`, `"a"`, [1]],
    [`{"\\"a\\"":{"b":1},"a":{"b":2}}`, `"a".b`, [1]],
    [`{"\\"a":{"b":1}}`, `"a.b`, [1]],
    [`{"\\"a":{"b\\"x":{"c":1}}}`, `"a.b"x.c`, [1]],
    [`{"\\"a":{"b\\"[x]":{"c":1}}}`, `"a.b"[x].c`, [1]],
    [`{"v":[{"name":"phone","value":1},{"name":"Email","value":"x"}]}`, "v[name=email].value", ["x"]],
    [`{"v":[{"n":"a","x":1},{"n":"A","x":2},3,null]}`, "v[n=a].x", [1, 2]],
    [`{"v":{"n":"a","x":1}}`, "v[n=A].x", [1]],
    [`{"v":{"n":"b","x":1}}`, "v[n=a].x", []],
    [`{"name":"email","v":1}`, "[name=email].v", [1]],
    [`{"name":"email","v":1}`, "[name=email]", [{ name: "email", v: 1 }]],
    [`{"name":"phone","v":1}`, "[name=email].v", []],
    [`{"a":[{"t":{"k":"x"},"v":1}]}`, "a[t.k=x].v", [1]],
    [`{"a":[{"t":[{"k":"y"},{"k":"x"}],"v":1}]}`, "a[t[].k=x].v", [1]],
    [`{"a":[{"t":[{"k":"y"},{"k":"x"}],"v":1}]}`, "a[t[1].k=x].v", [1]],
    [`{"a":[{"t":"lead.new","v":1},{"t":"Lead.old","v":2},{"t":"x","v":3}]}`, "a[t=lead.*].v", [1, 2]],
    [`{"a":[{"t":1,"v":1},{"v":2},{"t":null,"v":3},{"t":{},"v":4}]}`, "a[t=*].v", [1]],
    [`{"a":[{"t":7,"v":1},{"t":"7","v":2},{"t":true,"v":3}]}`, "a[t=7].v", [1, 2]],
    [`{"a":[{"t":true,"v":3}]}`, "a[t=TRUE].v", [3]],
    [`{"a":[{"t":"Zu\u0308rich","v":1}]}`, "a[t=zürich].v", [1]],
    [`{"a":[{"t":"x","u":"y","v":1},{"t":"x","v":2}]}`, "a[t=x][u=y].v", [1]],
    [`{"a":[{"t":"x","v":[1,2]}]}`, "a[t=x].v[1]", [2]],
    [`{"a":[{"t":"x"}]}`, "a[t=x][0]", []],
    [`{"utm[a=b]":"x"}`, "utm[a=b]", ["x"]],
    [`{"utm[a=b]":{"c":"x"},"utm":{"a":"b","c":"y"}}`, "utm[a=b].c", ["x"]],
    [`{"utm[a=b]":[{"c":"x"}]}`, "utm[a=b][0].c", ["x"]],
    [`{"[a=b]":{"c":"x"}}`, "[a=b].c", ["x"]],
    [`{"f[a=b]x":1}`, "f[a=b]x", [1]],
    [`{"f[=c]":1}`, "f[=c]", [1]],
    [`{"f[a":{"b=c]x":1}}`, "f[a.b=c]x", [1]],
    [`{"f[a[0]=c":1}`, "f[a[0]=c", [1]],
    [`{"f[a":{"=c]":1}}`, "f[a.=c]", [1]],
    [`{"f[a":{"b=c][0]x":1}}`, "f[a.b=c][0]x", [1]],
    [`{"f[a=b]x":[{"n":1,"v":2}]}`, "f[a=b]x[n=1].v", [2]],
  ])("reads from %s at %s: %j", (json, path, values) => expect(read(json, path)).toEqual(values));

  test.each([
    "constructor",
    "__proto__",
    "toString",
    "a.constructor.name",
    "a.__proto__",
    "hasOwnProperty",
    '"constructor"',
    '"__proto__"."toString"',
    "[constructor.name=Object]",
    "a[__proto__=*]",
  ])("never reaches the prototype: %s", (path) => expect(read(`{"a":{}}`, path)).toEqual([]));
  test("reads a name of the prototype if it was sent", () => {
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "__proto__.x")).toEqual([1]);
    expect(read(`{"__proto__":{"x":1},"constructor":"c"}`, "constructor")).toEqual(["c"]);
    expect(read(`{"__proto__":{"x":1}}`, "x")).toEqual([]);
  });

  test.each(["", ".", "a.", ".a", "a..b", "[0]", "a.[]", "[]", "a.[b=c]", "[0][b=c]", "f[a..b=c]"])(
    "with an empty name is rejected: %j",
    (path) => expect(parseDotPath(path)).toBeUndefined(),
  );

  test("names the member that a star took", () => {
    const reading = new PathReading(parseDotPath("*.*[].id") ?? []);
    reading.read({ a: { b: [{ id: 1 }], c: [{ id: 2 }] }, d: { e: [{}, { id: 3 }] } });
    expect(reading.found).toEqual([1, 2, 3]);
    expect(reading.found.map((_, index) => reading.keyOf(index))).toEqual(["b", "c", "e"]);
    const exact = new PathReading(parseDotPath("list[].*.id") ?? []);
    exact.read({ list: [{ b: { id: 1 } }, { "*.id": 2 }] });
    expect([exact.found, exact.keyOf(0), exact.keyOf(1)]).toEqual([[1, 2], "b", undefined]);
  });

  test.each([
    [{ maxElements: 2 }, [1, 2]],
    [{ maxElements: 3 }, [1, 2, 3]],
  ])("says whether a limit ended the reading: %j", (bounds, found) => {
    for (const path of ["list[]", "object.*"]) {
      const reading = new PathReading(parseDotPath(path) ?? [], bounds);
      reading.read({ list: [1, 2, 3], object: { a: 1, b: 2, c: 3 } });
      expect([reading.found, reading.isCut]).toEqual([found, found.length < 3]);
    }
  });

  test.each([
    ["object.*", 1_000],
    ["list[a=x]", 2_000],
    ["list[a=x*]", 2_000],
  ])("counts the steps of %s", (path, steps) => {
    const object = Object.fromEntries(Array.from({ length: 1_000 }, (_, nth) => [`k${nth}`, 1]));
    const reading = new PathReading(parseDotPath(path) ?? [], { firstOnly: true });
    reading.read({ object, list: Array.from({ length: 1_000 }, () => ({ a: "y" })) });
    expect(reading.steps).toBeGreaterThanOrEqual(steps);
    const short = new PathReading(parseDotPath(path) ?? [], { maxSteps: steps - 1 });
    short.read({ object, list: Array.from({ length: 1_000 }, () => ({ a: "y" })) });
    expect(short.isCut).toBe(true);
  });

  test.each([
    "[a=",
    "[a..=v",
    "[a.=",
    "[[0]=v",
    "[",
    "[1",
    "[]",
    "[a=b]",
    "[a=b]x",
    "[a.b=c]x",
    '"',
    '".',
    '"."',
    '"."[',
    "a[x",
    "*.",
    "=",
  ])("is parsed in linear time, of many %j", (unit) => {
    const complaints = complaintsAbout(unit, (part) => {
      const text = unit.repeat(Math.floor((65_536 * part) / unit.length));
      return [text, `x${text}`, `${text}]`, `${text}]x`].map((path) => () => parseDotPath(path));
    });
    expect(complaints).toEqual([]);
  });

  test("reads its first value with readValue", () => {
    const path = parseDotPath("items[].sku");
    if (path === undefined) throw new Error("does not parse");
    expect(readValue({ items: [{}, { sku: "B" }, { sku: "C" }] }, path)).toBe("B");
    expect(readValue({ items: [] }, path)).toBeUndefined();
    expect(readValue("no object", path)).toBeUndefined();
  });
});
