/** Spec §2.1, §3.1 and design §5: the form of an API key, what is shown of it, and when it is inactive. */
import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  composeKey,
  isExpired,
  isWellFormedKey,
  keyEnd,
  keyEnds,
  keyStatus,
  maskedKey,
  holdsKey,
  withoutKeys,
} from "../../../../src/domain/keys/api-key.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const random = (n: number): Uint8Array => Uint8Array.from(randomBytes(n));

/** Gives the listed bytes one after the other, however they are asked for; then random ones. */
function listed(bytes: number[]): (n: number) => Uint8Array {
  const left = [...bytes];
  return (n) => (left.length > 0 ? Uint8Array.from(left.splice(0, n)) : random(n));
}

describe("§5 a new key", () => {
  test("is sk_ and 40 base62 characters, the last six of them the CRC32 of all before", () => {
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

  test("is drawn without bias: bytes from 248 on are thrown away", () => {
    const good = Array.from({ length: 34 }, (_, index) => index * 7);
    const key = composeKey(listed(good.flatMap((byte) => [248, byte, 255])));
    expect(key.slice(3, 37)).toBe(good.map((byte) => BASE62[byte % 62]).join(""));
  });

  test("uses the whole alphabet", () => {
    const seen = new Set(Array.from({ length: 200 }, () => composeKey(random).slice(3, 37)).join(""));
    expect(seen.size).toBe(62);
  });

  test("is drawn again until log redactors recognise it: two lower-case letters, two upper-case ones, two digits", () => {
    const onlyDigits = Array.from({ length: 34 }, () => 7);
    const mixed = Array.from({ length: 34 }, (_, index) => index * 5);
    const key = composeKey(listed([...onlyDigits, ...mixed]));
    expect(key.slice(3, 37)).toBe(mixed.map((byte) => BASE62[byte % 62]).join(""));
    for (let round = 0; round < 200; round++) {
      const tail = composeKey(random).slice(3);
      for (const kind of [/[a-z]/g, /[A-Z]/g, /[0-9]/g]) expect(tail.match(kind)?.length).toBeGreaterThanOrEqual(2);
    }
  });
});

describe("§5 the shape of a key is checked before any look-up", () => {
  const key = composeKey(random);

  test("a key as it was shown passes", () => {
    expect(isWellFormedKey(key)).toBe(true);
  });

  test("a typo in any place fails", () => {
    for (let at = 0; at < key.length; at++) {
      const typo = key.slice(0, at) + (key[at] === "x" ? "y" : "x") + key.slice(at + 1);
      expect(isWellFormedKey(typo), `place ${at}`).toBe(false);
    }
  });

  test("two characters in each other's place fail", () => {
    const swapped = Array.from({ length: key.length - 1 }, (_, at) => {
      return key.slice(0, at) + key.charAt(at + 1) + key.charAt(at) + key.slice(at + 2);
    });
    expect(swapped.filter((text) => text !== key && isWellFormedKey(text))).toEqual([]);
  });

  test("a character that is not base62 fails, also under the right checksum", () => {
    const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (const odd of ["-", "é", " "]) {
      const checked = key.slice(0, 20) + odd + key.slice(21, 37);
      const sum = Array.from(checked).reduce((crc, char) => crc32(Uint8Array.of(char.charCodeAt(0) & 0xff), crc), 0);
      let [rest, tail] = [sum, ""];
      for (let place = 0; place < 6; place++, rest = Math.floor(rest / 62)) tail = digits.charAt(rest % 62) + tail;
      expect(isWellFormedKey(checked + tail), odd).toBe(false);
    }
  });

  test.each([
    ["nothing", ""],
    ["the prefix alone", "sk_"],
    ["one character less", key.slice(0, -1)],
    ["one character more", `${key}0`],
    ["a space before", ` ${key.slice(0, -1)}`],
    ["another prefix", `pk_${key.slice(3)}`],
    ["characters that are not base62", `sk_${"-".repeat(40)}`],
    ["characters beyond ASCII", `sk_${"é".repeat(40)}`],
    ["characters beyond 16 bits", `sk_${"😀".repeat(20)}`],
    ["a masked key", maskedKey(keyEnds(key))],
  ])("%s fails", (_, text) => {
    expect(isWellFormedKey(text)).toBe(false);
  });
});

test("§5: whatever is drawn, a key that log redactors would miss is drawn again", () => {
  // Bytes that become characters of one kind: digits, capital letters, small letters.
  for (const [from, count] of [
    [0, 10],
    [10, 26],
    [36, 26],
  ] as const) {
    for (let odd = 0; odd < 3; odd++) {
      for (let time = 0; time < 40; time++) {
        let draws = 0;
        const key = composeKey((n) => {
          if (draws++ > 0) return randomBytes(n);
          // All of one kind but for a few of the others.
          return Uint8Array.from({ length: n }, (_, at) =>
            at < odd ? (from + count + at) % 62 : from + ((at + time) % count),
          );
        });
        for (const kind of [/[a-z]/g, /[A-Z]/g, /[0-9]/g])
          expect(key.slice(3).match(kind)?.length).toBeGreaterThanOrEqual(2);
        expect(isWellFormedKey(key)).toBe(true);
      }
    }
  }
});

describe("§2.1, §8.10 what is shown of a key", () => {
  test("is its first 8 characters, an ellipsis, its last 4", () => {
    const key = "sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz";
    expect(maskedKey(keyEnds(key))).toBe("sk_abcde…wxyz");
    expect(keyEnds(key)).toEqual({ first8: "sk_abcde", last4: "wxyz" });
  });
});

describe("invariant 6: a key is found inside another text, and only a whole one", () => {
  test.each([
    ["alone", "sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz1", true],
    ["in the middle", "order/sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxyz1/7", true],
    ["one character short", "sk_abcdeFGHIJKLMNOPQRSTUVWXYZ0123456789wxy", false],
    ["a source name that only begins like one", "sk_facebook", false],
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
    ["after its expiration", "2026-11-19T12:00:00.000Z", null, "Inactive"],
    ["deactivated", null, "2026-11-01T00:00:00.000Z", "Inactive"],
    ["deactivated before its expiration", "2027-01-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z", "Inactive"],
  ])("%s", (_, endsAt, deactivatedAt, status) => {
    expect(keyStatus({ endsAt, deactivatedAt }, nowMs)).toBe(status);
  });

  test.each([
    ["never, without either", null, null, null],
    ["at its expiration", "2026-12-01T00:00:00.000Z", null, "2026-12-01T00:00:00.000Z"],
    ["with its overlap", null, "2026-12-02T00:00:00.000Z", "2026-12-02T00:00:00.000Z"],
    ["at its expiration, before the overlap is over", "2026-12-01", "2026-12-02", "2026-12-01"],
    ["with its overlap, before it expires", "2026-12-03", "2026-12-02", "2026-12-02"],
  ])("a key ends by itself %s", (_, expiresAt, overlapEndsAt, end) => {
    expect(keyEnd({ expiresAt, overlapEndsAt })).toBe(end);
  });

  test("a key without expiration never expires", () => {
    expect(isExpired(null, Number.MAX_SAFE_INTEGER)).toBe(false);
  });
});

describe("text with keys masked", () => {
  const keys = Array.from({ length: 300 }, () => composeKey(randomBytes));
  const masked = (key: string) => `${key.slice(0, 8)}…${key.slice(-4)}`;

  test("shows of each key what lists of keys show, wherever it stands", () => {
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

  test("shows next to nothing of a key that was cut off", () => {
    const shown = keys.map((key) => withoutKeys(`"${key.slice(0, 36)}…`)).filter((text) => !/^"sk_.{5}……$/.test(text));
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
  ])("leaves %j as it is", (text) => expect(withoutKeys(text)).toBe(text));
});
