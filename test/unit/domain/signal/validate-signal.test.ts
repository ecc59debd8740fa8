/** Spec §2.2, design §9: signals that the edge accepts or rejects. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { composeKey, composeSecret } from "../../../../src/domain/keys/api-key.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { fitsName, validateSignal } from "../../../../src/domain/signal/validate-signal.ts";

const chars = (count: number, character = "x") => character.repeat(count);
const track = { type: "track", userId: "u-1" };
const email = "jane@example.com";

test.each<object>([
  { event: "A" },
  { email, event: "Filled Out Form", source: "marketing", properties: { form_name: "x" } },
  { email: null, event: "A", source: null, properties: null },
  { email: "", event: "A", source: "" },
  { email: ` ${email}\n`, event: "A" },
  { event: ` ${chars(255)} `, source: `\n${chars(255)}\t` },
  { event: chars(255, "😀") },
  { event: "\u000b\tA\r\n", source: "\f\ufeffcrm\n" },
  { event: "Member\tProgram\r\n2026", source: "a\nb" },
  { event: "A", type: "webinar", traits: 5, constructor: null },
  { type: "identify", userId: "u-1" },
  { type: "page", anonymousId: "a-1" },
  { type: "alias", userId: "u-1", previousId: "a-1" },
  { type: "charge", messageId: "m-1", anonymousId: "a-1" },
  { type: chars(256), messageId: "m-1", anonymousId: "a-1" },
  { type: "track", messageId: 1, event: "A", email: 5, source: [], properties: [] },
  { event: "A", properties: [] },
  { event: "A", email: "jane@example.com," },
  { event: "A", email: "'jane@example.com';" },
  { event: "A", email: "ja\u00adne@example.com" },
  { type: "Identify", anonymousId: "a-1" },
  { type: " TRACK ", userId: "u-1", event: "A" },
])("§2.2, §6: %j is accepted", (payload) => expect(validateSignal(payload)).toEqual({ ok: true, value: payload }));

const NO_EVENT = "`event` is missing or empty; a signal needs it as a text that names what happened, such as";
const NO_TRACK_EVENT = NO_EVENT.replace("a signal", "a track call");
const NO_EMAIL = "`email` is not an email address; send one such as";
const SEND_ONE = "send one address, or leave `email` out";
test.each<[payload: unknown, code: string, detail: string]>([
  [null, "signal_not_object", 'A signal is a JSON object such as {"event":"Filled Out Form"}, but this is null.'],
  [[], "signal_not_object", "but this is an array."],
  ["hello", "signal_not_object", "but this is a text."],
  [true, "signal_not_object", "but this is a boolean."],
  [{ email, source: 5, properties: 5 }, "event_missing", NO_EVENT],
  [{ event: null }, "event_missing", NO_EVENT],
  [{ event: " \t" }, "event_missing", NO_EVENT],
  [{ Event: "A" }, "event_missing", 'There is "Event", which is another name: write it in small'],
  [{ [`${chars(100, " ")}event`]: "A" }, "event_missing", `There is "${chars(40, " ")}…", which`],
  [{ event: 5 }, "event_invalid", "`event` is a number; send the event's name as a text."],
  [{ event: {} }, "event_invalid", "`event` is an object;"],
  [{ event: ` ${chars(256)} ` }, "event_invalid", "`event` has 256 characters; shorten it to at most 255."],
  [{ event: chars(256, "😀") }, "event_invalid", "`event` has 256 characters"],
  [{ event: "A", email: "jane" }, "email_invalid", NO_EMAIL],
  [{ event: "A", email: "a@b.c,d@e.f" }, "email_invalid", NO_EMAIL],
  [{ event: "A", email: chars(254) }, "email_invalid", NO_EMAIL],
  [{ event: "A", email: "{{lead.Email}}" }, "email_invalid", "a token that was not replaced by its value"],
  [{ event: "A", email: false }, "email_invalid", "`email` is a boolean; send one address as a text"],
  [{ event: "A", email: `${chars(243)}@example.com` }, "email_invalid", `longer than 254 characters; ${SEND_ONE}`],
  [{ event: "A", source: {} }, "source_invalid", "`source` is an object; send the source's name as a text"],
  [{ event: "A", source: chars(256) }, "source_invalid", "`source` has 256 characters; shorten it to at most 255."],
  [{ event: "A", properties: "x" }, "properties_invalid", "`properties` is a text; send an object"],
  [{ event: "A", properties: [1] }, "properties_invalid", "`properties` is an array;"],
  ...["(jane@example.com)", "jane@example..com", "jane@-", "jane@-a.example", "jane@a_b.example", "!@#$%^&*()`~"].map(
    (address): [unknown, string, string] => [{ event: "A", email: address }, "email_invalid", NO_EMAIL],
  ),
  [{ type: "charge", messageId: "m", anonymousId: "a", event: "a\u0007" }, "event_invalid", "U+0007"],
  [track, "event_missing", NO_TRACK_EVENT],
  [{ ...track, event: " " }, "event_missing", NO_TRACK_EVENT],
  [{ ...track, event: 1 }, "event_invalid", "`event` is a number;"],
  [{ ...track, event: chars(256) }, "event_invalid", "`event` has 256 characters"],
  [{ type: "deal", email }, "event_missing", NO_EVENT],
  ...["identify", "track", "page", "group"].map((type): [unknown, string, string] => [
    { type, user_id: "u-1", traits: { email } },
    "event_missing",
    `\`type\` is "${type}", but there is no \`userId\`, \`anonymousId\` or \`messageId\``,
  ]),
])("§2.2, §6: %j is rejected as %s", (payload, code, detail) => {
  expect(validateSignal(payload)).toMatchObject({
    ok: false,
    rejection: { code, detail: expect.stringContaining(detail) },
  });
});

/** A signal with the name in each place where names are shown: event, event of a track, type of a call, source. */
const PLACES: [field: string, signal: (name: string) => object][] = [
  ["event", (event) => ({ event })],
  ["event", (event) => ({ ...track, event })],
  ["type", (type) => ({ type, messageId: "m-1", anonymousId: "a-1" })],
  ["source", (source) => ({ event: "A", source })],
];

test.each([
  ["\u0007", "U+0007 at position 1"],
  ["Member Gone\u0007", "U+0007 at position 12"],
  [" \n😀\u0000", "U+0000 at position 4"],
  ["a\u001eb\u0001", "U+001E at position 2"],
  ["a\u007f", "U+007F at position 2"],
  ["\u009fa", "U+009F at position 1"],
  ["a\u000bb", "U+000B at position 2"],
])("the name %j is rejected as event, source and type, with its control character and position", (name, found) => {
  for (const [field, signal] of PLACES) {
    const detail = `\`${field}\` has the control character ${found}. Remove it.`;
    expect(validateSignal(signal(name))).toMatchObject({ ok: false, rejection: { detail } });
  }
});

test("invariant 6: names with a key or a secret are rejected without an echo", () => {
  const key = composeKey(randomBytes);
  const secret = composeSecret(() => randomBytes(32).toString("base64url"));
  for (const [field, signal] of PLACES) {
    for (const name of [key, secret, `from ${key} `, `from ${secret} `, key + chars(300)]) {
      const result = validateSignal(signal(name));
      const detail = expect.stringMatching(`^\`${field}\` holds an API key or a secret, .*\\. Send .*\\.$`);
      expect(result).toEqual({
        ok: false,
        rejection: { code: field === "source" ? "source_invalid" : "event_invalid", detail },
      });
    }
  }
});

test("a signal is accepted if its email could become a link, but the email identifies no person", () => {
  for (const address of ["https://evil.example/login@x.co", "mailto:jane@example.com", "<jane@example.com>"]) {
    const payload = { email: address, event: "A" };
    expect(validateSignal(payload)).toEqual({ ok: true, value: payload });
    expect(normalise(payload, undefined).email).toBeUndefined();
  }
});

test("§9: a detail is a sentence without any sent character, with an echo of at most 16 for the sender", () => {
  const noise = fc.string({ unit: fc.constantFrom("ж"), minLength: 1, maxLength: 400 });
  fc.assert(
    fc.property(noise, fc.constantFrom("event", "email", "source"), (text, field) => {
      const result = validateSignal({ event: "A", [field]: text });
      if (result.ok) return;
      expect(result.rejection.detail).toMatch(/^[^\nж]*\.$/);
      expect(result.rejection.sent).toMatch(/^"ж{1,16}"…?$/);
    }),
  );
});

test("any JSON value is accepted or rejected", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (payload) => {
      expect(validateSignal(payload).ok).toBeTypeOf("boolean");
    }),
  );
});

test("a name's length is counted in code points", () => {
  const names = [chars(255, "é"), chars(255, "😀"), chars(256, "é"), `${chars(255, "😀")}x`, chars(100_000)];
  expect(names.map(fitsName)).toEqual([true, true, false, false, false]);
});
