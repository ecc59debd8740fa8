/** Spec §2.1, §3.1 and design §5: the form of an API key, its masked form, and when it is inactive. */
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  composeKey,
  composeToken,
  isWellFormedKey,
  isWellFormedToken,
  keyEnd,
  keyEnds,
  keyStatus,
  maskedKey,
  holdsKey,
  withoutKeys,
} from "../../../../src/domain/keys/api-key.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const random = (n: number): Uint8Array => Uint8Array.from(randomBytes(n));

/** Returns the listed bytes in order, then random ones. */
function listed(bytes: number[]): (n: number) => Uint8Array {
  const left = [...bytes];
  return (n) => (left.length > 0 ? Uint8Array.from(left.splice(0, n)) : random(n));
}

describe("§5 a new key", () => {
  test("is sk_ and 40 base62 characters, the last six the CRC32 of the rest", () => {
    for (let round = 0; round < 200; round++) {
      const key = composeKey(random);
      expect(key).toMatch(/^sk_[0-9A-Za-z]{40}$/);
      const sum = key
        .slice(37)
        .split("")
        .reduce((value, digit) => value * 62 + BASE62.indexOf(digit), 0);
      expect(sum).toBe(crc32(key.slice(0, 37)));
    }
  });

  test("is drawn without bias: bytes from 248 on are discarded", () => {
    const good = Array.from({ length: 34 }, (_, index) => index * 7);
    const key = composeKey(listed(good.flatMap((byte) => [248, byte, 255])));
    expect(key.slice(3, 37)).toBe(good.map((byte) => BASE62[byte % 62]).join(""));
  });
});

test("§5 a new key has two characters of each kind for any random bytes", () => {
  for (const [from, count] of [
    [0, 10],
    [10, 26],
    [36, 26],
  ] as const) {
    for (let odd = 0; odd < 3; odd++) {
      let draws = 0;
      const key = composeKey((n) => {
        if (draws++ > 0) return random(n);
        // The first draw has characters of one kind, except for up to two.
        return Uint8Array.from({ length: n }, (_, at) => (at < odd ? (from + count + at) % 62 : from + (at % count)));
      });
      for (const kind of [/[a-z]/g, /[A-Z]/g, /[0-9]/g]) {
        expect(key.slice(3).match(kind)?.length).toBeGreaterThanOrEqual(2);
      }
      expect(isWellFormedKey(key)).toBe(true);
    }
  }
});

describe("§5 the check of a key's form", () => {
  const key = composeKey(random);

  test("rejects a typo at any position", () => {
    for (let at = 0; at < key.length; at++) {
      const typo = key.slice(0, at) + (key[at] === "x" ? "y" : "x") + key.slice(at + 1);
      expect(isWellFormedKey(typo), `place ${at}`).toBe(false);
    }
  });

  test("rejects a character outside base62 even with a matching checksum", () => {
    for (const odd of ["-", "é", " "]) {
      const checked = key.slice(0, 20) + odd + key.slice(21, 37);
      const sum = Array.from(checked).reduce((crc, char) => crc32(Uint8Array.of(char.charCodeAt(0) & 0xff), crc), 0);
      let [rest, tail] = [sum, ""];
      for (let place = 0; place < 6; place++, rest = Math.floor(rest / 62)) tail = BASE62.charAt(rest % 62) + tail;
      expect(isWellFormedKey(checked + tail), odd).toBe(false);
    }
  });

  test.each([
    "",
    "sk_",
    key.slice(0, -1),
    `${key}0`,
    ` ${key.slice(0, -1)}`,
    `pk_${key.slice(3)}`,
    `sk_${"-".repeat(40)}`,
    `sk_${"é".repeat(40)}`,
    `sk_${"😀".repeat(20)}`,
  ])("rejects %j", (text) => expect(isWellFormedKey(text)).toBe(false));
});

test("an API token has the form of a key with its own prefix, and neither is taken for the other", () => {
  const [key, token] = [composeKey(random), composeToken(random)];
  expect(token).toMatch(/^wt_[0-9A-Za-z]{40}$/);
  expect([isWellFormedToken(token), isWellFormedKey(token), isWellFormedToken(key)]).toEqual([true, false, false]);
  // The checksum covers the prefix.
  expect([isWellFormedToken(`wt_${key.slice(3)}`), isWellFormedKey(`sk_${token.slice(3)}`)]).toEqual([false, false]);
  const typo = token.slice(0, 20) + (token[20] === "x" ? "y" : "x") + token.slice(21);
  expect(isWellFormedToken(typo)).toBe(false);
  expect([holdsKey(`see ${token}`), withoutKeys(`see ${token}`)]).toEqual([true, `see ${maskedKey(keyEnds(token))}`]);
});

test("§2.1, §8.10 the masked form of a key is its first 8 characters, an ellipsis, its last 4", () => {
  const ends = keyEnds("sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz");
  expect([ends, maskedKey(ends)]).toEqual([{ first8: "sk_abcde", last4: "wxyz" }, "sk_abcde…wxyz"]);
});

describe("invariant 6: a text with a key is detected", () => {
  test.each([
    ["alone", "sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz1", true],
    ["in the middle", "order/sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz1/7", true],
    ["not one character short", "sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxy", false],
    ["not for a source name that begins like a key", "sk_facebook", false],
  ])("%s", (_, text, holds) => {
    expect(holdsKey(text)).toBe(holds);
  });
});

describe("§3.1 the status of a key", () => {
  const nowMs = Date.parse("2026-11-20T12:00:00.000Z");

  test.each([
    ["without expiration", null, null, "Active"],
    ["one millisecond before its expiration", "2026-11-20T12:00:00.001Z", null, "Active"],
    ["at its expiration", "2026-11-20T12:00:00.000Z", null, "Inactive"],
    ["deactivated", null, "2026-11-01T00:00:00.000Z", "Inactive"],
    ["deactivated before its expiration", "2027-01-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z", "Inactive"],
  ])("%s", (_, endsAt, deactivatedAt, status) => {
    expect(keyStatus({ endsAt, deactivatedAt }, nowMs)).toBe(status);
  });

  test.each([
    ["never, without expiration or overlap", null, null, null],
    ["at its expiration", "2026-12-01T00:00:00.000Z", null, "2026-12-01T00:00:00.000Z"],
    ["with its overlap", null, "2026-12-02T00:00:00.000Z", "2026-12-02T00:00:00.000Z"],
    ["at its expiration, before the overlap is over", "2026-12-01", "2026-12-02", "2026-12-01"],
    ["with its overlap, before it expires", "2026-12-03", "2026-12-02", "2026-12-02"],
  ])("a key ends %s", (_, expiresAt, overlapEndsAt, end) => {
    expect(keyEnd({ expiresAt, overlapEndsAt })).toBe(end);
  });
});

describe("masking keys in a text", () => {
  const keys = Array.from({ length: 300 }, (_, n) => (n % 2 === 0 ? composeKey : composeToken)(randomBytes));
  const masked = (key: string) => `${key.slice(0, 8)}…${key.slice(-4)}`;

  test("leaves the masked form of each key, anywhere in the text", () => {
    for (const key of keys) {
      for (const [before, after] of [
        ["", ""],
        ["order ", " paid"],
        ["https://x.example/webhook/", "/batch"],
        ["task_", "="],
        ["x", "0"],
      ] as const) {
        expect(withoutKeys(before + key + after)).toBe(before + masked(key) + after);
      }
    }
    const [first = "", second = ""] = keys;
    expect(withoutKeys(`${first}${second} ${first}`)).toBe(`${masked(first)}${masked(second)} ${masked(first)}`);
  });

  test("leaves only the first characters of a truncated key", () => {
    const shown = keys
      .map((key) => withoutKeys(`"${key.slice(0, 36)}…`))
      .filter((text) => !/^"(?:sk|wt)_.{5}……$/.test(text));
    expect(shown).toEqual([]);
  });

  test.each([
    "task_ApplicationSubmitted2Successfully",
    "sk_completed",
    "risk_assessment_2026",
    "sk_abcde…wxyz",
    `sk_${"a".repeat(40)}`,
    "task_0123456789012345678901234567890123456789",
    "",
  ])("leaves %j unchanged", (text) => expect(withoutKeys(text)).toBe(text));
});
