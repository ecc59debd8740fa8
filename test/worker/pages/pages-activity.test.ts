/** Settings › Activity: the audit log, newest first, filtered by action and actor. */
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { listAudit, type AuditFilter } from "../../../src/control/audit.ts";
import { controlDatabase } from "../../../src/control/database.ts";
import { AUDIT_COPY } from "../../../src/pages/activity/audit-copy.tsx";
import { newMembers, type Members } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { recordD1 } from "../../support/statements.ts";
import { operator } from "../../support/workspace.ts";

const path = (of: Members): string => `${of.home}/settings/activity`;

/** Texts of the rows: actor and action. */
function rows(html: string): string[] {
  return readHtml(html).rows.map((row) => row.cells.slice(1, 3).join(" "));
}

async function newKey(of: Members, name: string): Promise<{ id: string }> {
  return operator("POST", `/workspaces/${of.workspace.id}/keys`, { name });
}

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

describe("the activity page", () => {
  test("lists changes as sentences, newest first, with links", async () => {
    const of = await newMembers({ key: null });
    await of.owner.post(`${of.home}/settings/members`, { email: "new@example.com", role: "admin" });
    const rule = await operator<{ id: string }>("POST", `/workspaces/${of.workspace.id}/rules`, {
      name: "<script>alert(1)</script>",
      event: "e",
      match: "all",
      conditions: [],
      scoring_signal: "s",
      points: 1,
    });
    const key = await newKey(of, "CRM <b>key</b>");
    await operator("POST", `/workspaces/${of.workspace.id}/keys/${key.id}/deactivate`);
    const html = await of.owner.see(path(of));
    expect(rows(html).slice(0, 4)).toEqual([
      "The operator deactivated the API key CRM <b>key</b>",
      "The operator created the API key CRM <b>key</b>",
      "The operator created the mapping rule <script>alert(1)</script>",
      `${of.owner.email} added new@example.com as an admin`,
    ]);
    expect(rows(html).at(-1)).toBe("The operator created this workspace");
    expect(readHtml(html).targets).toContain(`${of.home}/rules/${rule.id}`);
    expect(readHtml(html).inlineScripts).toHaveLength(0);
  });

  test("names the changed settings of the workspace, and the plan", async () => {
    const of = await newMembers({ key: null });
    await operator("PUT", "/plans/large-one", { name: "Large & wide", signal_limit: 5, paid: true });
    await of.owner.post(`${of.home}/usage/overages`, { overages: "on" });
    await of.owner.post(`${of.home}/usage/overages`, { overages: "off" });
    await operator("PATCH", `/workspaces/${of.workspace.id}`, { plan: "large-one", name: "New name" });
    expect(rows(await of.owner.see(path(of))).slice(0, 3)).toEqual([
      "The operator changed the plan to Large & wide, renamed the workspace to New name",
      `${of.owner.email} switched overages off`,
      `${of.owner.email} switched overages on`,
    ]);
  });

  test("shows members no entries about API keys, with any filter", async () => {
    const of = await newMembers({ key: null });
    const { id } = await newKey(of, "Hidden key");
    for (const query of ["", "?action=key.created", "?actor=operator&action=key.created"]) {
      const html = await of.member.see(path(of) + query);
      expect(html).not.toContain("Hidden key");
      expect(html).not.toContain(id);
      expect(html).not.toContain("API key created");
      expect(await of.admin.see(path(of) + query)).toContain("Hidden key");
    }
    expect(await of.member.see(path(of))).toContain("created this workspace");
  });

  test("filters by action and by actor, and keeps both filters across pages", async () => {
    const of = await newMembers({ key: null });
    await written(of.workspace.id, 60, (index) => ({
      actor: index % 2 === 0 ? "ann@example.com" : "bob@example.com",
      action: "rule.updated",
    }));
    const html = await of.member.see(`${path(of)}?action=rule.updated&actor=%20Ann%40example.com`);
    expect(rows(html)).toHaveLength(25);
    expect(rows(html).every((row) => row.startsWith("ann@example.com changed"))).toBe(true);
    const second = await of.member.see(readHtml(html).next ?? "");
    expect(rows(second)).toHaveLength(5);
    expect(rows(second).every((row) => row.startsWith("ann@example.com changed"))).toBe(true);
    expect(await of.member.see(`${path(of)}?actor=nobody%40example.com`)).toContain("Nothing to show");
    expect((await of.member.read(`${path(of)}?action=%3Cscript%3E`)).inlineScripts).toHaveLength(0);
  });

  test("filters by days, first and last included, and keeps them across pages", async () => {
    const firstDay = new Date().toISOString().slice(0, 10);
    const of = await newMembers({ key: null });
    // Midnight may have passed since the first entry.
    const lastDay = new Date().toISOString().slice(0, 10);
    const count = async (query: string) => rows(await of.owner.see(`${path(of)}${query}`)).length;
    const all = await count("");
    expect(all).toBeGreaterThan(0);
    expect(await count(`?from=${firstDay}&to=${lastDay}`)).toBe(all);
    expect(await count("?to=2020-01-01")).toBe(0);
    expect(await count("?from=2199-01-01")).toBe(0);
    expect((await of.owner.read(`${path(of)}?from=${firstDay}`)).field("from").value).toBe(firstDay);
  });

  test("filters by key together with other filters, and keeps it across pages; members cannot filter by key", async () => {
    const of = await newMembers({ key: null });
    const [key, otherKey] = [await newKey(of, "CRM"), await newKey(of, "Shop")];
    for (let n = 0; n < 30; n++) {
      await of.owner.post(`${of.home}/settings/api-keys/${key.id}/name`, { name: `CRM ${n}` });
    }
    await operator("POST", `/workspaces/${of.workspace.id}/keys/${otherKey.id}/deactivate`);
    const html = await of.admin.see(`${path(of)}?key=${key.id}`);
    const chosen = readHtml(html).field("key");
    expect([chosen.value, chosen.only("option[selected]").text]).toEqual([key.id, "CRM 29"]);
    const all = [...rows(html), ...rows(await of.admin.see(readHtml(html).next ?? ""))];
    expect([all.length, all.at(-1)]).toEqual([31, "The operator created the API key CRM 29"]);
    expect(rows(await of.admin.see(`${path(of)}?key=${key.id}&actor=operator`))).toEqual([all.at(-1)]);
    expect(
      rows(await of.admin.see(`${path(of)}?key=${otherKey.id}&action=key.deactivated&actor=operator`)),
    ).toHaveLength(1);
    const nothing = await of.admin.see(`${path(of)}?key=${otherKey.id}&action=key.renamed`);
    expect(textOf(nothing)).toContain("Nothing to show What: API key renamed Clear API key: Shop Clear");
    const asMember = await of.member.see(`${path(of)}?key=${key.id}`);
    expect(asMember).not.toContain(key.id);
    expect(rows(asMember).at(-1)).toBe("The operator created this workspace");
  });

  test("names a deleted rule in each of its entries", async () => {
    const of = await newMembers({ key: null });
    const rule = { name: "Demo asked for", event: "e", match: "all", conditions: [], scoring_signal: "s", points: 1 };
    const { id } = await operator<{ id: string }>("POST", `/workspaces/${of.workspace.id}/rules`, rule);
    await operator("PATCH", `/workspaces/${of.workspace.id}/rules/${id}`, { points: 2 });
    await operator("POST", `/workspaces/${of.workspace.id}/rules/${id}/apply`);
    await operator("DELETE", `/workspaces/${of.workspace.id}/rules/${id}`);
    expect(rows(await of.owner.see(path(of))).slice(0, 4)).toEqual([
      "The operator deleted the mapping rule Demo asked for",
      "The operator applied the mapping rule Demo asked for to what is stored",
      "The operator changed the mapping rule Demo asked for",
      "The operator created the mapping rule Demo asked for",
    ]);
  });

  test("shows only its workspace, and no cache may store it", async () => {
    const of = await newMembers({ key: null });
    expect((await of.stranger.get(path(of))).status).toBe(404);
    expect((await of.member.get(path(of))).headers.get("cache-control")).toBe("no-store");
  });

  test("has a sentence for actions that this version does not know", async () => {
    const of = await newMembers({ key: null });
    await written(of.workspace.id, 2, (index) => ({
      actor: "x@example.com",
      action: ["later.thing", "constructor"][index] ?? "",
    }));
    expect(rows(await of.owner.see(`${path(of)}?actor=x%40example.com`))).toEqual([
      "x@example.com constructor",
      "x@example.com later.thing",
    ]);
  });
});

describe("the query of the activity log", () => {
  async function all(workspaceId: string, filter: AuditFilter): Promise<{ targets: string[]; pages: number }> {
    const targets: string[] = [];
    let [cursor, pages]: [string | null, number] = [null, 0];
    do {
      const page = await listAudit(controlDatabase(env.DB), workspaceId, filter, { cursor, limit: 25 });
      targets.push(...page.items.map(({ target }) => target));
      cursor = page.next;
      pages++;
    } while (cursor !== null && pages < 200);
    return { targets, pages };
  }

  test("finds every entry in bounded pages, even if no entry matches for thousands of entries", async () => {
    const id = `ws-audit-${crypto.randomUUID()}`;
    // Of 2,500 entries, ten are not of keys; ann did five of those.
    const isRule = (index: number) => index % 250 === 0;
    await written(id, 2_500, (index) => ({
      actor: index % 500 === 0 ? "ann@example.com" : "bob@example.com",
      action: isRule(index) ? "rule.updated" : "key.created",
    }));
    const expected = Array.from({ length: 2_500 }, (_, index) => index)
      .filter(isRule)
      .map((index) => `t${index}`)
      .toReversed();
    expect(await all(id, { forManagers: false })).toEqual({ targets: expected, pages: 3 });
    expect(await all(id, { forManagers: true, action: "rule.updated" })).toEqual({ targets: expected, pages: 1 });
    expect(await all(id, { forManagers: true, actor: "bob@example.com", action: "rule.updated" })).toEqual({
      targets: expected.filter((target) => Number(target.slice(1)) % 500 !== 0),
      pages: 3,
    });
    expect((await all(id, { forManagers: true })).targets).toHaveLength(2_500);
  });

  test("uses an index for every combination of filters", async () => {
    const { d1, queries, plans } = recordD1(env.DB);
    const filters = [
      {},
      { actor: "a" },
      { action: "b" },
      { actor: "a", action: "b" },
      { target: "t" },
      { target: "t", actor: "a", action: "b" },
    ];
    for (const filter of filters) {
      for (const forManagers of [true, false]) {
        await listAudit(controlDatabase(d1), "ws", { ...filter, forManagers }, { cursor: "c", limit: 1 });
      }
    }
    expect(queries()).toHaveLength(24);
    expect((await plans()).filter(({ detail }) => /^SCAN|TEMP B-TREE/.test(detail))).toEqual([]);
  });
});

test("every action has a label", () => {
  const labels = Object.values(AUDIT_COPY).map(({ label }) => label);
  expect(new Set(labels).size).toBe(labels.length);
});
