/** Invariant 6: echoes of a sender's text, and the detection of keys and secrets. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeKey, composeSecret, echo, holdsCredential } from "../../../../src/domain/keys/api-key.ts";
import { detailForSender } from "../../../../src/domain/keys/rejection.ts";

const draws = (compose: (random: (n: number) => Uint8Array) => string) =>
  Array.from({ length: 300 }, () => compose(randomBytes));
const newSecret = () => composeSecret(() => randomBytes(32).toString("base64url"));

describe("an echo", () => {
  test.each([
    ["repeats a short text", "jane@example", '"jane@example"'],
    ["has at most 16 characters", "0123456789abcdefg", '"0123456789abcdef"…'],
    ["repeats 16 characters", "0123456789abcdef", '"0123456789abcdef"'],
    ["replaces half a surrogate pair", `${"x".repeat(15)}😀`, `"${"x".repeat(15)}\ufffd"…`],
    ["escapes line breaks", "a\nb", '"a\\nb"'],
    ["ends with an ellipsis if the text continues", `sk_${"A".repeat(300)}`, '"•••"…'],
    ["blanks the beginning of a key", "key: sk_abcDEF12", '"key: •••"'],
    ["blanks the beginning of a token", "key: wt_abcDEF12", '"key: •••"'],
    ["blanks a secret that contains the beginning of a key", "b6YGZAXmK0sk_X2HnT7BQazy3UspSEvI4F0vhIsAeoI", '"•••"'],
    ["keeps a word that begins like a key", "sk_face", '"sk_face"'],
    ["keeps a long word", "internationalization-and-more", '"internationaliza"…'],
    ["keeps a long word with one capital letter", "Internationalization-and-more", '"Internationaliza"…'],
    ["keeps a long run of capital letters with one small one", "INTERNATIONALIZaTION_1", '"INTERNATIONALIZa"…'],
    ["blanks a long run with two letters of each kind", "x AAaaaaaaaaaaaaaaaaaaa y", '"x ••• y"'],
    ["keeps a run that is one character shorter", "x AAaaaaaaaaaaaaaaaaaa y", '"x AAaaaaaaaaaaaa"…'],
  ])("%s", (_, text, shown) => expect(echo(text)).toBe(shown));

  test("never shows eight characters of a key or secret, at any position and however truncated", () => {
    const credentials = [...draws(composeKey), ...draws(newSecret)];
    const around = fc.stringMatching(/^[ -~]{0,20}$/);
    fc.assert(
      fc.property(fc.constantFrom(...credentials), around, around, fc.nat(10), (credential, before, after, cut) => {
        const kept = credential.slice(0, credential.length - cut);
        const shown = echo(before + kept + after).slice(before.length);
        for (let at = 0; at + 8 <= kept.length; at++) expect(shown).not.toContain(kept.slice(at, at + 8));
      }),
      { numRuns: 500 },
    );
  });
});

describe("the detection of credentials", () => {
  test("finds every key and every secret, alone and within text", () => {
    for (const credential of [...draws(composeKey), ...draws(newSecret)]) {
      for (const text of [credential, `order ${credential} paid`, `secret-${credential}`, `${credential}=`]) {
        expect(holdsCredential(text), text).toBe(true);
      }
      expect(holdsCredential(credential.slice(1)), credential).toBe(false);
    }
  });

  test.each([
    ["words", "Filled Out The Contact Form On The Pricing Page, Version 2024 B"],
    ["words joined together", "viewedTheProductPageOfOurNewSummerCampaign2024"],
    ["words with dashes", "Clicked_The_Button-In_The_Newsletter_Of_2024-11-22"],
    ["a UUID", "018f4c1e-7b52-7c1d-9f60-3e1b2a4c5d6f-018f4c1e-7b52"],
    ["a hash in hexadecimal", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ["characters too far apart", `a${"-".repeat(43)}Aa1Aa1Aa1Aa1Aa1Aa1Aa${"-".repeat(23)}`],
    ["an id in capital letters", "0A1B2C3D4E5F60718293A4B5C6D7E8F90A1B2C3D4E5F6071"],
  ])("ignores %s", (_, text) => expect(holdsCredential(text)).toBe(false));
});

test("finds a secret in a long run if any window of the run is one", () => {
  const chars = fc.constantFrom(..."aaabAABZ019__--".split(""));
  const texts = fc.oneof(
    fc.string({ unit: chars, minLength: 43, maxLength: 160 }),
    fc
      .tuple(
        fc.string({ unit: chars, maxLength: 60 }),
        fc.stringMatching(/^[-_a]{40,60}$/),
        fc.string({ unit: chars, maxLength: 60 }),
      )
      .map((parts) => parts.join("")),
    // Digits come and go, where few of them decide.
    fc.string({ unit: fc.constantFrom(..."aAaAaAaAaAbBbBbBbBbB0".split("")), minLength: 43, maxLength: 160 }),
  );
  let [runs, found] = [0, 0];
  fc.assert(
    fc.property(texts, (run) => {
      const windows = Array.from({ length: Math.max(0, run.length - 42) }, (_, at) => run.slice(at, at + 43));
      const expected = windows.some((window) => holdsCredential(window));
      runs++;
      if (expected) found++;
      expect(holdsCredential(run)).toBe(expected);
    }),
    { numRuns: 3_000 },
  );
  expect(found).toBeGreaterThan(runs / 50);
});

test("a secret is drawn again until it differs enough from words", () => {
  const words = "TheseAreWords-PutTogether_ThatNobodyDrew-12";
  const random = newSecret();
  const drawn = ["A".repeat(43), words, random];
  expect(composeSecret(() => drawn.shift() ?? "")).toBe(random);
});

test("the sender's text is added to the detail for the sender only", () => {
  expect(detailForSender({ detail: "`email` is not one." })).toBe("`email` is not one.");
  expect(detailForSender({ detail: "`email` is not one.", sent: echo("jane") })).toBe(
    '`email` is not one. You sent "jane".',
  );
});
