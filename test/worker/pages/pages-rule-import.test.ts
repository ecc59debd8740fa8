/** The pages that export mapping rules to a file and import them: previewed first, then applied as a whole. */
import { beforeEach, expect, describe, test } from "vitest";
import { RULES_FILE_MAX_BYTES } from "../../../src/limits.ts";
import { readHtml, type Part } from "../../support/html.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { call } from "../../support/workspace.ts";

let members: Members;
let base: string;
beforeEach(async () => {
  members = await newMembers();
  base = `${members.home}/rules`;
});

const RULE = { name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo", points: 20 };
const create = (more: object = {}) =>
  members.workspace.operator<{ id: string }>("POST", "/rules", { ...RULE, ...more });
const stored = ({ workspace } = members) => workspace.list("/rules");
const STAFF = { name: "Staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
const file = (...items: unknown[]) => JSON.stringify({ items });
const importing = (form: Record<string, string>) => members.owner.post(`${base}/import`, form);

/** The fields that the preview's button sends. */
function toConfirm(page: Part): Record<string, string> {
  const inputs = page.all('input[type="hidden"]');
  return Object.fromEntries(inputs.map((input) => [input.attribute("name") ?? "", input.value ?? ""]));
}

test("the export of rules is a file for any member, with the full content of each rule", async () => {
  const conditions = [{ path: "email", operator: "exists" }];
  await create({ frequency: "once_ever", points_last_days: 30, conditions });
  await create({ name: "Second", enabled: false });
  const answer = await members.member.get(`${base}/export.json`);
  const headers = ["content-type", "content-disposition", "cache-control"].map((name) => answer.headers.get(name));
  const name = `attachment; filename="${members.slug}-mapping-rules.json"`;
  expect(headers).toEqual(["application/json; charset=utf-8", name, "no-store"]);
  const common = { id: expect.any(String) as string, ...RULE, match: "all" };
  expect(JSON.parse(answer.body)).toMatchObject({
    items: [
      { ...common, name: "Second", conditions: [], frequency: "every_time", points_last_days: null, enabled: false },
      { ...common, conditions, frequency: "once_ever", points_last_days: 30, enabled: true },
    ],
  });
  expect((await members.member.read(base)).targets).toContain(`${base}/export.json`);
});

describe("the import of rules", () => {
  test("shows additions and changes first, and applies them after confirmation, once", async () => {
    await create({ conditions: [{ path: "properties.a", operator: "equals", value: 1 }] });
    await create({ name: "Same" });
    const text = file(
      { ...RULE, points: 25, frequency: "once_per_day", points_last_days: 90 },
      { ...RULE, name: "Same" },
      {
        ...RULE,
        name: "<b>New</b>",
        enabled: false,
        conditions: [{ path: "source", operator: "equals", value: "web" }],
      },
    );
    const { status, page } = await members.admin.post(`${base}/import`, { text });
    expect([status, page.all("main b").length]).toEqual([200, 0]);
    for (const expected of [
      "Added 1 Changed 1 Unchanged 1",
      "Asked for a demo Changed Condition removed: properties.a is 1 Points: +20 → +25 How often: each time → once a day (UTC) Points count: always → for 90 days Enabled",
      "<b>New</b> Added Event Filled Out * Match all conditions Conditions source is web",
      "each time Points count always Disabled",
    ])
      expect(page.text).toContain(expected);
    expect(await stored()).toMatchObject([{ version: 1 }, { version: 1, points: 20 }]);
    const confirmed = await members.admin.post(`${base}/import`, toConfirm(page));
    expect([confirmed.status, confirmed.location]).toEqual([303, `${base}?done=rules_imported`]);
    expect((await members.admin.read(confirmed.location)).text).toContain("Rules imported.");
    expect(await stored()).toMatchObject([
      { name: "<b>New</b>", enabled: false, version: 1, updated_by: members.admin.email },
      { name: "Same", version: 1 },
      { points: 25, frequency: "once_per_day", points_last_days: 90, version: 2 },
    ]);
    const activity = await members.admin.read(`${members.home}/settings/activity?action=rules.imported`);
    expect(activity.rows[0]?.text).toMatch(/^Mapping rules imported Added: 1 · Changed: 1/);
    const again = await members.admin.post(`${base}/import`, toConfirm(page));
    expect([again.status, again.text]).toEqual([409, expect.stringContaining("exist already and are the same")]);
  });

  test.each([
    ["rules", { items: [RULE] }, "rules?done=rules_imported", "Rules imported."],
    [
      "exclusions",
      { items: [], exclusions: [STAFF] },
      "rules/exclusions?done=exclusions_imported",
      "Exclusions imported.",
    ],
    ["both", { items: [RULE], exclusions: [STAFF] }, "rules?done=all_imported", "Rules and exclusions imported."],
  ])("of %s says what was imported, where it is listed", async (_, content, path, text) => {
    const preview = await importing({ text: JSON.stringify(content) });
    const { location } = await importing(toConfirm(preview.page));
    expect(location).toBe(`${members.home}/${path}`);
    expect((await members.admin.read(location)).text).toContain(text);
  });

  test("of exclusions names the new and the changed ones in the activity, not the others", async () => {
    const files = [[STAFF], [{ ...STAFF, name: "Bots" }]].map((exclusions) =>
      JSON.stringify({ items: [], exclusions }),
    );
    for (const text of files) await importing(toConfirm((await importing({ text })).page));
    const activity = await members.owner.read(`${members.home}/settings/activity?action=rules.imported`);
    expect(activity.rows.map(({ text }) => text).slice(0, 2)).toEqual([
      expect.stringMatching(/^Exclusions imported Exclusions: Bots owner/),
      expect.stringMatching(/^Exclusions imported Exclusions: Staff owner/),
    ]);
    expect(activity.rows[0]?.link("Exclusions imported").target).toBe(`${members.home}/rules/exclusions`);
  });

  test("of rules alone says in the activity how many were added or changed, without zeros", async () => {
    await importing(
      toConfirm((await importing({ text: JSON.stringify({ items: [{ ...RULE, name: "Alone" }] }) })).page),
    );
    const [row] = (await members.owner.read(`${members.home}/settings/activity?action=rules.imported`)).rows;
    expect(row?.text).toMatch(/^Mapping rules imported Added: 1 · Rules: Alone owner/);
  });

  test("accepts a file as browsers send it, and keeps it if the session has ended", async () => {
    const send = async (fields: Record<string, string | File>, cookie = "") => {
      const body = new FormData();
      for (const [name, value] of Object.entries(fields)) body.set(name, value);
      const headers = { origin: "https://signals.example", cookie };
      const answer = await call(`${base}/import`, { method: "POST", headers, body });
      return { status: answer.status, page: readHtml(await answer.text()) };
    };
    const cookie = await members.owner.cookie();
    const sent = { text: "", file: new File([file(RULE)], "rules.json") };
    const { status, page } = await send(sent, cookie);
    expect([status, toConfirm(page)["text"]]).toEqual([200, file(RULE)]);
    expect(page.buttons("Import 1 rule")).toHaveLength(1);

    const ended = await send(sent);
    expect(ended.status).toBe(401);
    // The original text: URL-encoded, the body would be three times as long, and too large.
    expect(ended.page.form(`${base}/import`).attribute("enctype")).toBe("multipart/form-data");
    const again = await send(toConfirm(ended.page), cookie);
    expect([again.status, toConfirm(again.page)["text"]]).toEqual([200, file(RULE)]);
  });

  test("names each invalid rule and keeps the input", async () => {
    const text = file({ ...RULE, points: "many", name: '<script>"' }, RULE, { ...RULE, event: "" });
    for (const form of [{ text }, { text, do: "import", rules_version: "0" }]) {
      const { status, page } = await importing(form);
      expect([status, page.field("text").value]).toEqual([422, text]);
      expect(page.text).toContain(
        'Nothing was imported Rule 1, <script>": points: Enter a whole number from -1,000,000 to 1,000,000.',
      );
      expect(page.text).toContain("Rule 3, Asked for a demo: event: An event name or pattern");
    }
    const empty = await importing({});
    expect([empty.status, empty.text]).toEqual([422, expect.stringContaining("Choose a file or paste its text.")]);
    expect(await stored()).toEqual([]);
  });

  test("rejects a rule whose name several rules have, and offers no confirmation", async () => {
    for (let n = 0; n < 2; n++) await create();
    const { status, page } = await importing({ text: file({ ...RULE, name: "New" }, RULE) });
    expect([status, toConfirm(page)]).toEqual([422, {}]);
    expect(page.text).toContain("Asked for a demo Rejected several rules here have this name");
    expect(await stored()).toHaveLength(2);
  });

  test("shows the preview again if rules changed since, and changes nothing", async () => {
    const { id } = await create();
    const preview = await importing({ text: file({ ...RULE, points: 1 }) });
    await members.workspace.operator("PATCH", `/rules/${id}`, { points: 99 });
    const { status, page } = await importing(toConfirm(preview.page));
    expect(status).toBe(409);
    expect(page.text).toContain("Nothing was imported: rules have changed since the preview");
    expect(page.text).toContain("Points: +99 → +1");
    expect(await stored()).toMatchObject([{ points: 99, version: 2 }]);
    expect((await importing(toConfirm(page))).status).toBe(303);
    expect(await stored()).toMatchObject([{ points: 1, version: 3 }]);
  });

  test("of an export changes nothing in the same workspace, and creates the same rules in another one", async () => {
    await create({ name: "Twice" });
    await create({ name: "Twice", points: 1 });
    const text = await members.member.see(`${base}/export.json`);
    const { page } = await importing({ text });
    expect(page.text).toContain("All rules and exclusions of the file exist already and are the same.");
    expect(toConfirm(page)).toEqual({});
    const otherTeam = await newMembers();
    const importThere = (form: Record<string, string>) => otherTeam.owner.post(`${otherTeam.home}/rules/import`, form);
    // Both would be imported once, and never again, because an import finds rules by their names.
    const rejected = await importThere({ text });
    expect([
      rejected.status,
      rejected.page.text.includes("an earlier new rule of this import has the same name"),
    ]).toEqual([422, true]);
    expect(await stored(otherTeam)).toEqual([]);
    const renamed = text.replace("Twice", "Once");
    expect((await importThere(toConfirm((await importThere({ text: renamed })).page))).status).toBe(303);
    expect((await stored(otherTeam)).map(({ points }) => Number(points)).toSorted((x, y) => x - y)).toEqual([1, 20]);
  });

  test("asks for a large file again before the import, and imports only the file that was previewed", async () => {
    const rules = Array.from({ length: 300 }, (_, n) => ({ ...RULE, name: `${n} ${"x".repeat(200)}` }));
    const text = file(...rules);
    const { page } = await importing({ text });
    const fields = toConfirm(page);
    expect([fields["text"], page.all("input[type=file][required]").length]).toEqual([undefined, 1]);
    const rejected = await importing({ ...fields, text: file(RULE, ...rules) });
    expect([rejected.status, await stored()]).toEqual([409, []]);
    expect(rejected.text).toContain("Nothing was imported: this is not the previewed file");
    expect((await importing({ ...fields, text })).status).toBe(303);
    expect((await stored()).length).toBeGreaterThan(0);
  });

  test("shows only as much of a large file as fits on a page, and rejects a file that is too large", async () => {
    const value = "'".repeat(250);
    const conditions = Array.from({ length: 40 }, () => ({ path: "email", operator: "equals", value }));
    const shown = await importing({
      text: file(...Array.from({ length: 40 }, (_, n) => ({ ...RULE, name: `Rule ${n}`, conditions }))),
    });
    expect(shown.text).toMatch(/And \d+ more rules\./);
    const wrong = file(...Array.from({ length: 500 }, () => ({ [`"${"x".repeat(5_000)}`]: 1 })));
    const rejected = await importing({ text: wrong });
    expect(rejected.status).toBe(422);
    for (const { body } of [shown, rejected]) expect(body.length).toBeLessThan(600_000);
    expect((await importing({ text: file({ ...RULE, note: "x".repeat(1_000_000) }) })).status).toBe(422);
    expect((await importing({ text: "x".repeat(RULES_FILE_MAX_BYTES) })).status).toBe(413);
  });
});
