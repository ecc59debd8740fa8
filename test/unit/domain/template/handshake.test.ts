/** Before a sender delivers, it asks whether the address is ours. */
import { expect, test } from "vitest";
import { handshakeAnswer } from "../../../../src/domain/template/handshake.ts";

const TEXT = { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" };
const JSON_TYPE = { "content-type": "application/json", "x-content-type-options": "nosniff" };
const EMPTY = { headers: {}, body: "" };

test.each<[string, Record<string, string>, unknown, unknown]>([
  ["HEAD", {}, undefined, EMPTY],
  ["GET", {}, undefined, EMPTY],
  ["GET", { "hub.mode": "subscribe", "hub.challenge": "aB-1_2.3" }, undefined, { headers: TEXT, body: "aB-1_2.3" }],
  ["GET", { challenge: "c" }, undefined, { headers: TEXT, body: "c" }],
  ["HEAD", { challenge: "c" }, undefined, EMPTY],
  [
    "POST",
    {},
    { type: "url_verification", token: "t", challenge: "c" },
    { headers: JSON_TYPE, body: `{"challenge":"c"}` },
  ],
  ["POST", {}, { challenge: "c" }, { headers: JSON_TYPE, body: `{"challenge":"c"}` }],
  ["POST", {}, { "hub.mode": "subscribe", "hub.challenge": "c" }, { headers: TEXT, body: "c" }],
  ["POST", {}, { challenge: "c", event: "Challenge accepted" }, null],
  ["POST", {}, { type: "other", challenge: "c" }, null],
  ["POST", {}, { "hub.challenge": "c", event: "x" }, null],
  ["POST", {}, {}, null],
  ["POST", {}, [{ challenge: "c" }], null],
  ["POST", {}, undefined, null],
  ["POST", { challenge: "c" }, { event: "x" }, null],
  ["PUT", {}, { challenge: "c" }, null],
])("%s with the query %j and the body %j is answered with %j", (method, query, body, answer) => {
  expect(handshakeAnswer({ method, query, body })).toEqual(answer);
});

test.each(["", "a b", "<script>", "a\n", "é", `"`, "x".repeat(257), 1, null, {}])(
  "no challenge is echoed that is %j",
  (challenge) => {
    expect(handshakeAnswer({ method: "POST", body: { type: "url_verification", challenge } })).toBeNull();
    expect(handshakeAnswer({ method: "GET", query: { "hub.challenge": challenge as string } })).toEqual(EMPTY);
  },
);

test("a challenge has at most 256 characters, and is an own property", () => {
  const challenge = "x".repeat(256);
  expect(handshakeAnswer({ method: "POST", body: { challenge } })?.body).toBe(JSON.stringify({ challenge }));
  const inherited = Object.create({ challenge: "c" }) as Record<string, string>;
  expect(handshakeAnswer({ method: "GET", query: inherited })).toEqual(EMPTY);
});
