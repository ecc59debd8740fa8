/** Names of keys, rules and other records, which pages show and link. */
import { expect, test } from "vitest";
import { name } from "../../../src/http/fields.ts";

test.each(["Website", "Ünïcödé 名前 🙂", "👩‍👩‍👧 family", "می‌خواهم", "❤️‍🔥", "क्‍ष", "  trimmed  "])("%j is a name", (sent) => {
  expect(name.parse(sent)).toBe(sent.trim());
});

test.each([
  ["a mark of direction", "key \u202etxt"],
  ["an isolate", "\u2066key\u2069"],
  ["an Arabic letter mark", "key\u061c"],
  ["a zero-width space", "ke\u200by"],
  ["a soft hyphen", "web\u00adsite"],
  ["a byte order mark", "a\ufeffb"],
  ["a joiner at its end", "key\u200d"],
  ["two joiners", "ke\u200d\u200dy"],
  ["a joiner beside a space", "a \u200cb"],
])("%s makes no name", (_, sent) => {
  expect(name.safeParse(sent).error?.issues.map(({ message }) => message)).toEqual([
    "a name without invisible characters and marks of direction",
  ]);
});

test("a name has one line", () => {
  const messages = name.safeParse("one\ntwo").error?.issues.map(({ message }) => message);
  expect(messages).toEqual(["a name that can be seen, on one line"]);
});
