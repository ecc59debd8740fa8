/** Limits on what a workspace stores in D1, which all workspaces share: API keys, templates, members, audit details. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { auditEntry } from "../../../src/d1/audit.ts";
import { controlDatabase } from "../../../src/d1/database.ts";
import { createKey, rotateKey, type NewKey } from "../../../src/d1/new-keys.ts";
import {
  AUDIT_DETAIL_MAX_BYTES,
  TEMPLATE_KEPT_DAYS,
  TEMPLATE_MAX_BYTES,
  WORKSPACE_MAX_ACTIVE_KEYS,
  WORKSPACE_MAX_KEYS_A_DAY,
  WORKSPACE_MAX_MEMBERS,
  WORKSPACE_TEMPLATES_MAX_BYTES,
} from "../../../src/limits.ts";
import { newId } from "../../../src/platform/ids.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const DAY_MS = 24 * 3_600_000;
const KEY: NewKey = {
  name: "CRM",
  endpointType: "signal_staging",
  expiresAt: null,
  secret: false,
  payloadTemplate: null,
};
const db = controlDatabase(env.DB);

let workspace: TestWorkspace;
beforeEach(async () => {
  workspace = await newWorkspace({ key: null });
});

const by = (nowMs = Date.now()) => ({ actor: "jane@example.com", nowMs });
const iso = (ms: number) => new Date(ms).toISOString();

interface Seed {
  /** Creation time of the keys; by default a week ago. */
  madeMs?: number;
  deactivatedAt?: string;
  expiresAt?: string;
  overlapEndsAt?: string;
  template?: string;
}

/** Stores keys with an earlier creation time. Returns their ids. */
async function seedKeys(count: number, seed: Seed = {}): Promise<string[]> {
  const { madeMs = Date.now() - 7 * DAY_MS, deactivatedAt, expiresAt, overlapEndsAt, template } = seed;
  const optional = [deactivatedAt, expiresAt, overlapEndsAt, template].map((value) => value ?? null);
  const ids = Array.from({ length: count }, () => newId("key", madeMs));
  await env.DB.prepare(
    `INSERT INTO api_keys (id, first_key_id, workspace_id, name, endpoint_type, key_hash, key_first8, key_last4, created_at,
       deactivated_at, expires_at, overlap_ends_at, template_id)
     SELECT value, value, ?1, 'Old', iif(?6 IS NULL, 'signal_staging', 'product_org'), value, 'sk_aaaaa', 'aaaa', ?2, ?3, ?4, ?5, iif(?6 IS NULL, NULL, value)
     FROM json_each(?7)`,
  )
    .bind(workspace.id, iso(madeMs), ...optional, JSON.stringify(ids))
    .run();
  if (template !== undefined) {
    await env.DB.prepare(
      "INSERT INTO payload_templates (id, workspace_id, template, version) SELECT value, ?, ?, 1 FROM json_each(?)",
    )
      .bind(workspace.id, template, JSON.stringify(ids))
      .run();
  }
  return ids;
}

const create = () => workspace.ask("POST", "/keys", { name: "CRM" });
const rotate = (id: string, overlap = "24h") => workspace.ask("POST", `/keys/${id}/rotate`, { overlap });
const statusesOf = (answers: { status: number }[]) => answers.map(({ status }) => status).sort();
const count = async (sql: string) => (await env.DB.prepare(sql).bind(workspace.id).first<number>("n")) ?? 0;
const keyCount = () => count("SELECT count(*) AS n FROM api_keys WHERE workspace_id = ?");
const auditCount = async (action: string) => (await workspace.audit(action)).length;

/** The answer 409 with this code and detail. */
const conflict = (code: string, detail: unknown = expect.any(String)) => ({ status: 409, body: { code, detail } });
const TOO_MANY = conflict(
  "too_many_keys",
  "This workspace has reached its limit of 100 active API keys. Deactivate a key that is no longer used.",
);

describe("active API keys", () => {
  test("are limited; deactivated, expired and replaced keys do not count", async () => {
    const past = iso(Date.now() - 1);
    await seedKeys(WORKSPACE_MAX_ACTIVE_KEYS - 3);
    await seedKeys(1, { expiresAt: iso(Date.now() + DAY_MS), overlapEndsAt: iso(Date.now() + 2 * DAY_MS) });
    const tomorrow = iso(Date.now() + DAY_MS);
    const ended: Seed[] = [{ deactivatedAt: past }, { expiresAt: past }, { overlapEndsAt: past }];
    ended.push({ expiresAt: past, overlapEndsAt: tomorrow }, { expiresAt: tomorrow, overlapEndsAt: past });
    for (const seed of ended) await seedKeys(20, seed);

    const made = [await create(), await create()];
    expect(statusesOf(made)).toEqual([201, 201]);
    expect(await create()).toMatchObject(TOO_MANY);
    await workspace.operator("POST", `/keys/${String(made[0]?.body["id"])}/deactivate`);
    expect((await create()).status).toBe(201);
    expect(await create()).toMatchObject(TOO_MANY);
  });

  test("are limited for concurrent calls too, and rejected calls leave no audit entry", async () => {
    await seedKeys(WORKSPACE_MAX_ACTIVE_KEYS - 3);
    const answers = await Promise.all(Array.from({ length: 20 }, create));
    expect(statusesOf(answers)).toEqual([...Array<number>(3).fill(201), ...Array<number>(17).fill(409)]);
    expect(await keyCount()).toBe(WORKSPACE_MAX_ACTIVE_KEYS);
    expect(await auditCount("key.created")).toBe(3);
  });

  test("do not prevent a repeated form from finding the key that it created", async () => {
    await seedKeys(WORKSPACE_MAX_ACTIVE_KEYS - 1);
    const form = () => createKey(workspace.context(), KEY, "token");
    const made = await form();
    if (!made.ok) throw new Error(made.rejection.reason);
    expect(await form()).toEqual({ ok: false, rejection: { reason: "made_before", key: made.value.record } });
    const rejected = { ok: false, rejection: { reason: "too_many_keys" } };
    expect(await createKey(workspace.context(), KEY, "other")).toEqual(rejected);
  });

  test("can always be replaced at the limit, but not again while the successor is active", async () => {
    const [first = "", second = "", third = ""] = await seedKeys(WORKSPACE_MAX_ACTIVE_KEYS);
    const successor = await rotate(first, "none");
    expect(successor.status).toBe(201);
    expect((await rotate(String(successor.body["id"]), "none")).status).toBe(201);
    expect((await rotate(second, "7d")).status).toBe(201);
    expect(await rotate(second)).toMatchObject(TOO_MANY);
    expect(await create()).toMatchObject(TOO_MANY);
    const { items } = await workspace.operator<{ items: { id: string; successor_of: string }[] }>("GET", "/keys");
    const active = items.find((key) => key.successor_of === second);
    await workspace.operator("POST", `/keys/${active?.id}/deactivate`);
    expect((await rotate(second)).status).toBe(201);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => rotate(third, n % 2 === 0 ? "none" : "1h")));
    expect(statusesOf(answers)).toEqual([201, ...Array<number>(19).fill(409)]);
    expect(await auditCount("key.rotated")).toBe(5);
  });

  test("can be rotated again below the limit while they have a successor", async () => {
    const [id = ""] = await seedKeys(WORKSPACE_MAX_ACTIVE_KEYS - 2);
    expect(statusesOf([await rotate(id), await rotate(id), await rotate(id)])).toEqual([201, 201, 409]);
  });
});

describe("API keys created in 24 hours", () => {
  const deactivatedAt = iso(Date.now());
  const A_DAY = conflict("too_many_keys_a_day", expect.stringContaining("100 new API keys"));

  test("are limited; replaced and ended keys count too", async () => {
    const nowMs = Date.now();
    await seedKeys(WORKSPACE_MAX_KEYS_A_DAY - 3, { madeMs: nowMs - DAY_MS + 60_000, deactivatedAt });
    await seedKeys(50, { madeMs: nowMs - DAY_MS - 1, deactivatedAt });
    const { status, body } = await create();
    expect(status).toBe(201);
    const rotateFirst = () => rotate(String(body["id"]));
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? create() : rotateFirst())));
    expect(statusesOf(answers)).toEqual([201, 201, ...Array<number>(18).fill(409)]);
    expect(await create()).toMatchObject(A_DAY);
    expect(await rotateFirst()).toMatchObject(A_DAY);
    expect((await auditCount("key.created")) + (await auditCount("key.rotated"))).toBe(3);
  });

  test("are counted to the millisecond", async () => {
    const madeMs = Date.now();
    await seedKeys(WORKSPACE_MAX_KEYS_A_DAY, { madeMs, deactivatedAt });
    const createAt = (nowMs: number) => createKey(workspace.context({ by: by(nowMs) }), KEY);
    const rejected = { ok: false, rejection: { reason: "too_many_keys_a_day" } };
    expect(await createAt(madeMs + DAY_MS)).toEqual(rejected);
    expect(await createAt(madeMs + DAY_MS + 1)).toMatchObject({ ok: true });
  });
});

describe("payload templates", () => {
  const TEMPLATE: NonNullable<NewKey["payloadTemplate"]> = [
    { target: "external_id", path: "id", type: "string", required: true },
  ];
  const ACCOUNTS: NewKey = { ...KEY, endpointType: "product_org", payloadTemplate: TEMPLATE };
  const BYTES = JSON.stringify(TEMPLATE).length;
  const TOO_LARGE = { ok: false, rejection: { reason: "templates_too_large" } };
  const createWith = (key: NewKey, nowMs?: number) => createKey(workspace.context({ by: by(nowMs) }), key);
  /** Stores a template of the given length in bytes, made of two-byte characters. */
  const seedTemplate = (bytes: number, seed: Seed) =>
    seedKeys(1, { ...seed, template: JSON.stringify("é".repeat((bytes - 2) / 2)) });
  const templates = () => count("SELECT count(*) AS n FROM payload_templates WHERE workspace_id = ?");

  test("have a limit on their total bytes, including those of ended keys", async () => {
    const room = 2 * BYTES;
    await seedTemplate(WORKSPACE_TEMPLATES_MAX_BYTES / 2, {});
    await seedTemplate(WORKSPACE_TEMPLATES_MAX_BYTES / 2 - room, { deactivatedAt: iso(Date.now()) });
    expect(await createWith(ACCOUNTS)).toMatchObject({ ok: true });
    expect(await createWith({ ...ACCOUNTS, payloadTemplate: [...TEMPLATE, ...TEMPLATE] })).toEqual(TOO_LARGE);
    const concurrent = await Promise.all(Array.from({ length: 20 }, () => createWith(ACCOUNTS)));
    expect(concurrent.filter(({ ok }) => ok)).toHaveLength(1);
    const asked = { name: "CRM", endpoint_type: "product_org", payload_template: TEMPLATE };
    const rejected = conflict("templates_too_large", expect.stringContaining("4 MiB"));
    expect(await workspace.ask("POST", "/keys", asked)).toMatchObject(rejected);
    expect(await createKey(workspace.context(), ACCOUNTS, "token")).toEqual(TOO_LARGE);
    expect(await createWith(KEY)).toMatchObject({ ok: true });
    expect(await auditCount("key.created")).toBe(3);
  });

  test("are shared by successors, so that a leaked key can be rotated however full the share is", async () => {
    const [leaked = ""] = await seedTemplate(WORKSPACE_TEMPLATES_MAX_BYTES, {});
    const nowMs = Date.now();
    let keyId = leaked;
    for (let rotations = 0; rotations < 40; rotations++) {
      const context = workspace.context({ by: by(nowMs + rotations * DAY_MS) });
      const rotated = await rotateKey(context, { keyId, overlapMs: 3_600_000, formToken: null });
      if (!rotated.ok) throw new Error(rotated.rejection.reason);
      expect(rotated.value.record.payloadTemplate).not.toBeNull();
      keyId = rotated.value.record.id;
    }
    expect(await templates()).toBe(1);
    // The first key ended long ago; its successor's signals still need the template.
    const laterMs = nowMs + 4 * TEMPLATE_KEPT_DAYS * DAY_MS;
    expect(await createWith(KEY, laterMs)).toMatchObject({ ok: true });
    expect(await templates()).toBe(1);
    await env.DB.prepare("UPDATE api_keys SET deactivated_at = ? WHERE id = ?").bind(iso(nowMs), keyId).run();
    expect(await createWith(KEY, laterMs)).toMatchObject({ ok: true });
    expect(await templates()).toBe(0);
  });

  test.each(["deactivatedAt", "expiresAt", "overlapEndsAt"] as const)(
    "are dropped with the next key when their own ended long ago: %s",
    async (end) => {
      const nowMs = Date.now();
      const keptMs = TEMPLATE_KEPT_DAYS * DAY_MS;
      await seedTemplate(WORKSPACE_TEMPLATES_MAX_BYTES, { [end]: iso(nowMs) });
      expect(await createWith(ACCOUNTS, nowMs + keptMs)).toEqual(TOO_LARGE);
      expect(await templates()).toBe(1);
      expect(await createWith(ACCOUNTS, nowMs + keptMs + 1)).toMatchObject({ ok: true });
      expect(await templates()).toBe(1);
      expect(await keyCount()).toBe(2);
    },
  );

  test("are kept while their keys are active, however old, and in other workspaces", async () => {
    const nowMs = Date.now();
    const otherWorkspace = workspace;
    await seedTemplate(1_000, { deactivatedAt: iso(nowMs - 2 * TEMPLATE_KEPT_DAYS * DAY_MS) });
    workspace = await newWorkspace({ key: null });
    const laterMs = nowMs + 10 * TEMPLATE_KEPT_DAYS * DAY_MS;
    await seedTemplate(1_000, {});
    await seedTemplate(1_000, { expiresAt: iso(laterMs + 1), overlapEndsAt: iso(laterMs + 2) });
    expect(await createWith(ACCOUNTS, laterMs)).toMatchObject({ ok: true });
    expect(await templates()).toBe(3);
    workspace = otherWorkspace;
    expect(await templates()).toBe(1);
  });

  test("of ended keys map signals accepted earlier, until they are dropped", async () => {
    const accounts = await newWorkspace({
      signalLimit: 1,
      key: { endpoint_type: "product_org", payload_template: [{ target: "external_id", path: "id", type: "string" }] },
    });
    const path = "/api/product-orgs/webhook/{key}";
    for (const id of ["one", "two"]) expect((await accounts.send({ id }, { path })).status).toBe(202);
    expect(await accounts.settled()).toMatchObject({ processed: 1, held: 1 });
    await accounts.operator("POST", `/keys/${accounts.key.id}/deactivate`);
    await accounts.newKey({ endpoint_type: "product_org", payload_template: TEMPLATE });
    // Isolates cache templates; another isolate would read this one.
    const { items: keys } = await accounts.operator<{ items: { payload_template: unknown }[] }>("GET", "/keys");
    expect(keys.map((key) => key.payload_template)).toEqual([TEMPLATE, TEMPLATE]);
    await accounts.operator("PATCH", "", { overages: true });
    await accounts.operator("POST", "/held/release");
    expect(await accounts.settled()).toMatchObject({ processed: 2, held: 0, dead_lettered: 0, balanced: true });
    const { items } = await accounts.operator<{ items: { external_id: string }[] }>("GET", "/accounts");
    expect(items.map(({ external_id }) => external_id).sort()).toEqual(["one", "two"]);
  });

  test("can hold one hundred long mappings; more bytes are rejected with a 422", async () => {
    const templateOf = (path: string) =>
      Array.from({ length: 100 }, (_, n) => {
        const target = n === 0 ? "external_id" : `attributes.${"a".repeat(50)}${n}`;
        return { target, path, type: "string" };
      });
    const post = (payload_template: object) =>
      workspace.ask("POST", "/keys", { name: "CRM", endpoint_type: "product_org", payload_template });
    const long = templateOf("a.".repeat(127) + "a");
    expect(JSON.stringify(long).length).toBeLessThan(TEMPLATE_MAX_BYTES * 0.6);
    expect((await post(long)).status).toBe(201);
    expect(await post(templateOf("語".repeat(255)))).toMatchObject({
      status: 422,
      body: { errors: [{ path: "payload_template", message: "all mappings together have more than 65536 bytes" }] },
    });
  });
});

test("creating a key reads only the rows that count towards the limits, however many keys have ended", async () => {
  const past = iso(Date.now() - 1);
  await seedKeys(1_000, { deactivatedAt: past });
  await seedKeys(1_000, { expiresAt: past });
  await seedKeys(1_000, { overlapEndsAt: past });
  const [id = ""] = await seedKeys(20);
  let rows = 0;
  const counting = new Proxy(env.DB, {
    get: (target, name) =>
      name === "batch"
        ? async (statements: D1PreparedStatement[]) => {
            const results = await target.batch(statements);
            rows += results.reduce((sum, { meta }) => sum + meta.rows_read, 0);
            return results;
          }
        : (Reflect.get(target, name) as () => unknown).bind(target),
  });
  expect(await createKey(workspace.context({ db: controlDatabase(counting) }), KEY)).toMatchObject({ ok: true });
  expect(rows).toBeLessThan(150);
  rows = 0;
  const rotation = { keyId: id, overlapMs: 3_600_000, formToken: null };
  expect(await rotateKey(workspace.context({ db: controlDatabase(counting) }), rotation)).toMatchObject({ ok: true });
  expect(rows).toBeLessThan(150);
});

test("members are limited, for concurrent calls too", async () => {
  const add = (email: string) => workspace.ask("POST", "/members", { email, role: "member" });
  await env.DB.prepare(
    `INSERT INTO members (workspace_id, email, role, created_at)
       WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
       SELECT ?1, n || '@example.com', 'member', '2026' FROM numbers`,
  )
    .bind(workspace.id, WORKSPACE_MAX_MEMBERS - 3)
    .run();
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => add(`new-${n}@example.com`)));
  expect(statusesOf(answers)).toEqual([...Array<number>(3).fill(201), ...Array<number>(17).fill(409)]);
  expect(await auditCount("member.added")).toBe(3);
  const detail = "This workspace has 500 members, the most it may have. Remove one who no longer needs access.";
  expect(await add("late@example.com")).toMatchObject(conflict("too_many_members", detail));
  expect(await add("1@example.com")).toMatchObject(conflict("email_taken"));
  expect(await count("SELECT count(*) AS n FROM members WHERE workspace_id = ?")).toBe(WORKSPACE_MAX_MEMBERS);
  await workspace.operator("DELETE", "/members/1@example.com");
  expect((await add("late@example.com")).status).toBe(201);
});

test("an audit entry stores a short detail unchanged, cuts long values, and cuts many long values more", async () => {
  const detailOf = async (detail: object) => {
    const entry = { workspaceId: workspace.id, action: "rule.updated", target: "rule_1" } as const;
    await auditEntry(db, by(), { ...entry, detail: detail as Record<string, string> });
    return (await workspace.audit("rule.updated")).at(-1)?.detail;
  };

  const short = { name: "é".repeat(255), points: { from: 1, to: 2 }, list: [1, "a"] };
  expect(await detailOf(short)).toEqual(short);
  expect(await detailOf({ ...short, name: "x".repeat(1_001) })).toEqual({ ...short, name: `${"x".repeat(1_000)}…` });
  const long = "語".repeat(2_000);
  const fields = ["name", "event", "scoring_signal", "conditions"];
  const changes = Object.fromEntries(fields.map((field) => [field, { from: long, to: long }]));
  const stored = await detailOf({ name: long, version: 2, changes });
  expect(Buffer.byteLength(JSON.stringify(stored))).toBeLessThanOrEqual(AUDIT_DETAIL_MAX_BYTES);
  expect(stored).toMatchObject({ version: 2, changes: { event: { from: expect.stringMatching(/^語{50,}…$/) } } });
});
