/** The real workspace of a model run: Quota Counter, consumer and Signal Store. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { notificationTypes } from "../../src/domain/notifications/notification.ts";
import type { CallHead } from "../../src/wire/message.ts";
import { bucketWith, ring, ringUntilQuiet, withBindings } from "./cold.ts";
import { admitCall, newerVersion, type Queued } from "./counter.ts";
import { consumeMessages } from "./deliver.ts";
import { accountId, emailOf, idOf } from "./model-expected.ts";
import {
  firstKeyOf,
  MODEL_ANCHOR,
  type Content,
  type Exclusion,
  type Model,
  type Plan,
  type Rule,
  type Shape,
} from "./model.ts";
import { restart } from "./restart.ts";
import { callOf } from "./wire.ts";
import { operator, TestWorkspace } from "./workspace.ts";
import { exportOf, moved, type WorkspaceFile } from "./workspace-file.ts";
import { wanting } from "./wanting.ts";

/** Signals older than this many days belong to an earlier billing period. */
const DROPPED_AFTER_DAYS = 20;
const ACCOUNTS_KEY = {
  name: "accounts",
  endpoint_type: "product_org",
  payload_template: [
    { target: "external_id", path: "id", type: "string" },
    { target: "user_count", path: "n", type: "number" },
    { target: "plan", path: "plan", type: "string" },
  ],
};

/** A workspace whose queue is a list: the run decides when and how often a message is delivered. */
export class Real {
  #workspace: TestWorkspace;
  /** Id of the key that account updates use. */
  accountsKey = "";
  /** Id of the key of a sender with a body of its own. */
  templateKey = "";
  /** Sent contents, by the id that each received. */
  readonly sent = new Map<string, string>();
  /** Rule ids by event. */
  readonly rules = new Map<string, string>();
  /** The events whose rules changed. */
  readonly changed = new Set<string>();
  haveExclusionsChanged = false;
  /** Whether the counter has restarted: it may have lost rejections that it had not written yet. */
  restarted = false;
  /** What the model must not be asked about before all of it has arrived. Signals of a sender with a template, and replays. */
  underWay = { mapped: false, replays: false };
  #queue: Uint8Array[] = [];
  #isHindered = false;
  /** Above the number of any content. */
  #lastIndex = 1_000_000;

  private constructor(workspace: TestWorkspace) {
    this.#workspace = workspace;
  }

  get workspace(): TestWorkspace {
    return this.#workspace;
  }

  /** Exports the workspace, ends it, and imports the file. Messages of the ended workspace are lost. @returns both files. */
  async move(): Promise<{ before: WorkspaceFile; after: () => Promise<WorkspaceFile> }> {
    await this.#endHindrance();
    // The model configures the counter itself, so D1 knows no newer configuration.
    const version = await this.workspace.counter.configVersion();
    await env.DB.prepare("UPDATE workspaces SET config_version = ? WHERE id = ?")
      .bind(version, this.workspace.id)
      .run();
    const before = await exportOf(this.workspace, () => this.ringStore());
    this.#workspace = await moved(this.workspace, before);
    this.lose();
    await this.catchMessages();
    return { before, after: () => exportOf(this.workspace, () => this.ringStore()) };
  }

  static async make(model: Model): Promise<Real> {
    vi.useFakeTimers({ toFake: ["Date"], now: MODEL_ANCHOR + 5_000 });
    const anchor = new Date(MODEL_ANCHOR).toISOString();
    const slug = `w-${crypto.randomUUID()}`;
    const { id } = await operator<{ id: string }>("POST", "/workspaces", { slug, name: slug, plan: "free", anchor });
    const real = new Real(new TestWorkspace(id, { id: "", key: "" }));
    for (const [event, rule] of model.rules) {
      const body = { ...ruleBody(rule), name: event, event, scoring_signal: event };
      real.rules.set(event, (await real.workspace.operator<{ id: string }>("POST", "/rules", body)).id);
    }
    real.accountsKey = (await real.workspace.newKey(ACCOUNTS_KEY)).id;
    const payloadTemplate = templateReading("what");
    real.templateKey = (await real.workspace.newKey({ payload_template: payloadTemplate, misfits: "keep" })).id;
    model.templates.set(await real.#templateVersion(), "what");
    await real.configure(model.plan);
    await real.catchMessages();
    return real;
  }

  tick(): void {
    vi.setSystemTime(Date.now() + 1_000);
  }

  async configure(plan: Plan): Promise<void> {
    const { counter } = this.workspace;
    await counter.configure([{ ...plan, anchorMs: MODEL_ANCHOR, configVersion: await newerVersion(counter) }]);
  }

  /** With the plan that holds. */
  async limitKeys(plan: Plan, budgets: Readonly<Record<string, number>>): Promise<void> {
    const { counter } = this.workspace;
    const configVersion = await newerVersion(counter);
    // A copy, because those of fast-check have no prototype.
    await counter.configure([{ ...plan, anchorMs: MODEL_ANCHOR, configVersion }], { ...budgets });
  }

  /** @returns the version that is the newest now. */
  async changeTemplate(shape: Shape): Promise<number> {
    const payloadTemplate = templateReading(shape);
    await this.workspace.operator("PUT", `/keys/${this.templateKey}/template`, { payload_template: payloadTemplate });
    return this.#templateVersion();
  }

  async #templateVersion(): Promise<number> {
    const query = env.DB.prepare("SELECT max(version) AS newest FROM payload_templates WHERE id = ?");
    return (await query.bind(this.templateKey).first<number>("newest")) ?? 0;
  }

  /** @param template version of the payload template; null: the key has none. */
  async admit(
    key: string,
    contents: readonly Content[],
    template: number | null = null,
  ): Promise<{ ids: string[]; answer: unknown }> {
    const ids = contents.map(() => `sig_${crypto.randomUUID()}`);
    const signals = contents.map((content, n) => ({
      id: ids[n] ?? "",
      payload: payloadOf(content),
      ...(content.kind === "account" ? { index: this.#indexOf(content) } : {}),
    }));
    for (const { id, payload } of signals) this.sent.set(id, payload);
    const isOfAccounts = contents.some(({ kind }) => kind === "account");
    const head: CallHead = { key, ...(isOfAccounts ? { endpoint: "product_org", idem: "call", template: 1 } : {}) };
    if (template !== null) head.template = template;
    const firstKeyId = firstKeyOf(key);
    const chain = firstKeyId === key ? {} : { firstKeyId };
    const call = { ...admitCall(0, { keyId: key, ...chain }), ...callOf(head, signals) };
    const result = await this.workspace.counter.admit(call);
    if (result.outcome !== "counted") return { ids, answer: result.outcome };
    const { accepted, held, rejected, rejection } = result;
    return { ids, answer: { accepted, held, rejected, code: rejection?.code ?? null } };
  }

  /** An account update has no id except that of its call: a number of its own if it shall have none. */
  #indexOf({ hasId, n }: Content): number {
    return hasId ? n : ++this.#lastIndex;
  }

  /** Lasts until the counter restarts. */
  async catchMessages(): Promise<void> {
    const sendBatch = (messages: Queued[]) => {
      this.#queue.push(...messages.map(({ body }) => body));
      return Promise.resolve();
    };
    await runInDurableObject(this.workspace.counter, (instance) => {
      Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch } } });
    });
  }

  /** Delivers a part of the queue, possibly in another order and possibly again later. */
  async deliver({ from, most, again }: { from: number; most: number; again: boolean }): Promise<void> {
    if (this.#queue.length === 0) await this.ringCounter();
    const start = this.#queue.length === 0 ? 0 : from % this.#queue.length;
    const bodies = this.#queue.slice(start, start + most);
    if (!again) this.#queue.splice(start, bodies.length);
    if (bodies.length > 0) await consumeMessages(bodies);
  }

  /** The latest message overtakes the others in the queue. */
  deliverLast(): Promise<void> {
    return this.deliver({ from: Math.max(this.#queue.length - 1, 0), most: 1, again: false });
  }

  /** The queue loses all its messages. */
  lose(): void {
    this.#queue = [];
  }

  /** The queue gives up all messages, which are recorded as dead letters. */
  async giveUp(): Promise<void> {
    if (this.#queue.length === 0) await this.ringCounter();
    await consumeMessages(this.#queue.splice(0), { queue: "signals-dlq" });
  }

  async ringCounter(): Promise<void> {
    await runInDurableObject(this.workspace.counter, (instance) => instance.alarm());
  }

  async ringStore(): Promise<void> {
    await ring(this.workspace.id);
  }

  /** The counter loses its memory and sends its messages again, from the oldest row on. */
  async restartCounter(): Promise<void> {
    this.restarted = true;
    await restart(this.workspace.counter);
    await this.catchMessages();
  }

  async restartStore(): Promise<void> {
    await restart(this.workspace.store);
  }

  /** R2 rejects every call until the store restarts or all messages are to arrive. */
  loseCold(): Promise<void> {
    const before = (): never => {
      throw new Error("R2 rejects everything");
    };
    return this.#hinder({ COLD: bucketWith({ before }) });
  }

  /** The store is full until it restarts or all messages are to arrive. */
  fillStore(): Promise<void> {
    return this.#hinder({ STORE_MAX_BYTES: "1" });
  }

  async #hinder(bindings: Parameters<typeof withBindings>[1]): Promise<void> {
    this.#isHindered = true;
    await withBindings(this.workspace.id, bindings);
  }

  /** Failed jobs and a full store need no waiting time. */
  async #endHindrance(): Promise<void> {
    if (!this.#isHindered) return;
    this.#isHindered = false;
    await this.restartStore();
    await this.restartCounter();
  }

  async wantNotifications(areWanted: boolean): Promise<void> {
    const wanted = wanting({ types: areWanted ? [...notificationTypes] : [], thresholds: areWanted ? [1, 15] : [] });
    await this.workspace.store.wantNotifications(wanted);
    await this.workspace.counter.wantNotifications(wanted);
  }

  /** Runs until every message has arrived and no work is left. */
  async quiet(): Promise<void> {
    this.underWay = { mapped: false, replays: false };
    await this.#endHindrance();
    // Uploads that a restart interrupted or R2 rejected are over.
    this.tick();
    for (let turn = 0; turn < 20; turn++) {
      await this.ringCounter();
      for (let message = 0; message < 100 && this.#queue.length > 0; message++) {
        await this.deliver({ from: 0, most: 10, again: false });
      }
      if ((await this.workspace.counter.books()).unsettled === 0) return ringUntilQuiet(this.workspace.id);
      await this.restartCounter();
    }
    throw new Error("not everything has arrived");
  }

  /**
   * Ends the run. Its alarms are set by the test's clock, to times long past by the machine's clock, and would ring
   * endlessly during other runs.
   */
  async end(): Promise<void> {
    const { id, counter, store } = this.workspace;
    for (const stub of [counter, store, env.DESTINATIONS.getByName(id)]) {
      await runInDurableObject(stub as DurableObjectStub, async (_, { storage }) => {
        storage.setAlarm = () => Promise.resolve();
        await storage.deleteAlarm();
      });
      await evictDurableObject(stub);
    }
  }

  async changeRule(event: string, rule: Rule): Promise<void> {
    this.changed.add(event);
    await this.workspace.operator("PATCH", `/rules/${this.rules.get(event)}`, ruleBody(rule));
  }

  async applyRule(event: string): Promise<void> {
    await this.workspace.operator("POST", `/rules/${this.rules.get(event)}/apply`);
  }

  async changeExclusions(exclusions: readonly Exclusion[]): Promise<void> {
    this.haveExclusionsChanged = true;
    const items = exclusions.map((exclusion) => {
      const [path, value] = "of" in exclusion ? ["email", emailOf(exclusion.of)] : ["event", exclusion.event];
      return { name: `${path} ${value}`, conditions: [{ path, operator: "equals", value }] };
    });
    await this.workspace.operator("PUT", "/exclusions", { items });
  }

  async applyExclusions(): Promise<void> {
    this.haveExclusionsChanged = false;
    await this.workspace.operator("POST", "/exclusions/apply");
  }

  async deletePerson(person: number): Promise<void> {
    await this.workspace.operator("DELETE", `/people/${emailOf(person)}`);
    await ringUntilQuiet(this.workspace.id);
  }

  /** Retention deletes the data of earlier periods, and then finds nothing more. */
  async dropEarlier(): Promise<void> {
    await this.workspace.retain(DROPPED_AFTER_DAYS);
    await ringUntilQuiet(this.workspace.id);
    await this.workspace.retain(null);
  }
}

/** A rule, or a change of a rule, in the format of the operator API. */
export function ruleBody<T extends Pick<Rule, "of">>({ of, ...rule }: T) {
  const conditions = of === null ? [] : [{ path: "email", operator: "equals", value: emailOf(of) }];
  return { ...rule, conditions };
}

function templateReading(shape: Shape) {
  return [
    { target: "event", path: shape },
    { target: "email", path: "who.mail" },
    { target: "anonymous_id", path: "who.anonymous" },
    { target: "user_id", path: "who.user" },
    { target: "id", path: "ref" },
  ];
}

/** A repeated content has its members in another order and another send time. */
function payloadOf({ kind, person, names, event, hasId, n, shape }: Content): string {
  if (shape !== undefined) {
    const who = names.map((name) => (name === "email" ? ["mail", emailOf(person)] : [name, idOf(name, person)]));
    return JSON.stringify({ n, [shape]: event, who: Object.fromEntries(who), ...(hasId && { ref: `r-${n}` }) });
  }
  if (kind === "account") return JSON.stringify({ id: accountId(person), n, plan: event });
  const ids = names.filter((name) => name !== "email").map((name) => [`${name}Id`, idOf(name, person)] as const);
  const members = [
    ["type", kind === "signal" ? "track" : kind],
    ["n", n],
    ["sentAt", new Date().toISOString()],
    ...(hasId ? [["messageId", `m-${n}`]] : []),
    ...ids,
    ...(kind === "alias" ? [["previousId", idOf("anonymous", person)]] : []),
    ...(kind === "signal" ? [["event", event]] : []),
    ...(names.includes("email")
      ? [kind === "identify" ? ["traits", { email: emailOf(person) }] : ["email", emailOf(person)]]
      : []),
  ] as const;
  return JSON.stringify(Object.fromEntries(Date.now() % 2_000 < 1_000 ? members : members.toReversed()));
}
