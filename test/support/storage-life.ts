/** The life of one workspace that fills every table, queue and bucket, for docs/storage.md. */
import { createExecutionContext, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import { vi } from "vitest";
import { controlDatabase } from "../../src/d1/database.ts";
import { openSession, storeAttempt } from "../../src/d1/sessions.ts";
import { notificationTypes } from "../../src/domain/notifications/notification.ts";
import { lookUpKey } from "../../src/ingest/authenticate.ts";
import { newId } from "../../src/platform/ids.ts";
import { UNREADABLE_AFTER_MS } from "../../src/quota/quota-counter.ts";
import type { SignalFacts } from "../../src/store/log/line.ts";
import { importPart } from "../../src/use-cases/import-workspace.ts";
import { startLinkJob } from "../../src/store/people/linking.ts";
import { watchHealth } from "../../src/use-cases/watch-health.ts";
import { updateKeyDays } from "../../src/store/state/key-days.ts";
import { updateRuleDays } from "../../src/store/state/rule-outcomes.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";
import { openState, sealSignalLogs } from "./log.ts";
import { linesOf } from "./adds-up.ts";
import { consumeMessages, deliver, messageOf } from "./deliver.ts";
import { crossed, listen, Receiver } from "./destination-harness.ts";
import { storedIn, watchRows, type Row, type Stored } from "./stored-rows.ts";
import { until } from "./until.ts";
import { bytesOf, textOf } from "./wire.ts";
import { operator, TestWorkspace, type TestKey } from "./workspace.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const JANE = "jane@example.com";
const ANONYMOUS_ID = "5f0c8c1e-6d0f-4a52-9f3b-1d2a7c9e4b10";
const USER_ID = "1042";
const ACCOUNT = "acme-42";
const TEMPLATE = [
  { target: "external_id", path: "id", type: "string" },
  { target: "name", path: "name", type: "string" },
  { target: "plan", path: "plan", type: "string" },
  { target: "user_count", path: "users", type: "number" },
  { target: "recurring_revenue", path: "mrr", type: "number" },
  { target: "trial_status", path: "trial", type: "string" },
  { target: "feature_flags", path: "flags", type: "json" },
  { target: "attributes.region", path: "region", type: "string" },
];

type ObjectName = "Quota Counter" | "Signal Store" | "Destinations";

export class Life {
  readonly workspace: TestWorkspace;
  readonly databases = new Map<string, Map<string, Stored>>();
  /** Bodies of the messages, as text. */
  readonly messages = { signals: [] as string[], deliveries: [] as string[] };
  readonly lines: SignalFacts[] = [];
  /** Keys of the objects in R2. */
  readonly keys = new Set<string>();
  /** Values of the objects' key-value storage, by object and key. */
  readonly kv: { object: ObjectName; key: string; value: unknown }[] = [];
  /** Texts of the rows that the document shows. */
  readonly favourites: string[] = [JANE, ACCOUNT, ANONYMOUS_ID];

  private constructor(workspace: TestWorkspace) {
    this.workspace = workspace;
    this.favourites.push(workspace.id, workspace.key.id);
  }

  /** The clock runs a day ahead, so that alarms ring only when a step rings them. */
  static async live(): Promise<Life> {
    const morning = (Math.floor(Date.now() / DAY) + 2) * DAY + 9 * HOUR;
    vi.useFakeTimers({ toFake: ["Date"], now: morning });
    const receiver = new Receiver("crm.example.com", "/hooks/signals");
    const pager = new Receiver("pager.example.com");
    listen(receiver, pager);
    const life = new Life(await setUp(morning));
    await life.#watch();
    await life.#administer();
    const rule = await life.#subscribe(receiver);
    await life.#send(rule);
    await life.#holdAndRelease();
    await life.#fail(pager);
    await life.#map();
    await life.#interrupt(rule);
    await life.#moveToCold();
    await life.#deletePerson();
    await life.#endPeriod(receiver);
    await life.#readAll();
    vi.useRealTimers();
    return life;
  }

  #objects(workspace = this.workspace): [ObjectName, DurableObjectStub][] {
    const { counter, store, destinations } = workspace;
    const all = { "Quota Counter": counter, "Signal Store": store, Destinations: destinations };
    return Object.entries(all) as unknown as [ObjectName, DurableObjectStub][];
  }

  async #watch(): Promise<void> {
    for (const [, object] of this.#objects()) {
      // oxlint-disable-next-line no-await-in-loop -- three objects
      await runInDurableObject(object, (_, { storage }) => watchRows(storage.sql));
    }
    const { signals, deliveries } = this.messages;
    const [sendSignals, sendDeliveries] = [
      env.SIGNALS.sendBatch.bind(env.SIGNALS),
      env.DELIVERIES.sendBatch.bind(env.DELIVERIES),
    ];
    await runInDurableObject(this.workspace.counter, (counter) => {
      const queue = (counter as unknown as { env: Env }).env.SIGNALS;
      vi.spyOn(queue, "sendBatch").mockImplementation((messages, options) => {
        const batch = [...messages];
        signals.push(...batch.map(({ body }) => textOf(body as Uint8Array)));
        return sendSignals(batch, options);
      });
    });
    await runInDurableObject(this.workspace.destinations, (destinations) => {
      const queue = (destinations as unknown as { env: Env }).env.DELIVERIES;
      vi.spyOn(queue, "sendBatch").mockImplementation((messages, options) => {
        const batch = [...messages];
        deliveries.push(...batch.map(({ body }) => String(body)));
        return sendDeliveries(batch, options);
      });
    });
  }

  async #administer(): Promise<void> {
    const db = controlDatabase(env.DB);
    const hash = (text: string) => createHash("sha256").update(text).digest("hex");
    await this.workspace.operator("POST", "/members", { email: "sam@example.com", role: "owner" });
    await openSession(db, { tokenHash: hash("session"), email: "sam@example.com", driver: "oidc" }, Date.now());
    const attempt = {
      state: "6Yv0lVfFq3mX",
      nonce: "bT1kQz7nPj2c",
      codeVerifier: "Zr8sWq4uHn0d",
      target: "/w/acme/people",
    };
    await storeAttempt(db, hash("attempt"), attempt, Date.now());
    await this.workspace.newToken(["read"], { name: "Nightly export" });
    const old = await this.workspace.newKey({ name: "Old form" });
    await this.workspace.deactivate(old);
    const shop = await this.workspace.newKey({ name: "Shop" });
    await this.workspace.operator("POST", `/keys/${shop.id}/rotate`, { overlap: "24h" });
  }

  async #subscribe(receiver: Receiver): Promise<string> {
    const { workspace } = this;
    const { id: destination } = await workspace.operator<{ id: string }>("POST", "/destinations", {
      name: "CRM",
      type: "webhook",
      target: receiver.url,
      headers: [{ name: "X-Api-Key", value: "receiver-token" }],
      notifications: notificationTypes,
    });
    await workspace.operator("POST", `/destinations/${destination}/rotate-secret`, { overlap: "24h" });
    await workspace.operator("PUT", "/thresholds", { thresholds: [20, 50], account_thresholds: [200] });
    const { id: rule } = await workspace.operator<{ id: string }>("POST", "/rules", {
      name: "Asked for a demo",
      event: "Demo Requested",
      match: "all",
      conditions: [{ path: "properties.form", operator: "contains", value: "demo" }],
      scoring_signal: "demo_requested",
      points: 20,
      frequency: "once_ever",
      points_last_days: 30,
    });
    await workspace.operator("PATCH", `/rules/${rule}`, { points: 25 });
    const imports = { name: "Imports", conditions: [{ path: "event", operator: "equals", value: "Imported" }] };
    await workspace.operator("PUT", "/exclusions", { items: [imports] });
    this.favourites.push(destination, rule);
    return rule;
  }

  /** Jane's signals, updates of her account, and a rejected call. */
  async #send(rule: string): Promise<void> {
    const { workspace } = this;
    const ids = { anonymousId: ANONYMOUS_ID, userId: USER_ID };
    const track = (messageId: string, more: object = {}) => {
      return { type: "track", event: "Demo Requested", messageId, properties: { form: "demo-page" }, ...more };
    };
    await this.#accepted({ ...track("m-1"), anonymousId: ANONYMOUS_ID }, "/api/signal-staging/webhook/web/{key}");
    await this.#accepted({
      type: "alias",
      messageId: "m-2",
      userId: USER_ID,
      previousId: "977",
      anonymousId: ANONYMOUS_ID,
    });
    vi.setSystemTime(Date.now() + MINUTE);
    const traits = { email: JANE, name: "Jane Doe", company: { id: ACCOUNT, name: "Acme" }, title: "CTO" };
    await this.#accepted({ type: "identify", messageId: "m-3", ...ids, traits });
    const at = new Date(Date.now() - HOUR).toISOString();
    const id = await this.#accepted(
      { ...track("m-4", ids), timestamp: at },
      "/api/signal-staging/webhook/web/{key}",
      "retry-1",
    );
    await this.#accepted(track("m-4", ids), "/api/signal-staging/webhook/web/{key}", "retry-1");
    await this.#accepted({ ...track("m-5", ids) });
    this.favourites.push(id);
    const accounts = await workspace.newKey({
      name: "Billing",
      endpoint_type: "product_org",
      payload_template: TEMPLATE,
    });
    const account = {
      id: ACCOUNT,
      name: "Acme",
      plan: "growth",
      users: 14,
      mrr: 490,
      trial: "ended",
      flags: { beta: true },
      region: "eu",
    };
    for (const changes of [{ plan: "starter", users: 9 }, {}, { users: 20 }]) {
      vi.setSystemTime(Date.now() + MINUTE);
      // oxlint-disable-next-line no-await-in-loop -- in order
      await this.#accepted({ ...account, ...changes }, "/api/product-orgs/webhook/{key}", undefined, accounts);
    }
    vi.setSystemTime(Date.now() + MINUTE);
    await this.#accepted({ type: "group", messageId: "m-6", ...ids, groupId: ACCOUNT, traits: { industry: "steel" } });
    await workspace.send("{ broken", {
      headers: { "x-api-secret": workspace.key.secret ?? "", origin: "https://www.acme.example" },
    });
    await workspace.operator("POST", `/rules/${rule}/apply`);
    await this.#ring(workspace.store);
    // Ids without a time are found through the tables of late lines.
    const head = { key: workspace.key.id };
    await deliver(workspace.id, [{ id: "sig_7", payload: { event: "Imported", email: JANE }, head }]);
  }

  /** Sends one signal and waits until it is recorded. @returns its id. */
  async #accepted(
    body: object,
    path?: string,
    idempotencyKey?: string,
    key: TestKey = this.workspace.key,
  ): Promise<string> {
    const headers = {
      ...(key.secret !== undefined && { "x-api-secret": key.secret }),
      ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
    };
    const response = await this.workspace.send(body, { ...(path !== undefined && { path }), headers, key: key.key });
    if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
    await this.#settled();
    await this.#readLines();
    return (await response.json<{ id: string }>()).id;
  }

  /** The books do not add up, because some signals come from messages that no counter has sent. */
  #settled(): Promise<void> {
    return until(async () => {
      const { unsettled } = await this.workspace.counter.books();
      if (unsettled > 0) throw new Error(`${unsettled} signals are in flight`);
    });
  }

  /** The plan has 12 signals, so some are held until overages are on. */
  async #holdAndRelease(): Promise<void> {
    const { workspace } = this;
    const signal = (n: number) => ({ event: "Page Viewed", email: JANE, properties: { n } });
    const held = Array.from({ length: 8 }, (_, n) => signal(n));
    await this.#accepted(held, "/api/signal-staging/webhook/web/{key}", "batch-1");
    const head = { key: workspace.key.id };
    await deliver(workspace.id, [{ id: "sig_8", payload: signal(99), verdict: "held", head }]);
    await workspace.operator("PATCH", "", { overages: true });
    await workspace.operator("POST", "/held/release");
    await this.#settled();
    await this.#ring(workspace.store);
    await this.#readLines();
  }

  /** A signal that ended every consumer raises an alarm, and is replayed. */
  async #fail(pager: Receiver): Promise<void> {
    const { workspace } = this;
    const id = newId("sig");
    const signal = { id, payload: { event: "Imported", email: JANE }, head: { key: workspace.key.id } };
    await consumeMessages([messageOf(workspace.id, [signal])], { queue: "signals-dlq" });
    await this.#ring(workspace.store);
    await watchHealth({ ...env, ALARM_URL: pager.url } as Env, Date.now());
    await workspace.operator("POST", "/dead-letters/replay", { ids: [id] });
    await this.#settled();
    await this.#ring(workspace.store);
  }

  /** A sender that cannot change its bodies: headers and what stands around the items travel with each signal, also of a misfit. */
  async #map(): Promise<void> {
    const { workspace } = this;
    const template = [
      { target: "items", path: "rows.*" },
      { target: "event", path: "kind" },
      { target: "user_id", text: "crm:{@key}" },
    ];
    const key = await workspace.newKey({ name: "CRM", payload_template: template, misfits: "keep", answer: 200 });
    const withTopic = [...template, { target: "source", path: "@header.x-topic" }];
    await workspace.operator("PUT", `/keys/${key.id}/template`, { payload_template: withTopic });
    await lookUpKey(env.DB, key.key, Date.now(), createExecutionContext());
    const rows = { 7: { kind: "saved" }, 8: { what: "saved" } };
    await workspace.send({ action: "sync", rows }, { key: key.key, headers: { "x-topic": "contact" } });
    await this.#settled();
    this.favourites.push(key.id);
  }

  /** Writes by hand what is stored only while a job of thousands of signals is under way. */
  async #interrupt(rule: string): Promise<void> {
    const { store } = this.workspace;
    await runInDurableObject(store, (_, { storage }) => {
      const state = openState(storage, this.workspace.id);
      startLinkJob(state, { kind: "anonymous_id", value: ANONYMOUS_ID }, Date.now());
      const counts = [{ personId: 1, added: 1, changed: 0, removed: 0, points: 25 }];
      storage.sql.exec("UPDATE link_jobs SET counts = ?", JSON.stringify(counts));
      storage.sql.exec("INSERT INTO replacements VALUES (1, ?, 3)", rule);
      storage.sql.exec("INSERT INTO lapse_crossings VALUES (1, 20, 15, 40, ?)", Date.now());
      for (const table of ["people", "accounts"]) storage.sql.exec(`UPDATE ${table} SET score_before = 40`);
      for (const table of ["people", "accounts"]) storage.sql.exec(`UPDATE ${table} SET score_before = NULL`);
      storage.sql.exec("DELETE FROM lapse_crossings");
      const cut = { receivedAtMs: Date.now(), ordinal: 5 };
      storage.sql.exec("UPDATE accounts SET histories = ?", JSON.stringify({ plan: { changes: 2, bytes: 26, cut } }));
      storage.sql.exec("DELETE FROM link_jobs");
      storage.sql.exec("DELETE FROM replacements");
      const name = { value: "Jane", receivedAtMs: Date.now(), ordinal: 1 };
      const base = JSON.stringify({ firstMs: Date.now(), lastMs: Date.now(), traits: { name } });
      storage.sql.exec("UPDATE people SET base = ?", base);
      storage.sql.exec("UPDATE people SET base = ''");
      const thresholds = [{ threshold: 20, risen: 0, fallen: 1 }];
      state.head.lapseRun = { day: 20_786, isSummary: false, points: -25, thresholds };
      state.head.dropped = { [Date.UTC(2026, 0, 1)]: [1, 0, 0, 0, 0] };
      state.signals.flush();
      state.head.lapseRun = null;
      state.head.dropped = {};
      state.signals.flush();
    });
  }

  /** The first attempt fails, so that a failing chore is stored. */
  async #moveToCold(): Promise<void> {
    const { store } = this.workspace;
    await this.#withState((state) => {
      updateRuleDays(state);
      updateKeyDays(state);
      sealSignalLogs(state);
    });
    vi.setSystemTime(Date.now() + 2 * DAY);
    const put = vi.spyOn(env.COLD, "put").mockRejectedValueOnce(new Error("R2 does not answer"));
    await this.#ring(store);
    await this.#readKeyValues();
    put.mockRestore();
    vi.setSystemTime(Date.now() + HOUR);
    await this.#ring(store);
    for (const { key } of (await env.COLD.list()).objects) this.keys.add(key);
  }

  /** Last of all, because nothing of the person is left. */
  async #deletePerson(): Promise<void> {
    const { workspace } = this;
    await workspace.operator("DELETE", `/people/${JANE}`);
    for (let steps = 0; steps < 5; steps++) {
      vi.setSystemTime(Date.now() + MINUTE);
      // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
      await this.#ring(workspace.store);
    }
  }

  /** The end of a billing period, an unreadable row, and a receiver that fails. */
  async #endPeriod(receiver: Receiver): Promise<void> {
    const { workspace } = this;
    // An outbox row that no release can read.
    await runInDurableObject(workspace.counter, (counter) => {
      vi.spyOn((counter as unknown as { env: Env }).env.SIGNALS, "sendBatch").mockResolvedValue(undefined as never);
    });
    await workspace.send(
      { event: "Page Viewed", email: JANE },
      { headers: { "x-api-secret": workspace.key.secret ?? "" } },
    );
    await runInDurableObject(workspace.counter, (_, { storage }) => {
      storage.sql.exec("UPDATE outbox SET body = ? WHERE bytes > 0", bytesOf("\u001dnonsense"));
    });
    vi.setSystemTime(Date.now() + UNREADABLE_AFTER_MS + MINUTE);
    await this.#ring(workspace.counter);
    // The receiver fails, then ends. A month later its failed delivery is too old to be kept.
    receiver.answer = () => new Response("busy", { status: 500, headers: { "retry-after": "60" } });
    await workspace.destinations.raise([crossed(JANE)]);
    await this.#failAfter(0);
    await this.#failAfter(HOUR);
    await this.#failAfter(2 * DAY);
    receiver.answer = () => new Response("gone", { status: 410 });
    await this.#failAfter(DAY);
    vi.setSystemTime(Date.now() + 28 * DAY);
    await this.#ring(workspace.destinations);
    await this.#ring(workspace.counter);
  }

  /** Rings the alarm of Destinations after this time, and waits until the attempt has failed. */
  async #failAfter(ms: number): Promise<void> {
    const { destinations } = this.workspace;
    vi.setSystemTime(Date.now() + ms);
    await this.#ring(destinations);
    await until(() =>
      runInDurableObject(destinations, (_, { storage }) => {
        const failed = storage.sql.exec<{ at: number | null }>("SELECT failing_last_ms AS at FROM destinations").one();
        if (failed.at !== Date.now()) throw new Error("the attempt is not reported yet");
      }),
    );
  }

  /** As the platform rings the alarm, also if none is set. */
  async #ring<Object extends { alarm: () => Promise<void> } & Rpc.DurableObjectBranded>(
    object: DurableObjectStub<Object>,
  ): Promise<void> {
    await runInDurableObject(object, (instance) => instance.alarm());
  }

  #withState(act: (state: StoreState) => void): Promise<void> {
    return runInDurableObject(this.workspace.store, (instance) => {
      act((instance as unknown as { state: StoreState }).state);
    });
  }

  async #readLines(): Promise<void> {
    await this.#withState((state) => {
      for (const log of [state.signals, state.held]) this.lines.push(...[...linesOf(log)].map(({ facts }) => facts));
    });
  }

  async #readKeyValues(): Promise<void> {
    for (const [object, stub] of this.#objects()) {
      // oxlint-disable-next-line no-await-in-loop -- three objects
      const entries = await runInDurableObject(stub, (_, { storage }) => [...storage.kv.list()]);
      for (const [key, value] of entries) this.kv.push({ object, key, value });
    }
  }

  /** Another workspace, of which each object keeps a note. */
  async #endAnother(): Promise<void> {
    const another = { slug: "trial", name: "Trial", plan: "team" };
    const { id } = await operator<{ id: string }>("POST", "/workspaces", another);
    await operator("DELETE", `/workspaces/${id}`, { slug: another.slug });
    const ended = new TestWorkspace(id, { id: "", key: "" });
    for (const [object, stub] of this.#objects(ended)) {
      // oxlint-disable-next-line no-await-in-loop -- three objects
      const value = await runInDurableObject(stub, (_, { storage }) => storage.kv.get("ended"));
      this.kv.push({ object, key: "ended", value });
    }
  }

  /** An export of the workspace, and an import that is not finished. */
  async #copy(): Promise<void> {
    const { workspace } = this;
    const { id } = await workspace.operator<{ id: string }>("POST", "/exports");
    await this.#ring(workspace.store);
    const { manifest } = await workspace.operator<{ manifest: { parts: { part: number }[] } }>("GET", `/exports/${id}`);
    const prefix = `exports/${workspace.id}/${id}/`;
    for (const { key } of (await env.COLD.list({ prefix })).objects) this.keys.add(key);
    const begun = await operator<{ workspace_id: string }>("POST", "/imports", { manifest, slug: "acme-copy" });
    const copy = new TestWorkspace(begun.workspace_id, { id: "", key: "" });
    const context = { ...copy.context(), pagesUrl: "https://signals.example.com/w/acme-copy" };
    for (const { part } of manifest.parts) {
      // oxlint-disable-next-line no-await-in-loop -- one part
      const stored = await env.COLD.get(`${prefix}${part}`);
      if (stored === null) throw new Error("the export has no such part");
      // oxlint-disable-next-line no-await-in-loop
      await importPart(context, part, new Uint8Array(await stored.arrayBuffer()));
    }
    for (const [object, stub] of this.#objects(copy)) {
      const key = { "Quota Counter": "closed", "Signal Store": "importing", Destinations: null }[object];
      if (key === null) continue;
      // oxlint-disable-next-line no-await-in-loop -- three objects
      this.kv.push({ object, key, value: await runInDurableObject(stub, (_, { storage }) => storage.kv.get(key)) });
    }
  }

  async #readAll(): Promise<void> {
    await this.#endAnother();
    await this.#copy();
    const d1 = async (sql: string) => (await env.DB.prepare(sql).all<Row>()).results;
    this.databases.set("D1", await storedIn(d1, false));
    await this.#readLines();
    await this.#readKeyValues();
    for (const [name, object] of this.#objects()) {
      // oxlint-disable-next-line no-await-in-loop -- three objects
      const tables = await runInDurableObject(object, (_, { storage }) =>
        storedIn((sql) => storage.sql.exec<Row>(sql).toArray(), true),
      );
      this.databases.set(name, tables);
    }
  }
}

async function setUp(morning: number): Promise<TestWorkspace> {
  const plan = {
    name: "Team",
    signal_limit: 12,
    paid: true,
    retention_days: 395,
    overage_price: { per_thousand: 0.4, currency: "EUR" },
  };
  await operator("PUT", "/plans/team", plan);
  const anchor = new Date(morning - 10 * DAY).toISOString();
  const { id } = await operator<{ id: string }>("POST", "/workspaces", {
    slug: "acme",
    name: "Acme",
    plan: "team",
    anchor,
  });
  await operator("PUT", "/plans/team", { ...plan, offered_to: [id] });
  const expiresAt = new Date(morning + 365 * DAY).toISOString();
  const first = await operator<TestKey>("POST", `/workspaces/${id}/keys`, {
    name: "Website",
    expires_at: expiresAt,
    secret: true,
  });
  await operator("PATCH", `/workspaces/${id}/keys/${first.id}`, { silent_after_days: 3, signal_limit: 10_000 });
  const key = await operator<TestKey>("POST", `/workspaces/${id}/keys/${first.id}/rotate`, { overlap: "24h" });
  return new TestWorkspace(id, key);
}
