/** The pages that export mapping rules to a file and import them: previewed first, then applied as a whole. */
import { beforeEach, describe, expect, test } from "vitest";
import { RULES_FILE_MAX_BYTES } from "../../../src/limits.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { call } from "../../support/workspace.ts";

let members: Members;
let base: string;
beforeEach(async () => {
  members = await newMembers();
  base = `${members.home}/rules`;
});

const RULE = { name: "Asked for a demo", event: "Filled Out *", scoring_signal: "demo", points: 20 };
const create = (more: object = {}) => members.workspace.operator("POST", "/rules", { ...RULE, ...more });
const stored = async (of = members) => (await of.workspace.operator<{ items: object[] }>("GET", "/rules")).items;
const file = (...items: unknown[]) => JSON.stringify({ items });

/** The fields that the preview's button sends. */
function toConfirm(html: string): Record<string, string> {
  const inputs = readHtml(html).all('input[type="hidden"]');
  return Object.fromEntries(inputs.map((input) => [input.attribute("name") ?? "", input.value ?? ""]));
}

describe("the export of rules", () => {
  test("is a file for any member, with the full content of each rule", async () => {
    await create({ frequency: "once_ever", conditions: [{ path: "email", operator: "exists" }] });
    await create({ name: "Second", enabled: false });
    const answer = await members.member.get(`${base}/export.json`);
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(answer.headers.get("content-disposition")).toBe(`attachment; filename="${members.slug}-mapping-rules.json"`);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const { items } = await answer.json<{ items: object[] }>();
    expect(items).toEqual([
      {
        id: expect.any(String),
        ...RULE,
        name: "Second",
        match: "all",
        conditions: [],
        frequency: "every_time",
        enabled: false,
      },
      {
        id: expect.any(String),
        ...RULE,
        match: "all",
        conditions: [{ path: "email", operator: "exists" }],
        frequency: "once_ever",
        enabled: true,
      },
    ]);
    const forMember = await members.member.read(base);
    expect(forMember.targets).toContain(`${base}/export.json`);
    expect(forMember.targets).not.toContain(`${base}/import`);
    expect((await members.admin.read(base)).targets).toContain(`${base}/import`);
    expect((await members.stranger.get(`${base}/export.json`)).status).toBe(404);
  });
});

describe("the import of rules", () => {
  test("shows additions and changes first, and applies them after confirmation", async () => {
    await create({ conditions: [{ path: "properties.a", operator: "equals", value: 1 }] });
    await create({ name: "Same" });
    const text = file(
      { ...RULE, points: 25, frequency: "once_per_day" },
      { ...RULE, name: "Same" },
      {
        ...RULE,
        name: "<b>New</b>",
        enabled: false,
        conditions: [{ path: "source", operator: "equals", value: "web" }],
      },
    );
    const answer = await members.admin.post(`${base}/import`, { text });
    const html = await answer.text();
    expect(answer.status).toBe(200);
    const shown = textOf(html);
    expect(shown).toContain("Added 1 Changed 1 As they are here 1");
    expect(shown).toContain(
      "Asked for a demo Changed It is here already, as version 1. Condition removed: properties.a is 1 Points: +20 → +25 How often: each time → once a day (UTC) Enabled",
    );
    expect(shown).toContain("<b>New</b> Added When Filled Out * comes, and all of this holds: source is web");
    expect(shown).toContain("each time. Disabled");
    expect(readHtml(html).all("main b")).toHaveLength(0);
    expect(await stored()).toMatchObject([{ version: 1 }, { version: 1, points: 20 }]);
    const confirmed = await members.admin.post(`${base}/import`, toConfirm(html));
    expect([confirmed.status, confirmed.headers.get("location")]).toEqual([303, `${base}?done=rules_imported`]);
    expect(textOf(await members.admin.see(`${base}?done=rules_imported`))).toContain("Imported. The rules apply");
    expect(await stored()).toMatchObject([
      { name: "<b>New</b>", enabled: false, version: 1, updated_by: members.admin.email },
      { name: "Same", version: 1 },
      { points: 25, frequency: "once_per_day", version: 2 },
    ]);
    const activity = textOf(await members.admin.see(`${members.home}/settings/activity?action=rules.imported`));
    expect(activity).toContain("imported mapping rules : 1 added, 1 changed");
    // A repeated import changes nothing.
    const again = await members.admin.post(`${base}/import`, toConfirm(html));
    expect([again.status, textOf(await again.text())]).toEqual([409, expect.stringContaining("says the same")]);
  });

  test("accepts a file upload as browsers send it", async () => {
    const form = new FormData();
    form.set("file", new File([file(RULE)], "rules.json"));
    form.set("text", "");
    const answer = await call(`${base}/import`, {
      method: "POST",
      headers: { cookie: await members.owner.cookie(), origin: "https://signals.example" },
      body: form,
    });
    const html = await answer.text();
    expect([answer.status, toConfirm(html)["text"]]).toEqual([200, file(RULE)]);
    expect(readHtml(html).buttons("Import 1 rule")).toHaveLength(1);
  });

  test("keeps the file if the session has ended, and sends it again from the answer", async () => {
    const post = (body: FormData, headers: Record<string, string> = {}) =>
      call(`${base}/import`, { method: "POST", headers: { origin: "https://signals.example", ...headers }, body });
    const form = new FormData();
    form.set("text", "");
    form.set("file", new File([file(RULE)], "rules.json"));
    const ended = await post(form);
    expect(ended.status).toBe(401);
    const html = await ended.text();
    const [kept] = readHtml(html).forms(`${base}/import`);
    // The original text: URL-encoded, the body would be three times as long, and too large.
    expect(kept?.attribute("enctype")).toBe("multipart/form-data");
    const again = new FormData();
    for (const [name, value] of Object.entries(toConfirm(html))) again.set(name, value);
    const answer = await post(again, { cookie: await members.owner.cookie() });
    expect([answer.status, toConfirm(await answer.text())["text"]]).toEqual([200, file(RULE)]);
  });

  test("names each invalid rule and keeps the input", async () => {
    const text = file({ ...RULE, points: "many", name: '<script>"' }, RULE, { ...RULE, event: "" });
    for (const fields of [{ text }, { text, do: "import", rules_version: "0" }]) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await members.owner.post(`${base}/import`, fields);
      // oxlint-disable-next-line no-await-in-loop
      const html = await answer.text();
      expect(answer.status).toBe(422);
      expect(textOf(html)).toContain('Nothing was imported. Rule 1, <script>" : points:');
      expect(textOf(html)).toContain("Rule 3, Asked for a demo : event:");
      expect(readHtml(html).field("text").value).toBe(text);
    }
    expect(await stored()).toEqual([]);
    const empty = await members.owner.post(`${base}/import`, {});
    expect([empty.status, textOf(await empty.text())]).toEqual([
      422,
      expect.stringContaining("Choose a file, or paste its text."),
    ]);
  });

  test("refuses a rule whose name several rules have, and offers no confirmation", async () => {
    await create();
    await create();
    const answer = await members.owner.post(`${base}/import`, { text: file({ ...RULE, name: "New" }, RULE) });
    const html = await answer.text();
    expect(answer.status).toBe(422);
    expect(textOf(html)).toContain("Asked for a demo Wrong several rules here have this name");
    expect(toConfirm(html)).toEqual({});
    expect(await stored()).toHaveLength(2);
  });

  test("shows the preview again if rules changed since, and changes nothing", async () => {
    await create();
    const html = await (await members.owner.post(`${base}/import`, { text: file({ ...RULE, points: 1 }) })).text();
    const [rule] = await stored();
    await members.workspace.operator("PATCH", `/rules/${rule && "id" in rule ? String(rule.id) : ""}`, { points: 99 });
    const answer = await members.owner.post(`${base}/import`, toConfirm(html));
    const now = await answer.text();
    expect(answer.status).toBe(409);
    expect(textOf(now)).toContain("Nothing was imported: somebody has changed rules since the preview.");
    expect(textOf(now)).toContain("Points: +99 → +1");
    expect(await stored()).toMatchObject([{ points: 99, version: 2 }]);
    expect((await members.owner.post(`${base}/import`, toConfirm(now))).status).toBe(303);
    expect(await stored()).toMatchObject([{ points: 1, version: 3 }]);
  });

  test("of another workspace's export creates the same rules; in the same workspace it changes nothing", async () => {
    await create({ name: "Twice" });
    await create({ name: "Twice", points: 1 });
    const text = await members.member.see(`${base}/export.json`);
    const sameWorkspace = await (await members.owner.post(`${base}/import`, { text })).text();
    expect(textOf(sameWorkspace)).toContain("Every rule of the file is here already, and says the same.");
    expect(toConfirm(sameWorkspace)).toEqual({});
    const otherTeam = await newMembers();
    const theirs = await (await otherTeam.owner.post(`${otherTeam.home}/rules/import`, { text })).text();
    expect((await otherTeam.owner.post(`${otherTeam.home}/rules/import`, toConfirm(theirs))).status).toBe(303);
    expect(await stored(otherTeam)).toMatchObject([
      { name: "Twice", points: 1 },
      { name: "Twice", points: 20 },
    ]);
  });

  test("asks for a large file again before the import, and imports only the file that was previewed", async () => {
    const rules = Array.from({ length: 300 }, (_, n) => ({ ...RULE, name: `${n} ${"x".repeat(200)}` }));
    const text = file(...rules);
    const preview = await (await members.owner.post(`${base}/import`, { text })).text();
    const fields = toConfirm(preview);
    expect([fields["text"], readHtml(preview).all("input[type=file][required]").length]).toEqual([undefined, 1]);

    const refused = await members.owner.post(`${base}/import`, { ...fields, text: file(RULE, ...rules) });
    expect(refused.status).toBe(409);
    expect(textOf(await refused.text())).toContain("Nothing was imported: this is not the file that was previewed.");
    expect(await stored()).toEqual([]);
    expect((await members.owner.post(`${base}/import`, { ...fields, text })).status).toBe(303);
    expect((await stored()).length).toBeGreaterThan(0);
  });

  test("shows only as much of a large file as fits on a page", async () => {
    const conditions = Array.from({ length: 40 }, () => ({
      path: "email",
      operator: "equals",
      value: "'".repeat(250),
    }));
    const text = file(...Array.from({ length: 40 }, (_, n) => ({ ...RULE, name: `Rule ${n}`, conditions })));
    const preview = await members.owner.post(`${base}/import`, { text });
    const shown = await preview.text();
    expect(shown.length).toBeLessThan(600_000);
    expect(textOf(shown)).toMatch(/And \d+ more rules\./);
    const wrong = file(...Array.from({ length: 500 }, () => ({ [`"${"x".repeat(5_000)}`]: 1 })));
    const refused = await members.owner.post(`${base}/import`, { text: wrong });
    expect((await refused.text()).length).toBeLessThan(600_000);
    expect(refused.status).toBe(422);
  });

  test("is for owners and admins, up to the maximum file size", async () => {
    expect((await members.member.get(`${base}/import`)).status).toBe(403);
    expect((await members.member.post(`${base}/import`, { text: file(RULE) })).status).toBe(403);
    expect((await members.stranger.post(`${base}/import`, { text: file(RULE) })).status).toBe(404);
    const large = file({ ...RULE, note: "x".repeat(1_000_000) });
    expect((await members.owner.post(`${base}/import`, { text: large })).status).toBe(422);
    const tooLarge = await members.owner.post(`${base}/import`, { text: "x".repeat(RULES_FILE_MAX_BYTES) });
    expect(tooLarge.status).toBe(413);
  });
});
