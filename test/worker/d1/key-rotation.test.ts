/** Rotation (design §5): a successor with the same settings; the old key ends at the chosen time. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { controlDatabase, type ControlDatabase } from "../../../src/d1/database.ts";
import { rotateKey } from "../../../src/d1/new-keys.ts";
import { findKey } from "../../../src/d1/api-keys.ts";
import { KEY_CACHE_MS } from "../../../src/ingest/authenticate.ts";
import { rotateApiKey } from "../../../src/use-cases/manage-keys.ts";
import { admitCall } from "../../support/counter.ts";
import { call, newWorkspace, type Problem, type TestKey, type TestWorkspace } from "../../support/workspace.ts";

const HOUR_MS = 3_600_000;
const signal = { email: "jane@example.com", event: "Filled Out Form" };

interface ListedKey {
  id: string;
  status: string;
  expires_at: string | null;
  successor_of: string | null;
  last_used_at: string | null;
}

async function listed(workspace: TestWorkspace, id: string): Promise<ListedKey | undefined> {
  const { items } = await workspace.operator<{ items: ListedKey[] }>("GET", "/keys");
  return items.find((key) => key.id === id);
}

function rotate(
  workspace: TestWorkspace,
  overlap: string,
  key = workspace.key,
  rest: { expires_at?: string | null } = {},
): Promise<TestKey & ListedKey> {
  return workspace.operator("POST", `/keys/${key.id}/rotate`, { overlap, ...rest });
}

async function status(workspace: TestWorkspace, key: TestKey): Promise<number> {
  const headers: Record<string, string> = key.secret === undefined ? {} : { "x-api-secret": key.secret };
  return (await workspace.send(signal, { key: key.key, headers })).status;
}

afterEach(() => vi.useRealTimers());

describe("a rotation", () => {
  test("with an overlap keeps both keys until the old key ends, to the millisecond", async () => {
    const workspace = await newWorkspace();
    expect(await status(workspace, workspace.key)).toBe(202);
    const successor = await rotate(workspace, "1h");
    expect(await status(workspace, successor)).toBe(202);
    expect(await status(workspace, workspace.key)).toBe(202);

    const end = Date.parse((await listed(workspace, workspace.key.id))?.expires_at ?? "");
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(end - 1);
    expect(await status(workspace, workspace.key)).toBe(202);
    vi.setSystemTime(end);
    expect(await status(workspace, workspace.key)).toBe(401);
    expect(await status(workspace, successor)).toBe(202);
    expect((await listed(workspace, workspace.key.id))?.status).toBe("Inactive");
  });

  test("without an overlap ends the old key before the answer is sent; the list shows which key is used", async () => {
    const workspace = await newWorkspace();
    const successor = await rotate(workspace, "none");
    expect(await status(workspace, workspace.key)).toBe(401);
    expect(await status(workspace, successor)).toBe(202);
    expect((await listed(workspace, workspace.key.id))?.last_used_at).toBeNull();
    expect((await listed(workspace, successor.id))?.last_used_at).not.toBeNull();
  });

  test("without an overlap ends the old key even if the call is interrupted after its first write", async () => {
    const workspace = await newWorkspace();
    const { key } = workspace;
    expect(await status(workspace, key)).toBe(202);
    const down = { getByName: () => ({ deactivate: () => Promise.reject(new Error("the counter does not answer")) }) };
    const broken = { ...env, QUOTA_COUNTER: down as unknown as typeof env.QUOTA_COUNTER };
    const by = { actor: "test", nowMs: Date.now() };
    const rotation = { keyId: key.id, overlap: "none", formToken: "form" } as const;
    await expect(rotateApiKey(workspace.context({ env: broken, by }), rotation)).rejects.toThrow("not answer");
    expect((await listed(workspace, key.id))?.status).toBe("Inactive");
    vi.useFakeTimers({ toFake: ["Date"], now: by.nowMs + KEY_CACHE_MS });
    expect(await status(workspace, key)).toBe(401);
  });

  test("without an overlap is completed by repeating the form", async () => {
    const workspace = await newWorkspace();
    const { key } = workspace;
    const db = controlDatabase(env.DB);
    const by = { actor: "test", nowMs: Date.now() };
    const rotation = { keyId: key.id, overlap: "none", formToken: "form" } as const;
    expect(await rotateKey(workspace.context({ by }), { ...rotation, overlapMs: 0 })).toMatchObject({ ok: true });
    const again = await rotateApiKey(workspace.context({ by }), rotation);
    expect(again).toMatchObject({ ok: false, rejection: { reason: "made_before", key: { successorOf: key.id } } });
    // The counter rejects the key at once, regardless of the edge's cache.
    expect(await workspace.counter.admit(admitCall(1, { keyId: key.id }))).toEqual({ outcome: "key_deactivated" });
    expect(await findKey(db, workspace.id, key.id)).toMatchObject({ deactivatedAt: new Date(by.nowMs).toISOString() });
  });

  test("gives the successor the old key's settings and a new secret; the audit log names it", async () => {
    const template = [{ target: "external_id", path: "id", type: "string", required: true }];
    const settings = { name: "CRM", endpoint_type: "product_org", payload_template: template };
    const workspace = await newWorkspace({ key: { ...settings, secret: true } });
    await workspace.operator("PATCH", `/keys/${workspace.key.id}`, { silent_after_days: 3 });
    const successor = await rotate(workspace, "24h");
    expect(successor).toMatchObject({
      ...settings,
      has_secret: true,
      silent_after_days: 3,
      successor_of: workspace.key.id,
    });
    expect(successor.key).not.toBe(workspace.key.key);
    expect(successor.secret).not.toBe(workspace.key.secret);
    const detail = { successor: successor.id, overlap_ms: 24 * HOUR_MS, expires_at: null };
    expect(await workspace.audit("key.rotated")).toEqual([{ action: "key.rotated", target: workspace.key.id, detail }]);
  });

  test("never prolongs the old key, even if it is rotated twice", async () => {
    const endOf = async (workspace: TestWorkspace) => (await listed(workspace, workspace.key.id))?.expires_at ?? "";
    const expires_at = new Date(Date.now() + HOUR_MS).toISOString();
    const expiring = await newWorkspace({ key: { expires_at } });
    await rotate(expiring, "7d");
    expect(await endOf(expiring)).toBe(expires_at);

    const workspace = await newWorkspace();
    await rotate(workspace, "24h");
    const end = await endOf(workspace);
    const second = await rotate(workspace, "7d");
    expect(await endOf(workspace)).toBe(end);
    await rotate(workspace, "1h");
    expect(Date.parse(await endOf(workspace))).toBeLessThan(Date.parse(end) - 22 * HOUR_MS);
    // The successor does not inherit the end of the overlap.
    expect(second.expires_at).toBeNull();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 25 * HOUR_MS });
    expect([await status(workspace, workspace.key), await status(workspace, second)]).toEqual([401, 202]);
  });

  test("gives the successor the requested expiration, or the old key's; of an ended key it is rejected", async () => {
    const inDays = (days: number) => new Date(Date.now() + days * 24 * HOUR_MS).toISOString();
    const [near, far] = [inDays(2), inDays(90)];
    const workspace = await newWorkspace({ key: { expires_at: near } });
    expect((await rotate(workspace, "1h")).expires_at).toBe(near);
    expect((await rotate(workspace, "1h", workspace.key, { expires_at: far })).expires_at).toBe(far);
    expect((await rotate(workspace, "1h", workspace.key, { expires_at: null })).expires_at).toBeNull();
    await expect(rotate(workspace, "1h", workspace.key, { expires_at: inDays(-1) })).rejects.toThrow(/422/);
    await workspace.operator("POST", `/keys/${workspace.key.id}/deactivate`);
    await expect(rotate(workspace, "1h")).rejects.toThrow(/409 .*key_inactive/);
  });

  test("creates one successor, one audit entry and one end of the old key if its form is sent twice at once", async () => {
    const workspace = await newWorkspace();
    const { key } = workspace;
    const db = controlDatabase(env.DB);
    // Both calls have read that no successor exists before either writes.
    let arrived = 0;
    const both = Promise.withResolvers<void>();
    const batch = (async (queries: Parameters<ControlDatabase["batch"]>[0]) => {
      if (++arrived === 2) both.resolve();
      await both.promise;
      return db.batch(queries);
    }) as unknown as ControlDatabase["batch"];
    const meeting: ControlDatabase = Object.assign(Object.create(db) as ControlDatabase, { batch });
    const by = { actor: "jane@example.com", nowMs: Date.now() };
    const rotateFor = async (overlapMs: number) => {
      const rotation = { keyId: key.id, overlapMs, formToken: "form" };
      return { overlapMs, rotated: await rotateKey(workspace.context({ db: meeting, by }), rotation) };
    };
    const [first, second] = await Promise.all([rotateFor(HOUR_MS), rotateFor(24 * HOUR_MS)]);
    const [winner, loser] = first.rotated.ok ? [first, second] : [second, first];
    if (!winner.rotated.ok || loser.rotated.ok) throw new Error("Exactly one rotation must succeed.");
    expect(loser.rotated.rejection).toEqual({ reason: "made_before", key: winner.rotated.value.record });
    const { id: successor } = winner.rotated.value.record;
    expect((await workspace.audit("key.rotated")).map(({ detail }) => detail)).toEqual([
      { successor, overlap_ms: winner.overlapMs, expires_at: null },
    ]);
    expect((await listed(workspace, key.id))?.expires_at).toBe(new Date(by.nowMs + winner.overlapMs).toISOString());
  });
});

describe("a creation or rotation that is repeated with its Idempotency-Key, because the answer was lost,", () => {
  const TEMPLATE = [{ target: "external_id", path: "id", type: "string" }];
  const post = async (workspace: TestWorkspace, path: string, body: object, repeated: string) => {
    const url = `/operator/workspaces/${workspace.id}/keys${path}`;
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "idempotency-key": repeated };
    const answer = await call(url, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: answer.status, body: await answer.json<TestKey & ListedKey & Problem>() };
  };

  test("ends the key that nobody saw and answers a new one; the audit log shows both", async () => {
    const workspace = await newWorkspace();
    const make = () => post(workspace, "", { name: "CRM", secret: true }, "deploy 7");
    const [first, second, third] = [await make(), await make(), await make()];
    expect([first.status, second.status, third.status]).toEqual([201, 201, 201]);
    expect(await status(workspace, first.body)).toBe(401);
    expect(await status(workspace, second.body)).toBe(401);
    expect(await status(workspace, third.body)).toBe(202);
    expect(third.body).toMatchObject({ name: "CRM", has_secret: true, status: "Active", successor_of: second.body.id });
    const ended = (key: TestKey) => [`key.deactivated ${key.id}`, `key.rotated ${key.id}`];
    const entries = (await workspace.audit("key.")).map(({ action, target }) => `${action} ${target}`);
    expect(entries.toSorted()).toEqual(
      [
        `key.created ${workspace.key.id}`,
        `key.created ${first.body.id}`,
        ...ended(first.body),
        ...ended(second.body),
      ].toSorted(),
    );
    // Another value makes another key.
    expect((await post(workspace, "", { name: "CRM" }, "deploy 8")).status).toBe(201);
    expect(await status(workspace, third.body)).toBe(202);
  });

  test.each(["none", "24h"])("also ends the successor that nobody saw: overlap %s", async (overlap) => {
    const workspace = await newWorkspace({ key: { endpoint_type: "product_org", payload_template: TEMPLATE } });
    const turn = () => post(workspace, `/${workspace.key.id}/rotate`, { overlap }, "turn");
    const [first, second] = [await turn(), await turn()];
    expect([first.status, second.status]).toEqual([201, 201]);
    const path = "/api/product-orgs/webhook/{key}";
    const statusOf = async (key: TestKey) => (await workspace.send({ id: "acme" }, { key: key.key, path })).status;
    expect(await statusOf(first.body)).toBe(401);
    expect(await statusOf(second.body)).toBe(202);
    expect(await statusOf(workspace.key)).toBe(overlap === "none" ? 401 : 202);
  });

  test("makes nothing more than ten minutes later, or with a value that is no Idempotency-Key", async () => {
    const workspace = await newWorkspace();
    const make = (value: string) => post(workspace, "", { name: "CRM" }, value);
    const madeMs = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now: madeMs });
    const { body } = await make("deploy 7");
    vi.setSystemTime(madeMs + 10 * 60_000 + 1);
    expect(await make("deploy 7")).toMatchObject({ status: 409, body: { code: "idempotency_key_used" } });
    expect(await status(workspace, body)).toBe(202);
    expect(await make("é")).toMatchObject({ status: 422, body: { errors: [{ path: "Idempotency-Key" }] } });
  });
});
