/** A key with a signal template takes the webhooks of senders that cannot change them (spec §2.2, §4). */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../../src/domain/duration.ts";
import {
  KEY_TEMPLATE_VERSIONS,
  TEMPLATE_VERSION_NEEDED_DAYS,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../../../src/limits.ts";
import { lookUpKey } from "../../../src/ingest/authenticate.ts";
import { TestCounter } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { newPlan, newWorkspace, type BatchAnswer, type TestWorkspace } from "../../support/workspace.ts";

const TEMPLATE = [
  { target: "event", path: "trigger" },
  { target: "email", path: "contact.mail" },
  { target: "id", text: "{trigger}:{message}" },
];
const visit = (n: number, more: object = {}) => ({
  trigger: "form.filled",
  message: `m-${n}`,
  contact: { mail: `Person ${n} <p${n}@example.com>` },
  ...more,
});

const withTemplate = (template: unknown = TEMPLATE, more: Parameters<typeof newWorkspace>[0] = {}) =>
  newWorkspace({ ...more, key: { payload_template: template } });

interface Trace {
  status: string;
  event: string | null;
  source: string | null;
  email: string | null;
  dead_reason: string | null;
}
const traceOf = (workspace: TestWorkspace, id: string) => workspace.operator<Trace>("GET", `/signals/${id}`);
const change = (workspace: TestWorkspace, template: unknown, key = workspace.key) =>
  workspace.operator<{ payload_template: unknown }>("PUT", `/keys/${key.id}/template`, { payload_template: template });

async function sent(workspace: TestWorkspace, body: unknown, options: Parameters<TestWorkspace["send"]>[1] = {}) {
  const answer = await workspace.send(body, options);
  expect(answer.status).toBe(202);
  return (await answer.json<{ id: string }>()).id;
}

describe("a signal for a template", () => {
  test("gets event and person from the paths of the template", async () => {
    const workspace = await withTemplate();
    const id = await sent(workspace, visit(1), { path: "/api/signal-staging/webhook/crm/{key}" });
    await workspace.settled();
    const expected = { status: "processed", event: "form.filled", source: "crm", email: "p1@example.com" };
    expect(await traceOf(workspace, id)).toMatchObject(expected);
    expect(await workspace.list("/people")).toMatchObject([{ email: "p1@example.com" }]);
  });

  test("is rejected without an event, with the paths that were tried", async () => {
    const workspace = await withTemplate();
    const answer = await workspace.send({ contact: { mail: "p1@example.com" }, event: "not read", type: "form" });
    expect([answer.status, await answer.json()]).toMatchObject([
      422,
      { code: "event_missing", detail: expect.stringContaining("`trigger`") },
    ]);
  });

  test("is no duplicate of another event of the same id, but of the same event, also of the key's successor", async () => {
    const workspace = await withTemplate([...TEMPLATE.slice(0, 2), { target: "id", path: "message" }]);
    await sent(workspace, visit(1));
    await sent(workspace, visit(1, { trigger: "form.opened" }));
    await sent(workspace, visit(1, { attempt: 2 }));
    const successor = await workspace.operator<{ key: string }>("POST", `/keys/${workspace.key.id}/rotate`, {
      overlap: "1h",
    });
    await sent(workspace, visit(1, { attempt: 3 }), { key: successor.key });
    expect(await workspace.settled()).toMatchObject({ accepted: 4, processed: 2, duplicates: 2, balanced: true });
  });

  test("of a CDP ignores the template", async () => {
    const workspace = await withTemplate();
    const call = { type: "track", event: "Bought", messageId: "m-1", anonymousId: "visitor-1", trigger: "wrong" };
    const id = await sent(workspace, call);
    await workspace.settled();
    expect(await traceOf(workspace, id)).toMatchObject({ event: "Bought", source: "segment", status: "anonymous" });
  });

  test("reads its headers and what stands around the items, in each item", async () => {
    const workspace = await withTemplate([
      { target: "items", path: "rows.*" },
      { target: "event", text: "{@header.x-topic}:{@body.action}" },
      { target: "email", path: "mail" },
      { target: "user_id", text: "crm:{@key}" },
    ]);
    const body = { action: "saved é", rows: { one: { mail: "p1@example.com" }, two: { mail: "p2@example.com" } } };
    const answer = await workspace.send(body, { headers: { "x-topic": "contact" } });
    const { results } = await answer.json<BatchAnswer>();
    expect([answer.status, results.length]).toEqual([202, 2]);
    await workspace.settled();
    const traces = await Promise.all(results.map(({ id = "" }) => traceOf(workspace, id)));
    expect(traces).toMatchObject([
      { event: "contact:saved é", email: "p1@example.com", user_id: "crm:one", payload: { mail: "p1@example.com" } },
      { event: "contact:saved é", email: "p2@example.com", user_id: "crm:two" },
    ]);
  });

  test.each([
    ["of a key without items", TEMPLATE, []],
    ["of items", [{ target: "items", path: "rows" }, ...TEMPLATE], { rows: [] }],
  ])("may be missing: an empty list %s counts nothing", async (_, template, body) => {
    const workspace = await withTemplate(template);
    const answer = await workspace.send(body);
    expect([answer.status, await answer.json()]).toMatchObject([202, { status: "accepted", results: [] }]);
    expect(await workspace.settled()).toMatchObject({ accepted: 0, balanced: true });
    await workspace.deactivate();
    expect((await workspace.send(body)).status).toBe(401);
  });

  test.each([
    ["alone", TEMPLATE, "trigger=form.filled&message=m-1&contact[mail]=p1%40example.com\n"],
    [
      "with items in a text of JSON",
      [{ target: "items", path: "events" }, ...TEMPLATE],
      `events=${encodeURIComponent(JSON.stringify([visit(1)]))}`,
    ],
  ])("may be form-encoded: %s", async (_, template, body) => {
    const workspace = await withTemplate(template);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    expect((await workspace.send(body, { headers })).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ processed: 1, balanced: true });
    const [found] = await workspace.list<{ id: string }>("/signals");
    const expected = { event: "form.filled", email: "p1@example.com", payload: { contact: {} } };
    expect(await traceOf(workspace, found?.id ?? "")).toMatchObject(expected);
    const plain = await workspace.newKey();
    expect((await workspace.send(body, { key: plain.key })).status).toBe(400);
  });

  test.each([
    ["that is a form of too many fields", "a=1&".repeat(1_001), 413, "signal_too_large"],
    ["that is a form of another encoding", "a=%ff", 400, "signal_not_utf8"],
    ["that is a form of other bytes", new Uint8Array([0x61, 0x3d, 0xff]), 400, "signal_not_utf8"],
    ["that is no JSON", "{", 400, "body_not_json"],
    ["that is empty", " ", 400, "body_empty"],
    ["that is too deep", `{"rows":${"[".repeat(70)}${"]".repeat(70)}}`, 422, "signal_too_deep"],
    ["that is not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), 400, "signal_not_utf8"],
    ["that is a form of a mebibyte", "a=".padEnd(1024 * 1024, "x"), 413, "body_too_large"],
    ["of more than a mebibyte", JSON.stringify({ rows: ["x".repeat(1024 * 1024)] }), 413, "body_too_large"],
    [
      "with much around many items",
      JSON.stringify({ a: "x".repeat(400), rows: Array.from({ length: 8_000 }, () => ({})) }),
      413,
      "batch_too_long",
    ],
    ["with an item that is too large", JSON.stringify({ rows: [{ a: "x".repeat(70_000) }] }), 413, "signal_too_large"],
  ])("of a body %s is rejected", async (_, body, status, code) => {
    const workspace = await withTemplate([{ target: "items", path: "rows" }, ...TEMPLATE]);
    const answer = await workspace.send(body);
    expect([answer.status, (await answer.json<{ code: string }>()).code]).toEqual([status, code]);
  });
});

describe("a changed template", () => {
  const RENAMED = [{ target: "event", text: "new {trigger}" }, ...TEMPLATE.slice(1)];

  test("holds for calls after the cache of the edge, and never for signals that were admitted before", async () => {
    const workspace = await withTemplate(TEMPLATE, { signalLimit: 2 });
    await sent(workspace, visit(1));
    await sent(workspace, visit(0));
    const held = await sent(workspace, visit(2));
    await workspace.settled();
    expect((await change(workspace, RENAMED)).payload_template).toMatchObject(RENAMED);
    const cached = await sent(workspace, visit(3));
    await lookUpKey(env.DB, workspace.key.key, Date.now(), createExecutionContext());
    await workspace.operator("PATCH", "", { plan: await newPlan(10) });
    const after = await sent(workspace, visit(4));
    await workspace.operator("POST", "/held/release");
    await workspace.settled();
    expect(await traceOf(workspace, held)).toMatchObject({ event: "form.filled", email: "p2@example.com" });
    expect(await traceOf(workspace, cached)).toMatchObject({ event: "form.filled" });
    expect(await traceOf(workspace, after)).toMatchObject({ event: "new form.filled" });
  });

  test("is shared with the key's successor, in the audit log, and no version if nothing changes", async () => {
    const workspace = await withTemplate();
    const successor = await workspace.operator<{ id: string; key: string }>(
      "POST",
      `/keys/${workspace.key.id}/rotate`,
      {
        overlap: "1h",
      },
    );
    await change(workspace, RENAMED, successor);
    await change(workspace, RENAMED);
    const keys = await workspace.list<{ payload_template: unknown }>("/keys");
    expect(keys.map((key) => key.payload_template)).toMatchObject([RENAMED, RENAMED]);
    const entry = { action: "key.template_changed", target: successor.id, detail: { version: 2 } };
    expect(await workspace.audit("key.template")).toEqual([entry]);
  });

  test("replaces the oldest of the kept versions, and comes first among concurrent changes", async () => {
    const workspace = await withTemplate();
    const numbers = Array.from({ length: KEY_TEMPLATE_VERSIONS + 2 }, (_, n) => n);
    for (const n of numbers) await change(workspace, [{ target: "event", text: `v${n}` }]);
    await Promise.all([1, 2, 3].map((n) => change(workspace, [{ target: "event", text: `concurrent ${n}` }])));
    const { results } = await env.DB.prepare("SELECT version FROM payload_templates WHERE id = ? ORDER BY version")
      .bind(workspace.key.id)
      .all<{ version: number }>();
    expect(results.map(({ version }) => version)).toEqual(
      Array.from({ length: KEY_TEMPLATE_VERSIONS }, (_, n) => n + 7),
    );
  });

  test("is a 409 in a workspace without room, unless versions that no signal needs any more can go first", async () => {
    const workspace = await withTemplate();
    const big = JSON.stringify([{ target: "event", text: "x".repeat(WORKSPACE_TEMPLATES_MAX_BYTES / 3) }]);
    const replaced = (daysAgo: number) => new Date(Date.now() - daysAgo * DAY_MS).toISOString();
    const insert = env.DB.prepare(
      "INSERT INTO payload_templates (id, workspace_id, template, version, replaced_at) VALUES ('key_x', ?, ?, ?, ?)",
    );
    for (const version of [1, 2, 3]) {
      await insert.bind(workspace.id, big, version, replaced(TEMPLATE_VERSION_NEEDED_DAYS - 1)).run();
    }
    const rejected = await workspace.ask("PUT", `/keys/${workspace.key.id}/template`, { payload_template: RENAMED });
    expect(rejected).toMatchObject({ status: 409, body: { code: "templates_too_large" } });
    await env.DB.prepare(
      "UPDATE payload_templates SET replaced_at = ? WHERE workspace_id = ? AND id = 'key_x' AND version < 3",
    )
      .bind(replaced(TEMPLATE_VERSION_NEEDED_DAYS + 1), workspace.id)
      .run();
    await change(workspace, RENAMED);
    const { results } = await env.DB.prepare(
      "SELECT id, version, replaced_at IS NULL AS newest FROM payload_templates WHERE workspace_id = ? ORDER BY id <> 'key_x', version",
    )
      .bind(workspace.id)
      .all();
    expect(results).toEqual([
      { id: "key_x", version: 3, newest: 0 },
      { id: workspace.key.id, version: 1, newest: 0 },
      { id: workspace.key.id, version: 2, newest: 1 },
    ]);
  });

  test.each([
    ["a signal key", {}, [{ target: "event", path: "@header.cookie" }], "payload_template.0.path"],
    ["a signal key", {}, [{ target: "external_id", path: "a", type: "string" }], "payload_template.0"],
    [
      "an account key",
      { endpoint_type: "product_org", payload_template: [{ target: "external_id", path: "id", type: "string" }] },
      TEMPLATE,
      "payload_template.0",
    ],
  ])("of %s is rejected if it is wrong, by its place", async (_, key, template, path) => {
    const workspace = await newWorkspace({ key });
    const answer = await workspace.ask("PUT", `/keys/${workspace.key.id}/template`, { payload_template: template });
    expect(answer).toMatchObject({ status: 422 });
    expect(JSON.stringify(answer.body)).toContain(path);
    expect((await workspace.ask("PUT", "/keys/key_unknown/template", { payload_template: TEMPLATE })).status).toBe(404);
  });

  test("gives a key its first template, also an account key its second", async () => {
    const workspace = await newWorkspace({
      key: { endpoint_type: "product_org", payload_template: [{ target: "external_id", path: "id", type: "string" }] },
    });
    await change(workspace, [{ target: "external_id", path: "org.id", type: "string" }]);
    const plain = await workspace.newKey();
    await change(workspace, TEMPLATE, plain);
    await sent(workspace, visit(1), { key: plain.key });
    await sent(workspace, { org: { id: "acme" } }, { path: "/api/product-orgs/webhook/{key}" });
    expect(await workspace.settled()).toMatchObject({ processed: 2, dead_lettered: 0 });
    expect(await workspace.list("/accounts")).toMatchObject([{ external_id: "acme" }]);
  });
});

describe("a dead letter", () => {
  test("is replayed with the newest version, and has the newest reason if it does not fit again", async () => {
    const workspace = await withTemplate();
    const giveUp = { attempts: 1, queue: "signals-dlq" };
    await new TestCounter(workspace.id).sendTo((messages) =>
      consumeMessages(
        messages.map(({ body }) => body),
        giveUp,
      ),
    );
    const id = await sent(workspace, visit(1));
    await workspace.settled();
    await new TestCounter(workspace.id).sendTo((messages) => consumeMessages(messages.map(({ body }) => body)));
    const replay = async () => {
      await workspace.operator("POST", "/dead-letters/replay", {});
      return workspace.settled();
    };
    await change(workspace, [{ target: "event", path: "missing" }]);
    expect(await replay()).toMatchObject({ accepted: 1, dead_lettered: 1, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({
      status: "dead",
      dead_reason: expect.stringContaining("`missing`"),
    });
    await change(workspace, [{ target: "event", path: "message" }, ...TEMPLATE.slice(1)]);
    expect(await replay()).toMatchObject({ accepted: 1, processed: 1, dead_lettered: 0, balanced: true });
    expect(await traceOf(workspace, id)).toMatchObject({ status: "processed", event: "m-1", email: "p1@example.com" });
  });
});
