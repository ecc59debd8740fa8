/** Payloads in answers and on pages. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { asSent, readPayload } from "../../../../src/domain/json/json-value.ts";

test.each([
  "7615917337495251231",
  "1e400",
  "-0.10",
  "1.0",
  "1E5",
  "-0",
  "0.1000000000000000055511151231257827",
  "12345678901234567890",
])("a payload shows the number %s as it was sent", (number) => {
  const payload = `{"a":[${number}],"b":{"c":${number}},"d":"${number}"}`;
  expect(JSON.stringify(asSent(payload))).toBe(payload);
});

test("a payload is written as it was sent, but for white space", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(JSON.stringify(asSent(text))).toBe(JSON.stringify(JSON.parse(text)));
    }),
  );
});

test("a dead letter that is not JSON is shown as its text", () => {
  expect([asSent("{1.5"), asSent("no json"), asSent(null)]).toEqual(["{1.5", "no json", null]);
});

test("a payload is read as by JSON.parse, and its numbers keep their digits", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(JSON.parse(JSON.stringify(readPayload(text)))).toEqual(JSON.parse(JSON.stringify(JSON.parse(text))));
    }),
  );
  const long = '{"a":[7615917337495251231,1e400,0.12345678901234567891,5,"7"]}';
  expect(JSON.stringify(readPayload(long))).toBe(long);
});
