/**
 * Spec §1, invariant 6: members may not see API keys. A sender may put a key into a signal, and an admin may paste
 * one into a wrong field: no page shows it, and no record has it as its name.
 */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Browser, type Members, newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import { call, masked } from "../../support/workspace.ts";

let members: Members;
let key: string;

beforeAll(async () => {
  members = await newMembers();
  ({ key } = members.workspace.key);
  const { workspace } = members;
  await workspace.operator("POST", "/rules", { name: "r", event: "Signed Up", scoring_signal: "s", points: 1 });
  await workspace.send([
    {
      type: "identify",
      anonymousId: "visitor-1",
      userId: key,
      traits: { email: "ann@example.com", name: `Ann ${key}`, company: { name: key }, title: key },
    },
    { type: "track", event: "Signed Up", anonymousId: key, userId: "user-2", properties: { [key]: key, form: key } },
    { type: "alias", userId: "user-3", previousId: key, messageId: key },
    { event: "Signed Up", email: `${key}@example.com`, properties: { note: `the key is ${key}` } },
    { event: "Signed Up", email: "bob@example.com", id: key, properties: { first_name: key, company: key } },
    { event: "Signed Up", email: "bob@example.com", properties: { long: `${"x".repeat(1_990)} ${key}` } },
  ]);
  const template = [
    { target: "external_id", path: "id", type: "string" },
    { target: "name", path: "name", type: "string" },
    { target: "attributes.note", path: "note", type: "json" },
  ];
  const accounts = await workspace.newKey({ endpoint_type: "product_org", payload_template: template });
  await call(`/api/product-orgs/webhook/${accounts.key}`, {
    method: "POST",
    body: JSON.stringify({ id: "acme", name: `Acme ${key}`, note: [{ [key]: key }] }),
  });
  await call(`/api/product-orgs/webhook/${accounts.key}`, { method: "POST", body: JSON.stringify({ id: key }) });
  await workspace.settled();
  await until(async () => expect((await members.owner.read(`${members.home}/accounts`)).text).toContain("Acme"));
});

/** A call of the operator API about the workspace, with any answer. */
function ask(method: string, path: string, body?: unknown): Promise<Response> {
  return call(`/operator/workspaces/${members.workspace.id}${path}`, {
    method,
    headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** All pages reachable by links from the first one, by address. */
async function crawl(browser: Browser): Promise<Map<string, Answer>> {
  const pages = new Map<string, Answer>();
  const waiting = [`${members.home}/signals`];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const answer = await browser.get(path);
    pages.set(path, answer);
    if (!(answer.headers.get("content-type") ?? "").includes("text/html")) continue;
    for (const target of answer.page.targets) {
      const next = target.replace(/#.*/, "");
      if (next.startsWith(`${members.home}/`) && !pages.has(next) && !waiting.includes(next)) waiting.push(next);
    }
  }
  return pages;
}

describe("a live key sent as name, company, email, id or property", () => {
  test("is shown on no page", async () => {
    for (const browser of [members.member, members.owner]) {
      const pages = await crawl(browser);
      expect(pages.size).toBeGreaterThan(30);
      expect([...pages].flatMap(([path, { body }]) => (body.includes(key.slice(3, 20)) ? [path] : []))).toEqual([]);
      expect([...pages.values()].some(({ body }) => body.includes(masked(key)))).toBe(true);
    }
  });

  test("is masked in the preview of a rule, which a script requests", async () => {
    const rule = { event: "Signed Up", match: "all" };
    const { text } = await members.owner.post(`${members.home}/rules/preview`, rule);
    expect(text).toContain(masked(key));
    expect(text).not.toContain(key.slice(3, 20));
  });

  test("is no name of a person, and is masked in their ids", async () => {
    const { items } = await members.workspace.operator<{ items: Record<string, unknown>[] }>("GET", "/people");
    expect(items.map(({ email }) => email).toSorted()).toEqual(["ann@example.com", "bob@example.com"]);
    expect(items.find(({ email }) => email === "ann@example.com")).toMatchObject({
      name: `Ann ${masked(key)}`,
      company: masked(key),
      title: masked(key),
    });
    expect(JSON.stringify(items)).not.toContain(key.slice(3, 20));
  });

  test("is in no exported file", async () => {
    for (const records of ["signals", "people", "scoring-signals"]) {
      for (const format of ["ndjson", "csv"]) {
        const file = await ask("GET", `/export/${records}?format=${format}`);
        expect([records, format, (await file.text()).includes(key.slice(3, 20))]).toEqual([records, format, false]);
      }
    }
  });
});

describe("a live key that somebody pastes", () => {
  test("into a rule is rejected and not shown again", async () => {
    const rule = { name: "r", event: "e", match: "all", scoring_signal: "s", points: "1" };
    for (const [name, form] of [
      ["name", Object.entries({ ...rule, name: key })],
      ["scoring signal", Object.entries({ ...rule, scoring_signal: `x ${key}` })],
      ["event", Object.entries({ ...rule, event: `x ${key}` })],
      ["path", [...Object.entries(rule), ["path", `properties.${key}`], ["operator", "exists"], ["value", ""]]],
      ["value", [...Object.entries(rule), ["path", "source"], ["operator", "equals"], ["value", key]]],
      ["list", [...Object.entries(rule), ["path", "source"], ["operator", "in"], ["value", `a\n${key}\n`]]],
    ] as [string, [string, string][]][]) {
      const { status, body, text } = await members.owner.post(`${members.home}/rules`, form);
      expect([name, status, body.includes(key.slice(3, 20))]).toEqual([name, 422, false]);
      expect(text).toContain("holds an API key or a secret, and is shown to all members.");
    }
    const condition = { path: "source", operator: "in", value: ["a", key] };
    const json = { name: "r", event: "e", scoring_signal: "s", points: 1, conditions: [condition] };
    expect((await ask("POST", "/rules", json)).status).toBe(422);
  });

  test("into the name of a key is rejected", async () => {
    const form = { name: key, endpoint_type: "signal_staging", lifetime: "never" };
    for (const page of ["new", members.workspace.key.id]) {
      const { status, text } = await members.owner.post(`${members.home}/settings/api-keys/${page}`, form);
      expect([status, text]).toEqual([422, expect.stringContaining("It holds an API key or a secret")]);
    }
  });

  test("into a template is rejected", async () => {
    const id = { target: "external_id", path: "id", type: "string" };
    for (const mapping of [
      { target: "name", path: key, type: "string" },
      { target: `attributes.${key}`, path: "a", type: "string" },
    ]) {
      const answer = await ask("POST", "/keys", {
        name: "k",
        endpoint_type: "product_org",
        payload_template: [id, mapping],
      });
      expect(answer.status).toBe(422);
    }
  });

  test("into a member's email is rejected and not shown again", async () => {
    const email = `${key}@example.com`;
    const answer = await members.owner.post(`${members.home}/settings/members`, { email, role: "member" });
    expect(answer.status).toBe(422);
    expect(answer.body).not.toContain(key.slice(3, 20));
    expect((await ask("POST", "/members", { email, role: "member" })).status).toBe(422);
  });

  test("into an address or a search is not shown again", async () => {
    for (const path of [
      `signals?q=${key}`,
      `signals/${key}`,
      `people?q=${key}`,
      `people/${key}`,
      `live?text=${key}`,
      `accounts/${key}`,
      `settings/activity?actor=${key}`,
      `none/${key}`,
    ]) {
      const answer = await members.member.get(`${members.home}/${path}`);
      expect([path, answer.body.includes(key.slice(3, 20))]).toEqual([path, false]);
    }
  });
});
