/** Settings › Activity: the audit log, newest first, filtered by action and actor. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { createToken } from "../../../src/d1/api-tokens.ts";
import { auditEntry, listAudit } from "../../../src/d1/audit.ts";
import { controlDatabase } from "../../../src/d1/database.ts";
import { ACTIONS } from "../../../src/pages/activity.tsx";
import { newMembers, type Members } from "../../support/members.ts";
import { listen } from "../../support/destination-harness.ts";
import type { Part } from "../../support/html.ts";
import { recordD1 } from "../../support/statements.ts";
import { masked, operator } from "../../support/workspace.ts";

let members: Members;
let path: string;

beforeEach(async () => {
  members = await newMembers({ key: null });
  path = `${members.home}/settings/activity`;
});

/** Action, details and actor of each row. */
const rows = (page: Part): string[] => page.rows.map((row) => row.cells.slice(0, 3).join(" | "));
const rowsAt = async (query = "", browser = members.owner) => rows(await browser.read(path + query));

const RULE = { name: "Demo asked for", event: "e", scoring_signal: "s", points: 1 };
const newRule = (more: object = {}) =>
  members.workspace.operator<{ id: string }>("POST", "/rules", { ...RULE, ...more });

/** Inserts `count` entries directly into the table, the newest last. */
async function written(
  workspaceId: string,
  count: number,
  entry: (index: number) => { actor: string; action: string },
) {
  const insert = env.DB.prepare(
    "INSERT INTO audit_log (id, workspace_id, at, actor, action, target, detail) VALUES (?, ?, ?, ?, ?, ?, '{}')",
  );
  const id = (index: number) => `aud_${String(index).padStart(8, "0")}-${workspaceId}`;
  await env.DB.batch(
    Array.from({ length: count }, (_, index) => {
      const { actor, action } = entry(index);
      return insert.bind(id(index), workspaceId, new Date().toISOString(), actor, action, `t${index}`);
    }),
  );
}

/** Makes a change of each kind, most of them as the operator. */
async function changeEverything(): Promise<void> {
  const make = async (place: string, body: object): Promise<string> =>
    (await members.workspace.operator<{ id: string }>("POST", place, body)).id;
  const { workspace } = members;
  const change = (method: string, place: string, body?: object) => workspace.operator(method, place, body);

  await change("PATCH", "", { overages: true, name: "Renamed" });
  await make("/members", { email: "new@example.com", role: "member" });
  await change("PATCH", "/members/new@example.com", { role: "admin" });
  const ofMember = workspace.context({ by: { actor: "new@example.com", nowMs: Date.now() } });
  await createToken(ofMember, { name: "Theirs", scopes: ["read"], expiresAt: null });
  await change("DELETE", "/members/new@example.com");

  const token = await workspace.newToken(["read", "rules"], { name: "Rules from Git" });
  await workspace.askWith(token, "POST", "/rules", { ...RULE, name: "Of a program" });
  await change("POST", `/tokens/${token.id}/revoke`);

  const template = [{ target: "external_id", path: "company.id", type: "string" }];
  const key = await make("/keys", { name: "CRM", endpoint_type: "product_org", payload_template: template });
  await change("PATCH", `/keys/${key}`, { silent_after_days: 3 });
  await change("PATCH", `/keys/${key}`, { answer: 200 });
  await change("PATCH", `/keys/${key}`, { signal_limit: 500 });
  await change("PUT", `/keys/${key}/template`, {
    payload_template: [...template, { target: "name", path: "name", type: "string" }],
  });
  await members.owner.post(`${members.home}/settings/api-keys/${key}`, { name: "New CRM" });
  await make(`/keys/${key}/rotate`, { overlap: "1h" });
  await change("POST", `/keys/${key}/deactivate`);

  const condition = { path: "properties.formName", operator: "not_contains", value: "x" };
  const rule = await newRule();
  await change("PATCH", `/rules/${rule.id}`, {
    scoring_signal: "t",
    frequency: "once_per_day",
    conditions: [condition],
  });
  await change("POST", `/rules/${rule.id}/versions/1/restore`);
  await change("POST", `/rules/${rule.id}/apply`);
  await change("DELETE", `/rules/${rule.id}`);
  await change("POST", "/rules/import", { items: [RULE] });
  await change("PUT", "/exclusions", { items: [{ name: "Own staff", conditions: [condition] }] });
  await change("POST", "/exclusions/apply");

  await change("POST", "/held/release");
  await change("POST", "/dead-letters/replay", {});
  await change("DELETE", "/people/gone@example.com");
  await members.owner.get(`${members.home}/people/export?records=signals&format=ndjson`);

  const target = "https://nobody.example.com/in";
  listen();
  const types = ["person.score_crossed", "key.silent"];
  const destination = `/destinations/${await make("/destinations", { name: "Hook", type: "webhook", target, notifications: types })}`;
  await change("PATCH", destination, { notifications: ["usage.level"], target: `${target}/2` });
  const emails = env.DESTINATIONS.getByName(members.workspace.id);
  const email = { id: `dst_${crypto.randomUUID()}`, name: "Ops", type: "email" as const, target: "ops@example.com" };
  await emails.create({
    ...email,
    headers: [],
    notifications: ["usage.level"],
    pagesUrl: "https://signals.example/w/demo",
  });
  const code = await runInDurableObject(emails, (_, { storage: { sql } }) =>
    sql.exec<{ code: string }>("SELECT confirmation ->> 'code' AS code FROM destinations WHERE id = ?", email.id).one(),
  );
  await change("POST", `/destinations/${email.id}/confirm`, code);
  await change("POST", `${destination}/pause`);
  await change("POST", `${destination}/resume`);
  await change("POST", `${destination}/rotate-secret`, { overlap: "24h" });
  const delivery = await make(`${destination}/test`, {});
  await change("POST", `${destination}/deliveries/${delivery}/again`);
  await change("DELETE", destination);
  await change("PUT", "/thresholds", { thresholds: [10, -20] });

  const context = workspace.context();
  const reconciled = { keysDeactivated: 1, configVersionRaised: true, ruleVersionsRaised: false, payloadsLost: 2 };
  for (const [action, detail] of [
    ["workspace.reconciled", reconciled],
    ["rule.scores_removed", {}],
    ["destination.switched_off", { name: "Hook", reason: "gone" }],
  ] as const) {
    await auditEntry(context.db, context.by, { workspaceId: workspace.id, action, target: "", detail });
  }
}

describe("the activity page", () => {
  test("lists changes in words, newest first, and links to the changed objects", async () => {
    await members.owner.post(`${members.home}/settings/members`, { email: "new@example.com", role: "admin" });
    const rule = await newRule({ name: "<script>alert(1)</script>" });
    const key = await members.workspace.newKey({ name: "CRM <b>key</b>" });
    await members.workspace.operator("POST", `/keys/${key.id}/deactivate`);
    for (const change of [{ points: 2, enabled: false }, { points_last_days: 90 }])
      await members.workspace.operator("PATCH", `/rules/${rule.id}`, change);
    const page = await members.owner.read(path);
    const keyText = `CRM <b>key</b> (${masked(key.key)})`;
    expect(rows(page).slice(0, 6)).toEqual([
      "Mapping rule changed | <script>alert(1)</script> Version: 3 · Points count: always → for 90 days | The operator",
      "Mapping rule changed | <script>alert(1)</script> Version: 2 · Points: +1 → +2 · Enabled: yes → no | The operator",
      `API key deactivated | ${keyText} | The operator`,
      `API key created | ${keyText} Endpoint type: Signal Staging · Expires at: never · Secret: no | The operator`,
      expect.stringMatching(
        /^Mapping rule created \| <script>alert\(1\)<\/script> .*Scoring signal: s · Points: \+1 · /,
      ),
      `Member added | new@example.com Role: Admin | ${members.owner.email}`,
    ]);
    expect(page.text.replaceAll(keyText, "")).not.toMatch(/[a-z]_[a-z]|[{}"]|scoringSignal/);
    expect(page.rows.slice(1, 3).map((row) => row.targets)).toEqual([
      [`${members.home}/rules/${rule.id}`],
      [`${members.home}/settings/api-keys/${key.id}`],
    ]);
    expect(page.inlineScripts).toHaveLength(0);
  });

  test("describes every action in words, without a name, an id or JSON of the API", async () => {
    await changeEverything();
    for (const step of ["close", "open"]) await members.workspace.operator("POST", `/${step}`);
    const all = (await members.owner.readAll(path)).flatMap(rows);
    // Names that people have given.
    const given = new RegExp(`${members.slug}|plan-[\\w-]+|sk_\\w+…\\w+|[\\w-]+@example\\.com`, "g");
    const raw = /[a-z]_[a-z]|[a-z][A-Z]|[a-z]\.[a-z]|[0-9a-f]{8}-|\d[dh]\b|[{}[\]"]/;
    expect(all.filter((row) => raw.test(row.replaceAll(given, "")))).toEqual([]);
    const ofNone = /^(plan\.|workspace\.(ended|exported|imported)$)/;
    const labels = Object.entries(ACTIONS).flatMap(([action, [label]]) => (ofNone.test(action) ? [] : [label]));
    expect(labels.filter((label) => !all.some((row) => row.startsWith(`${label} |`)))).toEqual([]);
  });

  test("names the API token that made a change, and why a token ended", async () => {
    const token = await members.workspace.newToken(["read", "rules"], { name: "Rules from Git" });
    await members.workspace.askWith(token, "POST", "/rules", RULE);
    const ofAdmin = members.workspace.context({ by: { actor: members.admin.email, nowMs: Date.now() } });
    await createToken(ofAdmin, { name: "Export", scopes: ["export"], expiresAt: null });
    await members.workspace.operator("DELETE", `/members/${members.admin.email}`);
    const shown = await rowsAt();
    const text = shown.join("\n");
    expect(text).toMatch(/^Mapping rule created \| .* \| Rules from Git API token$/m);
    expect(text).toContain("API token created | Rules from Git Scopes: read, rules · Expires at: never | The operator");
    expect(text).toContain(
      "API token revoked | Export Reason: its creator is no owner or admin any more | The operator",
    );
    expect((await rowsAt(`?actor=${token.id}`)).map((row) => row.split(" |")[0])).toEqual(["Mapping rule created"]);
    expect((await rowsAt("", members.member)).join("\n")).not.toContain("API token created");
  });

  test("names the changed settings of the workspace, and the plan", async () => {
    await operator("PUT", "/plans/large-one", { name: "Large & wide", signal_limit: 5, paid: true });
    for (const overages of ["on", "off"]) await members.owner.post(`${members.home}/usage/overages`, { overages });
    await members.workspace.operator("PATCH", "", { plan: "large-one", name: "New name" });
    expect((await rowsAt()).slice(0, 3)).toEqual([
      expect.stringMatching(/^Workspace changed \| Plan: .+ → Large & wide · Name: .+ → New name \| The operator$/),
      `Overages changed | yes → no | ${members.owner.email}`,
      `Overages changed | no → yes | ${members.owner.email}`,
    ]);
  });

  test("shows members no entries about API keys, with any filter", async () => {
    const { id } = await members.workspace.newKey({ name: "Hidden key" });
    for (const query of ["", "?action=key.created", "?actor=operator&action=key.created", `?key=${id}`]) {
      const html = await members.member.see(path + query);
      for (const hidden of ["Hidden key", id, "API key created"]) expect(html).not.toContain(hidden);
      expect(await members.admin.see(path + query)).toContain("Hidden key");
    }
    expect((await rowsAt("", members.member)).at(-1)).toMatch(/^Workspace created /);
  });

  test("filters by action and by actor, and keeps both filters across pages", async () => {
    const actorOf = (index: number) => (index % 2 === 0 ? "ann@example.com" : "bob@example.com");
    await written(members.workspace.id, 60, (index) => ({ actor: actorOf(index), action: "rule.updated" }));
    const filtered = `${path}?action=rule.updated&actor=%20Ann%40example.com`;
    const read = await members.member.readAll(filtered);
    // Without a filter the list begins at its first page.
    expect(read[1]?.chips["Action: Mapping rule changed"]).toMatch(/\?actor=[^&]+$/);
    const pages = read.map(rows);
    expect(pages.map(({ length }) => length)).toEqual([25, 5]);
    expect(pages.flat().filter((row) => !row.endsWith("ann@example.com"))).toEqual([]);
    expect(await members.member.see(`${path}?actor=nobody%40example.com`)).toContain("No entries match these filters");
    expect((await members.member.read(`${path}?action=%3Cscript%3E`)).inlineScripts).toHaveLength(0);
  });

  test("finds any part of the actor's email, also beyond a thousand entries of other people", async () => {
    const actorOf = (index: number) => (index === 3 ? "Removed.Ann@example.com" : "bob@example.com");
    await written(members.workspace.id, 1_500, (index) => ({ actor: actorOf(index), action: "rule.updated" }));
    for (const part of ["ann", "ED.ANN%40ex"]) {
      const page = await members.member.read(`${path}?actor=${part}`);
      expect(rows(page)).toEqual(["Mapping rule changed | t3 | Removed.Ann@example.com"]);
      expect(Object.keys(page.chips)).toHaveLength(1);
    }
    // The name of a member or of the operator is the whole actor.
    expect((await rowsAt("?actor=Operator")).every((row) => row.endsWith("The operator"))).toBe(true);
  });

  test("filters by days, first and last included", async () => {
    // Midnight may pass between the first entry and the last.
    const firstDay = new Date(Date.now() - 60_000).toISOString().slice(0, 10);
    const lastDay = new Date().toISOString().slice(0, 10);
    const all = await rowsAt();
    expect(all.length).toBeGreaterThan(0);
    expect(await rowsAt(`?from=${firstDay}&to=${lastDay}`)).toEqual(all);
    for (const query of ["?to=2020-01-01", "?from=2199-01-01"]) expect(await rowsAt(query)).toEqual([]);
    expect((await members.owner.read(`${path}?from=${firstDay}`)).field("from").value).toBe(firstDay);
  });

  test("filters by key together with other filters, and keeps it across pages", async () => {
    const [key, otherKey] = [
      await members.workspace.newKey({ name: "CRM" }),
      await members.workspace.newKey({ name: "Shop" }),
    ];
    for (let n = 0; n < 30; n++)
      await members.owner.post(`${members.home}/settings/api-keys/${key.id}`, { name: `CRM ${n}` });
    await members.workspace.operator("POST", `/keys/${otherKey.id}/deactivate`);
    const first = await members.admin.read(`${path}?key=${key.id}`);
    expect(first.field("key").only("option[selected]").text).toMatch(/^CRM 29 \(/);
    const all = (await members.admin.readAll(`${path}?key=${key.id}`)).flatMap(rows);
    expect([all.length, all.at(-1)]).toEqual([31, expect.stringContaining("API key created | CRM 29")]);
    expect(await rowsAt(`?key=${key.id}&actor=operator`)).toEqual([all.at(-1)]);
    expect(await rowsAt(`?key=${otherKey.id}&action=key.deactivated&actor=operator`)).toHaveLength(1);
    const empty = await members.admin.read(`${path}?key=${otherKey.id}&action=key.renamed`);
    expect(empty.text).toContain("No entries match these filters");
    expect(Object.keys(empty.chips)).toEqual([
      "Action: API key renamed",
      expect.stringMatching(/^API key: Shop \(.*\)$/),
    ]);
  });

  test("names a deleted rule in each of its entries", async () => {
    const { id } = await newRule();
    await members.workspace.operator("PATCH", `/rules/${id}`, { points: 2 });
    await members.workspace.operator("POST", `/rules/${id}/apply`);
    await members.workspace.operator("DELETE", `/rules/${id}`);
    expect((await rowsAt()).slice(0, 4)).toEqual(
      ["deleted", "applied to past signals", "changed", "created"].map((done) =>
        expect.stringMatching(new RegExp(`^Mapping rule ${done} \\| Demo asked for `)),
      ),
    );
  });

  test("has a name for actions that this version does not know", async () => {
    const actions = ["later.thing", "constructor"];
    await written(members.workspace.id, 2, (n) => ({ actor: "x@example.com", action: actions[n] ?? "" }));
    expect(await rowsAt("?actor=x%40example.com")).toEqual([
      "Constructor |  | x@example.com",
      "Later thing |  | x@example.com",
    ]);
  });
});

describe("the query of the activity log", () => {
  test("uses an index for every combination of filters", async () => {
    const { d1, queries, plans } = recordD1(env.DB);
    const filters = [
      {},
      { actor: "a" },
      { action: "b" },
      { actor: "a", action: "b" },
      { target: "t" },
      { target: "t", actor: "a", action: "b" },
      { actorPart: "a" },
    ];
    for (const filter of filters) {
      for (const forManagers of [true, false]) {
        await listAudit(controlDatabase(d1), "ws", { ...filter, forManagers }, { cursor: "c", limit: 1 });
      }
    }
    expect(queries()).toHaveLength(28);
    expect((await plans()).filter(({ detail }) => /^SCAN|TEMP B-TREE/.test(detail))).toEqual([]);
  });
});
