/** Design §8.3: ids and emails that name a person, and those that must not. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  emailProblem,
  isPlausibleEmail,
  isWorthlessId,
  memberEmail,
  normaliseEmail,
  namesPerson,
  usableId,
} from "../../../../src/domain/signal/identity.ts";

describe("§8.3 worthless ids never link", () => {
  test.each([
    ["nothing", ""],
    ["white space", "  \t"],
    ["one character", "x"],
    ["zero", "0"],
    ["zeros", "000000"],
    ["a decimal zero", "0.00"],
    ["a zero UUID", "00000000-0000-0000-0000-000000000000"],
    ["minus one", "-1"],
    ["null", "null"],
    ["None, in any letter case", "None"],
    ["NaN", "NaN"],
    ["true", "true"],
    ["a stringified object", "[object Object]"],
    ["an empty object", "{}"],
    ["dashes", "---"],
    ["anonymous", "Anonymous"],
    ["guest", "guest"],
    ["not set", "(not set)"],
    ["an unfilled Marketo token", "{{lead.Id}}"],
    ["an unfilled token inside", "lead-{{lead.Id}}"],
    ["an unfilled percent token", "%CONTACT_ID%"],
    ["an unfilled template literal", "${user.id}"],
    ["an unfilled merge tag", "*|UNIQID|*"],
    ["256 characters", "a".repeat(256)],
  ])("%s", (_, id) => {
    expect(isWorthlessId(id)).toBe(true);
    expect(usableId(id)).toBeUndefined();
  });

  test.each([
    ["a UUID", "507f191e-810c-4972-9de8-60ea00000000"],
    ["a Mongo id", "507f191e810c19729de860ea"],
    ["a number", "42"],
    ["a number with leading zeros", "0007"],
    ["a name that begins with a filler word", "anonymous-8f2c"],
    ["a user number", "user1"],
    ["an id with percent signs", "50%off"],
    ["letters of any script", "пользователь"],
    ["255 characters", "a".repeat(255)],
  ])("an id that is %s links", (_, id) => expect(usableId(id)).toBe(id));
});

describe("§8.3 a usable id", () => {
  test("is trimmed and keeps its letter case", () => expect(usableId(" aB3 ")).toBe("aB3"));
  test.each([
    ["a number is its decimal text", 1234567, "1234567"],
    ["the largest number that JSON.parse keeps exact", 9007199254740991, "9007199254740991"],
    ["a number that JSON.parse has rounded", JSON.parse("12345678901234567891"), undefined],
    ["the number 0", 0, undefined],
    ["the number -0", -0, undefined],
    ["the number -1", -1, undefined],
    ["NaN", Number.NaN, undefined],
    ["Infinity", Number.POSITIVE_INFINITY, undefined],
    ["null", null, undefined],
    ["undefined", undefined, undefined],
    ["true", true, undefined],
    ["an object", { id: "abc" }, undefined],
    ["an array", ["abc"], undefined],
  ])("%s", (_, value, id) => expect(usableId(value)).toBe(id));
});

describe("§8.1 email addresses", () => {
  test.each([
    ["an ordinary address", "jane@example.com"],
    ["tags and dots", "jane.doe+news@mail.example.co.uk"],
    ["a domain without a dot", "root@localhost"],
    ["letters of any script", "почта@пример.рф"],
    ["254 characters", `${"a".repeat(242)}@example.com`],
  ])("plausible: %s", (_, text) => expect(isPlausibleEmail(text)).toBe(true));

  test.each([
    ["no @", "jane.example.com"],
    ["two @", "jane@doe@example.com"],
    ["nothing before the @", "@example.com"],
    ["nothing after the @", "jane@"],
    ["a space", "jane doe@example.com"],
    ["a no-break space", "jane\u00a0doe@example.com"],
    ["a line break", "jane@example.com\nbob"],
    ["a NUL", "jane\u0000@example.com"],
    ["a name in front", "Jane <jane@example.com>"],
    ["an address in angle brackets", "<jane@example.com>"],
    ["a link to another site", "https://evil.example/login?x=1#@x.co"],
    ["a link without a scheme", "evil.example/login@x.co"],
    ["a scheme in front", "mailto:jane@example.com"],
    ["a port behind the domain", "jane@example.com:8080"],
    ["a path behind the domain", "jane@example.com/login"],
    ["a link of Slack's", "<https://evil.example|jane@example.com>"],
    ["an unfilled token", "{{lead.Email Address}}"],
    ["255 characters", `${"a".repeat(243)}@example.com`],
  ])("not plausible: %s", (_, text) => {
    expect(isPlausibleEmail(text)).toBe(false);
    expect(normaliseEmail(text)).toBeUndefined();
  });

  test("are trimmed and lower-cased", () => expect(normaliseEmail("  Jane@Example.COM ")).toBe("jane@example.com"));
  test.each([[null], [undefined], [5], [{}], [["a@b.c"]]])("%s is not an address", (value) =>
    expect(normaliseEmail(value)).toBeUndefined(),
  );
  test("are the same when normalised twice", () => {
    fc.assert(
      fc.property(
        fc.emailAddress().map((email) => email.replaceAll("/", "-")),
        (email) => {
          const once = normaliseEmail(` ${email}`);
          expect(once).toBe(email.toLowerCase());
          expect(normaliseEmail(once)).toBe(once);
        },
      ),
    );
  });
});

describe("emailProblem", () => {
  test.each([
    ["jane@example.com", null],
    [" jane@example.com ", null],
    ["", null],
    [null, null],
    [undefined, null],
    ["https://evil.example/login@x.co", expect.stringContaining('"/", ":", "<" or ">"')],
    ["jane", "Its email is not an email address, so it names nobody."],
    [["jane@example.com"], "Its email is no text, so it names nobody."],
  ])("%j: %s", (email, problem) => expect(emailProblem(email)).toEqual(problem));

  test("returns a reason exactly for emails that name nobody", () => {
    const text = fc.oneof(fc.emailAddress(), fc.string(), fc.stringMatching(/^[a@/:<>. ]{0,8}$/));
    fc.assert(
      fc.property(text, (email) => {
        expect(emailProblem(email) === null).toBe(email.trim() === "" || normaliseEmail(email) !== undefined);
      }),
    );
  });
});

describe("the email of a member", () => {
  test.each([
    ["jane@example.com", "jane@example.com"],
    [" Jane@Example.COM ", "jane@example.com"],
    ["zoë@example.com", "zoë@example.com"],
    ["用户@例え.jp", "用户@例え.jp"],
    ["ken-けんケン漢@example.jp", "ken-けんケン漢@example.jp"],
    ["почта@пример.рф", "почта@пример.рф"],
    ["почта-1@пример.com", "почта-1@пример.com"],
    ["παράδειγμα@τομέας.com", "παράδειγμα@τομέας.com"],
    ["o'neil+news_2@example.co.uk", "o'neil+news_2@example.co.uk"],
  ])("%j is %j", (typed, email) => expect(memberEmail(typed)).toBe(email));

  test.each([
    ["a Kelvin sign", "\u212Aevin@example.com"],
    ["a long s", "u\u017Fer@example.com"],
    ["letters of full width", "\uFF4Aane@example.com"],
    ["a dot of full width", "jane@example\uFF0Ecom"],
    ["two at signs, one of full width", "jane\uFF20a@example.com"],
    ["a ligature", "o\uFB03ce@example.com"],
    ["an accent apart from its letter", "zoe\u0308@example.com"],
    ["a zero-width space", "jane\u200B@example.com"],
    ["a zero-width joiner", "ja\u200Dne@example.com"],
    ["a byte order mark", "jane@example.com\uFEFF"],
    ["a soft hyphen", "ja\u00ADne@example.com"],
    ["a mark that turns the text around", "jane@example\u202E.com"],
    ["a Cyrillic letter among Latin ones", "j\u0430ne@example.com"],
    ["a Greek letter among Latin ones", "jane@ex\u03B1mple.com"],
    ["a name of another script than its domain", "\u0441\u043E\u0441\u043E@example.com"],
    ["Cyrillic and Greek letters", "\u0430\u03B1@\u043F\u0440\u0438\u043C\u0435\u0440.com"],
    ["letters of a historic script", "\u16A0\u16A2@example.com"],
    ["a link in it", "https://evil.example/@x.co"],
    ["no address", "jane"],
    ["no text", 5],
  ])("is refused with %s", (_, typed) => expect(memberEmail(typed)).toBeUndefined());
});

const zoe = { email: "zoe.hart@x.co", userId: "U-4711", anonymousId: "v-1", traits: { name: "Zoe Hart" } };

test.each([
  "newsletter for zoe@x.co",
  "somebody@else.example",
  "form of u-4711",
  "browser V-1",
  "newsletter for ZOE",
  "hart's list",
  "list of zoe.hart",
])("a source that contains an address, an id or a name names the person: %s", (source) => {
  expect(namesPerson(source, zoe)).toBe(true);
});

test.each(["website", "marketing-automation", "unknown", "shart-zoetrope", ""])(
  "any other source does not name the person: %j",
  (source) => {
    expect(namesPerson(source, zoe)).toBe(false);
  },
);

test("very short or absent names never match a source", () => {
  expect(namesPerson("form 42 of jo", { userId: "42", traits: { name: "Jo" } })).toBe(false);
});
