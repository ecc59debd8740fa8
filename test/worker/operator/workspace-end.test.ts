/** The end of a workspace: what is deleted, what stays, what senders get, and that every interrupted end completes by itself. */
import { abortAllDurableObjects, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { coldState, ring } from "../../support/cold.ts";
import { consumeMessages, messageOf } from "../../support/deliver.ts";
import { textOfTables } from "../../support/everything.ts";
import { intercept } from "../../support/intercept.ts";
import type { Harm } from "../../support/interruption.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers } from "../../support/members.ts";
import { until } from "../../support/until.ts";
import { askOperator, newWorkspace, operator, type TestWorkspace } from "../../support/workspace.ts";

const DAY_MS = 24 * 3_600_000;
/** The tables of D1 with rows of workspaces. Those of the first list keep some of an ended one. */
const KEPT = ["workspaces WHERE id", "ended_workspaces WHERE workspace_id", "deletions WHERE workspace_id"];
const DELETED = [
  "api_keys",
  "payload_templates",
  "api_tokens",
  "members",
  "rule_versions",
  "exclusion_versions",
  "mapping_rules",
  "audit_log",
  "workspace_versions",
].map((table) => `${table} WHERE workspace_id`);

afterEach(() => vi.useRealTimers());

async function slugOf(workspace: TestWorkspace): Promise<string> {
  return (await workspace.operator<{ slug: string }>("GET", "")).slug;
}

/** With a row in every table of D1, people, a deletion, a destination, and an object in R2. */
async function fullWorkspace() {
  const { workspace, slug, home, owner } = await newMembers();
  const rule = { name: "R", event: "E", conditions: [], scoring_signal: "s", points: 5 };
  const { id } = await workspace.operator<{ id: string }>("POST", "/rules", rule);
  await workspace.operator("PATCH", `/rules/${id}`, { points: 6 });
  const staff = { name: "Staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
  await workspace.operator("PUT", "/exclusions", { items: [staff] });
  const template = [{ target: "external_id", path: "id", type: "string", required: true }];
  await workspace.newKey({ endpoint_type: "product_org", payload_template: template });
  await workspace.newToken(["read"]);
  const destination = {
    name: "d",
    type: "webhook",
    target: "https://receiver.example.com/",
    notifications: ["period.closed"],
  };
  await workspace.operator("POST", "/destinations", destination);
  for (const name of ["jane", "sam", "gone"]) await workspace.send({ email: `${name}@example.com`, event: "E" });
  await workspace.settled();
  await workspace.operator("DELETE", "/people/gone@example.com");
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2 * DAY_MS });
  await ring(workspace.id);
  expect((await coldState(workspace.id)).keys).not.toEqual([]);
  return { workspace, slug, home, owner };
}

async function rowsInD1({ id }: TestWorkspace, tables: readonly string[]): Promise<Record<string, number>> {
  const counted = tables.map(async (table) => {
    const rows = await env.DB.prepare(`SELECT count(*) AS n FROM ${table} = ?`).bind(id).first<number>("n");
    return [table.split(" ")[0], rows ?? 0] as const;
  });
  return Object.fromEntries(await Promise.all(counted)) as Record<string, number>;
}

const objectsOf = (workspace: TestWorkspace): DurableObjectStub[] => [
  workspace.counter,
  workspace.store,
  workspace.destinations,
];

/** The tables of all objects; empty if they have no row. */
async function tablesOf(workspace: TestWorkspace): Promise<string> {
  const texts = objectsOf(workspace).map((stub) =>
    runInDurableObject(stub, (_, { storage }) => textOfTables(storage.sql)),
  );
  return (await Promise.all(texts)).join("");
}

async function expectNothingLeft(workspace: TestWorkspace): Promise<void> {
  expect(Object.values(await rowsInD1(workspace, DELETED)).every((rows) => rows === 0)).toBe(true);
  expect(await tablesOf(workspace)).toBe("");
  expect((await env.COLD.list({ prefix: `cold/${workspace.id}/` })).objects).toEqual([]);
  expect((await workspace.send({ event: "E" })).status).toBe(401);
}

describe("the end of a workspace", () => {
  test("deletes everything of the workspace but its id, its receipt and the hashes of deleted people", async () => {
    const { workspace, slug } = await fullWorkspace();
    expect(Object.entries(await rowsInD1(workspace, DELETED)).filter(([, rows]) => rows === 0)).toEqual([]);
    const receipt = await workspace.operator("DELETE", "", { slug });
    expect(receipt).toMatchObject({ workspace_id: workspace.id, slug, complete: true });
    expect(receipt).toMatchObject({
      signals: 3,
      people: 2,
      keys: 2,
      rules: 1,
      members: 3,
      destinations: 1,
      cold_objects: 1,
    });
    await expectNothingLeft(workspace);
    expect(await rowsInD1(workspace, KEPT)).toEqual({ workspaces: 1, ended_workspaces: 1, deletions: 1 });
    const entry = env.DB.prepare("SELECT actor, detail FROM audit_log WHERE action = 'workspace.ended' AND target = ?");
    expect(await entry.bind(workspace.id).first()).toMatchObject({ actor: "operator" });
  });

  test("shows its receipt for 31 days, also to a repeated call, and then forgets it but not the id", async () => {
    const workspace = await newWorkspace();
    const slug = await slugOf(workspace);
    const receipt = await workspace.operator("DELETE", "", { slug });
    expect(await workspace.operator("DELETE", "", { slug })).toEqual(receipt);
    expect(await workspace.operator("GET", "/end")).toEqual(receipt);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 31 * DAY_MS + 60_000 });
    expect((await workspace.ask("GET", "/end")).status).toBe(404);
    expect((await workspace.ask("DELETE", "", { slug })).status).toBe(404);
    const another = await newWorkspace();
    await another.operator("DELETE", "", { slug: await slugOf(another) });
    expect(await rowsInD1(workspace, KEPT)).toMatchObject({ workspaces: 1, ended_workspaces: 0 });
  });

  test("needs the slug of the workspace", async () => {
    const workspace = await newWorkspace();
    expect((await workspace.ask("DELETE", "", { slug: "another" })).body).toMatchObject({ code: "slug_differs" });
    expect((await workspace.ask("DELETE", "", {})).status).toBe(422);
    expect((await workspace.ask("GET", "/end")).status).toBe(404);
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
  });

  test("is an operation of the operator token only", async () => {
    const workspace = await newWorkspace();
    const token = await workspace.newToken(["read", "keys", "rules", "export", "delete"]);
    const answer = await workspace.askWith(token, "DELETE", "", { slug: await slugOf(workspace) });
    expect(answer).toMatchObject({ status: 403, body: { code: "operator_only" } });
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
  });

  test("hides the workspace from lists and health, answers 410 below it, and leaves its slug to another", async () => {
    const workspace = await newWorkspace();
    const slug = await slugOf(workspace);
    await workspace.operator("DELETE", "", { slug });
    for (const path of ["", "/keys", "/usage", "/health", "/people"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await workspace.ask("GET", path)).toMatchObject({ status: 410, body: { code: "workspace_ended" } });
    }
    expect(await workspace.ask("PATCH", "", { name: "x" })).toMatchObject({ status: 410 });
    const { items } = await operator<{ items: { id: string }[] }>("GET", "/workspaces?limit=200");
    expect(items.map(({ id }) => id)).not.toContain(workspace.id);
    expect(JSON.stringify(await operator("GET", "/health"))).not.toContain(workspace.id);
    const offered = { name: "p", signal_limit: 1, paid: true, offered_to: [workspace.id] };
    expect((await askOperator("PUT", `/plans/of-${slug.slice(0, 30)}`, offered)).status).toBe(422);
    const again = await operator<{ id: string }>("POST", "/workspaces", { slug, name: "again", plan: "starter" });
    expect(again.id).not.toBe(workspace.id);
  });

  test("is said to members on the pages while data is being deleted, and hidden from strangers", async () => {
    const { workspace, home, owner, stranger } = await newMembers();
    await env.DB.prepare("UPDATE workspaces SET state = 'ended' WHERE id = ?").bind(workspace.id).run();
    const answer = await owner.get(`${home}/people`);
    expect(answer.status).toBe(410);
    expect(answer.text).toContain("This workspace has ended");
    expect((await stranger.get(home)).status).toBe(404);
    expect((await owner.get("/w")).text).toContain("You are not a member of any workspace");
  });
});

describe("a sender of an ended workspace", () => {
  test("gets 401 for accepted and for rejected calls, and the isolate does not remember the key as deactivated", async () => {
    const workspace = await newWorkspace();
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
    const row = await env.DB.prepare("SELECT * FROM api_keys WHERE id = ?").bind(workspace.key.id).first();
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    expect((await workspace.send({ event: "E" })).status).toBe(401);
    expect((await workspace.send("{")).status).toBe(401);
    // Another workspace gets the key, as an import does it.
    const another = await newWorkspace();
    const moved = { ...row, workspace_id: another.id };
    const columns = Object.keys(moved);
    const insert = `INSERT INTO api_keys (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
    await env.DB.prepare(insert)
      .bind(...Object.values(moved))
      .run();
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    expect(await another.settled()).toMatchObject({ accepted: 1 });
  });

  test("of a key that has moved is followed at once, also by an isolate that knows the old workspace", async () => {
    const [workspace, another] = [await newWorkspace(), await newWorkspace()];
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
    await env.DB.prepare("UPDATE api_keys SET workspace_id = ? WHERE id = ?").bind(another.id, workspace.key.id).run();
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    expect((await workspace.send("{")).status).toBe(400);
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    expect(await another.settled()).toMatchObject({ accepted: 1 });
  });

  test("gets 503 and no 401 while D1 does not answer", async () => {
    const workspace = await newWorkspace();
    expect((await workspace.send({ event: "E" })).status).toBe(202);
    await workspace.settled();
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    expectLogged("error");
    const DB = intercept(env.DB, () => {
      throw new Error("D1 does not answer");
    });
    expect((await workspace.send({ event: "E" }, { bindings: { ...env, DB } as Env })).status).toBe(503);
    expect((await workspace.send({ event: "E" })).status).toBe(401);
  });

  test("whose call waits in the counter for a shared commit is not answered with 202", async () => {
    const workspace = await newWorkspace();
    await workspace.send({ event: "E" });
    await workspace.settled();
    const slug = await slugOf(workspace);
    const calls = Promise.all(Array.from({ length: 20 }, () => workspace.send({ event: "E" })));
    const ended = workspace.operator("DELETE", "", { slug });
    const statuses = (await calls).map(({ status }) => status);
    const receipt = await ended;
    expect(statuses.every((status) => status === 202 || status === 401)).toBe(true);
    expect(receipt["signals"]).toBe(1 + statuses.filter((status) => status === 202).length);
  });
});

describe("a late call to the counter of an ended workspace", () => {
  const wanted = { types: ["rejections.burst" as const], thresholds: [], accountThresholds: [], destinations: 1 };
  const times = { firstAtMs: 1, lastAtMs: 2 };
  const reason = { code: "unauthorized", cause: "secret_wrong", detail: "", requestId: "req_1" } as const;

  test.each<[string, (workspace: TestWorkspace) => unknown]>([
    ["about destinations", ({ counter }) => counter.wantNotifications(wanted)],
    [
      "with a burst of rejected calls",
      ({ counter, key }) => counter.countRejected([{ keyId: key.id, ...reason, calls: 50, signals: 50, ...times }]),
    ],
    ["that deactivates a key", ({ counter, key }) => counter.deactivate(key.id)],
    ["that deactivates all keys", ({ counter, key }) => counter.deactivateAll([key.id])],
    ["that ends a key", ({ counter, key }) => counter.endKey(key.id, Date.now())],
  ])("%s leaves nothing there", async (_, act) => {
    const workspace = await newWorkspace();
    await workspace.counter.wantNotifications(wanted);
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    await act(workspace);
    expect(await tablesOf(workspace)).toBe("");
  });
});

test("calls that change an ended workspace, because they began before its end, leave nothing of it in D1", async () => {
  expectLogged();
  const workspace = await newWorkspace();
  await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
  const setState = (state: string) =>
    env.DB.prepare("UPDATE workspaces SET state = ? WHERE id = ?").bind(state, workspace.id).run();
  await setState("active");
  const template = [{ target: "event", path: "e" }];
  const rule = { name: "R", event: "E", conditions: [], scoring_signal: "s", points: 5 };
  const item = { name: "Staff", conditions: [{ path: "email", operator: "ends_with", value: "@own.example" }] };
  const changes: [string, string, unknown][] = [
    ["PATCH", "", { name: "another" }],
    ["POST", "/keys", { name: "k", payload_template: template, signal_limit: 5 }],
    ["POST", "/rules", rule],
    ["PUT", "/exclusions", { items: [item] }],
    ["POST", "/members", { email: "jane@example.com", role: "owner" }],
    ["POST", "/tokens", { name: "t", scopes: ["read"] }],
    ["POST", "/dead-letters/replay", {}],
    ["DELETE", "/people/jane@example.com", undefined],
  ];
  for (const change of changes) await workspace.ask(...change);
  await setState("ended");
  expect(Object.entries(await rowsInD1(workspace, DELETED)).filter(([, rows]) => rows > 0)).toEqual([]);
  const { name } = (await env.DB.prepare("SELECT name FROM workspaces WHERE id = ?").bind(workspace.id).first()) ?? {};
  expect(name).toBe("");
});

describe("signals on their way to an ended workspace", () => {
  test.each(["signals", "signals-dlq"])("are acknowledged from the queue %s, and not recorded", async (queue) => {
    const workspace = await newWorkspace();
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    const message = messageOf(workspace.id, [{ id: "sig_late", payload: { event: "E", email: "late@example.com" } }]);
    const result = await consumeMessages([message], { queue });
    expect(result.explicitAcks).toEqual(["0"]);
    await expectNothingLeft(workspace);
  });

  test("are not recorded by a store that is called by a consumer which does not know of the end yet", async () => {
    const workspace = await newWorkspace();
    await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    await env.DB.prepare("UPDATE workspaces SET state = 'active' WHERE id = ?").bind(workspace.id).run();
    const message = messageOf(workspace.id, [{ id: "sig_late", payload: { event: "E", email: "late@example.com" } }]);
    expect((await consumeMessages([message])).explicitAcks).toEqual(["0"]);
    await env.DB.prepare("UPDATE workspaces SET state = 'ended' WHERE id = ?").bind(workspace.id).run();
    await expectNothingLeft(workspace);
  });
});

describe("an interrupted end", () => {
  /** More calls than the end makes. */
  const MOST_CALLS = 40;

  /** Calls of the counter and of the store share one count. @returns whether the call was reached. */
  async function interrupt(workspace: TestWorkspace, at: number, harm: Harm): Promise<() => boolean> {
    let calls = 0;
    const harmed = <T extends object>(binding: T): T =>
      intercept(binding, async ({ make }) => {
        const isHarmed = calls++ === at;
        const answer = await make();
        if (!isHarmed) return answer;
        if (harm === "fails") throw new Error("interrupted after the call");
        return new Promise(() => {});
      });
    const { DB, SIGNAL_STORE, DESTINATIONS, COLD } = env;
    const bindings = { ...env, DB: harmed(DB), SIGNAL_STORE: harmed(SIGNAL_STORE), DESTINATIONS: harmed(DESTINATIONS) };
    const harmedObjects = { ...bindings, COLD: harmed(COLD) };
    for (const stub of [workspace.counter, workspace.store]) {
      // oxlint-disable-next-line no-await-in-loop
      await runInDurableObject(stub as DurableObjectStub, (instance) => {
        Object.defineProperty(instance, "env", { value: harmedObjects, configurable: true });
      });
    }
    return () => calls > at;
  }

  test.each(["fails", "is the last before a crash"] as const)(
    "completes by itself, whichever call %s",
    async (harm) => {
      expectLogged();
      for (let at = 0; at < MOST_CALLS; at++) {
        vi.useRealTimers();
        const { workspace, slug } = await fullWorkspace();
        const isReached = await interrupt(workspace, at, harm);
        void workspace.ask("DELETE", "", { slug }).catch(() => undefined);
        await until(async () => {
          const { results } = await env.DB.prepare("SELECT finished_at FROM ended_workspaces WHERE workspace_id = ?")
            .bind(workspace.id)
            .all<{ finished_at: string | null }>();
          if (!isReached() && (results[0]?.finished_at ?? null) === null) throw new Error("neither over nor harmed");
        });
        if (harm === "is the last before a crash") await abortAllDurableObjects();
        expect((await workspace.send({ event: "E" })).status).toBe(401);
        // The alarm, some time later.
        await until(async () => {
          vi.setSystemTime(Date.now() + 20 * 60_000);
          await runDurableObjectAlarm(workspace.counter);
          const end = await workspace.ask("GET", "/end");
          expect(end.body).toMatchObject({ complete: true });
          expect(await tablesOf(workspace)).toBe("");
        });
        await expectNothingLeft(workspace);
        if (!isReached()) {
          expect(at).toBeGreaterThan(8);
          return;
        }
      }
      throw new Error("more calls than expected");
    },
    120_000,
  );

  test("deletes a part of an export that R2 takes when the end has begun", async () => {
    expectLogged("chore_failed");
    const workspace = await newWorkspace();
    await workspace.send({ event: "E", email: "jane@example.com" });
    await workspace.settled();
    const late: (() => unknown)[] = [];
    await runInDurableObject(workspace.store, async (instance) => {
      const COLD = intercept(env.COLD, ({ method, make }) => {
        if (method !== "put") return make();
        late.push(make);
        throw new Error("no answer");
      });
      Object.defineProperty(instance, "env", { value: { ...env, COLD }, configurable: true });
      instance.beginExport("exp_1");
      await instance.alarm();
    });
    expect(late).toHaveLength(1);
    const receipt = await workspace.operator("DELETE", "", { slug: await slugOf(workspace) });
    expect(receipt).toMatchObject({ complete: false });
    await late[0]?.();
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 21 * 60_000 });
    await runDurableObjectAlarm(workspace.counter);
    expect(await workspace.operator("GET", "/end")).toMatchObject({ complete: true });
    expect((await env.COLD.list({ prefix: `exports/${workspace.id}/` })).objects).toEqual([]);
  });

  test("is no failure of an alarm of the store that is under way", async () => {
    const workspace = await newWorkspace();
    await workspace.send({ event: "E" });
    await workspace.settled();
    await runInDurableObject(workspace.store, async (instance, { storage }) => {
      const asked = Promise.withResolvers<void>();
      const ended = Promise.withResolvers<void>();
      const DB = intercept(env.DB, async ({ make }) => {
        asked.resolve();
        await ended.promise;
        return make();
      });
      Object.defineProperty(instance, "env", { value: { ...env, DB }, configurable: true });
      // Retention asks D1.
      storage.sql.exec("UPDATE retention SET next_at = 0");
      const alarm = instance.alarm();
      await asked.promise;
      const end = instance.end({ requestedAtMs: Date.now(), actor: "operator" });
      ended.resolve();
      expect(await Promise.all([end, alarm])).toEqual([null, undefined]);
    });
  });

  test("is no failure of the hourly work of Destinations, which waits for an answer meanwhile", async () => {
    const workspace = await newWorkspace();
    const slug = await slugOf(workspace);
    const target = "https://receiver.example.com/";
    const destination = { name: "d", type: "webhook", target, notifications: ["key.silent"] };
    await workspace.operator("POST", "/destinations", destination);
    const lastUsed = vi.spyOn(QuotaCounter.prototype, "lastUsed").mockImplementation((async () => {
      await workspace.operator("DELETE", "", { slug });
      return {};
    }) as never);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + DAY_MS });
    await runDurableObjectAlarm(workspace.destinations);
    expect(lastUsed).toHaveBeenCalledOnce();
    lastUsed.mockRestore();
    expect(await tablesOf(workspace)).toBe("");
  });
});
