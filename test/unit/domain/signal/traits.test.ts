/** Spec §6: traits of a person, at any length. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeKey } from "../../../../src/domain/keys/api-key.ts";
import { normalise } from "../../../../src/domain/signal/normalise.ts";
import { folded, type Traits } from "../../../../src/domain/signal/traits.ts";
import { TRAIT_MAX_BYTES } from "../../../../src/limits.ts";

function traitsOf(traits: object): Traits {
  return normalise({ type: "identify", userId: "u-1", traits }, undefined).traits;
}

describe("a trait", () => {
  test.each([
    ["ASCII", "x".repeat(TRAIT_MAX_BYTES)],
    ["Korean, whose syllables take nine bytes in the index of names", "한".repeat(TRAIT_MAX_BYTES / 9)],
    ["emoji", "😀".repeat(TRAIT_MAX_BYTES / 4)],
    ["a letter that becomes eighteen letters in the index of names", "\ufdfa".repeat(TRAIT_MAX_BYTES / 33)],
  ])("is kept whole up to its limit: %s", (_, name) => {
    expect(traitsOf({ name })).toEqual({ name });
  });

  test.each([
    ["ASCII", "x", TRAIT_MAX_BYTES],
    ["emoji", "😀", TRAIT_MAX_BYTES / 4],
    ["letters that become eleven times as long in the index of names", "\ufdfa", 31],
    ["halves of surrogate pairs", "\ud800", 341],
  ])("is cut between two characters if longer: %s", (_, character, kept) => {
    const long = character.repeat(20_000);
    const cut = character.toWellFormed().repeat(kept);
    expect(traitsOf({ name: long, company: { name: long }, title: long })).toEqual({
      name: cut,
      company: cut,
      title: cut,
    });
    expect(traitsOf({ firstName: long, lastName: "B" })).toEqual({ name: cut });
  });

  test("is masked before it is truncated, so that no part of a key remains", () => {
    const key = composeKey(randomBytes);
    const before = "x".repeat(TRAIT_MAX_BYTES - 12);
    expect(traitsOf({ name: before + key })).toEqual({ name: `${before}${key.slice(0, 8)}…${key.at(-4)}` });
  });

  test("is a beginning of the sent text within its limit in bytes, both stored and searched", () => {
    const character = fc.oneof(
      fc.constantFrom(" ", "a", "é", "\ufdfa", "İ", "ﬃ", "한", "😀", "\u0301", "\ud83d", "\u3300", "½"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    );
    const texts = fc.array(fc.tuple(character, fc.integer({ min: 1, max: 400 })), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(texts, (parts) => {
        const sent = parts.map(([unit, times]) => unit.repeat(times)).join("");
        const { name } = traitsOf({ name: sent });
        if (name === undefined) {
          expect(sent.trim().toWellFormed()).toBe("");
          return;
        }
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(TRAIT_MAX_BYTES);
        expect(Buffer.byteLength(folded(name))).toBeLessThanOrEqual(TRAIT_MAX_BYTES);
        expect(sent.trim().toWellFormed().startsWith(name)).toBe(true);
        expect(name.isWellFormed()).toBe(true);
        expect(name.trim()).toBe(name);
      }),
    );
  });
});

test.each([
  ["Zoë", "zoe"],
  ["ÉCOLE Ünïversität", "ecole universitat"],
  ["Ａｃｍｅ", "acme"],
  ["ﬁne", "fine"],
  ["한국", "한국".normalize("NFKD")],
  ["Ångström AB", "angstrom ab"],
])("folded turns %s into %s", (text, same) => {
  expect(folded(text)).toBe(same);
  expect(folded(text.normalize("NFD"))).toBe(same);
});
