/** Forms of the pages are read after sign-in and role, within limits of bytes, fields and characters. */
import { beforeEach, describe, expect, test } from "vitest";
import {
  PAGE_FORM_MAX_BYTES,
  PAGE_FORM_MAX_CHARACTERS,
  PAGE_FORM_MAX_FIELDS,
  RULE_MAX_CONDITIONS,
  STRANGER_FORM_MAX_BYTES,
  STRANGER_FORM_MAX_FIELDS,
  TEMPLATE_MAX_MAPPINGS,
} from "../../../src/limits.ts";
import { Answer, type Browser, type Members, newMembers, OFFICE } from "../../support/members.ts";
import { call } from "../../support/workspace.ts";

const HERE = "https://signals.example";
const URLENCODED = { "content-type": "application/x-www-form-urlencoded" };
const MULTIPART = { "content-type": "multipart/form-data; boundary=x" };

let members: Members;
beforeEach(async () => {
  members = await newMembers();
});

const send = (path: string, headers: Record<string, string>, body: BodyInit): Promise<Answer> =>
  Answer.of(call(path, { method: "POST", headers: { origin: HERE, ...OFFICE, ...headers }, body, redirect: "manual" }));

/** A multipart form of empty fields. */
const parts = (count: number): string =>
  `${'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'.repeat(count)}--x--\r\n`;

describe("a form of a member", () => {
  const sendAs = async (browser: Browser, headers: Record<string, string>, body: string) =>
    send(`${members.home}/settings/members`, { ...headers, cookie: await browser.cookie() }, body);

  const rejections: [string, Record<string, string>, string, string][] = [
    ["bytes", URLENCODED, `a=${"x".repeat(PAGE_FORM_MAX_BYTES)}`, `${PAGE_FORM_MAX_BYTES} bytes`],
    ["fields", URLENCODED, "a&".repeat(PAGE_FORM_MAX_FIELDS + 1), `${PAGE_FORM_MAX_FIELDS} fields`],
    ["parts", MULTIPART, parts(PAGE_FORM_MAX_FIELDS + 1), `${PAGE_FORM_MAX_FIELDS} fields`],
    [
      "fields with a boundary in the content type",
      { "content-type": `${URLENCODED["content-type"]}; boundary=y` },
      "a&".repeat(PAGE_FORM_MAX_FIELDS + 1),
      `${PAGE_FORM_MAX_FIELDS} fields`,
    ],
    [
      "parts with a second boundary in the content type",
      { "content-type": "multipart/form-data; x-boundary=y; boundary=x" },
      parts(PAGE_FORM_MAX_FIELDS + 1),
      `${PAGE_FORM_MAX_FIELDS} fields`,
    ],
    [
      "characters in a file",
      MULTIPART,
      `--x\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n${"x".repeat(PAGE_FORM_MAX_CHARACTERS)}\r\n--x--\r\n`,
      `${PAGE_FORM_MAX_CHARACTERS} characters`,
    ],
    ["characters", URLENCODED, `a=${"x".repeat(PAGE_FORM_MAX_CHARACTERS)}`, `${PAGE_FORM_MAX_CHARACTERS} characters`],
  ];

  test.each(rejections)("with too many %s is rejected with the limit", async (_, headers, body, limit) => {
    const { status, text } = await sendAs(members.owner, headers, body);
    expect(status).toBe(413);
    expect(text).toContain(`It may have at most ${limit}: shorten it. Nothing was saved.`);
  });

  test.each([
    ["fields", URLENCODED, "a&".repeat(PAGE_FORM_MAX_FIELDS)],
    ["parts", MULTIPART, parts(PAGE_FORM_MAX_FIELDS)],
  ])("with as many %s as allowed is read", async (_, headers, body) => {
    expect((await sendAs(members.owner, headers, body)).status).toBe(422);
  });

  test("with as many fields and characters as allowed is read", async () => {
    const fields = "a=&".repeat(PAGE_FORM_MAX_FIELDS - 2);
    const email = "x".repeat(PAGE_FORM_MAX_CHARACTERS - PAGE_FORM_MAX_FIELDS - 10);
    const answer = await sendAs(members.owner, URLENCODED, `${fields}email=${email}`);
    expect(answer.status).toBe(422);
    expect(answer.page.all("input#email").map(({ value }) => value)).toEqual([email]);
  });

  test("is rejected and not read if the member lacks the role for it", async () => {
    const tooLarge = `a=${"x".repeat(PAGE_FORM_MAX_BYTES)}`;
    for (const [browser, status] of [
      [members.owner, 413],
      [members.member, 403],
      [members.stranger, 404],
    ] as const)
      expect((await sendAs(browser, URLENCODED, tooLarge)).status).toBe(status);
  });
});

describe("a form of somebody who is not signed in", () => {
  const path = () => `${members.home}/rules/import`;

  test("is kept on the page to be sent again", async () => {
    const answer = await send(path(), { ...URLENCODED, "sec-fetch-mode": "navigate" }, "text=%22%3Ca%3E&do=import");
    expect([answer.status, answer.text]).toEqual([401, expect.stringContaining("Your session has ended")]);
    const kept = answer.page.all('input[type="hidden"]').map((input) => [input.attribute("name"), input.value]);
    expect(kept).toEqual([
      ["text", '"<a>'],
      ["do", "import"],
    ]);
  });

  const tooMuch: [string, Record<string, string>, string, string][] = [
    ["bytes", URLENCODED, `a=${"x".repeat(STRANGER_FORM_MAX_BYTES)}`, `${STRANGER_FORM_MAX_BYTES} bytes`],
    ["fields", URLENCODED, "a&".repeat(STRANGER_FORM_MAX_FIELDS + 1), `${STRANGER_FORM_MAX_FIELDS} fields`],
    ["parts", MULTIPART, parts(STRANGER_FORM_MAX_FIELDS + 1), `${STRANGER_FORM_MAX_FIELDS} fields`],
  ];

  test.each(tooMuch)(
    "is not kept if it has too many %s, and the page says what to do",
    async (_, headers, body, limit) => {
      const { status, page } = await send(path(), headers, body);
      expect(status).toBe(413);
      expect(page.text).toContain(`It may have at most ${limit}: shorten it. Sign in in a new tab, then go back`);
      expect(page.all("input")).toEqual([]);
    },
  );
});

test("the rule editor draws at most one condition more than a rule may have", async () => {
  const rows: [string, string][] = Array.from({ length: 300 }, () => ["path", "properties.a"]);
  for (const action of ["save", "preview", "add"]) {
    const form: [string, string][] = [["do", action], ["event", "Visit"], ...rows];
    const { page } = await members.owner.post(`${members.home}/rules`, form);
    expect(page.all("input[name=path]").length).toBeLessThanOrEqual(RULE_MAX_CONDITIONS + 2);
    if (action === "save")
      expect(page.text).toContain(`A rule has a list of at most ${RULE_MAX_CONDITIONS} conditions.`);
  }
});

test("the editor of a payload template draws at most one mapping more than a template may have", async () => {
  const rows = Array.from({ length: 300 }, (_, n): [string, string] => [`rows.${n}.target`, `attributes.a${n}`]);
  const form: [string, string][] = [["endpoint_type", "product_org"], ...rows];
  const { page } = await members.owner.post(`${members.home}/settings/api-keys/new`, form);
  expect(page.all('input[name$=".target"]')).toHaveLength(TEMPLATE_MAX_MAPPINGS + 1);
  expect(page.text).toContain(`At most ${TEMPLATE_MAX_MAPPINGS} mappings.`);
});
