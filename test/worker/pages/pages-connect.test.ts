/** Connect (spec §4): the set-up of a sender, for managers with their keys, for members without (§5.6). */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/d1/database.ts";
import { listKeys, rotatedWith } from "../../../src/d1/api-keys.ts";
import { rotateKey } from "../../../src/d1/new-keys.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { recordD1 } from "../../support/statements.ts";
import { until } from "../../support/until.ts";
import type { TestKey } from "../../support/workspace.ts";

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };

let members: Members;
let path: string;

beforeEach(async () => {
  members = await newMembers({ name: "Initech", key: null });
  path = `${members.home}/connect`;
});
afterEach(() => void vi.useRealTimers());

const newKey = (body: Record<string, unknown>) =>
  members.workspace.newKey(body) as Promise<TestKey & { masked_key: string }>;

describe("managers who connect a sender", () => {
  test("without a key are asked to create one first", async () => {
    const page = await members.owner.read(path);
    expect(page.text).toContain("Create an API key first");
    expect(page.targets).toContain(`${members.home}/settings/api-keys/new`);
  });

  const BASE = "https://signals.example/api/signal-staging/webhook";

  test.each([
    [
      "segment",
      `${BASE}/YOUR_API_KEY`,
      'new Analytics({ writeKey: "unused", host: "https://signals.example", path: "/api/signal-staging/webhook/YOUR_API_KEY/batch" })',
      "Content-Type application/json",
    ],
    [
      "rudderstack",
      `${BASE}/YOUR_API_KEY`,
      'new RudderAnalytics("unused", { dataPlaneUrl: "https://signals.example", path: "/api/signal-staging/webhook/YOUR_API_KEY/batch" })',
      "Header None: the key has no secret",
    ],
    [
      "marketo",
      `${BASE}/YOUR_API_KEY`,
      "Request Type POST Request Token Encoding JSON Response Type None",
      '"email": {{lead.Email Address}}',
      '"event": "Registered - Spring Webinar"',
      '"company": {{company.Company Name}}',
    ],
    ["hubspot", `${BASE}/crm/YOUR_API_KEY`, "Method POST", '"email": "jane@example.com"'],
    [
      "code",
      `${BASE}/website/YOUR_API_KEY`,
      `${BASE}/YOUR_API_KEY/batch`,
      `curl -X POST '${BASE}/YOUR_API_KEY'`,
      "await fetch(",
      "urllib.request",
    ],
  ])("see the settings of %s for a key, with a placeholder for its full value", async (sender, ...settings) => {
    const { id, key, masked_key } = await newKey({ name: "Campaigns" });
    const { text, body } = await members.admin.get(`${path}?${new URLSearchParams({ key: id, sender }).toString()}`);
    for (const expected of [...settings, `Campaigns (${masked_key})`]) expect(text).toContain(expected);
    for (const hidden of [key, "X-Api-Secret"]) expect(body).not.toContain(hidden);
  });

  test("see the header of a key with a secret, and an event built from a member status and a program", async () => {
    const { secret = "-" } = await newKey({ name: "CRM", secret: true });
    const query = new URLSearchParams({ sender: "marketo", status: "Attended", program: '<b>"Demo" day' });
    const { text, body } = await members.owner.get(`${path}?${query.toString()}`);
    for (const expected of ["X-Api-Secret: YOUR_SHARED_SECRET", String.raw`"event": "Attended - <b>\"Demo\" day"`])
      expect(text).toContain(expected);
    expect(body).not.toContain(secret);
    const code = await members.owner.get(`${path}?sender=code`);
    expect(code.copied("curl-universal")).toContain("-H 'X-Api-Secret: YOUR_SHARED_SECRET'");
    expect((await members.owner.get(path)).text).toContain("SDKs cannot send the secret.");
  });

  test("see the example of a product org key, which the endpoint accepts unchanged", async () => {
    const payload_template = [
      { target: "external_id", path: "company.id", type: "string" },
      { target: "user_count", path: "seats", type: "number", required: true },
    ];
    const { key } = await newKey({ name: "Accounts", endpoint_type: "product_org", payload_template });
    const answer = await members.owner.get(path);
    expect(answer.text).toContain("https://signals.example/api/product-orgs/webhook/YOUR_API_KEY");
    expect(answer.text).toContain("Waiting for the first account update");
    const body = answer.copied("accounts-body");
    expect(JSON.parse(body)).toEqual({ seats: 25, company: { id: "acme-42" } });
    const sent = await members.workspace.send(body, { key, path: "/api/product-orgs/webhook/{key}" });
    expect(sent.status).toBe(202);
  });

  test("see the senders first, also when the newest key takes account data", async () => {
    const signals = await newKey({ name: "Campaigns" });
    const payload_template = [{ target: "external_id", path: "company.id", type: "string" }];
    const accounts = await newKey({ name: "Accounts", endpoint_type: "product_org", payload_template });
    const page = await members.owner.read(path);
    expect(page.field("key").value).toBe(signals.id);
    expect(page.targets).toContain(`${path}?key=${signals.id}&sender=webhooks`);
    expect((await members.owner.read(`${path}?sender=accounts`)).field("key").value).toBe(accounts.id);
  });

  test("wait for the first call in a line that refreshes, and see how many were rejected and why", async () => {
    const otherKey = await newKey({ name: "Other" });
    const { id, key, secret = "" } = await newKey({ name: "CRM", secret: true });
    const line = async () => {
      const part = (await members.owner.read(`${path}?key=${id}`)).only("#first-signal");
      return { text: part.text, refreshes: part.attribute("data-refresh") !== undefined, targets: part.targets };
    };
    const send = (body: unknown, value: string) =>
      members.workspace.send(body, { key, headers: { "x-api-secret": value } });
    await members.workspace.send(SIGNAL, { key: otherKey.key });
    expect(await line()).toMatchObject({
      text: expect.stringContaining("Waiting for the first signal"),
      refreshes: true,
    });
    for (let n = 0; n < 3; n++) await send(SIGNAL, "wrong");
    const wrong = "3 calls rejected: ";
    await until(async () => expect((await line()).text).toContain(wrong));
    await send("{ broken", secret);
    const rejected = await line();
    expect(rejected.text).toMatch(/^4 calls rejected: Not JSON; .*secret/);
    expect([rejected.refreshes, rejected.targets]).toEqual([true, [`${members.home}/rejections?key=${id}`]]);
    await send(SIGNAL, secret);
    const connected = await line();
    expect(connected.text).toContain("Connected Last accepted call just now");
    expect([connected.refreshes, connected.text.includes("ejected")]).toEqual([false, false]);
    await new Promise((resolve) => setTimeout(resolve, 2));
    await send("{ broken", secret);
    expect((await line()).text).toMatch(
      /^The latest call was rejected: Not JSON View rejections Last accepted call just now/,
    );
  });

  test("see active keys only and choose among them", async () => {
    const ended = await newKey({ name: "Ended one" });
    await newKey({ name: "Kept <b>one</b>" });
    const newest = await newKey({ name: "Newest one" });
    await members.workspace.operator("POST", `/keys/${ended.id}/deactivate`);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    await newKey({ name: "Expired one", expires_at });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse(expires_at) });
    const page = await members.owner.read(path);
    expect(page.field("key").value).toBe(newest.id);
    const names = page
      .field("key")
      .all("option")
      .map(({ text }) => text);
    expect(names).toEqual([
      expect.stringMatching(/^Newest one \(sk_/),
      expect.stringMatching(/^Kept <b>one<\/b> \(sk_/),
    ]);
    for (const hidden of ["Ended one", "Expired one"]) expect(page.text).not.toContain(hidden);
    expect((await members.owner.get(`${path}?key=${ended.id}`)).status).toBe(303);
  });
});

test("members who connect a sender see the steps and the people to ask, but no key", async () => {
  const { id, masked_key } = await newKey({ name: "Private name", secret: true });
  for (const [sender, expected] of [
    ["marketo", "Request Token Encoding"],
    ["segment", "X-Api-Secret: YOUR_SHARED_SECRET, if the key has a secret"],
    ["accounts", "product-orgs/webhook/YOUR_API_KEY"],
  ] as const) {
    const { text, body } = await members.member.get(`${path}?key=${id}&sender=${sender}`);
    for (const shown of ["Ask an owner or admin of Initech", expected]) expect(text).toContain(shown);
    for (const hidden of ["Private name", masked_key, id, "settings/api-keys", "Waiting for"])
      expect(body).not.toContain(hidden);
  }
});

test("the lists' queries read their workspace's keys by an index", async () => {
  const { workspace } = await newMembers();
  const { d1, plans } = recordD1(env.DB);
  const db = controlDatabase(d1);
  const by = { actor: "jane@example.com", nowMs: Date.now() };
  const { items } = await listKeys(db, workspace.id, { cursor: null, limit: 25 });
  expect(items).toHaveLength(1);
  await listKeys(db, workspace.id, { cursor: "key_x", limit: 25 }, by.nowMs);
  await rotatedWith(db, workspace.id, items);
  await rotateKey(workspace.context({ db, by }), { keyId: workspace.key.id, overlapMs: 0, formToken: "form" });
  const read = (await plans()).filter(({ detail }) => detail.includes("api_keys"));
  expect(read.filter(({ detail }) => !/^SEARCH (api_keys|old) (EXISTS )?USING /.test(detail))).toEqual([]);
  const used = read.map(({ detail }) => detail).join("; ");
  for (const index of ["api_keys_form", "api_keys_successor", "api_keys_workspace"]) expect(used).toContain(index);
  const active = (await plans()).filter(
    ({ query }) => query.includes('"deactivated_at" is null') && query.includes("limit"),
  );
  expect(active.map(({ detail }) => detail)).toEqual([
    expect.stringContaining("USING INDEX api_keys_workspace"),
    expect.stringMatching(/^SEARCH key_budgets USING INDEX \S+ \(first_key_id=\?\)/),
    expect.stringMatching(/^SEARCH payload_templates USING INDEX \S+ \(id=\? AND version=\?\)/),
    "CORRELATED SCALAR SUBQUERY 1",
    expect.stringMatching(/^SEARCH versions USING COVERING INDEX \S+ \(id=\?\)/),
  ]);
});
