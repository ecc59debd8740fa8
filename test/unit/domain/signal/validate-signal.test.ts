/** Spec §2.2, design §9: signals that the edge accepts or refuses. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeKey, composeSecret } from "../../../../src/domain/keys/api-key.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { fitsName, validateSignal } from "../../../../src/domain/signal/validate-signal.ts";

const long = "x".repeat(256);
const wide = "x".repeat(243);
const spaces = " ".repeat(100);
const track = { type: "track", userId: "u-1" };
const email = "jane@example.com";

describe("§2.2 universal signals", () => {
  test.each([
    ["event only", { event: "A" }],
    ["all fields", { email, event: "Filled Out Form", source: "marketing", properties: { form_name: "x" } }],
    ["empty tokens as null", { email: null, event: "A", source: null, properties: null }],
    ["empty tokens as empty text", { email: "", event: "A", source: "" }],
    ["an email with white space around it", { email: ` ${email}\n`, event: "A" }],
    ["an event of 255 characters", { event: "x".repeat(255) }],
    ["an event of 255 emoji", { event: "😀".repeat(255) }],
    ["a source of 255 characters", { event: "A", source: "x".repeat(255) }],
    ["white space around the event and the source", { event: "\u000b\tA\r\n", source: "\f\ufeffcrm\n" }],
    [
      "255 characters with white space around them",
      { event: ` ${"x".repeat(255)} `, source: `\n${"x".repeat(255)}\t` },
    ],
    ["tabs and line breaks inside a name", { event: "Member\tProgram\r\n2026", source: "a\nb" }],
    ["unknown fields", { event: "A", type: "webinar", traits: 5, constructor: null }],
  ])("accepted: %s", (_, payload) => expect(validateSignal(payload)).toEqual({ ok: true, value: payload }));

  test.each([
    ["null", null, "signal_not_object", /^A signal is a JSON object such as \{"event":.*\}, but this is null\.$/],
    ["an array", [], "signal_not_object", /but this is an array\.$/],
    ["a text", "hello", "signal_not_object", /but this is a text\.$/],
    ["a boolean", true, "signal_not_object", /but this is a boolean\.$/],
    ["no event", { email }, "event_missing", /^`event` is missing or empty; a signal needs it .* such as "[^"]+"\.$/],
    ["a null event", { event: null }, "event_missing", /^`event` is missing or empty/],
    ["a blank event", { event: " \t" }, "event_missing", /^`event` is missing or empty/],
    ["a misspelt event", { Event: "A" }, "event_missing", / There is "Event", which is another name: write it .*\.$/],
    ["a long misspelt event", { [`${spaces}event`]: "A" }, "event_missing", / There is " {40}…", which/],
    ["a number as event", { event: 5 }, "event_invalid", "`event` is a number; send the event's name as a text."],
    ["an object as event", { event: {} }, "event_invalid", /^`event` is an object;/],
    ["a long event", { event: ` ${long} ` }, "event_invalid", "`event` has 256 characters; shorten it to at most 255."],
    ["an event of 256 emoji", { event: "😀".repeat(256) }, "event_invalid", /^`event` has 256 characters/],
    [
      "an email without @",
      { event: "A", email: "jane" },
      "email_invalid",
      /^`email` is not an email address; send one such/,
    ],
    ["two emails", { event: "A", email: "a@b.c,d@e.f" }, "email_invalid", /^`email` is not an email address/],
    [
      "an unfilled token",
      { event: "A", email: "{{lead.Email}}" },
      "email_invalid",
      /^`email` is a token .* Check its name\.$/,
    ],
    [
      "a boolean as email",
      { event: "A", email: false },
      "email_invalid",
      /^`email` is a boolean; send one address as a text/,
    ],
    [
      "an email of 255 characters",
      { event: "A", email: `${wide}@example.com` },
      "email_invalid",
      /longer than 254 char/,
    ],
    [
      "254 characters without @",
      { event: "A", email: `${wide}example.com` },
      "email_invalid",
      /is not an email address/,
    ],
    [
      "an object as source",
      { event: "A", source: {} },
      "source_invalid",
      /^`source` is an object; send the source's name/,
    ],
    [
      "a long source",
      { event: "A", source: ` ${long} ` },
      "source_invalid",
      /^`source` has 256 characters; shorten it to at/,
    ],
    [
      "a text as properties",
      { event: "A", properties: "x" },
      "properties_invalid",
      /^`properties` is a text; send an object/,
    ],
    ["an array as properties", { event: "A", properties: [] }, "properties_invalid", /^`properties` is an array;/],
    ["a track without an event", { ...track }, "event_missing", /^`event` is missing or empty; a track call needs it/],
    ["a track with a blank event", { ...track, event: " " }, "event_missing", /a track call needs it/],
    ["a track with a number as event", { ...track, event: 1 }, "event_invalid", /^`event` is a number;/],
    ["a track with a long event", { ...track, event: long }, "event_invalid", /^`event` has 256 characters/],
  ])("refused: %s", (_, payload, code, detail) => {
    const expected = typeof detail === "string" ? detail : (expect.stringMatching(detail) as unknown);
    expect(validateSignal(payload)).toMatchObject({ ok: false, refusal: { code, detail: expected } });
  });

  test("reports the event first", () => {
    expect(validateSignal({ email: 5, source: 5, properties: 5 })).toMatchObject({
      refusal: { code: "event_missing" },
    });
  });
});

describe("names with control characters", () => {
  test.each([
    ["\u0007", "U+0007 at position 1"],
    ["Member Told\u0007", "U+0007 at position 12"],
    [" \n😀\u0000", "U+0000 at position 4"],
    ["a\u001eb\u0001", "U+001E at position 2"],
    ["a\u007f", "U+007F at position 2"],
    ["a\u0085", "U+0085 at position 2"],
    ["\u009fa", "U+009F at position 1"],
    ["a\u000bb", "U+000B at position 2"],
  ])("%j is refused as event, source and type, with its field, character and position", (name, found) => {
    const refusedFor = (field: string, code: string) => ({
      ok: false,
      refusal: { code, detail: `\`${field}\` has the control character ${found}. Remove it.` },
    });
    expect(validateSignal({ event: name })).toEqual(refusedFor("event", "event_invalid"));
    expect(validateSignal({ event: "A", source: name })).toEqual(refusedFor("source", "source_invalid"));
    expect(validateSignal({ ...track, event: name })).toEqual(refusedFor("event", "event_invalid"));
    const call = { type: name, messageId: "m-1", anonymousId: "a-1" };
    expect(validateSignal(call)).toEqual(refusedFor("type", "event_invalid"));
  });
});

test("a signal is accepted if its email could become a link, but names nobody", () => {
  for (const address of ["https://evil.example/login@x.co", "mailto:jane@example.com", "<jane@example.com>"]) {
    const payload = { email: address, event: "A" };
    expect(validateSignal(payload)).toEqual({ ok: true, value: payload });
    expect(normalise(payload, undefined).email).toBeUndefined();
  }
});

describe("§6 CDP calls", () => {
  test.each([
    ["an identify without an event", { type: "identify", userId: "u-1" }],
    ["a page without an event", { type: "page", anonymousId: "a-1" }],
    ["an alias", { type: "alias", userId: "u-1", previousId: "a-1" }],
    ["an unknown type", { type: "charge", messageId: "m-1", anonymousId: "a-1" }],
    [
      "a track with everything else wrong",
      { type: "track", messageId: 1, event: "A", email: 5, source: [], properties: [] },
    ],
  ])("accepted: %s", (_, payload) => expect(validateSignal(payload)).toEqual({ ok: true, value: payload }));
});

test.each(["identify", "track", "page", "group"])(
  "a %s call without any id is refused with the missing ids",
  (type) => {
    const refused = validateSignal({ type, user_id: "u-1", traits: { email } });
    expect(refused).toMatchObject({
      ok: false,
      refusal: { code: "event_missing", detail: expect.stringMatching(`is "${type}", but there is no \`userId\``) },
    });
    expect(validateSignal({ type, event: "Signed Up", email })).toMatchObject({ ok: true });
    expect(validateSignal({ type: "deal", email })).toMatchObject({
      refusal: { detail: expect.stringContaining("`event` is missing or empty; a signal needs it") },
    });
  },
);

describe("§9 the detail of a refusal", () => {
  test("is a sentence without any sent character, with an echo of at most 16 for the sender", () => {
    const noise = fc.string({ unit: fc.constantFrom("ж"), minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(noise, fc.constantFrom("event", "email", "source"), (text, field) => {
        const result = validateSignal({ event: "A", [field]: text });
        if (result.ok) return;
        expect(result.refusal.detail).toMatch(/^[^\nж]*\.$/);
        expect(result.refusal.sent).toMatch(/^"ж{1,16}"…?$/);
      }),
    );
  });
});

describe("invariant 6: names with a key or a secret are refused without an echo", () => {
  const key = composeKey(randomBytes);
  const secret = composeSecret(() => randomBytes(32).toString("base64url"));
  test.each([
    ["event", "event_invalid", (text: string) => ({ event: text })],
    ["event of a track call", "event_invalid", (event: string) => ({ ...track, event })],
    ["type of a call", "event_invalid", (type: string) => ({ type, messageId: "m-1", anonymousId: "a-1" })],
    ["source", "source_invalid", (source: string) => ({ event: "A", source })],
  ])("%s", (_, code, signal) => {
    for (const text of [key, secret, `from ${key} `, `from ${secret} `, key + "x".repeat(300)]) {
      const result = validateSignal(signal(text));
      if (result.ok) throw new Error("taken");
      expect(result.refusal.code).toBe(code);
      expect(result.refusal.detail).toContain("holds an API key or a secret");
      expect(result.refusal).not.toHaveProperty("sent");
    }
  });
});

test("any JSON value is accepted or refused", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (payload) => {
      expect(validateSignal(payload).ok).toBeTypeOf("boolean");
    }),
  );
});

test("a name's length is counted in code points", () => {
  expect([fitsName("é".repeat(255)), fitsName("😀".repeat(255)), fitsName("é".repeat(256))]).toEqual([
    true,
    true,
    false,
  ]);
  expect(fitsName(`${"😀".repeat(255)}x`)).toBe(false);
  expect(fitsName("x".repeat(100_000))).toBe(false);
});
