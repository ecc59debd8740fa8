/** Design §8.3: ids and emails that name a person, and those that must not. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readPayload } from "../../../../src/domain/json/json-value.ts";
import { composeKey } from "../../../../src/domain/keys/api-key.ts";
import {
  emailAsStored,
  emailProblem,
  idProblem,
  memberEmail,
  groupSource,
  markOfName,
  normaliseEmail,
  usableId,
} from "../../../../src/domain/signal/identity.ts";

/** The texts between white space; `_` stands for a space. */
const list = (texts: string): string[] => texts.split(/\s+/).map((text) => text.replaceAll("_", " "));
const key = composeKey((n) => crypto.getRandomValues(new Uint8Array(n)));

describe("§8.3 an id", () => {
  test.each([
    ...list("x 0 000000 0.00 00000000-0000-0000-0000-000000000000 -1 null None NaN true [object_Object] {} ---"),
    ...list(`"null" 'null' <null> (none) [none] {null} "undefined" "[object_Object]" \`nil\` “null” "" <>`),
    ...list("anonymous-user ANONYMOUS_USER system Backend ٠ ００"),
    "\u200bnull\u200b",
    '" null "',
    ...list("Anonymous guest (not_set) {{lead.Id}} lead-{{lead.Id}} %CONTACT_ID% ${user.id} *|UNIQID|*"),
    "",
    "  \t",
    "a\ud800",
    "a".repeat(256),
    key,
  ])("never links if it is %j", (id) => expect(usableId(id)).toBeUndefined());

  test.each([
    ...list("507f191e-810c-4972-9de8-60ea00000000 507f191e810c19729de860ea 42 1 0007 anonymous-8f2c user1 50%off"),
    ...list(`"a1" 'user-7' <b2> ٤٢ ７ 1٠ systems backend-3`),
    "пользователь",
    "a".repeat(255),
  ])("links if it is %j", (id) => expect(usableId(id)).toBe(id));

  test.each<[unknown, string | undefined]>([
    [" aB3 ", "aB3"],
    [1234567, "1234567"],
    [Number.MAX_SAFE_INTEGER, "9007199254740991"],
    ...[JSON.parse("12345678901234567891"), 0, -0, -1, Number.NaN, Infinity, null, true, { id: "a" }, ["a"]].map(
      (value: unknown) => [value, undefined] as [unknown, undefined],
    ),
  ])("of %j is %j", (value, id) => expect(usableId(value)).toBe(id));

  test.each(["7615917337495251231", "12345678901234567891", "12345678901234567000", "1000000000000000000000"])(
    "of the number %s is its text, with all digits",
    (sent) => expect(usableId(readPayload(sent))).toBe(sent),
  );
});

describe("the problem with an id", () => {
  test.each<[unknown, string | null]>([
    ["null", "is a word that senders write for many people"],
    ['"null"', "is a word that senders write for many people"],
    ["0000", "has no letter, and no digit other than zero"],
    ["{{lead.Id}}", "is a placeholder that was not replaced by its value"],
    ["x", "has a single character"],
    ["a".repeat(256), "has more than 255 characters"],
    [key, "holds an API key"],
    [readPayload("7615917337495251231"), null],
    [readPayload("0.00000000000000000000"), "has no letter, and no digit other than zero"],
    [readPayload(`1${"0".repeat(300)}`), "has more than 255 characters"],
    [JSON.parse("7615917337495251231"), "is a number with more digits than JSON numbers keep (send it as a text)"],
    [true, "is not a text"],
    [{ id: "a" }, "is not a text"],
    ...[null, undefined, "", " ", "user-1", 42].map((value): [unknown, null] => [value, null]),
  ])("of %j is %j", (value, why) =>
    expect(idProblem("userId", value)).toBe(why && `Its \`userId\` ${why}, so it names nobody.`),
  );

  test("is there exactly if the id links nobody", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.integer(), fc.double()), (value) => {
        const isAbsent = typeof value === "string" && value.trim() === "";
        expect(idProblem("userId", value) === null).toBe(isAbsent || usableId(value) !== undefined);
      }),
    );
  });
});

describe("§8.1 an email address", () => {
  test.each([
    ...list("jane@example.com jane.doe+news@mail.example.co.uk root@localhost почта@пример.рф ann@münchen.de"),
    ...list("o'neil@example.com jane@[192.0.2.1] jane@xn--mnchen-3ya.de jane@3com.com"),
    `${"a".repeat(242)}@example.com`,
  ])("names somebody: %s", (email) => {
    expect(normaliseEmail(email)).toBe(email);
    expect(normaliseEmail(` ${email.toUpperCase()}\n`)).toBe(email);
    expect(emailProblem(email)).toBeNull();
  });

  test.each([
    ...list(
      `jane@example.com, jane@example.com; "jane@example.com" 'jane@example.com' "jane@example.com", “jane@example.com”`,
    ),
    "\u200bjane@example.com",
    "jane@example.com\u202c",
    "\ufeff \u2060jane@example.com\u200b ",
    ' " jane@example.com" ',
  ])("names the address within %j", (sent) => {
    expect(normaliseEmail(sent)).toBe("jane@example.com");
    expect(emailProblem(sent)).toBeNull();
  });

  const SHAPE = "Its email is not an email address, so it names nobody.";
  const LINK = 'Its email has a "/", ":", "<" or ">", which no address of a person may have, so it names nobody.';
  test.each<[unknown, string | null]>([
    ...[null, undefined, "", " "].map((absent) => [absent, null] as [unknown, null]),
    ...[5, {}, ["a@b.c"]].map((value) => [value, "Its email is not a text, so it names nobody."] as [unknown, string]),
    ...[
      ...list("jane.example.com jane@doe@example.com @example.com jane@ jane_doe@example.com {{lead.Email_Address}}"),
      "jane\u00a0doe@example.com",
      "jane@example.com\nbob",
      "jane\u0000@example.com",
      "a\ud800@example.com",
      "Jane <jane@example.com>",
      `${"a".repeat(243)}@example.com`,
    ].map((text) => [text, SHAPE] as [unknown, string]),
    ...list("<jane@example.com> https://evil.example/login?x=1#@x.co evil.example/login@x.co mailto:jane@example.com")
      .concat(list("jane@example.com:8080 jane@example.com/login <https://evil.example|jane@example.com>"))
      .map((text) => [text, LINK] as [unknown, string]),
    ...["(jane@example.com)", "jane@example..com", "jane@-", "jane@a-.example", "!@#$%^&*()`~"].map(
      (text) => [text, SHAPE] as [unknown, string],
    ),
    ["ja\u00adne@example.com", "Its email has the invisible character U+00AD, so it names nobody."],
    ["jane@exam\u200bple.com", "Its email has the invisible character U+200B, so it names nobody."],
    [`${key}@example.com`, "Its email holds an API key, so it names nobody."],
  ])("names nobody: %j", (email, problem) => {
    expect(normaliseEmail(email)).toBeUndefined();
    expect(emailProblem(email)).toBe(problem);
  });

  test("has a problem exactly if it identifies no person", () => {
    const text = fc.oneof(fc.emailAddress(), fc.string(), fc.stringMatching(/^[a@/:<>. ]{0,8}$/));
    fc.assert(
      fc.property(text, (email) => {
        const once = normaliseEmail(email);
        expect(emailProblem(email) === null).toBe(email.trim() === "" || once !== undefined);
        if (once !== undefined) expect([once, normaliseEmail(once)]).toEqual([emailAsStored(email), once]);
      }),
    );
  });
});

describe("the email of a member", () => {
  test.each([
    ...list("jane@example.com zoë@example.com 用户@例え.jp ken-けんケン漢@example.jp почта@пример.рф"),
    "почта-1@пример.com",
    "παράδειγμα@τομέας.com",
    "o'neil+news_2@example.co.uk",
  ])("may be %s", (email) => expect(memberEmail(` ${email} `)).toBe(email));

  test.each([
    ["a Kelvin sign", "\u212Aevin@example.com"],
    ["a long s", "u\u017Fer@example.com"],
    ["letters of full width", "\uFF4Aane@example.com"],
    ["a dot of full width", "jane@example\uFF0Ecom"],
    ["two at signs, one of full width", "jane\uFF20a@example.com"],
    ["a ligature", "o\uFB03ce@example.com"],
    ["an accent apart from its letter", "zoe\u0308@example.com"],
    ["a zero-width space", "jane\u200B@example.com"],
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
  ])("is rejected with %s", (_, typed) => expect(memberEmail(typed)).toBeUndefined());
});

test("the mark of a name is that of FNV-1a, without a sign", () =>
  expect(["", "a", "foobar"].map(markOfName)).toEqual([0x81_1c_9d_c5, 0xe4_0c_29_2c, 0xbf_9c_f9_68]));

describe("the source of a signal", () => {
  const zoe = { email: "zoe.hart@x.co", userId: "U-4711", anonymousId: "v-1", traits: { name: "Zoe Hart" } };

  test.each(
    list(
      "newsletter_for_zoe@x.co somebody@else.example form_of_u-4711 browser_V-1 for_ZOE hart's_list of_zoe.hart shart_hart",
    ),
  )("names its person: %s", (source) => expect(groupSource(source, zoe)).toBe(""));

  test.each(["website", "marketing-automation", "unknown", "shart-zoetrope", ""])("names nobody: %j", (source) =>
    expect(groupSource(source, zoe)).toBe(source),
  );

  test("never matches very short or absent names", () => {
    expect(groupSource("form 42 of jo", { userId: "42", traits: { name: "Jo" } })).toBe("form 42 of jo");
  });
});
