/** The pages of Mapping Rules (spec §1, design §8.5): list, editor, preview, application to past signals. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { WORKSPACE_MAX_RULES } from "../../../src/limits.ts";
import { DAY, deliver } from "../../support/deliver.ts";
import { newMembers, type Members, focusedIn } from "../../support/members.ts";
import { readHtml, textOf, unchangedFields } from "../../support/html.ts";
import { until } from "../../support/until.ts";
import type { TestWorkspace } from "../../support/workspace.ts";

let workspace: TestWorkspace;
let members: Members;
let base: string;

beforeEach(async () => {
  members = await newMembers();
  ({ workspace } = members);
  base = `${members.home}/rules`;
});

const RULE = {
  name: "Asked for a demo",
  event: "Filled Out *",
  match: "all",
  scoring_signal: "demo",
  points: "20",
  enabled: "on",
} as const;

type Row = [path: string, operator: string, value: string];

/** The fields of the rule's form as a browser posts them. */
function fields(rows: Row[] = [], more: Record<string, string> = {}): [string, string][] {
  const conditions = rows.flatMap(([path, operator, value]): [string, string][] => [
    ["path", path],
    ["operator", operator],
    ["value", value],
  ]);
  return [...Object.entries({ ...RULE, ...more }), ...conditions];
}

interface StoredRule {
  id: string;
  name: string;
  conditions: unknown[];
  points: number;
  enabled: boolean;
  version: number;
}

const stored = async () => (await workspace.operator<{ items: StoredRule[] }>("GET", "/rules")).items;
const newRule = (more: object = {}) =>
  workspace.operator<StoredRule>("POST", "/rules", {
    name: "Asked for a demo",
    event: "Filled Out *",
    scoring_signal: "demo",
    points: 20,
    ...more,
  });
const form = (n: number) => ({
  event: "Filled Out Form",
  source: "web",
  email: `p${n}@example.com`,
  properties: { n },
});
const people = async () =>
  (await workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people")).items;

async function audit(): Promise<string[]> {
  const { results } = await env.DB.prepare(
    "select action || ' ' || actor as entry from audit_log where workspace_id = ? and action like 'rule%' order by id",
  )
    .bind(workspace.id)
    .all<{ entry: string }>();
  return results.map(({ entry }) => entry.replace(/-w-.*/, ""));
}

/** Values of the fields with that name, in order. */
function typed(html: string, name: string): string[] {
  return readHtml(html)
    .fields(name)
    .map(({ value }) => value ?? "");
}

describe("the list of rules", () => {
  test("says what to do first, and then shows each rule with its number of scored signals", async () => {
    expect(textOf(await members.owner.see(base))).toContain("No mapping rules yet");
    const rule = await newRule({
      name: "<script>alert(1)</script>",
      conditions: [{ path: "email", operator: "exists" }],
      frequency: "once_per_day",
    });
    await newRule({ name: "Other", event: "Other", points: -5, enabled: false });
    const now = Date.now();
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1), at: now },
      { id: "sig_2", ordinal: 2, payload: form(2), at: now - 10 * DAY },
      { id: "sig_3", ordinal: 3, payload: form(3), at: now - 60 * DAY },
    ]);
    const html = await members.member.see(base);
    const text = textOf(html);
    // Of the last 7 and 30 days.
    expect(text).toContain("<script>alert(1)</script> Filled Out * 1 condition demo once a day (UTC) +20 1 2 Enabled");
    expect(text).toContain("Other Other demo each time -5 0 0 Disabled");
    const page = readHtml(html);
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.targets).toContain(`${base}/${rule.id}`);
    expect(page.forms(/\/disable$/)).toHaveLength(0);
    expect(page.targets).not.toContain(`${base}/new`);
    const forAdmin = await members.admin.read(base);
    expect(forAdmin.targets).toContain(`${base}/new`);
    expect(forAdmin.forms(`${base}/${rule.id}/disable`)).toHaveLength(1);
  });

  test("has several pages", async () => {
    for (let n = 0; n < 27; n++) await newRule({ name: `rule ${n}` }); // oxlint-disable-line no-await-in-loop
    const first = await members.member.read(base);
    const second = await members.member.read(first.next ?? "");
    const names = [first, second].flatMap((page) => page.links(/^rule \d+$/).map(({ text }) => text));
    expect(new Set(names).size).toBe(27);
  });
});

describe("creating a rule", () => {
  test("saves the input from the next signal on, with an audit entry", async () => {
    const rows: Row[] = [
      ["properties.n", "greater_than", "1"],
      ["properties.plan", "in", "pro\r\nteam, large\r\n"],
      ["properties.plan", "exists", ""],
      ["", "equals", " "],
    ];
    const asked = { match: "any", points: "-3", frequency: "once_per_day" };
    const answer = await members.admin.post(base, fields(rows, asked));
    const [rule] = await stored();
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${base}/${rule?.id}?done=rule_created`]);
    expect(rule).toMatchObject({
      name: "Asked for a demo",
      event: "Filled Out *",
      match: "any",
      scoring_signal: "demo",
      points: -3,
      frequency: "once_per_day",
      enabled: true,
      conditions: [
        { path: "properties.n", operator: "greater_than", value: 1 },
        { path: "properties.plan", operator: "in", value: ["pro", "team, large"] },
        { path: "properties.plan", operator: "exists" },
      ],
    });
    expect(textOf(await members.admin.see(`${base}/${rule?.id}?done=rule_created`))).toContain(
      "from the next signal on",
    );
    const editor = await members.admin.see(`${base}/${rule?.id}`);
    const frequency = readHtml(editor).field("frequency");
    expect([frequency.value, frequency.only("option[selected]").text]).toEqual(["once_per_day", "once a day (UTC)"]);
    expect(textOf(await members.member.see(`${base}/${rule?.id}`))).toContain("at most once a day (UTC)");
    expect(await audit()).toEqual(["rule.created admin"]);
  });

  test("shows errors at their fields and keeps the input", async () => {
    const rows: Row[] = [
      ["properties.n", "equals", "1"],
      ['<script>"n"', "in", ""],
    ];
    const answer = await members.owner.post(base, fields(rows, { name: "", points: "many" }));
    const html = await answer.text();
    expect(answer.status).toBe(422);
    expect(textOf(html)).toContain("Nothing was saved.");
    expect(textOf(html)).toContain("Points: A whole number between");
    expect(textOf(html)).toContain("Name: This is needed.");
    expect(textOf(html)).toContain("Condition 2: One of event, source, email, or properties. and a dot path.");
    expect(textOf(html)).toContain("Condition 2: At least one value.");
    expect(typed(html, "points")).toEqual(["many"]);
    expect(typed(html, "path")).toEqual(["properties.n", '<script>"n"']);
    expect(typed(html, "value")).toEqual(["1", ""]);
    expect(readHtml(html).all('[aria-describedby="condition-1-error"]')).not.toHaveLength(0);
    expect(await stored()).toEqual([]);
  });

  test("focuses the name at first, the first invalid field after an error, and an added row", async () => {
    const post = async (path: string, sent: [string, string][]) =>
      focusedIn(await (await members.owner.post(path, sent)).text());
    const rows: Row[] = [
      ["properties.n", "equals", "1"],
      ["properties.n", "in", ","],
    ];
    expect(focusedIn(await members.owner.see(`${base}/new`))).toBe("name");
    expect(await post(base, fields(rows, { scoring_signal: "", points: "x" }))).toBe("value-1");
    expect(await post(base, fields([], { points: "x" }))).toBe("points");
    expect(await post(base, fields(rows, { event: "", name: "" }))).toBe("name");
    expect(await post(base, fields(rows, { do: "add" }))).toBe("path-2");
    expect(await post(base, fields(rows, { do: "preview" }))).toBeUndefined();
    const rule = await newRule();
    expect(focusedIn(await members.owner.see(`${base}/${rule.id}`))).toBeUndefined();
    expect(await post(`${base}/${rule.id}`, fields([], { event: "", version: "1" }))).toBe("event");
  });

  test("a copy of a rule has the same content and is saved as a second rule", async () => {
    const rule = await newRule({
      name: "\u{1F600}".repeat(250),
      match: "any",
      frequency: "once_ever",
      enabled: false,
      conditions: [{ path: "properties.n", operator: "in", value: [1, "a, b"] }],
    });
    expect((await members.admin.read(`${base}/${rule.id}`)).targets).toContain(`${base}/new?copy=${rule.id}`);
    const html = await members.admin.see(`${base}/new?copy=${rule.id}`);
    expect(textOf(html)).toContain("a signal that both match scores by both");
    const name = typed(html, "name")[0] ?? "";
    expect([Array.from(name).length, name.startsWith("Copy of \u{1F600}")]).toEqual([255, true]);
    expect([typed(html, "path"), typed(html, "value")]).toEqual([["properties.n"], ["1\na, b\n"]]);
    const copy = readHtml(html);
    expect([copy.field("match").value, copy.field("frequency").value]).toEqual(["any", "once_ever"]);
    expect(copy.field("enabled").isChecked).toBe(false);
    expect(await stored()).toHaveLength(1);
    expect((await members.member.get(`${base}/new?copy=${rule.id}`)).status).toBe(403);
    const otherTeam = await newMembers();
    expect((await otherTeam.owner.get(`${otherTeam.home}/rules/new?copy=${rule.id}`)).status).toBe(404);
  });

  test("rows can be added and removed without JavaScript", async () => {
    const rows: Row[] = [
      ["properties.a", "equals", "1"],
      ["properties.b", "contains", "2"],
    ];
    const added = await (await members.owner.post(base, fields(rows, { do: "add" }))).text();
    expect(typed(added, "path")).toEqual(["properties.a", "properties.b", ""]);
    const removed = await (await members.owner.post(base, fields(rows, { do: "remove-0" }))).text();
    expect([typed(removed, "path"), typed(removed, "value")]).toEqual([["properties.b"], ["2"]]);
    expect(await stored()).toEqual([]);
  });

  test("is pre-filled from a signal's payload, and suggests known events", async () => {
    await deliver(workspace.id, [
      { id: "sig_1", payload: { ...form(1), properties: { form_name: "Demo request", n: 1 } } },
      { id: "sig_2", payload: { ...form(2), properties: { n: 2 } } },
    ]);
    const html = await members.owner.see(`${base}/new?from=sig_1`);
    expect(textOf(html)).toContain("keep the conditions that should hold for others too");
    const bare = await members.owner.see(`${base}/new?from=sig_2`);
    expect(typed(bare, "path")).toEqual([]);
    expect(textOf(bare)).toContain("so the rule matches every signal of this event");
    expect(typed(html, "event")).toEqual(["Filled Out Form"]);
    expect([typed(html, "path"), typed(html, "value")]).toEqual([["properties.form_name"], ["Demo request"]]);
    expect(
      readHtml(html)
        .all("datalist option")
        .map(({ value }) => value),
    ).toContain("Filled Out Form");
    expect(typed(await members.owner.see(`${base}/new?from=sig_none`), "event")).toEqual([""]);
    const otherTeam = await newMembers();
    expect(typed(await otherTeam.owner.see(`${otherTeam.home}/rules/new?from=sig_1`), "event")).toEqual([""]);
  });

  test("suggests known events, the most frequent first, and the paths of their payloads", async () => {
    const many = (count: number, first: number, payload: object) =>
      Array.from({ length: count }, (_, n) => ({
        id: `sig_${first + n}`,
        ordinal: first + n,
        payload: { ...form(first + n), ...payload },
      }));
    const carried = { cart: { items: [{ sku: "a" }], "total.net": 5 }, note: null, empty: {}, "": 1 };
    await deliver(workspace.id, [
      ...many(1, 1, { event: "A rare one", properties: { rare: true } }),
      ...many(3, 2, { event: "Ordered", properties: carried }),
      ...many(2, 5, { event: "Filled Out Form" }),
    ]);
    const proposed = (html: string, list: string) => {
      const options = readHtml(html).only(`datalist[id="${list}"]`).all("option");
      return options.map(({ value }) => value);
    };
    const html = await members.owner.see(`${base}/new`);
    expect(proposed(html, "events")).toEqual(["Ordered", "Filled Out Form", "A rare one"]);
    const fixed = ["event", "source", "email"];
    const ofOrders = ["properties.cart.items[].sku", "properties.cart.total.net", "properties.note"];
    expect(proposed(html, "paths")).toEqual([...fixed, ...ofOrders, "properties.n", "properties.rare"]);
    const rule = await newRule({ event: "Ordered" });
    expect(proposed(await members.owner.see(`${base}/${rule.id}`), "paths")).toEqual([...fixed, ...ofOrders]);
    // The suggestions follow the typed event, also before the rule is complete.
    const typing = async (event: string) =>
      proposed(
        await (await members.owner.post(`${base}/preview`, fields([["properties.", "in", ""]], { event }))).text(),
        "paths",
      );
    expect(await typing("A rare one")).toEqual([...fixed, "properties.rare"]);
    expect(await typing("*r*d*")).toEqual([...fixed, ...ofOrders]);
    expect(await typing("Never Came")).toEqual(fixed);
    const otherTeam = await newMembers();
    expect(proposed(await otherTeam.owner.see(`${otherTeam.home}/rules/new`), "events")).toEqual([]);
  });

  test("from an event group has the conditions that its samples share, and matches them", async () => {
    const sent = (n: number, form_name: string) => ({ ...form(n), properties: { form_name, plan: "pro" } });
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: sent(1, "Demo request") },
      { id: "sig_2", ordinal: 2, payload: sent(2, "Newsletter") },
    ]);
    const group = await members.owner.see(`${members.home}/signals/group?event=Filled+Out+Form&source=web`);
    const link = readHtml(group).targets.find((target) => target.includes("/rules/new?")) ?? "";
    const html = await members.owner.see(link);
    expect([typed(html, "path"), typed(html, "value")]).toEqual([["properties.plan"], ["pro"]]);
    expect(textOf(html)).toContain("the conditions are what these samples share");
  });

  test("stops at the maximum number of conditions and keeps the input", async () => {
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO mapping_rules (id, workspace_id, name, event, match, conditions, scoring_signal, points, created_at, updated_at)
       SELECT 'rule_' || ?1 || i, ?1, 'n', 'e', 'all', '[]', 's', 1, '', '' FROM n`,
    )
      .bind(workspace.id, WORKSPACE_MAX_RULES)
      .run();
    const answer = await members.owner.post(base, fields());
    const html = await answer.text();
    expect(answer.status).toBe(409);
    expect(textOf(html)).toContain("at most 1000 mapping rules");
    expect(typed(html, "name")).toEqual(["Asked for a demo"]);
  });
});

describe("the preview of a rule", () => {
  beforeEach(() =>
    deliver(
      workspace.id,
      Array.from({ length: 12 }, (_, n) => ({
        id: `sig_${n}`,
        ordinal: n + 1,
        payload: form(n % 4),
        at: Date.now() - n * 3_600_000,
      })),
    ),
  );
  const rows: Row[] = [["properties.n", "less_than", "2"]];

  test("shows the past effect of the rule with samples, before it has a name", async () => {
    const answer = await members.owner.post(`${base}/preview`, fields(rows, { name: "", scoring_signal: "" }));
    const html = await answer.text();
    expect(answer.status).toBe(200);
    expect(readHtml(html).all("html")).toHaveLength(0);
    expect(textOf(html)).toContain("Matches 6 Scored 6 People 2 Points +120");
    expect(textOf(html)).toContain("6 signals of the last 30 days would score, at +20 each; 12 looked at.");
    expect(readHtml(html).all("details")).toHaveLength(6);
    const once = await (await members.owner.post(`${base}/preview`, fields(rows, { frequency: "once_ever" }))).text();
    expect(textOf(once)).toContain("Matches 6 Scored 2 People 2 Points +40");
    expect(textOf(once)).toContain("2 signals of the last 30 days would score, at +20 each; 12 looked at.");
    expect(await stored()).toEqual([]);
  });

  test.each([
    ["once_ever", 1],
    ["once_per_day", 2],
    ["every_time", 3],
  ])("preview, list and page count the same scored signals of a rule that scores %s", async (frequency, scored) => {
    const rule = await newRule({ frequency, event: "Asked" });
    const today = Date.now() - (Date.now() % DAY);
    const payload = { email: "ann@example.com", event: "Asked" };
    await deliver(workspace.id, [
      { id: "sig_a", ordinal: 21, payload: { ...payload, n: 1 }, at: today - DAY + 1 },
      { id: "sig_b", ordinal: 22, payload: { ...payload, n: 2 }, at: today - 2 * DAY + 1 },
      { id: "sig_c", ordinal: 23, payload: { ...payload, n: 3 }, at: today - 2 * DAY + 2 },
    ]);
    const preview = await members.owner.post(`${base}/preview`, fields([], { frequency, event: "Asked", days: "7" }));
    expect(readHtml(await preview.text()).fact("Scored")).toBe(String(scored));
    expect((await members.owner.read(`${base}/${rule.id}`)).fact("Scored in the last 7 days")).toBe(String(scored));
    const list = (await members.owner.read(base)).table("Mapping rules");
    expect(list.all("th").map(({ text }) => text)).toContain("Scored, 7 d");
    expect(list.row("Asked for a demo").cells.at(4)).toBe(String(scored));
  });

  test("adds 0 points if nothing matches, also for a rule with negative points", async () => {
    const asked = fields([], { event: "Never Came", points: "-5" });
    const html = await (await members.owner.post(`${base}/preview`, asked)).text();
    expect(textOf(html)).toContain("Matches 0 Scored 0 People 0 Points 0 ");
  });

  test("works without JavaScript too, for the chosen number of days", async () => {
    await deliver(workspace.id, [{ id: "sig_old", ordinal: 20, payload: form(1), at: Date.now() - 20 * DAY }]);
    const html = await (await members.owner.post(base, fields([], { do: "preview", days: "7" }))).text();
    expect(textOf(html)).toContain("Matches 12 Scored 12 People 4 Points +240");
    expect(readHtml(html).all('[aria-label^="Payload of sig_"]')).toHaveLength(10);
    expect(typed(html, "name")).toEqual(["Asked for a demo"]);
    const month = await (await members.owner.post(base, fields([], { do: "preview", days: "30" }))).text();
    expect(textOf(month)).toContain("Matches 13");
  });

  test("warns if nothing matches, and names events that differ only in case", async () => {
    const preview = async (event: string) =>
      textOf(await (await members.owner.post(`${base}/preview`, fields([], { event }))).text());
    expect(await preview("filled out form")).toContain("Did you mean “Filled Out Form”?");
    expect(await preview("Never Came")).toContain("Nothing that is stored matches this rule.");
    expect(await preview("Filled Out Form")).not.toContain("Nothing that is stored matches");
  });

  test("of an incomplete rule says so", async () => {
    const preview = async (more: Record<string, string>, of: Row[] = []) =>
      textOf(await (await members.owner.post(`${base}/preview`, fields(of, more))).text());
    expect(await preview({ event: "" })).toContain("Name an event");
    expect(await preview({}, [["properties.", "equals", "1"]])).toContain("Complete the conditions");
  });
});

describe("changing a rule", () => {
  test("makes a new version; scored signals stay until the rule is applied again", async () => {
    const rule = await newRule();
    await deliver(workspace.id, [{ id: "sig_1", payload: form(1) }]);
    const answer = await members.owner.post(`${base}/${rule.id}`, fields([], { points: "7", version: "1" }));
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${base}/${rule.id}?done=rule_saved`]);
    expect(await stored()).toMatchObject([{ version: 2, points: 7 }]);
    expect(await people()).toMatchObject([{ score: 20 }]);
    expect(textOf(await members.owner.see(`${base}/${rule.id}?done=rule_saved`))).toContain("stay until you apply it");
    expect(await audit()).toEqual(["rule.created operator", "rule.updated owner"]);
  });

  test("a rule saved unchanged stays the same, and its copy has the same conditions", async () => {
    const conditions = [
      { path: "properties.plan", operator: "in", value: [" demo ", "a\nb", "5"] },
      { path: "properties.plan ", operator: "not_equals", value: "demo\n" },
      { path: "properties.size", operator: "equals", value: "5" },
    ];
    const rule = await newRule({ conditions });
    const opened = (await members.owner.read(`${base}/${rule.id}`)).form(`${base}/${rule.id}`);
    const redrawn = await members.owner.post(`${base}/${rule.id}`, [...unchangedFields(opened), ["do", "add"]]);
    const again = readHtml(await redrawn.text()).form(`${base}/${rule.id}`);
    expect((await members.owner.post(`${base}/${rule.id}`, unchangedFields(again))).status).toBe(303);
    expect(await stored()).toMatchObject([{ name: rule.name, conditions }]);

    const copy = (await members.owner.read(`${base}/new?copy=${rule.id}`)).form(base);
    const longer = await members.owner.post(base, [...unchangedFields(copy), ["do", "add"]]);
    await members.owner.post(base, unchangedFields(readHtml(await longer.text()).form(base)));
    expect(await stored()).toMatchObject([{ name: `Copy of ${rule.name}`, conditions }, { conditions }]);
  });

  test("the preview of an unchanged rule counts what the rule matches", async () => {
    const rule = await newRule({ conditions: [{ path: "properties.n", operator: "equals", value: "demo\n" }] });
    const payload = { email: "ann@example.com", event: "Filled Out Form", properties: { n: "demo\n" } };
    await deliver(workspace.id, [{ id: "sig_1", payload }]);
    const opened = (await members.owner.read(`${base}/${rule.id}`)).form(`${base}/${rule.id}`);
    const preview = await members.owner.post(`${base}/preview`, unchangedFields(opened));
    expect(textOf(await preview.text())).toContain("Matches 1 ");
  });

  test("is refused if another person changed the rule meanwhile, and keeps the input", async () => {
    const rule = await newRule();
    const opened = await members.owner.see(`${base}/${rule.id}`);
    expect(typed(opened, "version")).toEqual(["1"]);
    await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 99 });
    const answer = await members.owner.post(`${base}/${rule.id}`, fields([], { points: "7", version: "1" }));
    const html = await answer.text();
    expect(answer.status).toBe(409);
    expect(textOf(html)).toContain("It is version 2 now, and says:");
    expect(textOf(html)).toContain("+99");
    expect(typed(html, "points")).toEqual(["7"]);
    expect(await stored()).toMatchObject([{ points: 99 }]);
    // The second attempt knows the current version and replaces it.
    expect(typed(html, "version")).toEqual(["2"]);
    expect((await members.owner.post(`${base}/${rule.id}`, fields([], { points: "7", version: "2" }))).status).toBe(
      303,
    );
    expect(await stored()).toMatchObject([{ points: 7, version: 3 }]);
    expect(await audit()).toEqual(["rule.created operator", "rule.updated operator", "rule.updated owner"]);
  });

  test("keeps the opened version if a row is added", async () => {
    const rule = await newRule();
    await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 99 });
    const html = await (await members.owner.post(`${base}/${rule.id}`, fields([], { version: "1", do: "add" }))).text();
    expect(typed(html, "version")).toEqual(["1"]);
  });

  test("answers invalid input with a 422 and keeps it", async () => {
    const rule = await newRule();
    const answer = await members.owner.post(`${base}/${rule.id}`, fields([], { event: " ", version: "1" }));
    expect(answer.status).toBe(422);
    expect(typed(await answer.text(), "name")).toEqual(["Asked for a demo"]);
    expect(await stored()).toMatchObject([{ version: 1 }]);
  });

  test("disables and enables a rule", async () => {
    const rule = await newRule();
    await members.admin.post(`${base}/${rule.id}/disable`);
    expect(await stored()).toMatchObject([{ enabled: false }]);
    expect(textOf(await members.admin.see(`${base}/${rule.id}`))).toContain("all of its scoring signals are removed");
    const answer = await members.admin.post(`${base}/${rule.id}/enable`);
    expect(answer.headers.get("location")).toBe(`${base}/${rule.id}?done=rule_enabled`);
    expect(await stored()).toMatchObject([{ enabled: true, version: 3 }]);
  });
});

describe("applying a rule to past signals", () => {
  test("scores them and shows the progress until it ends", async () => {
    await deliver(workspace.id, [
      { id: "sig_1", ordinal: 1, payload: form(1) },
      { id: "sig_2", ordinal: 2, payload: form(2) },
    ]);
    const rule = await newRule();
    const path = `${base}/${rule.id}`;
    const answer = await members.admin.post(`${path}/apply`);
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${path}#job`]);
    const html = await until(async () => {
      const now = await members.member.see(path);
      expect(readHtml(now).all("[data-refresh]")).toHaveLength(0);
      return now;
    });
    expect(textOf(html)).toContain("2 signals looked at, 2 matched");
    expect(textOf(html)).toContain("Added 2 scoring signals");
    expect(textOf(html)).toContain("Scored in the last 7 days 2");
    expect((await people()).map(({ score }) => score)).toEqual([20, 20]);
    expect(await audit()).toEqual(["rule.created operator", "rule.applied admin"]);
  });

  test("is offered right after saving, with the number of matches, until it has run", async () => {
    await deliver(
      workspace.id,
      [1, 2, 3].map((n) => ({ id: `sig_${n}`, ordinal: n, payload: form(n), at: Date.now() - n * 100 * DAY })),
    );
    const offer = async (at: string, as = members.admin) => {
      const [notice] = (await as.read(at)).all(".notice.good");
      return { action: notice?.forms()[0]?.target, text: notice?.text ?? "" };
    };
    const created = await members.admin.post(base, fields([["properties.n", "greater_than", "1"]]));
    const at = created.headers.get("location") ?? "";
    const [path = ""] = at.split("?");
    const { action = "", text } = await offer(at);
    expect([action, text]).toEqual([`${path}/apply`, expect.stringMatching(/^Created\..* Apply to 2 past signals$/)]);
    expect((await offer(path)).text).toBe("");
    expect((await offer(at, members.member)).action).toBeUndefined();
    expect((await members.admin.post(action)).headers.get("location")).toBe(`${path}#job`);
    await until(async () => expect((await people()).map(({ score }) => score)).toEqual([0, 20, 20]));
    expect((await offer(at)).action).toBeUndefined();

    const save = (rows: Row[], more: Record<string, string>) => members.admin.post(path, fields(rows, more));
    const saved = `${path}?done=rule_saved`;
    await save([], { version: "1", points: "5" });
    expect((await offer(saved)).text).toContain("Apply to 3 past signals");
    await save([["properties.n", "equals", "3"]], { version: "2" });
    expect((await offer(saved)).text).toContain("Apply to 1 past signal");
    // The rule's scores would be removed.
    await save([["properties.n", "equals", "9"]], { version: "3" });
    expect((await offer(saved)).text).toMatch(/Apply to past signals$/);
    await members.admin.post(`${path}/disable`);
    const disabled = await offer(`${path}?done=rule_disabled`);
    expect(disabled.text).toMatch(/Remove its scoring signals$/);
    await members.admin.post(disabled.action ?? "");
    await until(async () => expect((await people()).map(({ score }) => score)).toEqual([0, 0, 0]));
    expect((await offer(`${path}?done=rule_disabled`)).action).toBeUndefined();
    const none = await members.admin.post(base, fields([], { event: "Never Came" }));
    expect((await offer(none.headers.get("location") ?? "")).text).toMatch(/None of the past signals matches it\.$/);
  });

  test("refreshes the page while the job runs", async () => {
    const rule = await newRule();
    await runInDurableObject(workspace.store, async (store, { storage }) => {
      store.applyRule({ ruleId: rule.id, rule: null, rulesVersion: 1 });
      await storage.deleteAlarm();
      const half = JSON.stringify({ ...rule, version: 1, scoringSignal: "demo" });
      storage.sql.exec("UPDATE rule_jobs SET status = 'running', scanned = 250, total = 1000, rule = ?", half);
    });
    const job = (await members.member.read(`${base}/${rule.id}`)).only("#job");
    expect(job.attribute("data-refresh")).toMatch(/^\d+$/);
    const progress = job.only("progress");
    expect([progress.value, progress.attribute("max")]).toEqual(["250", "1000"]);
    expect(job.text).toContain("250 of about 1,000 signals looked at");
    expect(textOf(await members.member.see(base))).toContain("Applying");
  });
});

test("refuses an API key as a rule's name, because members see the name", async () => {
  const { key } = await workspace.operator<{ key: string }>("POST", "/keys", { name: "K" });
  const answer = await members.owner.post(base, fields([], { name: key, scoring_signal: `x ${key}` }));
  expect([answer.status, await stored()]).toEqual([422, []]);
  const html = await answer.text();
  expect(textOf(html).split("It holds an API key or a secret, and is shown to all members.").length).toBeGreaterThan(2);
});

describe("a repeated form", () => {
  test("makes one rule with one audit entry, also eight times at once, and every answer links to it", async () => {
    const page = await members.owner.read(`${base}/new`);
    const id = page.field("id").value ?? "";
    const answers = await Promise.all(Array.from({ length: 8 }, () => members.owner.post(base, fields([], { id }))));
    const made = await stored();
    expect(made.map((rule) => [rule.id, rule.version])).toEqual([[id, 1]]);
    const to = `${base}/${id}?done=rule_created`;
    expect(answers.map(({ headers }) => headers.get("location"))).toEqual(Array(8).fill(to));
    expect(await audit()).toEqual(["rule.created owner"]);
    // After the rule is deleted, the form in another tab does not restore it.
    await members.owner.post(`${base}/${id}/delete`);
    await members.owner.post(base, fields([], { id }));
    expect(await stored()).toEqual([]);
    expect(page.only("form#rule").attribute("data-once")).toBeDefined();
  });

  test("stays the same form after added rows and after a refusal; a new form makes another rule", async () => {
    const id = (await members.owner.read(`${base}/new`)).field("id").value ?? "";
    for (const more of [{ do: "add" }, { points: "many" }]) {
      const html = await (await members.owner.post(base, fields([], { id, ...more }))).text();
      expect(readHtml(html).field("id").value).toBe(id);
    }
    const otherId = (await members.owner.read(`${base}/new`)).field("id").value ?? "";
    for (const each of [id, otherId]) await members.owner.post(base, fields([], { id: each }));
    expect((await stored()).map((rule) => rule.id).toSorted()).toEqual([id, otherId].toSorted());
  });

  test("neither makes nor changes a rule of another workspace, and accepts no invalid id", async () => {
    const elsewhere = await newMembers({ key: null });
    const id = (await newRule()).id;
    await elsewhere.owner.post(`${elsewhere.home}/rules`, fields([], { id, name: "taken" }));
    expect(await stored()).toMatchObject([{ id, name: "Asked for a demo", version: 1 }]);
    await members.owner.post(base, fields([], { id: "rule_../x" }));
    expect((await stored()).map((rule) => rule.id)).toEqual([expect.stringMatching(/^rule_[0-9a-f-]{36}$/), id]);
  });

  test("saves an existing rule once, and the second answer is no conflict", async () => {
    const { id } = await newRule();
    const change = fields([], { version: "1", points: "30" });
    for (const answer of [
      await members.owner.post(`${base}/${id}`, change),
      await members.owner.post(`${base}/${id}`, change),
    ])
      expect(answer.headers.get("location")).toBe(`${base}/${id}?done=rule_saved`);
    expect(await stored()).toMatchObject([{ points: 30, version: 2 }]);
  });
});

describe("deleting a rule", () => {
  beforeEach(() => deliver(workspace.id, [{ id: "sig_1", payload: form(1) }]));

  async function scored(): Promise<string> {
    const rule = await newRule();
    await workspace.operator("POST", `/rules/${rule.id}/apply`);
    await until(async () => expect(await people()).toMatchObject([{ score: 20 }]));
    return rule.id;
  }

  test("keeps the scores, which may be removed later", async () => {
    const id = await scored();
    const answer = await members.owner.post(`${base}/${id}/delete`);
    expect(answer.headers.get("location")).toBe(`${base}?done=rule_deleted`);
    expect([await stored(), await people()]).toMatchObject([[], [{ score: 20 }]]);
    expect(textOf(await members.owner.see(`${base}/${id}`))).toContain("are there still, with their points");
    expect((await members.owner.read(`${base}/${id}`)).forms(`${base}/${id}/delete`)).toHaveLength(1);
    expect((await members.member.read(`${base}/${id}`)).forms(/delete/)).toHaveLength(0);
    await members.owner.post(`${base}/${id}/delete`, { remove: "on" });
    await until(async () => expect(await people()).toMatchObject([{ score: 0 }]));
    expect(textOf(await members.owner.see(`${base}/${id}`))).toContain("It and its scoring signals are gone.");
    // Nothing is left to remove, and no entry is written.
    await members.owner.post(`${base}/${id}/delete`, { remove: "on" });
    expect((await audit()).slice(-2)).toEqual(["rule.deleted owner", "rule.scores_removed owner"]);
    const activity = textOf(await members.member.see(`${members.home}/settings/activity`));
    expect(activity).toContain(`removed the scoring signals of the mapping rule ${id}`);
  });

  test("removes the scores too if requested", async () => {
    const id = await scored();
    const answer = await members.owner.post(`${base}/${id}/delete`, { remove: "on" });
    expect(answer.headers.get("location")).toBe(`${base}/${id}`);
    await until(async () => expect(await people()).toMatchObject([{ score: 0 }]));
    expect((await audit()).at(-1)).toBe("rule.deleted owner");
    const activity = textOf(await members.member.see(`${members.home}/settings/activity`));
    expect(activity).toContain("deleted the mapping rule Asked for a demo and its scoring signals");
  });
});

test("members read all rules and change nothing; strangers and other workspaces see nothing", async () => {
  const rule = await newRule({ conditions: [{ path: "properties.n", operator: "in", value: [1, "<b>"] }] });
  const path = `${base}/${rule.id}`;
  const html = await members.member.see(path);
  expect(textOf(html)).toContain("properties.n is one of 1, <b>");
  expect(readHtml(html).forms(/^\/w\//)).toHaveLength(0);
  expect((await members.member.get(`${base}/new`)).status).toBe(403);
  const otherTeam = await newMembers();
  for (const action of [
    "",
    "/preview",
    `/${rule.id}`,
    ...["enable", "disable", "apply", "delete"].map((a) => `/${rule.id}/${a}`),
  ]) {
    // oxlint-disable-next-line no-await-in-loop
    expect((await members.member.post(base + action, fields())).status, action).toBe(403);
    // oxlint-disable-next-line no-await-in-loop
    expect((await members.stranger.post(base + action, fields())).status, action).toBe(404);
    if (!action.startsWith("/rule")) continue;
    // oxlint-disable-next-line no-await-in-loop
    expect((await otherTeam.owner.post(`${otherTeam.home}/rules${action}`, fields())).status, action).toBe(404);
  }
  expect((await otherTeam.owner.get(`${otherTeam.home}/rules/${rule.id}`)).status).toBe(404);
  expect((await members.owner.get(path)).headers.get("cache-control")).toBe("no-store");
  expect(await stored()).toMatchObject([{ version: 1 }]);
});

test.each(["constructor", "__proto__", "toString", "rule_none"])("there is no rule %s", async (ruleId) => {
  expect((await members.owner.get(`${base}/${ruleId}`)).status).toBe(404);
});
