/**
 * A Signal Store's parts without the object around them: records the test's signals as the consumer would, in the
 * batch and at the time that the test chooses.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import type { WorkspaceRules } from "../../src/d1/stored-rules.ts";
import { evaluate } from "../../src/domain/rules/evaluate-rules.ts";
import type { Exclusion } from "../../src/domain/rules/exclusion.ts";
import { compileRules, type MappingRule, type RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { duplicateKey } from "../../src/domain/signal/canonical-form.ts";
import { groupOf } from "../../src/queue/process.ts";
import { topicOf } from "../../src/domain/signal/topic.ts";
import { normalise } from "../../src/domain/signal/normalise.ts";
import { occurredAt } from "../../src/domain/signal/occurred-at.ts";
import { mapSignal, type MappedSignal } from "../../src/domain/template/apply.ts";
import { compileStoredTemplate, type SignalMapping } from "../../src/domain/template/signal-template.ts";
import type { JsonObject } from "../../src/domain/json/json-value.ts";
import { newId } from "../../src/platform/ids.ts";
import {
  beginDeletion,
  findDeletion,
  noteForwarded,
  stepDeletions,
} from "../../src/store/deletion/person-deletions.ts";
import { stepReplacements } from "../../src/store/people/replacements.ts";
import { stepLinkJobs } from "../../src/store/people/linking.ts";
import type { DeletionReceipt } from "../../src/store/protocol/store-operations.ts";
import type { SignalToRecord } from "../../src/store/protocol/stored-signals.ts";
import type { Admission } from "../../src/wire/message.ts";
import { recordSignals } from "../../src/store/record-signals.ts";
import { shown, type ShownState } from "../../src/store/queries/shown.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";
import type { VerifiedStore } from "./known-work.ts";
import { openState, sealSignalLogs } from "./log.ts";
import { expectToAddUp } from "./read-store.ts";
import { nextDeletionMs, nextReplacementMs } from "../../src/store/state/due.ts";

const DAY = 24 * 3_600_000;

export interface Sent extends Partial<Admission> {
  payload: JsonObject | string;
  /** Whether the signal could not be processed. */
  dead?: boolean;
  /** Of its key. */
  template?: SignalMapping[];
}

/** Null: the payload is the call of a CDP, which ignores the template. */
function mappedBy(template: SignalMapping[], payload: JsonObject, receivedAtMs: number): MappedSignal | null {
  const outcome = mapSignal(compileStoredTemplate(template), payload, undefined, { receivedAtMs });
  if (outcome.kind === "call") return null;
  if (outcome.kind !== "mapped") throw new Error(`the template makes a ${outcome.kind} of the payload`);
  return outcome.signal;
}

export class TestStore {
  readonly workspaceId: string;
  readonly storage: DurableObjectStorage;
  bucket: R2Bucket;
  #state: StoreState | null = null;
  /** Version of the rules that the consumer evaluated; null: unknown, and earlier signals are linked later. */
  rulesVersion: number | null = null;
  /** Points of a signal with event E. */
  points = 5;
  /** The frequency of the rule for a person; null: at each match. */
  frequency: NonNullable<RuleMatch["frequency"]> | null = null;
  /** The mapping rules; null: the rule that scores event E. */
  mappingRules: readonly MappingRule[] | null = null;
  exclusions: readonly Exclusion[] = [];
  /** Whether payloads move to R2 at once. */
  isHalfFull = false;
  #ordinal = 0;
  /** Verifies that all work of the alarm is known. */
  verifyWork: (state: StoreState) => void = () => {};

  constructor(workspaceId: string, storage: DurableObjectStorage, bucket: R2Bucket = env.COLD) {
    this.workspaceId = workspaceId;
    this.storage = storage;
    this.bucket = bucket;
  }

  /** What queries read. */
  get shown(): ShownState {
    return shown(this.state);
  }

  get state(): StoreState {
    if (this.#state === null) {
      this.#state = openState(this.storage, this.workspaceId, this.bucket, undefined, () => this.isHalfFull);
      // A new store has no work.
      this.#state.due.set([]);
    }
    return this.#state;
  }

  set state(state: StoreState) {
    this.#state = state;
  }

  get isUsed(): boolean {
    return this.#state !== null;
  }

  get sql(): SqlStorage {
    return this.storage.sql;
  }

  /** @returns their ids. */
  record(nowMs: number, ...sent: Sent[]): string[] {
    const { rules } = this.rules;
    const signals = sent.map((signal) => this.signal(nowMs, signal, rules));
    this.recordAll(nowMs, signals);
    return signals.map(({ admission }) => admission.id);
  }

  /** Records signals as the consumer passes them on. */
  recordAll(nowMs: number, signals: readonly SignalToRecord[]): void {
    recordSignals(this.state, signals, nowMs, this.rulesVersion);
    this.verifyWork(this.state);
  }

  /** The signal as the consumer passes it on. */
  signal(nowMs: number, { payload, dead = false, template, ...given }: Sent, rules = this.rules.rules): SignalToRecord {
    const receivedAtMs = given.receivedAtMs ?? nowMs;
    const admission: Admission = {
      id: newId("sig", receivedAtMs),
      keyId: "key_1",
      endpoint: "signal_staging",
      verdict: "accepted",
      ordinal: ++this.#ordinal,
      signalLimit: 1_000,
      receivedAtMs,
      periodStartMs: receivedAtMs - 10 * DAY,
      periodEndMs: receivedAtMs + 20 * DAY,
      ...given,
    };
    const text = typeof payload === "string" ? payload : JSON.stringify(payload);
    if (dead || typeof payload === "string") {
      return { admission, payload: text, work: { kind: "dead", reason: "Too much work" } };
    }
    const mapped = template === undefined ? null : mappedBy(template, payload, receivedAtMs);
    const whole = mapped?.normalised ?? normalise(payload, admission.pathSource);
    const { properties: _, groupTraits, ...normalised } = whole;
    const topic = topicOf(whole);
    const key = duplicateKey({ payload, normalised: whole, pathSource: undefined, idempotencyKey: undefined });
    return {
      admission,
      payload: text,
      work: {
        kind: normalised.kind,
        normalised,
        ...(mapped !== null && { mapped: true }),
        ...(topic !== undefined && { topic }),
        ...groupOf(whole.traits.account, groupTraits),
        occurred: mapped?.occurred ?? occurredAt(payload, receivedAtMs),
        contentHash: key && createHash("sha256").update(key.text).digest("base64url"),
        duplicateWindowMs: key?.windowMs ?? 0,
        evaluation:
          rules.asksForEmail && normalised.email === undefined ? null : evaluate(rules, { ...whole, payload }),
      },
    };
  }

  /** The current rules, as the consumer and linking read them. */
  get rules(): WorkspaceRules {
    const { points, rulesVersion, frequency } = this;
    const version = rulesVersion ?? 1;
    const rule: MappingRule = {
      id: "rule_1",
      version,
      event: "E",
      match: "all",
      conditions: [],
      scoringSignal: "s",
      points,
      ...(frequency === null ? {} : { frequency }),
    };
    return { version, rules: compileRules(this.mappingRules ?? [rule], this.exclusions) };
  }

  /** Makes another version of the rule. */
  changeRules(points: number): void {
    this.rulesVersion = (this.rulesVersion ?? 0) + 1;
    this.points = points;
  }

  /** Takes a step of the link jobs. Returns whether the next step can follow at once. */
  link({ rules = this.rules } = {}): Promise<boolean> {
    return stepLinkJobs({ state: this.state, storage: this.storage, rules: async () => rules });
  }

  async linkAll(rules = this.rules): Promise<void> {
    // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
    while (await this.link({ rules }));
  }

  /** Finds all matches that count in place of removed matches. */
  replaceAll(): void {
    while (nextReplacementMs(this.sql) !== null) stepReplacements(this.state, Date.now());
  }

  get linkJobs(): number {
    return this.sql.exec("SELECT 1 FROM link_jobs").toArray().length;
  }

  /** Scores of people, by the part of the email before the @. */
  get scores(): Record<string, number> {
    const rows = this.sql.exec("SELECT email, score FROM people ORDER BY email").raw<[email: string, score: number]>();
    return Object.fromEntries([...rows].map(([email, score]) => [email.split("@")[0], score]));
  }

  /** Begins a deletion. Destinations accept it at once. */
  beginDeletion(email: string, nowMs: number, id = `del_${crypto.randomUUID()}`): void {
    beginDeletion(this.state, id, email, nowMs);
    for (let next = this.state.raised.next(); next !== null; next = this.state.raised.next()) {
      this.state.raised.forwarded(next.lastRow);
      if (next.deletion !== null) noteForwarded(this.state, next.deletion.receiptId, nowMs);
    }
  }

  /** Runs deletions until nothing is due. Returns the number of steps. */
  finishDeletions(nowMs: number): number {
    let steps = 0;
    for (; (nextDeletionMs(this.state) ?? Number.POSITIVE_INFINITY) <= nowMs; steps++) {
      if (steps > 1_000) throw new Error("it does not end");
      stepDeletions(this.state, nowMs);
    }
    return steps;
  }

  deletePerson(email: string, nowMs: number): DeletionReceipt | null {
    this.beginDeletion(email, nowMs);
    this.finishDeletions(nowMs);
    return findDeletion(this.sql, email);
  }

  /** Runs an action that crashes after a number of writes. Returns whether it crashed. */
  async crashAfter(writes: number, act: () => unknown): Promise<boolean> {
    const { sql } = this;
    const exec = sql.exec.bind(sql);
    let left = writes;
    sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      if (/^\s*(INSERT|UPDATE|DELETE)/.test(query) && left-- <= 0) throw new Error("crash after some writes");
      return exec(query, ...bindings);
    }) as typeof exec;
    try {
      await act();
      return false;
    } catch (error) {
      if (!String(error).includes("crash after some writes")) throw error;
      return true;
    } finally {
      sql.exec = exec;
    }
  }

  /** Seals all open lines. */
  seal(): void {
    sealSignalLogs(this.state);
  }

  /** Reads the state again, as a restart does. */
  restart(): void {
    const { due } = this.state;
    this.#state = openState(this.storage, this.workspaceId, this.bucket, due, () => this.isHalfFull);
  }

  /** Runs until nothing is left to move, rewrite or remove. Only the alarm does so, and asks all chores afterwards. */
  async workOnCold(nowMs: number): Promise<void> {
    const { signals } = this.state;
    for (let turns = 0; (signals.workMs(nowMs) ?? Number.POSITIVE_INFINITY) <= nowMs; turns++) {
      if (turns > 50) throw new Error("still not quiet");
      await signals.work(nowMs);
    }
    this.state.due.forget();
  }
}

/** A test in a store that adds up afterwards. */
export function inBalance(act: (store: TestStore) => unknown, options: { hasDropped?: boolean } = {}) {
  return async (): Promise<void> => {
    const workspaceId = await inStore(async (store) => {
      await act(store);
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId, options);
  };
}

let sent = 0;

/** A signal of event E that is no duplicate. */
export function track(fields: object, admission: Partial<Admission> = {}): Sent {
  return { payload: { type: "track", event: "E", messageId: `m-${++sent}`, ...fields }, ...admission };
}

/** An identify call that is no duplicate. */
export function identify(email: string, ids: object, admission: Partial<Admission> = {}): Sent {
  return { payload: { type: "identify", messageId: `m-${++sent}`, ...ids, traits: { email } }, ...admission };
}

export function inStore<T>(act: (store: TestStore) => T | Promise<T>): Promise<T> {
  const workspaceId = crypto.randomUUID();
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), async (instance, { storage }) => {
    const store = new TestStore(workspaceId, storage);
    store.verifyWork = (state) => (instance as unknown as VerifiedStore).noteUnknownWorkOf(state);
    const result = await act(store);
    if (store.isUsed) store.verifyWork(store.state);
    return result;
  });
}
