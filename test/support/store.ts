/**
 * A Signal Store's parts without the object around them: records the test's signals as the consumer would, in the
 * batch and at the time that the test chooses.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import type { WorkspaceRules } from "../../src/control/stored-rules.ts";
import { evaluate } from "../../src/domain/rules/evaluate-rules.ts";
import { compileRules, type MappingRule, type RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { duplicateKey } from "../../src/domain/signal/canonical-form.ts";
import { groupOf } from "../../src/queue/process.ts";
import { normalise } from "../../src/domain/signal/normalise.ts";
import { occurredAt } from "../../src/domain/signal/occurred-at.ts";
import type { JsonObject } from "../../src/domain/json/json-value.ts";
import { newId } from "../../src/platform/ids.ts";
import {
  beginDeletion,
  findDeletion,
  noteHandedOver,
  nextDeletionMs,
  stepDeletions,
} from "../../src/store/deletion/person-deletions.ts";
import { ColdObjects, nextColdWorkMs, workOnCold } from "../../src/store/log/cold.ts";
import { stepLinkJobs } from "../../src/store/people/linking.ts";
import type { DeletionReceipt } from "../../src/store/protocol/store-operations.ts";
import type { SignalToRecord } from "../../src/store/protocol/stored-signals.ts";
import type { Admission } from "../../src/wire/admission.ts";
import { recordSignals } from "../../src/store/record-signals.ts";
import { StoreState } from "../../src/store/state/store-state.ts";
import { expectToAddUp } from "./read-store.ts";

const DAY = 24 * 3_600_000;

export interface Sent extends Partial<Admission> {
  payload: JsonObject | string;
  /** Whether the signal could not be processed. */
  dead?: boolean;
}

export class TestStore {
  readonly workspaceId: string;
  readonly storage: DurableObjectStorage;
  readonly objects: ColdObjects;
  state: StoreState;
  /** Version of the rules that the consumer evaluated; null: unknown, and earlier signals are linked later. */
  rulesVersion: number | null = null;
  /** Points of a signal with event E. */
  points = 5;
  /** The frequency of the rule for a person; null: at each match. */
  frequency: NonNullable<RuleMatch["frequency"]> | null = null;
  /** The mapping rules; null: the rule that scores event E. */
  mappingRules: readonly MappingRule[] | null = null;
  #ordinal = 0;

  constructor(workspaceId: string, storage: DurableObjectStorage, bucket: R2Bucket = env.COLD) {
    this.workspaceId = workspaceId;
    this.storage = storage;
    this.state = new StoreState(storage.sql);
    this.objects = new ColdObjects(bucket, workspaceId);
  }

  get sql(): SqlStorage {
    return this.storage.sql;
  }

  /** @returns their ids. */
  record(nowMs: number, ...sent: Sent[]): string[] {
    const { rules } = this.rules;
    const signals = sent.map((signal) => this.signal(nowMs, signal, rules));
    recordSignals(this.state, signals, nowMs, this.rulesVersion);
    return signals.map(({ admission }) => admission.id);
  }

  /** Records signals as the consumer passes them on. */
  recordAll(nowMs: number, signals: readonly SignalToRecord[]): void {
    recordSignals(this.state, signals, nowMs, this.rulesVersion);
  }

  /** The signal as the consumer passes it on. */
  signal(nowMs: number, { payload, dead = false, ...given }: Sent, rules = this.rules.rules): SignalToRecord {
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
    const whole = normalise(payload, admission.pathSource);
    const { properties: _, groupTraits, ...normalised } = whole;
    const key = duplicateKey({ payload, text, normalised: whole, pathSource: undefined, idempotencyKey: undefined });
    return {
      admission,
      payload: text,
      work: {
        kind: normalised.kind,
        normalised,
        ...groupOf(whole.traits.account, groupTraits),
        occurred: occurredAt(payload, receivedAtMs),
        contentHash: key && createHash("sha256").update(key.text).digest("base64url"),
        duplicateWindowMs: key?.windowMs ?? 0,
        evaluation: rules.asksForEmail && normalised.email === undefined ? null : evaluate(rules, whole),
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
    return { version, rules: compileRules(this.mappingRules ?? [rule]) };
  }

  /** Makes another version of the rule. */
  changeRules(points: number): void {
    this.rulesVersion = (this.rulesVersion ?? 0) + 1;
    this.points = points;
  }

  /** Takes a step of the link jobs. Returns whether the next step can follow at once. */
  link({ rules = this.rules, objects = this.objects } = {}): Promise<boolean> {
    return stepLinkJobs({ state: this.state, storage: this.storage, objects, rules: async () => rules });
  }

  async linkAll(rules = this.rules): Promise<void> {
    // oxlint-disable-next-line no-await-in-loop -- each step continues the step before
    while (await this.link({ rules }));
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
      this.state.raised.handedOn(next.lastRow);
      if (next.deletion !== null) noteHandedOver(this.state, next.deletion.receiptId, nowMs);
    }
  }

  /** Runs deletions until nothing is due. Returns the number of steps. */
  finishDeletions(nowMs: number): number {
    let steps = 0;
    for (; (nextDeletionMs(this.state, nowMs) ?? Number.POSITIVE_INFINITY) <= nowMs; steps++) {
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
    this.state.signals.seal();
    this.state.held.seal();
    this.state.signals.flush();
    this.state.held.flush();
  }

  /** Reads the state again, as a restart does. */
  restart(): void {
    this.state = new StoreState(this.sql);
  }

  /** Runs until nothing is left to move, rewrite or remove. */
  async workOnCold(nowMs: number): Promise<void> {
    const work = { storage: this.storage, log: this.state.signals, objects: this.objects };
    for (let turns = 0; (nextColdWorkMs(this.sql, nowMs) ?? Number.POSITIVE_INFINITY) <= nowMs; turns++) {
      if (turns > 50) throw new Error("still not quiet");
      await workOnCold(work, nowMs);
    }
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
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) =>
    act(new TestStore(workspaceId, storage)),
  );
}
