/** Spec §2.2, design §9: what the edge refuses of one signal, and what it takes as it comes. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeKey, composeSecret } from "../../../../src/domain/keys/api-key.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { fitsName, validateSignal } from "../../../../src/domain/signal/validate-signal.ts";

const long = "x".repeat(256);
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
    ["tabs and line breaks inside a name", { event: "Member\tProgram\r\n2026", source: "a\nb" }],
    ["fields nobody knows", { event: "A", type: "webinar", traits: 5, constructor: null }],
  ])("accepted: %s", (_, payload) => expect(validateSignal(payload)).toEqual({ ok: true, value: payload }));

  test.each([
    ["an array", [], "signal_not_object"],
    ["null", null, "signal_not_object"],
    ["a text", "hello", "signal_not_object"],
    ["a number", 5, "signal_not_object"],
    ["no event", { email }, "event_missing"],
    ["a null event", { event: null }, "event_missing"],
    ["an empty event", { event: "" }, "event_missing"],
    ["a blank event", { event: " \t" }, "event_missing"],
    ["a number as event", { event: 5 }, "event_invalid"],
    ["an object as event", { event: { name: "A" } }, "event_invalid"],
    ["an event of 256 characters", { event: long }, "event_invalid"],
    ["an event of 256 emoji", { event: "😀".repeat(256) }, "event_invalid"],
    ["an email that is none", { email: "jane", event: "A" }, "email_invalid"],
    ["an unfilled token as email", { email: "{{lead.Email Address}}", event: "A" }, "email_invalid"],
    ["two emails", { email: "a@example.com,b@example.com", event: "A" }, "email_invalid"],
    ["a number as email", { email: 5, event: "A" }, "email_invalid"],
    ["an object as email", { email: { address: email }, event: "A" }, "email_invalid"],
    ["an email of 255 characters", { email: `${"x".repeat(243)}@example.com`, event: "A" }, "email_invalid"],
    ["a number as source", { event: "A", source: 5 }, "source_invalid"],
    ["a source of 256 characters", { event: "A", source: long }, "source_invalid"],
    ["an array as properties", { event: "A", properties: [] }, "properties_invalid"],
    ["a text as properties", { event: "A", properties: "{}" }, "properties_invalid"],
  ])("refused: %s", (_, payload, code) =>
    expect(validateSignal(payload)).toMatchObject({ ok: false, refusal: { code } }),
  );

  test("the event is named before everything else", () => {
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
  ])("%j is refused as the event and as the source; the detail names field, character and position", (name, found) => {
    const refusedFor = (field: string, code: string) => ({
      ok: false,
      refusal: { code, detail: `\`${field}\` has the control character ${found}. Remove it.` },
    });
    expect(validateSignal({ event: name })).toEqual(refusedFor("event", "event_invalid"));
    expect(validateSignal({ event: "A", source: name })).toEqual(refusedFor("source", "source_invalid"));
    const track = { type: "track", userId: "u-1", event: name };
    expect(validateSignal(track)).toEqual(refusedFor("event", "event_invalid"));
    const call = { type: name, messageId: "m-1", anonymousId: "a-1" };
    expect(validateSignal(call)).toEqual(refusedFor("type", "event_invalid"));
  });
});

test("a signal whose email could become a link is kept: it names nobody", () => {
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
    ["a type of the sender's own", { type: "charge", messageId: "m-1", anonymousId: "a-1" }],
    [
      "a track with everything else wrong",
      { type: "track", messageId: 1, event: "A", email: 5, source: [], properties: [] },
    ],
  ])("never refused: %s", (_, payload) => expect(validateSignal(payload)).toEqual({ ok: true, value: payload }));

  test.each([
    ["no event", { type: "track", userId: "u-1" }, "event_missing"],
    ["a blank event", { type: "track", userId: "u-1", event: " " }, "event_missing"],
    ["a number as event", { type: "track", userId: "u-1", event: 1 }, "event_invalid"],
    ["an event of 256 characters", { type: "track", userId: "u-1", event: long }, "event_invalid"],
  ])("a track with %s is refused", (_, payload, code) =>
    expect(validateSignal(payload)).toMatchObject({ ok: false, refusal: { code } }),
  );
});

test.each(["identify", "track", "page", "group"])("of a %s call without any id it is said what it lacks", (type) => {
  const refused = validateSignal({ type, user_id: "u-1", traits: { email } });
  expect(refused).toMatchObject({
    ok: false,
    refusal: { code: "event_missing", detail: expect.stringMatching(`is "${type}", but there is no \`userId\``) },
  });
  expect(validateSignal({ type, event: "Signed Up", email })).toMatchObject({ ok: true });
  expect(validateSignal({ type: "deal", email })).toMatchObject({
    refusal: { detail: expect.stringContaining("`event` is missing or empty; a signal needs it") },
  });
});

describe("§9 details tell the sender what to do", () => {
  test.each([
    ["the field and what it is", { event: ["A"] }, "`event` is an array; send the event's name as a text."],
    [
      "the value and an example",
      { event: "A", email: "jane" },
      '`email` is not an email address; send one such as "jane@example.com", or leave `email` out.',
    ],
    ["how long it is, and may be", { event: long }, "`event` has 256 characters; shorten it to at most 255."],
    [
      "a token of the template that is still there",
      { event: "A", email: "{{lead.Email}}" },
      "`email` is a token that was not replaced by its value. Check its name.",
    ],
  ])("%s", (_, payload, detail) => expect(validateSignal(payload)).toMatchObject({ refusal: { detail } }));

  test("one sentence without a character of what was sent, and an echo of at most 16 for the sender", () => {
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

describe("invariant 6: names that hold a key or a secret are refused, and nothing of them is repeated", () => {
  const key = composeKey(randomBytes);
  const secret = composeSecret(() => randomBytes(32).toString("base64url"));
  test.each([
    ["event", "event_invalid", (text: string) => ({ event: text })],
    ["event of a track call", "event_invalid", (event: string) => ({ type: "track", userId: "u-1", event })],
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

test("any JSON at all gets an answer", () => {
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

describe("§9 what is wrong is said in a whole sentence", () => {
  const detailOf = (payload: unknown) => {
    const result = validateSignal(payload);
    return result.ok ? null : result.refusal.detail;
  };

  test.each([
    [null, "null"],
    [[], "an array"],
    ["hello", "a text"],
    [5, "a number"],
    [true, "a boolean"],
  ])("what is no object, as %j is", (payload, kind) => {
    expect(detailOf(payload)).toBe(
      `A signal is a JSON object such as {"event":"Filled Out Form"}, but this is ${kind}.`,
    );
  });

  test.each([
    [
      {},
      '`event` is missing or empty; a signal needs it as a text that names what happened, such as "Filled Out Form".',
    ],
    [
      { type: "track", userId: "u-1" },
      '`event` is missing or empty; a track call needs it as a text that names what happened, such as "Filled Out Form".',
    ],
    [
      { Email: "jane@example.com", Event: "Visit" },
      '`event` is missing or empty; a signal needs it as a text that names what happened, such as "Filled Out Form". There is "Event", which is another name: write it in small letters, without spaces.',
    ],
    [
      { [`${" ".repeat(100)}event`]: "Visit" },
      `\`event\` is missing or empty; a signal needs it as a text that names what happened, such as "Filled Out Form". There is "${" ".repeat(40)}…", which is another name: write it in small letters, without spaces.`,
    ],
    [{ event: {} }, "`event` is an object; send the event's name as a text."],
    [{ event: ` ${"x".repeat(256)} ` }, "`event` has 256 characters; shorten it to at most 255."],
    [{ event: "A", email: false }, "`email` is a boolean; send one address as a text, or leave `email` out."],
    [
      { event: "A", email: `${"x".repeat(243)}@example.com` },
      "`email` is longer than 254 characters; send one address, or leave `email` out.",
    ],
    [
      { event: "A", email: `${"x".repeat(243)}example.com` },
      '`email` is not an email address; send one such as "jane@example.com", or leave `email` out.',
    ],
    [{ event: "A", source: {} }, "`source` is an object; send the source's name as a text, or leave `source` out."],
    [{ event: "A", source: ` ${long} ` }, "`source` has 256 characters; shorten it to at most 255."],
    [
      { event: "A", properties: "x" },
      '`properties` is a text; send an object such as {"form_name":"Contact"}, or leave `properties` out.',
    ],
  ])("%#", (payload, detail) => {
    expect(detailOf(payload)).toBe(detail);
  });

  test("white space around a name does not count", () => {
    expect(validateSignal({ event: ` ${"x".repeat(255)} `, source: `\n${"x".repeat(255)}\t` }).ok).toBe(true);
  });
});
