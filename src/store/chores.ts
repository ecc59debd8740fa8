/** The chores of the store's alarm: when each is due, and one bounded step. They run in this order, since they share lines. */
import type { HandOn } from "../notifications/hand-on.ts";
import type { Chore } from "./chore-runner.ts";
import { nextDeletionMs, stepDeletions } from "./deletion/person-deletions.ts";
import { purgeHeld, deleteExpired, nextRetentionMs, setRetention } from "./deletion/retention.ts";
import { nextDeadLetterNewsMs, raiseDeadLetters } from "./state/raise-events.ts";
import { type ColdObjects, coldAfterMs, moveToCold, nextColdWorkMs, removeObjects, scrubObject } from "./log/cold.ts";
import { nextLinkJobMs } from "./people/linking.ts";
import { hasRecounts, stepRecounts, hasReplacements, stepReplacements } from "./people/recount.ts";
import type { StoreConfig } from "./protocol/store-operations.ts";
import { hasRuleJobs, nextRuleJobMs, stepRuleJob } from "./rules/rule-jobs.ts";
import type { StoreState } from "./state/store-state.ts";

export interface ChoreWork {
  storage: DurableObjectStorage;
  state(): StoreState;
  coldObjects(): ColdObjects;
  maxBytes(): number;
  isFull(): boolean;
  transact(act: () => void): void;
  link(): Promise<void>;
  /** When the next release or replay is due, in milliseconds since 1970. */
  returnsDueMs(): number | null;
  sendReturns(): Promise<void>;
  handOn(): HandOn;
  /** The plan's current retention from D1. @throws when D1 does not answer. */
  currentRetention(): Promise<StoreConfig>;
}

export function choresOf(store: ChoreWork): readonly Chore[] {
  const afterMs = (): number => coldAfterMs(store.storage.sql, store.maxBytes());
  return [
    {
      name: "purge",
      due: () => store.state().held.nextEndMs(),
      step: (nowMs) => store.transact(() => purgeHeld(store.state(), nowMs)),
    },
    {
      name: "apply_rules",
      // A rule job adds entries to timelines, so it waits while the store is full.
      due: () => (store.isFull() ? null : nextRuleJobMs(store.storage.sql)),
      step: async () => void (await stepRuleJob(store.state(), store.coldObjects(), store.storage)),
    },
    {
      name: "deletion",
      due: (nowMs) => nextDeletionMs(store.state(), nowMs),
      step: (nowMs) => store.transact(() => stepDeletions(store.state(), nowMs)),
    },
    {
      name: "retention",
      due: () => nextRetentionMs(store.state()),
      step: async (nowMs) => {
        // Without new signals the store does not learn of a changed plan. Without an answer of D1 nothing is dropped.
        const retention = await store.currentRetention();
        store.transact(() => {
          setRetention(store.state().sql, retention, nowMs);
          deleteExpired(store.state(), nowMs);
        });
      },
    },
    { name: "link", due: () => nextLinkJobMs(store.storage.sql), step: () => store.link() },
    {
      name: "recount",
      due: (nowMs) => (hasRecounts(store.storage.sql) ? nowMs : null),
      step: () => store.transact(() => stepRecounts(store.state())),
    },
    {
      name: "replace",
      // Rule jobs come first: they remove and add scores that a replacement would count.
      due: (nowMs) => (hasReplacements(store.storage.sql) && !hasRuleJobs(store.storage.sql) ? nowMs : null),
      step: (nowMs) => store.transact(() => stepReplacements(store.state(), nowMs)),
    },
    {
      name: "cold",
      due: (nowMs) => nextColdWorkMs(store.storage.sql, nowMs, afterMs()),
      step: (nowMs) => workOnCold(store, nowMs, afterMs()),
    },
    {
      name: "tell_dead_letters",
      due: () => nextDeadLetterNewsMs(store.state()),
      step: (nowMs) => store.transact(() => raiseDeadLetters(store.state(), nowMs)),
    },
    { name: "send_again", due: () => store.returnsDueMs(), step: () => store.sendReturns() },
    { name: "hand_on", due: () => store.handOn().dueMs, step: () => store.handOn().run() },
  ];
}

/** Runs all three steps even if one fails: an object that can never be read must not keep payloads in a store that fills up. */
async function workOnCold(store: ChoreWork, nowMs: number, afterMs: number): Promise<void> {
  const work = { storage: store.storage, log: store.state().signals, objects: store.coldObjects() };
  const failures: unknown[] = [];
  const failed = (error: unknown): void => void failures.push(error);
  await scrubObject(work).catch(failed);
  await removeObjects(work, nowMs).catch(failed);
  await moveToCold(work, nowMs, afterMs).catch(failed);
  if (failures.length > 0) throw failures[0];
}
