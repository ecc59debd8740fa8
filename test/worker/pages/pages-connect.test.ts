/** Connect (spec §4): the set-up of a sender, for managers with their keys, for members without (§5.6). */
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { controlDatabase } from "../../../src/control/database.ts";
import { listActiveKeys, listKeys, rotatedWith } from "../../../src/control/api-keys.ts";
import { rotateKey } from "../../../src/control/new-keys.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { recordD1 } from "../../support/statements.ts";
import { until } from "../../support/until.ts";
import { operator, type TestKey } from "../../support/workspace.ts";

const SIGNAL = { email: "jane@example.com", event: "Filled Out Form" };

function newKey({ workspace }: Members, body: Record<string, unknown>): Promise<TestKey & { masked_key: string }> {
  return operator("POST", `/workspaces/${workspace.id}/keys`, body);
}

describe("managers who connect a sender", () => {
  test("without a key are asked to create one first", async () => {
    const { owner, home } = await newMembers({ key: null });
    const html = await owner.see(`${home}/connect`);
    expect(textOf(html)).toContain("Create an API key first");
    expect(readHtml(html).targets).toContain(`${home}/settings/api-keys/new`);
  });

  test("see every setting of a signal key's senders, with a placeholder for the key", async () => {
    const members = await newMembers({ key: null });
    const { id, key, masked_key } = await newKey(members, { name: "Campaigns" });
    const html = await members.admin.see(`${members.home}/connect?key=${id}`);
    for (const text of [
      "Request Type",
      "Request Token Encoding",
      "Response Type",
      "https://signals.example/api/signal-staging/webhook/YOUR_API_KEY",
      '"email": {{lead.Email Address}}',
      '"event": "Registered - Spring Webinar"',
      '"company": {{company.Company Name}}',
      "Content-Type",
      "curl -X POST 'https://signals.example/api/signal-staging/webhook/YOUR_API_KEY'",
      "await fetch(",
      masked_key,
      "It was shown once, right after it was created.",
      "None needed: the key has no secret",
    ]) {
      expect(textOf(html)).toContain(text);
    }
    expect(html).not.toContain(key);
    expect(html).not.toContain("X-Api-Secret");
  });

  test("see the header of a key with a secret", async () => {
    const members = await newMembers({ key: null });
    const { secret = "-" } = await newKey(members, { name: "CRM", secret: true });
    const html = await members.owner.see(`${members.home}/connect`);
    expect(textOf(html)).toContain("X-Api-Secret: YOUR_SHARED_SECRET");
    expect(textOf(html)).toContain("-H 'X-Api-Secret: YOUR_SHARED_SECRET'");
    expect(html).not.toContain(secret);
  });

  test("build the event from a member status and a program name", async () => {
    const members = await newMembers({ key: null });
    await newKey(members, { name: "Campaigns" });
    const query = new URLSearchParams({ status: "Attended", program: '<b>"Demo" day' });
    const html = await members.owner.see(`${members.home}/connect?${query.toString()}`);
    expect(textOf(html)).toContain(String.raw`"event": "Attended - <b>\"Demo\" day"`);
  });

  test("see the example of a product org key, which the endpoint accepts unchanged", async () => {
    const members = await newMembers({ key: null });
    const template = [
      { target: "external_id", path: "company.id", type: "string" },
      { target: "user_count", path: "seats", type: "number", required: true },
    ];
    const { key } = await newKey(members, {
      name: "Accounts",
      endpoint_type: "product_org",
      payload_template: template,
    });
    const page = await members.owner.read(`${members.home}/connect`);
    expect(page.text).toContain("https://signals.example/api/product-orgs/webhook/YOUR_API_KEY");
    expect(page.text).toContain("Waiting for the first account update");
    const body = page.only("#accounts-body").verbatim;
    expect(JSON.parse(body)).toEqual({ seats: 25, company: { id: "acme-42" } });
    const answer = await members.workspace.send(body, { key, path: "/api/product-orgs/webhook/{key}" });
    expect(answer.status).toBe(202);
  });

  test("wait for the first signal in a line that refreshes until one arrives", async () => {
    const members = await newMembers({ key: null });
    const [otherKey, { id, key }] = [await newKey(members, { name: "Other" }), await newKey(members, { name: "New" })];
    const path = `${members.home}/connect?key=${id}`;
    await members.workspace.send(SIGNAL, { key: otherKey.key });
    const line = async () => (await members.owner.read(path)).only("#first-signal");
    const before = await line();
    expect(before.attribute("data-refresh")).toBe("3000");
    expect(before.text).toContain("Waiting for the first signal");
    await members.workspace.send(SIGNAL, { key });
    const after = await line();
    expect([after.attribute("class"), after.attribute("data-refresh")]).toEqual(["notice good", undefined]);
  });

  test("see how many calls were refused, and why, until one is accepted", async () => {
    const members = await newMembers({ key: null });
    const { id, key, secret = "" } = await newKey(members, { name: "CRM", secret: true });
    const path = `${members.home}/connect?key=${id}`;
    const line = async () => (await members.owner.read(path)).only("#first-signal");
    const lineText = async () => (await line()).text;
    const send = (body: unknown, headers: Record<string, string>) => members.workspace.send(body, { key, headers });
    const right = { "x-api-secret": secret };
    for (let n = 0; n < 3; n++) await send(SIGNAL, { "x-api-secret": "wrong" });
    await until(async () =>
      expect(await lineText()).toContain(
        "3 calls came, all refused: The secret in the X-Api-Secret header is not the key's The last one came",
      ),
    );
    await send("{ broken", right);
    expect(await lineText()).toMatch(
      /4 calls came, all refused: Not JSON; The secret in|4 calls came, all refused: The s/,
    );
    const refused = await line();
    expect(refused.targets).toContain(`${members.home}/rejections?key=${id}`);
    expect([refused.attribute("data-refresh"), refused.attribute("class")]).toEqual(["3000", "notice warn"]);
    await send(SIGNAL, right);
    expect(await lineText()).toContain("Connected: the last call that was accepted came just now");
    expect(await lineText()).not.toContain("refused");
    await new Promise((resolve) => setTimeout(resolve, 2));
    await send("{ broken", right);
    expect(await lineText()).toContain("Calls after it were refused: Not JSON. See Rejections.");
  });

  test("see active keys only and choose among them", async () => {
    const members = await newMembers({ key: null });
    const [ended, , kept] = [
      await newKey(members, { name: "Ended one" }),
      await newKey(members, { name: "Kept <b>one</b>" }),
      await newKey(members, { name: "Newest one" }),
    ];
    await operator("POST", `/workspaces/${members.workspace.id}/keys/${ended.id}/deactivate`);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    await newKey(members, { name: "Expired one", expires_at });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.parse(expires_at) });
    try {
      const html = await members.owner.see(`${members.home}/connect`);
      const chosen = readHtml(html).only("main").only('a[aria-current="true"]');
      expect(chosen.target).toBe(`${members.home}/connect?key=${kept.id}`);
      expect(chosen.text).toContain("Newest one");
      expect(textOf(html)).toContain("Kept <b>one");
      expect(html).not.toContain("Ended one");
      expect(html).not.toContain("Expired one");
      const ofEnded = await members.owner.get(`${members.home}/connect?key=${ended.id}`);
      expect(ofEnded.status).toBe(303);
    } finally {
      vi.useRealTimers();
    }
  });

  test("find no key of another workspace", async () => {
    const [members, otherTeam] = [await newMembers({ key: null }), await newMembers({ key: null })];
    const { id } = await newKey(otherTeam, { name: "theirs" });
    const answer = await members.owner.get(`${members.home}/connect?key=${id}`);
    expect(answer.status).toBe(404);
    expect(await answer.text()).not.toContain("theirs");
  });
});

test("members who connect a sender see the steps and whom to ask, but no key", async () => {
  const members = await newMembers({ name: "Initech", key: null });
  const { id, masked_key } = await newKey(members, { name: "Private name", secret: true });
  const html = await members.member.see(`${members.home}/connect?key=${id}`);
  for (const text of [
    "Ask an owner or admin of Initech",
    "Request Token Encoding",
    "YOUR_API_KEY",
    "product-orgs/webhook",
  ]) {
    expect(textOf(html)).toContain(text);
  }
  for (const text of ["Private name", masked_key, id, "settings/api-keys", "Waiting for"])
    expect(html).not.toContain(text);
});

test("a stranger cannot open the Connect page", async () => {
  const members = await newMembers({ key: null });
  expect((await members.stranger.get(`${members.home}/connect`)).status).toBe(404);
});

test("the lists' queries read their workspace's keys by an index", async () => {
  const { workspace } = await newMembers();
  const { d1, plans } = recordD1(env.DB);
  const db = controlDatabase(d1);
  const by = { actor: "jane@example.com", nowMs: Date.now() };
  const { items } = await listKeys(db, workspace.id, { cursor: null, limit: 25 });
  expect(items).toHaveLength(1);
  await listActiveKeys(db, workspace.id, by.nowMs, { cursor: "key_x", limit: 25 });
  await rotatedWith(db, workspace.id, items);
  await rotateKey(workspace.context({ db, by }), { keyId: workspace.key.id, overlapMs: 0, formToken: "form" });
  const read = (await plans()).filter(({ detail }) => detail.includes("api_keys"));
  expect(read.filter(({ detail }) => !/^SEARCH api_keys (EXISTS )?USING /.test(detail))).toEqual([]);
  const used = read.map(({ detail }) => detail).join("; ");
  for (const index of ["api_keys_form", "api_keys_successor", "api_keys_workspace"]) expect(used).toContain(index);
  const active = (await plans()).filter(
    ({ query }) => query.includes('"deactivated_at" is null') && query.includes("limit"),
  );
  expect(active.map(({ detail }) => detail)).toEqual([expect.stringContaining("USING INDEX api_keys_workspace")]);
});
