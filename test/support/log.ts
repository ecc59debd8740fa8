/** Opens a store's logs for tests, and what tests do to a log besides its interface. */
import { env } from "cloudflare:workers";
import { test } from "vitest";
import { ColdObjects } from "../../src/store/log/cold.ts";
import { afterRetention, type SignalFacts } from "../../src/store/log/line.ts";
import { readLine, type SignalLogName, type SignalLog } from "../../src/store/log/signal-log.ts";
import { StoredSignalLog, type StoredSignalLogOptions } from "../../src/store/log/stored-log.ts";
import { People } from "../../src/store/people/people.ts";
import { SignalStore } from "../../src/store/signal-store.ts";
import { NextDue } from "../../src/store/state/due.ts";
import { type OpenSignalLog, StoreState } from "../../src/store/state/store-state.ts";
import { PlainSignalLog } from "./plain-log.ts";

/** `STORE_LOG=plain`: the tests run with the plain log. */
export const isPlain = env.STORE_LOG === "plain";

function openSignalLog(storage: DurableObjectStorage, options: StoredSignalLogOptions): SignalLog {
  return isPlain
    ? new PlainSignalLog(storage.sql, options.name, options.emptyMeta)
    : new StoredSignalLog(storage, options);
}

/** A test of what only the stored log has: segments, rows, and R2. */
/* oxlint-disable vitest/valid-title, vitest/expect-expect, vitest/no-disabled-tests -- it is no test */
export const testStored = test.skipIf(isPlain);
/* oxlint-enable vitest/valid-title, vitest/expect-expect, vitest/no-disabled-tests */

/** Stores that are opened from now on have this log too. */
export function openSignalLogsInStores(): void {
  Object.assign(SignalStore.prototype, {
    openSignalLog(this: { ctx: DurableObjectState }, options: StoredSignalLogOptions) {
      return openSignalLog(this.ctx.storage, options);
    },
  });
}

/** A stored log alone, without cold storage. */
export function storedLog(storage: DurableObjectStorage, name: SignalLogName = "signals"): StoredSignalLog {
  const objects = new ColdObjects(env.COLD, "ws_log");
  const nothing = () => {};
  return new StoredSignalLog(storage, {
    name,
    emptyMeta: { count: 0 },
    makeRoom: nothing,
    announce: nothing,
    objects: () => objects,
    isHalfFull: () => false,
  });
}

/** The state as after a restart of the store. @param bucket for cold storage, where payloads move at once if the store is half full. */
export function openState(
  storage: DurableObjectStorage,
  workspaceId: string,
  bucket: R2Bucket = env.COLD,
  due = new NextDue(),
  isHalfFull = (): boolean => false,
): StoreState {
  const objects = new ColdObjects(bucket, workspaceId);
  const open: OpenSignalLog = (options) => openSignalLog(storage, { ...options, objects: () => objects, isHalfFull });
  return new StoreState(storage.sql, open, due);
}

/** Seals the open lines of both logs, as a full head does. */
export function sealSignalLogs({ signals, held }: Pick<StoreState, "signals" | "held">): void {
  for (const log of [signals, held]) {
    if (log instanceof StoredSignalLog || log instanceof PlainSignalLog) log.seal();
    log.flush();
  }
}

/** Drops the wanted signals, as retention does. */
export function dropLines(state: StoreState, isWanted: (seq: number) => boolean = () => true): void {
  const { signals } = state;
  const people = new People(state, Date.now());
  for (const portion of signals.walk({ after: 0 })) {
    const lines = portion.seqs.filter(isWanted).map((seq) => ({ seq, facts: portion.facts(seq) }));
    for (const line of lines) if (line.facts.person !== null) people.dropLines(line.facts.person.personId, [line]);
    signals.rewrite(portion, new Map(lines.map(({ seq, facts }) => [seq, afterRetention(facts)] as const)));
  }
  people.flush();
  signals.flush();
}

export function factsOf(log: SignalLog, seq: number): SignalFacts {
  const facts = readLine(log, seq);
  if (facts === null) throw new Error(`line ${seq} is gone`);
  return facts;
}

const NOW = Date.UTC(2026, 5, 1, 12);

/** A processed visit of nobody. */
export function lineOf(id: string, over: Partial<SignalFacts> = {}): SignalFacts {
  return {
    admission: {
      id,
      keyId: "key_1",
      endpoint: "signal_staging",
      verdict: "accepted",
      ordinal: 7,
      signalLimit: 1_000,
      receivedAtMs: NOW,
      periodStartMs: NOW - 10,
      periodEndMs: NOW + 10,
    },
    recordedAtMs: NOW + 5,
    occurred: { ms: NOW, from: "received" },
    kind: "signal",
    status: "processed",
    event: "Visit",
    source: "site",
    email: null,
    userId: null,
    anonymousId: null,
    traits: {},
    person: null,
    timelineIds: [],
    linkedAtMs: null,
    linkedRulesVersion: null,
    duplicateOf: null,
    sameId: false,
    rulesTried: 0,
    outcomes: [],
    excludedBy: null,
    problems: {},
    mapped: false,
    topic: null,
    deletedAtMs: null,
    ...over,
  };
}
