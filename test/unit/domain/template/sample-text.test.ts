/** Samples as an admin pastes them. */
import { describe, expect, test } from "vitest";
import { readSampleBody, readSampleHeaders } from "../../../../src/domain/template/sample-text.ts";

describe("a pasted body", () => {
  test.each([
    ["JSON with white space around it", ' \n{"event": "a", "n": [1]}\n', { event: "a", n: [1] }],
    [
      "a form",
      "type=subscribe&data[email]=jane%40example.com",
      { type: "subscribe", data: { email: "jane@example.com" } },
    ],
  ])("is read as %s", (_, text, value) => {
    expect(readSampleBody(text)).toEqual({ ok: true, value });
  });

  test("keeps all digits of its numbers", () => {
    const read = readSampleBody('{"id":9007199254740993}');
    expect(JSON.stringify(read.ok && read.value)).toBe('{"id":9007199254740993}');
  });

  test.each([
    ["neither", '{"event":', "Not valid JSON at line 1, column 10"],
    ["deeper than useful", `${"[".repeat(200)}${"]".repeat(200)}`, "more than 64 levels"],
    ["a form with too many fields", Array.from({ length: 1_001 }, (_, n) => `f${n}=1`).join("&"), "1,000 fields"],
  ])("that is %s is rejected with the reason", (_, text, reason) => {
    expect(readSampleBody(text)).toEqual({ ok: false, rejection: expect.stringContaining(reason) });
  });
});

test("pasted headers are one a line, compared in lower case; other lines are left out", () => {
  const text = "X-Shopify-Topic: orders/create\r\nno header\n:nothing\nX-Time: 10:30";
  expect(readSampleHeaders(text)).toEqual({ "x-shopify-topic": "orders/create", "x-time": "10:30" });
});
