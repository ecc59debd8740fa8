/**
 * A Signal Store's parts without the object around them: records the test's signals as the consumer would, in the
 * batch and at the time that the test chooses.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHash } from "node:crypto";
import type { RuleMatch } from "../../src/domain/rules/mapping-rule.ts";
import { duplicateKey } from "../../src/domain/signal/canonical-form.ts";
import { normalise } from "../../src/domain/signal/normalise.ts";
import type { JsonObject } from "../../src/domain/json/json-value.ts";
import { newId } from "../../src/platform/ids.ts";
import { ColdObjects, moveToCold, nextColdWorkMs, removeObjects, scrubObject } from "../../src/store/log/cold.ts";
import type { SignalToRecord } from "../../src/store/protocol/stored-signals.ts";
import type { Admission } from "../../src/wire/admission.ts";
import { recordSignals } from "../../src/store/record-signals.ts";
import { StoreState } from "../../src/store/state/store-state.ts";

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
  /** How often the rule scores a person; null: each time. */
  frequency: NonNullable<RuleMatch["frequency"]> | null = null;
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
    const signals = sent.map((signal) => this.signal(nowMs, signal));
    recordSignals(this.state, signals, nowMs, this.rulesVersion);
    return signals.map(({ admission }) => admission.id);
  }

  signal(nowMs: number, { payload, dead = false, ...given }: Sent): SignalToRecord {
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
    const { properties: _, ...normalised } = whole;
    const key = duplicateKey({ payload, text, normalised: whole, pathSource: undefined, idempotencyKey: undefined });
    const match: RuleMatch = {
      ruleId: "rule_1",
      ruleVersion: this.rulesVersion ?? 1,
      scoringSignal: "s",
      points: this.points,
      ...(this.frequency === null ? {} : { frequency: this.frequency }),
    };
    return {
      admission,
      payload: text,
      work: {
        kind: normalised.kind,
        normalised,
        contentHash: key && createHash("sha256").update(key.text).digest("base64url"),
        duplicateWindowMs: key?.windowMs ?? 0,
        evaluation: { rulesTried: 1, matches: normalised.event === "E" && normalised.kind === "signal" ? [match] : [] },
      },
    };
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
      await scrubObject(work);
      await removeObjects(work, nowMs);
      await moveToCold(work, nowMs);
    }
  }
}

export function inStore<T>(act: (store: TestStore) => T | Promise<T>): Promise<T> {
  const workspaceId = crypto.randomUUID();
  return runInDurableObject(env.SIGNAL_STORE.getByName(workspaceId), (_, { storage }) =>
    act(new TestStore(workspaceId, storage)),
  );
}
