/** The pages of Mapping Rules (spec §1, design §8.5): list, editor, preview, application to past signals. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { WORKSPACE_MAX_RULES } from "../../../src/limits.ts";
import { ring } from "../../support/cold.ts";
import { DAY, deliver } from "../../support/deliver.ts";
import { type Part, unchangedFields } from "../../support/html.ts";
import { focusedIn, type Members, newMembers } from "../../support/members.ts";
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
afterEach(() => vi.useRealTimers());

const RULE = {
  name: "Asked for a demo",
  event: "Filled Out *",
  match: "all",
  scoring_signal: "demo",
  points: "20",
  enabled: "on",
};

type Row = [path: string, operator: string, value: string];
type Form = Record<string, string>;

/** The fields of the rule's form as a browser posts them. */
function fields(rows: Row[] = [], more: Form = {}): [string, string][] {
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
  version: number;
}

const stored = () => workspace.list<StoredRule>("/rules");
const newRule = (more: object = {}) =>
  workspace.operator<StoredRule>("POST", "/rules", {
    name: "Asked for a demo",
    event: "Filled Out *",
    scoring_signal: "demo",
    points: 20,
    ...more,
  });
const payloadOf = (n: number, more: object = {}) => ({
  event: "Filled Out Form",
  source: "web",
  email: `p${n}@example.com`,
  properties: { n },
  ...more,
});
/** Delivers a signal for each payload, with ids from sig_1 on. */
const deliverAll = (payloads: object[], atOf: (n: number) => number = () => Date.now(), first = 1) =>
  deliver(
    workspace.id,
    payloads.map((payload, n) => ({ id: `sig_${first + n}`, ordinal: first + n, payload, at: atOf(n) })),
  );

const post = (form: [string, string][], path = "") => members.owner.post(base + path, form);
const scores = async () => (await workspace.list<{ score: number }>("/people")).map(({ score }) => score);

/** Action and role of each entry of the audit log about rules, such as `rule.created owner`. */
const audit = async () =>
  (await workspace.auditLog("rule")).map(({ action, actor }) => `${action} ${actor.replace(/-w-.*/, "")}`);

/** Values of the fields with that name, in order. */
const typed = (page: Part, name: string) => page.fields(name).map(({ value }) => value ?? "");

describe("the list of rules", () => {
  test("says what to do first, and then shows each rule with its number of scored signals", async () => {
    expect((await members.owner.read(base)).text).toContain("No mapping rules yet");
    const conditions = [{ path: "email", operator: "exists" }];
    const rule = await newRule({ name: "<script>alert(1)</script>", conditions, frequency: "once_per_day" });
    await newRule({ name: "Other", event: "Other", points: -5, points_last_days: 180, enabled: false });
    const ages = [0, 10, 60];
    await deliverAll(
      [1, 2, 3].map((n) => payloadOf(n)),
      (n) => Date.now() - (ages[n] ?? 0) * DAY,
    );
    const page = await members.member.read(base);
    // Of the last 7 and 30 days.
    expect(page.text).toContain(
      "<script>alert(1)</script> Filled Out * 1 condition demo once a day (UTC) +20 1 2 Enabled",
    );
    expect(page.text).toContain("Other Other demo each time -5 for 180 days 0 0 Disabled");
    expect(page.inlineScripts).toHaveLength(0);
    expect(page.targets).toContain(`${base}/${rule.id}`);
  });

  test("has several pages", async () => {
    for (let n = 0; n < 27; n++) await newRule({ name: `rule ${n}` });
    const names = (await members.member.readAll(base)).flatMap(({ rowHeads }) => rowHeads);
    expect(new Set(names).size).toBe(27);
  });

  test("is sorted by its headings, among them by scored signals, in pages", async () => {
    for (const [name, event, points] of [
      ["b", "Latest", 3],
      ["a", "Often", 1],
      ["c", "Never", 2],
    ] as const)
      await newRule({ name, event, points });
    const events = ["Latest", "Latest", "Often", "Often", "Often"];
    await deliverAll(
      events.map((event, n) => payloadOf(n, { event })),
      (n) => Date.now() - (n < 2 ? 0 : 10) * DAY,
    );
    const names = async (query: string) =>
      (await members.member.readAll(base + query)).flatMap(({ rowHeads }) => rowHeads);
    const page = await members.member.read(base);
    const orderOf = (heading: string) => names(new URL(page.link(heading).target ?? "", "https://x").search);
    expect(page.rowHeads).toEqual(["c", "a", "b"]);
    expect(await orderOf("Rule")).toEqual(["a", "b", "c"]);
    expect(await orderOf("Points")).toEqual(["b", "c", "a"]);
    expect(await names("?sort=points_up")).toEqual(["a", "c", "b"]);
    expect(await orderOf("Scored, 7 days")).toEqual(["b", "c", "a"]);
    expect(await orderOf("30 days")).toEqual(["a", "b", "c"]);
    expect(await names("?sort=scored_30&q=a")).toEqual(["a", "b"]);
    const left = async (query: string) =>
      (await members.member.read(base + query)).all("thead .narrow-drop").map(({ text }) => text);
    expect(await left("")).toEqual(["Scoring signal", "30 days"]);
    expect(await left("?sort=scored_30")).toEqual(["Scoring signal", "Scored, 7 days"]);
    for (let n = 10; n < 37; n++) await newRule({ name: `rule ${n}`, event: "Never" });
    for (const sort of ["scored_30", "points", "name"]) {
      const all = await names(`?sort=${sort}`);
      expect([all.length, new Set(all).size], sort).toEqual([30, 30]);
    }
    expect((await names("?sort=scored_30")).slice(0, 2)).toEqual(["a", "b"]);
    expect(page.only("h1").text).toBe("Mapping rules 3");
    expect((await members.member.read(`${base}?sort=name`)).only("h1").text).toBe("Mapping rules 30");
    // The newest rules are read slice by slice, so nobody has counted them.
    expect((await members.member.read(base)).only("h1").text).toBe("Mapping rules");
    expect((await names("?sort=scored_30&cursor=none")).slice(0, 2)).toEqual(["a", "b"]);
  });
});

describe("a new rule", () => {
  test("is saved and applies from the next signal on, with an audit entry", async () => {
    const rows: Row[] = [
      ["properties.n", "greater_than", "1"],
      ["properties.plan", "in", "pro\r\nteam, large\r\n"],
      ["properties.plan", "exists", ""],
      ["", "equals", " "],
    ];
    const asked = { match: "any", points: "-3", frequency: "once_per_day", points_last_days: "90" };
    const answer = await members.admin.post(base, fields(rows, asked));
    const [rule] = await stored();
    const path = `${base}/${rule?.id}`;
    expect([answer.status, answer.location]).toEqual([303, `${path}?done=rule_created`]);
    expect(rule).toMatchObject({
      name: "Asked for a demo",
      event: "Filled Out *",
      match: "any",
      scoring_signal: "demo",
      points: -3,
      frequency: "once_per_day",
      points_last_days: 90,
      enabled: true,
      conditions: [
        { path: "properties.n", operator: "greater_than", value: 1 },
        { path: "properties.plan", operator: "in", value: ["pro", "team, large"] },
        { path: "properties.plan", operator: "exists" },
      ],
    });
    expect((await members.admin.read(answer.location)).text).toContain("from the next signal on");
    const forAdmin = await members.admin.read(path);
    expect(["frequency", "points_last_days"].map((name) => forAdmin.field(name).value)).toEqual(["once_per_day", "90"]);
    expect((await members.member.read(path)).text).toContain(
      "Points -3 How often once a day (UTC) Points count for 90 days",
    );
    expect(await audit()).toEqual(["rule.created admin"]);
  });

  test("with several errors lists them above the form too, and keeps all input", async () => {
    const rows: Row[] = [
      ["properties.n", "equals", "1"],
      ['<script>"n"', "in", ""],
    ];
    const { status, page } = await post(fields(rows, { name: "", points: "many" }));
    expect([status, page.alerts]).toEqual([
      422,
      [expect.stringMatching(/^Nothing was saved Fix the fields marked below\./)],
    ]);
    expect(page.all(".error").map(({ text }) => text)).toEqual([
      "Enter a name.",
      "Use event, source, email, or a path such as properties.form_name. Enter at least one value.",
      "Enter a whole number from -1,000,000 to 1,000,000.",
    ]);
    expect(["points", "path", "value"].map((name) => typed(page, name))).toEqual([
      ["many"],
      ["properties.n", '<script>"n"'],
      ["1", ""],
    ]);
    expect(await stored()).toEqual([]);
  });

  test("focuses the name at first, the first invalid field after an error, and an added row", async () => {
    const focused = async (form: [string, string][]) => focusedIn((await post(form)).body);
    const rows: Row[] = [
      ["properties.n", "equals", "1"],
      ["properties.n", "in", ","],
    ];
    expect(focusedIn(await members.owner.see(`${base}/new`))).toBe("name");
    expect(await focused(fields(rows, { scoring_signal: "", points: "x" }))).toBe("value-1");
    expect(await focused(fields(rows, { do: "add" }))).toBe("path-2");
    expect(await focused(fields(rows, { do: "preview" }))).toBeUndefined();
    const rule = await newRule();
    expect(focusedIn(await members.owner.see(`${base}/${rule.id}`))).toBeUndefined();
  });

  test("has the content of the rule that it duplicates, and starts disabled", async () => {
    const rule = await newRule({
      name: "\u{1F600}".repeat(250),
      match: "any",
      frequency: "once_ever",
      points_last_days: 30,
      conditions: [{ path: "properties.n", operator: "in", value: [1, "a, b"] }],
    });
    expect((await members.admin.read(`${base}/${rule.id}`)).targets).toContain(`${base}/new?copy=${rule.id}`);
    const copy = await members.admin.read(`${base}/new?copy=${rule.id}`);
    expect(copy.text).toContain("both score a signal that they match");
    const name = copy.field("name").value ?? "";
    expect([Array.from(name).length, name.startsWith("Copy of \u{1F600}")]).toEqual([255, true]);
    const copied = ["path", "value", "match", "frequency", "points_last_days"].map((field) => copy.field(field).value);
    expect(copied).toEqual(["properties.n", "1\na, b\n", "any", "once_ever", "30"]);
    expect(copy.field("enabled").isChecked).toBe(false);
    expect(await stored()).toHaveLength(1);
    await members.admin.post(base, unchangedFields(copy.form(base)));
    expect(await stored()).toMatchObject([{ name, points_last_days: 30, enabled: false }, { enabled: true }]);
  });

  test("is pre-filled from a signal's payload", async () => {
    await deliverAll([
      payloadOf(1, { properties: { form_name: "Demo request", n: 1 } }),
      payloadOf(2, { properties: { n: 2 } }),
    ]);
    const page = await members.owner.read(`${base}/new?from=sig_1`);
    expect(page.text).toContain("Keep the conditions that should apply to other signals too.");
    expect(page.field("enabled").isChecked).toBe(true);
    expect(["event", "path", "value"].map((name) => typed(page, name))).toEqual([
      ["Filled Out Form"],
      ["properties.form_name"],
      ["Demo request"],
    ]);
    const bare = await members.owner.read(`${base}/new?from=sig_2`);
    expect(typed(bare, "path")).toEqual([]);
    expect(bare.text).toContain("so the rule matches every signal of this event.");
    expect(typed(await members.owner.read(`${base}/new?from=sig_none`), "event")).toEqual([""]);
  });

  test("from an event group has the conditions that its samples share", async () => {
    const sample = (n: number, form_name: string) => payloadOf(n, { properties: { form_name, plan: "pro" } });
    await deliverAll([sample(1, "Demo request"), sample(2, "Newsletter")]);
    const group = await members.owner.read(`${members.home}/signals/group?event=Filled+Out+Form&source=web`);
    const page = await members.owner.read(group.targets.find((target) => target.includes("/rules/new?")) ?? "");
    expect([typed(page, "path"), typed(page, "value")]).toEqual([["properties.plan"], ["pro"]]);
    expect(page.text).toContain("The conditions are the values that these samples share.");
  });

  test("offers known events, the most frequent first, and the paths of their payloads", async () => {
    const carried = { cart: { items: [{ sku: "a" }], "total.net": 5 }, note: null, empty: {}, "": 1 };
    await deliverAll([
      payloadOf(1, { event: "A rare one", properties: { rare: true } }),
      ...[2, 3, 4].map((n) => payloadOf(n, { event: "Ordered", properties: carried })),
      ...[5, 6].map((n) => payloadOf(n)),
    ]);
    const offered = (page: Part, list: string) => page.all(`datalist[id="${list}"] option`).map(({ value }) => value);
    const page = await members.owner.read(`${base}/new`);
    expect(offered(page, "events")).toEqual(["Ordered", "Filled Out Form", "A rare one"]);
    const fixed = ["event", "source", "email"];
    const ofOrders = ["properties.cart.items[].sku", "properties.cart.total.net", "properties.note"];
    expect(offered(page, "paths")).toEqual([...fixed, ...ofOrders, "properties.n", "properties.rare"]);
    const rule = await newRule({ event: "Ordered" });
    expect(offered(await members.owner.read(`${base}/${rule.id}`), "paths")).toEqual([...fixed, ...ofOrders]);
    // They follow the typed event, also before the rule is complete.
    const whileTyping = async (event: string) =>
      offered((await post(fields([["properties.", "in", ""]], { event }), "/preview")).page, "paths");
    expect(await whileTyping("A rare one")).toEqual([...fixed, "properties.rare"]);
    expect(await whileTyping("*r*d*")).toEqual([...fixed, ...ofOrders]);
    expect(await whileTyping("Never Came")).toEqual(fixed);
  });

  test("is rejected at the maximum number of rules, and keeps the input", async () => {
    await env.DB.prepare(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO mapping_rules (id, workspace_id, name, event, match, conditions, scoring_signal, points, created_at, updated_at)
       SELECT 'rule_' || ?1 || i, ?1, 'n', 'e', 'all', '[]', 's', 1, '', '' FROM n`,
    )
      .bind(workspace.id, WORKSPACE_MAX_RULES)
      .run();
    const { status, page } = await post(fields());
    expect([status, page.field("name").value]).toEqual([409, "Asked for a demo"]);
    expect(page.text).toContain("at most 1000 mapping rules");
  });
});

describe("the preview of a rule", () => {
  beforeEach(() =>
    deliverAll(
      Array.from({ length: 12 }, (_, n) => payloadOf(n % 4)),
      (n) => Date.now() - n * 3_600_000,
    ),
  );
  const rows: Row[] = [["properties.n", "less_than", "2"]];
  const preview = (of: Row[], more: Form) => post(fields(of, more), "/preview");

  test("shows the past effect of the rule with samples, before it has a name", async () => {
    const { status, page } = await preview(rows, { name: "", scoring_signal: "" });
    expect([status, page.all("html").length, page.all("details").length]).toEqual([200, 0, 6]);
    expect(page.text).toContain("Matches 6 Scored 6 People 2 Points +120");
    expect(page.text).toContain("All signals of the event by known people in the last 30 days have been read.");
    const { text } = await preview(rows, { frequency: "once_ever" });
    expect(text).toContain("Matches 6 Scored 2 People 2 Points +40");
    expect(await stored()).toEqual([]);
  });

  test.each([
    ["once_ever", 1],
    ["once_per_day", 2],
    ["every_time", 3],
  ])("counts the same scored signals as list and page, for a rule that scores %s", async (frequency, scored) => {
    const rule = await newRule({ frequency, event: "Asked" });
    const today = Date.now() - (Date.now() % DAY);
    const times = [today - DAY + 1, today - 2 * DAY + 1, today - 2 * DAY + 2];
    const payloads = times.map((n) => ({ email: "ann@example.com", event: "Asked", n }));
    await deliverAll(payloads, (n) => times[n] ?? 0, 21);
    const { page } = await preview([], { frequency, event: "Asked", days: "7" });
    expect(page.detail("Scored")).toBe(String(scored));
    expect((await members.owner.read(`${base}/${rule.id}`)).detail("Scored, 7 days")).toBe(String(scored));
    const list = (await members.owner.read(base)).table("Mapping rules");
    const column = list.all("thead th").findIndex(({ text }) => text === "Scored, 7 days");
    expect(list.row("Asked for a demo").cells.at(column)).toBe(String(scored));
  });

  test("says how many matches have lapsed points", async () => {
    await deliverAll([payloadOf(0), payloadOf(1)], () => Date.now() - 40 * DAY, 21);
    const { text } = await preview(rows, { days: "90", points_last_days: "30" });
    expect(text).toContain("Matches 8 Scored 8 People 2 Points +120");
    expect(text).toContain("The points of 2 matches have lapsed by today and are not counted.");
    const always = await preview(rows, { days: "90" });
    expect(always.text).toContain("Matches 8 Scored 8 People 2 Points +160");
    expect(always.text).not.toContain("lapsed by today");
  });

  test("of a saved rule counts what it has matched in lost payloads, as the job does; that of a duplicate does not", async () => {
    const rule = await newRule();
    await deliverAll([payloadOf(0, { id: "scored" })], () => Date.now(), 21);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * DAY });
    await ring(workspace.id);
    const { objects } = await env.COLD.list({ prefix: `cold/${workspace.id}/` });
    await env.COLD.delete(objects.map(({ key }) => key));
    vi.setSystemTime(Date.now() + 1);
    expect(await workspace.operator("POST", "/reconcile")).toMatchObject({ payloads_lost: 13 });
    vi.useRealTimers();
    const saved = { source: rule.id, version: String(rule.version) };
    expect((await preview([], saved)).page.detail("Matches")).toBe("1");
    expect((await preview([], { source: rule.id })).page.detail("Matches")).toBe("0");
  });

  test("works without JavaScript too, for the chosen number of days", async () => {
    await deliverAll([payloadOf(1)], () => Date.now() - 20 * DAY, 20);
    const { page } = await post(fields([], { do: "preview", days: "7" }));
    expect(page.text).toContain("Matches 12 Scored 12 People 4 Points +240");
    expect(page.all('[aria-label^="Payload of sig_"]')).toHaveLength(10);
    expect(page.field("name").value).toBe("Asked for a demo");
    expect((await post(fields([], { do: "preview", days: "30" }))).text).toContain("Matches 13");
  });

  test("keeps the conditions, each with its number in the names of its fields", async () => {
    const conditions: Row[] = [
      ["source", "exists", ""],
      ["properties.plan", "exists", ""],
    ];
    const { page } = await post(fields(conditions, { do: "preview", days: "7" }));
    const paths = page.fields("path").map((field) => [field.attribute("aria-label"), field.value]);
    expect(paths.slice(0, 2)).toEqual([
      ["Condition 1: path", "source"],
      ["Condition 2: path", "properties.plan"],
    ]);
  });

  test("warns if nothing matches or the rule is incomplete, and names events that differ only in case", async () => {
    const shown = async (more: Form, of: Row[] = []) => (await preview(of, more)).text;
    expect(await shown({ event: "filled out form" })).toContain("Did you mean “Filled Out Form”?");
    const none = await shown({ event: "Never Came", points: "-5" });
    expect(none).toContain("Matches 0 Scored 0 People 0 Points 0 ");
    expect(none).toContain("No stored signals match");
    expect(await shown({ event: "Filled Out Form" })).not.toContain("No stored signals match");
    expect(await shown({ event: "" })).toContain("Complete the event and the conditions");
    expect(await shown({}, [["properties.", "equals", "1"]])).toContain("Complete the event and the conditions");
  });
});

describe("changing a rule", () => {
  test("makes a new version; scored signals stay until the rule is applied again", async () => {
    const rule = await newRule();
    await deliverAll([payloadOf(1)]);
    const change = fields([], { points: "7", version: "1" });
    // The second is a repetition of the same form, and no conflict.
    for (const answer of [await post(change, `/${rule.id}`), await post(change, `/${rule.id}`)])
      expect([answer.status, answer.location]).toEqual([303, `${base}/${rule.id}?done=rule_saved`]);
    expect([await stored(), await scores()]).toMatchObject([[{ version: 2, points: 7 }], [20]]);
    expect((await members.owner.read(`${base}/${rule.id}?done=rule_saved`)).text).toContain(
      "The new version applies from the next signal on.",
    );
    expect(await audit()).toEqual(["rule.created operator", "rule.updated owner"]);
  });

  test("is rejected if another person changed the rule meanwhile, and keeps the input", async () => {
    const rule = await newRule();
    expect(typed(await members.owner.read(`${base}/${rule.id}`), "version")).toEqual(["1"]);
    await workspace.operator("PATCH", `/rules/${rule.id}`, { points: 99 });
    const change = (version: string, more: Form = {}) =>
      post(fields([], { points: "7", version, ...more }), `/${rule.id}`);
    // An added row keeps the opened version.
    expect(typed((await change("1", { do: "add" })).page, "version")).toEqual(["1"]);
    const { status, page } = await change("1");
    expect([status, page.field("points").value]).toEqual([409, "7"]);
    expect(page.text).toContain("This is version 2.");
    expect(page.text).toContain("+99");
    expect(await stored()).toMatchObject([{ points: 99 }]);
    // The second attempt knows the current version and replaces it.
    expect(page.field("version").value).toBe("2");
    expect((await change("2")).status).toBe(303);
    expect(await stored()).toMatchObject([{ points: 7, version: 3 }]);
    expect(await audit()).toEqual(["rule.created operator", "rule.updated operator", "rule.updated owner"]);
  });

  test("is stored by Save only: a preview and an added condition change no rule", async () => {
    const rule = await newRule();
    for (const button of ["preview", "add"]) {
      const { status, page } = await post(fields([], { points: "7", version: "1", do: button }), `/${rule.id}`);
      expect([button, status, page.field("points").value]).toEqual([button, 200, "7"]);
    }
    expect(await stored()).toMatchObject([{ version: 1, points: 20 }]);
  });

  test("by its buttons disables and enables the rule", async () => {
    const rule = await newRule();
    await members.admin.post(`${base}/${rule.id}/disable`);
    expect(await stored()).toMatchObject([{ enabled: false }]);
    expect((await members.admin.read(`${base}/${rule.id}`)).text).toContain("so all its scoring signals are removed");
    const answer = await members.admin.post(`${base}/${rule.id}/enable`);
    expect(answer.location).toBe(`${base}/${rule.id}?done=rule_enabled`);
    expect(await stored()).toMatchObject([{ enabled: true, version: 3 }]);
  });
});

describe("applying a rule to past signals", () => {
  test("scores them and shows the progress until it ends", async () => {
    await deliverAll([payloadOf(1), payloadOf(2)]);
    const path = `${base}/${(await newRule()).id}`;
    const answer = await members.admin.post(`${path}/apply`);
    expect([answer.status, answer.location]).toEqual([303, `${path}#job`]);
    const page = await until(async () => {
      const now = await members.member.read(path);
      expect(now.all("[data-refresh]")).toHaveLength(0);
      return now;
    });
    expect(page.text).toContain("Version 1 applied to past signals just now. 2 signals read, 2 matches.");
    expect(page.text).toContain("Scoring signals: 2 added, 0 updated, 0 removed.");
    expect(page.detail("Scored, 7 days")).toBe("2");
    expect(await scores()).toEqual([20, 20]);
    expect(await audit()).toEqual(["rule.created operator", "rule.applied admin"]);
  });

  test("is offered right after saving, with the number of matches, until it has run", async () => {
    await deliverAll(
      [1, 2, 3].map((n) => payloadOf(n)),
      (n) => Date.now() - (n + 1) * 100 * DAY,
    );
    const offer = async (at: string, as = members.admin) => {
      const [notice] = (await as.read(at)).all(".notice.good");
      return { action: notice?.forms()[0]?.target, text: notice?.text ?? "" };
    };
    const at = (await members.admin.post(base, fields([["properties.n", "greater_than", "1"]]))).location;
    const [path = ""] = at.split("?");
    const { action = "", text } = await offer(at);
    expect([action, text]).toEqual([
      `${path}/apply`,
      expect.stringMatching(/^Rule created\..* Apply to 2 past signals$/),
    ]);
    expect((await offer(path)).text).toBe("");
    expect((await offer(at, members.member)).action).toBeUndefined();
    expect((await members.admin.post(action)).location).toBe(`${path}#job`);
    await until(async () => expect(await scores()).toEqual([0, 20, 20]));
    expect((await offer(at)).action).toBeUndefined();

    const offerAfter = async (rows: Row[], more: Form) => {
      await members.admin.post(path, fields(rows, more));
      return (await offer(`${path}?done=rule_saved`)).text;
    };
    expect(await offerAfter([], { version: "1", points: "5" })).toContain("Apply to 3 past signals");
    expect(await offerAfter([["properties.n", "equals", "3"]], { version: "2" })).toContain("Apply to 1 past signal");
    // The rule's scores would be removed.
    expect(await offerAfter([["properties.n", "equals", "9"]], { version: "3" })).toMatch(/Apply to past signals$/);
    await members.admin.post(`${path}/disable`);
    const disabled = await offer(`${path}?done=rule_disabled`);
    expect(disabled.text).toMatch(/Remove its scoring signals$/);
    await members.admin.post(disabled.action ?? "");
    await until(async () => expect(await scores()).toEqual([0, 0, 0]));
    expect((await offer(`${path}?done=rule_disabled`)).action).toBeUndefined();
    // Enabled again, the rule scores again. The earlier removal does not cover the new scoring signal.
    await members.admin.post(`${path}/enable`);
    await deliverAll([payloadOf(9)], undefined, 9);
    await members.admin.post(`${path}/disable`);
    expect((await offer(`${path}?done=rule_disabled`)).text).toMatch(/Remove its scoring signals$/);
    const none = await members.admin.post(base, fields([], { event: "Never Came" }));
    expect((await offer(none.location)).text).toMatch(/No past signals match\.$/);
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
    expect(job.text).toContain("250 of about 1,000 signals read");
    expect((await members.member.read(base)).text).toContain("Applying");
  });
});

describe("a repeated form", () => {
  const newId = async () => (await members.owner.read(`${base}/new`)).field("id").value ?? "";

  test("makes one rule with one audit entry, also eight times at once, and every answer links to it", async () => {
    const id = await newId();
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(fields([], { id }))));
    expect(await stored()).toMatchObject([{ id, version: 1 }]);
    expect(answers.map(({ location }) => location)).toEqual(Array(8).fill(`${base}/${id}?done=rule_created`));
    expect(await audit()).toEqual(["rule.created owner"]);
    // After the rule is deleted, the form in another tab does not restore it.
    await post([], `/${id}/delete`);
    await post(fields([], { id }));
    expect(await stored()).toEqual([]);
  });

  test("stays the same form after added rows and after a rejection; a new form makes another rule", async () => {
    const ids = [await newId(), await newId()];
    for (const more of [{ do: "add" }, { points: "many" }]) {
      const { page } = await post(fields([], { id: ids[0] ?? "", ...more }));
      expect(page.field("id").value).toBe(ids[0]);
    }
    for (const id of ids) await post(fields([], { id }));
    expect((await stored()).map((rule) => rule.id).toSorted()).toEqual(ids.toSorted());
  });

  test("neither makes nor changes a rule of another workspace, and accepts no invalid id", async () => {
    const elsewhere = await newMembers({ key: null });
    const { id } = await newRule();
    await elsewhere.owner.post(`${elsewhere.home}/rules`, fields([], { id, name: "taken" }));
    expect(await stored()).toMatchObject([{ id, name: "Asked for a demo", version: 1 }]);
    await post(fields([], { id: "rule_../x" }));
    expect((await stored()).map((rule) => rule.id)).toEqual([expect.stringMatching(/^rule_[0-9a-f-]{36}$/), id]);
  });
});

describe("deleting a rule", () => {
  let path: string;

  beforeEach(async () => {
    await deliverAll([payloadOf(1)]);
    const { id } = await newRule();
    path = `${base}/${id}`;
    await workspace.operator("POST", `/rules/${id}/apply`);
    await until(async () => expect(await scores()).toEqual([20]));
  });

  const remove = (form: Form = {}) => members.owner.post(`${path}/delete`, form);
  const activity = async () => (await members.member.read(`${members.home}/settings/activity`)).rows[0]?.text;

  test("keeps the scores, which may be removed later", async () => {
    expect((await remove()).location).toBe(`${base}?done=rule_deleted`);
    expect([await stored(), await scores()]).toEqual([[], [20]]);
    const deleted = await members.owner.read(path);
    expect(deleted.text).toContain("Its scoring signals stay with their points.");
    expect(deleted.forms(`${path}/delete`)).toHaveLength(1);
    await remove({ remove: "on" });
    await until(async () => expect(await scores()).toEqual([0]));
    expect((await members.owner.read(path)).text).toContain("Its scoring signals are removed.");
    // Nothing is left to remove, and no entry is written.
    await remove({ remove: "on" });
    expect((await audit()).slice(-2)).toEqual(["rule.deleted owner", "rule.scores_removed owner"]);
    expect(await activity()).toContain("Scoring signals removed");
  });

  test("removes the scores too if requested", async () => {
    expect((await remove({ remove: "on" })).location).toBe(path);
    await until(async () => expect(await scores()).toEqual([0]));
    expect((await audit()).at(-1)).toBe("rule.deleted owner");
    expect(await activity()).toContain("Mapping rule deleted Asked for a demo");
  });
});

test("an unknown rule is not found, even if its id is a property of every object", async () => {
  for (const id of ["constructor", "__proto__", "toString", "rule_none"])
    expect((await members.owner.get(`${base}/${id}`)).status).toBe(404);
});
