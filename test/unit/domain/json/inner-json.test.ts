/** JSON inside a text is read as far as a path leads into it. */
import { expect, test } from "vitest";
import { InnerJson } from "../../../../src/domain/json/inner-json.ts";
import { PathReading, parseDotPath } from "../../../../src/domain/json/dot-path.ts";
import { WrittenNumber } from "../../../../src/domain/json/json-value.ts";

function read(value: unknown, path: string, innerJson?: InnerJson): unknown[] {
  const reading = new PathReading(parseDotPath(path) ?? [], innerJson === undefined ? {} : { innerJson });
  reading.read(value);
  return reading.found;
}

test("a step into a text that writes JSON reads it, also in an inner text", () => {
  const value = { payload: JSON.stringify({ user: { id: 1 }, list: JSON.stringify([{ a: 2 }]) }) };
  expect(read(value, "payload.user.id", new InnerJson())).toEqual([1]);
  expect(read(value, "payload.list[0].a", new InnerJson())).toEqual([2]);
  expect(read(value, "payload[user.id=1].list[a=2].a", new InnerJson())).toEqual([2]);
  expect(read(value, "payload", new InnerJson())).toEqual([value.payload]);
  expect(read(value, "payload.user.id")).toEqual([]);
});

test.each([`{"a":1`, `a`, ` {"a":1}`, `"a"`, ""])(
  "a text that writes no JSON object has nothing inside: %j",
  (text) => {
    expect(read({ text }, "text.a", new InnerJson())).toEqual([]);
  },
);

test("a text is parsed once, and costs as much as its length", () => {
  const innerJson = new InnerJson();
  const text = JSON.stringify({ a: "x".repeat(1_600) });
  const first = innerJson.read(text);
  const { steps } = innerJson;
  expect(steps).toBeGreaterThanOrEqual(100);
  expect(innerJson.read(text)).toBe(first);
  expect(innerJson.steps).toBe(steps);
});

test("a text of more than 65,536 characters is not parsed", () => {
  const longest = `{"a":1${" ".repeat(65_536 - 7)}}`;
  expect(new InnerJson().read(longest)).toEqual({ a: 1 });
  expect(new InnerJson().read(`${longest} `)).toBeUndefined();
});

test("a reading stops where the texts cost more than its steps", () => {
  const text = JSON.stringify({ a: "x".repeat(1_600) });
  const reading = new PathReading(parseDotPath("text.a") ?? [], { maxSteps: 50, innerJson: new InnerJson() });
  reading.read({ text });
  expect([reading.found, reading.isCut]).toEqual([[], true]);
});

test("numbers keep their digits", () => {
  expect(read({ text: `{"id":9007199254740993}` }, "text.id", new InnerJson())).toEqual([
    new WrittenNumber("9007199254740993"),
  ]);
});
