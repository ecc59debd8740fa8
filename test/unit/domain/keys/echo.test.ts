/** Invariant 6: what is repeated of a sender's own text, and where keys and secrets are found. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeKey, composeSecret } from "../../../../src/domain/keys/api-key.ts";
import { echo, holdsCredential, toSender } from "../../../../src/domain/keys/echo.ts";

const draws = (compose: (random: (n: number) => Uint8Array) => string) =>
  Array.from({ length: 300 }, () => compose(randomBytes));
const newSecret = () => composeSecret(() => randomBytes(32).toString("base64url"));

describe("an echo", () => {
  test.each([
    ["is the text itself where that is short", "jane@example", '"jane@example"'],
    ["has at most 16 characters", "0123456789abcdefg", '"0123456789abcdef"…'],
    ["may have 16 characters", "0123456789abcdef", '"0123456789abcdef"'],
    ["leaves no half character", `${"x".repeat(15)}😀`, `"${"x".repeat(15)}\ufffd"…`],
    ["escapes what would break a line", "a\nb", '"a\\nb"'],
    ["is cut where what was looked at is short, and the text long", `sk_${"A".repeat(300)}`, '"•••"…'],
    ["blanks the beginning of a key", "key: sk_abcDEF12", '"key: •••"'],
    ["blanks a secret in which a key seems to begin", "b6YGZAXmK0sk_X2HnT7BQazy3UspSEvI4F0vhIsAeoI", '"•••"'],
    ["keeps a word that only begins like one", "sk_face", '"sk_face"'],
    ["keeps a long word", "internationalization-and-more", '"internationaliza"…'],
    ["keeps a long word with one capital letter", "Internationalization-and-more", '"Internationaliza"…'],
    ["keeps a long run of capital letters with one small one", "INTERNATIONALIZaTION_1", '"INTERNATIONALIZa"…'],
    ["blanks a long run with two letters of each kind", "x AAaaaaaaaaaaaaaaaaaaa y", '"x ••• y"'],
    ["keeps a run that is one shorter", "x AAaaaaaaaaaaaaaaaaaa y", '"x AAaaaaaaaaaaaa"…'],
  ])("%s", (_, text, shown) => expect(echo(text)).toBe(shown));

  test("of a key or a secret, wherever it stands and however much of it was cut off, shows next to nothing", () => {
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

describe("names hold no credential", () => {
  test("every key and every secret is found, alone, within words and next to others", () => {
    for (const credential of [...draws(composeKey), ...draws(newSecret)]) {
      for (const text of [credential, `order ${credential} paid`, `secret-${credential}`, `${credential}=`]) {
        expect(holdsCredential(text), text).toBe(true);
      }
      expect(holdsCredential(credential.slice(1)), credential).toBe(false);
    }
  });

  test.each([
    ["words", "Filled Out The Contact Form On The Pricing Page, Version 2024 B"],
    ["words put together", "viewedTheProductPageOfOurNewSummerCampaign2024"],
    ["words with dashes", "Clicked_The_Button-In_The_Newsletter_Of_2024-11-22"],
    ["a UUID", "018f4c1e-7b52-7c1d-9f60-3e1b2a4c5d6f-018f4c1e-7b52"],
    ["a hash in hexadecimal", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ["what would be one if it were not so far behind", `a${"-".repeat(43)}Aa1Aa1Aa1Aa1Aa1Aa1Aa${"-".repeat(23)}`],
    ["an id in capital letters", "0A1B2C3D4E5F60718293A4B5C6D7E8F90A1B2C3D4E5F6071"],
  ])("%s are no secret", (_, text) => expect(holdsCredential(text)).toBe(false));
});

test("a secret is found in a long run as it is in each stretch of the run by itself", () => {
  const chars = fc.constantFrom(..."aaabAABZ019__--".split(""));
  const runs = fc.oneof(
    fc.string({ unit: chars, minLength: 43, maxLength: 160 }),
    fc
      .tuple(
        fc.string({ unit: chars, maxLength: 60 }),
        fc.stringMatching(/^[-_a]{40,60}$/),
        fc.string({ unit: chars, maxLength: 60 }),
      )
      .map((parts) => parts.join("")),
  );
  let found = 0;
  fc.assert(
    fc.property(runs, (run) => {
      const stretches = Array.from({ length: Math.max(0, run.length - 42) }, (_, at) => run.slice(at, at + 43));
      const expected = stretches.some((stretch) => holdsCredential(stretch));
      if (expected) found++;
      expect(holdsCredential(run)).toBe(expected);
    }),
    { numRuns: 3_000 },
  );
  expect(found).toBeGreaterThan(100);
});

test("a secret is drawn again until it can be told from words", () => {
  const words = "TheseAreWords-PutTogether_ThatNobodyDrew-12";
  const random = newSecret();
  const drawn = ["A".repeat(43), words, random];
  expect(composeSecret(() => drawn.shift() ?? "")).toBe(random);
});

test("the sender is told what was sent, and a stored detail is without it", () => {
  expect(toSender({ detail: "`email` is not one." })).toBe("`email` is not one.");
  expect(toSender({ detail: "`email` is not one.", sent: echo("jane") })).toBe('`email` is not one. You sent "jane".');
});
