/** Design §8.7: a sample that an admin pastes is read as the endpoint would read it. */
import { expect, test } from "vitest";
import { readSample } from "../../../../src/domain/accounts/sample-payload.ts";

test.each([
  ["an object", '{"company":{"id":"a"}}', { company: { id: "a" } }],
  ["the first of several", '[{"id":1},{"id":2}]', { id: 1 }],
  ["a long one that a call could carry", `{"id":"${"ж".repeat(32_000)}"}`, { id: "ж".repeat(32_000) }],
])("%s is a payload", (_, text, payload) => expect(readSample(text)).toEqual({ ok: true, value: payload }));

test.each([
  ["nothing", "", /empty/],
  ["no JSON", "{ broken", /Not valid JSON at line 1, column 3/],
  ["an empty array", "[]", /holds no signals/],
  ["a text", '"acme"', /A payload is a JSON object such as \{"company":\{"id":"acme-42"\}\}\./],
  ["an array of numbers", "[1]", /A payload is a JSON object/],
  ["one that no call could carry", `{"id":"${"ж".repeat(33_000)}"}`, /at most 65536/],
  ["lines of JSON", '{"id":1}\n{"id":2}', /another JSON text follows/],
])("%s is none, and it says why", (_, text, why) => {
  const read = readSample(text);
  expect(read.ok).toBe(false);
  expect(read).toEqual({ ok: false, refusal: expect.stringMatching(why) });
});
