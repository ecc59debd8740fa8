/**
 * Gives a test control of the store's alarm and of cold storage: it decides when the alarm rings and when R2 fails.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { COLD_ABANDONED_MS } from "../../src/store/log/cold.ts";
import type { SignalStore } from "../../src/store/signal-store.ts";
import type { StoreState } from "../../src/store/state/store-state.ts";
import { intercept } from "./intercept.ts";
import { sealSignalLogs } from "./log.ts";
import type { TestStore } from "./store.ts";

/** Longer than any call of R2 takes here. */
const WRITING_MS = 200;

const stub = (workspaceId: string) => env.SIGNAL_STORE.getByName(workspaceId);

/**
 * Rings the store's alarm as if all waiting times had passed: it seals open lines and runs jobs and chores. The next
 * alarm of the store is ignored unless requested, so that only the test rings it.
 */
export async function ring(workspaceId: string, { setNext = false, seal = true } = {}): Promise<void> {
  await runInDurableObject(stub(workspaceId), (instance, { storage }) => ringInside(instance, storage, setNext, seal));
}

async function ringInside(
  instance: SignalStore,
  storage: DurableObjectStorage,
  setNext: boolean,
  seal: boolean,
): Promise<void> {
  const { sql } = storage;
  const setAlarm = storage.setAlarm.bind(storage);
  let nextMs = Number.POSITIVE_INFINITY;
  storage.setAlarm = (atMs) => Promise.resolve(void (nextMs = Math.min(nextMs, Number(atMs))));
  await storage.deleteAlarm();
  if (seal) sealOpen(stateOf(instance), storage);
  sql.exec("UPDATE link_jobs SET due_at = 1 WHERE due_at > 1");
  sql.exec("UPDATE rule_jobs SET due_at = 1 WHERE status <> 'done'");
  // Payloads that may be on their way to R2 stay untouched.
  sql.exec(
    "UPDATE cold_objects SET at = at - ? WHERE state = 'writing' AND at <= ?",
    COLD_ABANDONED_MS,
    Date.now() - WRITING_MS,
  );
  await instance.alarm();
  storage.setAlarm = setAlarm;
  if (setNext && nextMs !== Number.POSITIVE_INFINITY) await setAlarm(nextMs);
}

/** From now on only other chores set the store's alarm: it does not ask D1 for its retention. */
export async function askRetentionNever(workspaceId: string): Promise<void> {
  await runInDurableObject(stub(workspaceId), async (_, { storage }) => {
    storage.sql.exec("UPDATE retention SET next_at = ?", Date.UTC(2100));
    await storage.deleteAlarm();
  });
}

/** All objects of a store are gone from R2, and the store marks their payloads as lost. */
export async function losePayloads({ state, workspaceId }: Pick<TestStore, "state" | "workspaceId">): Promise<void> {
  const { objects } = await env.COLD.list({ prefix: `cold/${workspaceId}/` });
  await env.COLD.delete(objects.map(({ key }) => key));
  // Also those that were written before the clock was set back.
  await state.signals.markLostPayloads(Number.MAX_SAFE_INTEGER);
  // The store asks all chores afterwards.
  state.due.atOnce("cold");
}

function stateOf(instance: SignalStore): StoreState {
  return (instance as unknown as { state: StoreState }).state;
}

function sealOpen(state: StoreState, storage: DurableObjectStorage): void {
  try {
    storage.transactionSync(() => {
      sealSignalLogs(state);
    });
  } catch (error) {
    state.reload();
    throw error;
  }
}

/** Restarts the store with these bindings; without bindings, with the real bindings again. */
export async function withBindings(
  workspaceId: string,
  bindings: Partial<Env> & { STORE_MAX_BYTES?: string } = {},
): Promise<void> {
  await runInDurableObject(stub(workspaceId), (instance) => {
    Object.defineProperty(instance, "env", { value: { ...env, ...bindings }, configurable: true });
  });
}

type BucketCall = "put" | "get" | "delete" | "list";

/**
 * The real bucket, with `before` and `after` around each of its calls. The caller gets the errors that they throw.
 */
export function bucketWith(around: {
  before?: (call: BucketCall, argument: unknown) => void | Promise<void>;
  after?: (call: BucketCall, argument: unknown) => void | Promise<void>;
}): R2Bucket {
  return intercept(env.COLD, async ({ method, given, make }) => {
    await around.before?.(method as BucketCall, given[0]);
    const answer = await make();
    await around.after?.(method as BucketCall, given[0]);
    return answer;
  });
}

interface ColdState {
  keys: string[];
  objects: { key: string; state: string }[];
  /** First lines of the segments whose payloads are in the bucket, and of those whose payloads are in the store. */
  cold: number[];
  warm: number[];
  jobs: number;
}

export async function coldState(workspaceId: string): Promise<ColdState> {
  const { objects: listed } = await env.COLD.list({ prefix: `cold/${workspaceId}/` });
  return runInDurableObject(stub(workspaceId), (_, { storage: { sql } }) => {
    const firsts = (query: string) => [...sql.exec<{ first_seq: number }>(query)].map((row) => row.first_seq);
    return {
      keys: listed.map(({ key }) => key),
      objects: sql.exec<{ key: string; state: string }>("SELECT key, state FROM cold_objects ORDER BY key").toArray(),
      cold: firsts("SELECT first_seq FROM signals_segments WHERE cold IS NOT NULL ORDER BY first_seq"),
      warm: firsts("SELECT first_seq FROM signals_payloads ORDER BY first_seq"),
      jobs: sql.exec<{ count: number }>("SELECT count(*) AS count FROM link_jobs").one().count,
    };
  });
}

/** Rings until the remaining work only waits for days to pass; at most `limit` times. */
export async function ringUntilQuiet(workspaceId: string, limit = 60): Promise<void> {
  for (let rings = 0; rings < limit; rings++) {
    const { busy, writing } = await runInDurableObject(stub(workspaceId), async (instance, { storage }) => {
      await ringInside(instance, storage, false, true);
      // A ring moves the payloads of one day to R2.
      const coldMs = stateOf(instance).signals.workMs(Date.now()) ?? Number.POSITIVE_INFINITY;
      const found = storage.sql
        .exec<{ busy: number; writing: number }>(
          `SELECT EXISTS (SELECT 1 FROM cold_scrubs) OR EXISTS (SELECT 1 FROM rule_jobs WHERE status <> 'done')
             OR EXISTS (SELECT 1 FROM deletions WHERE finished_at IS NULL) OR EXISTS (SELECT 1 FROM link_jobs)
             OR EXISTS (SELECT 1 FROM replacements)
             OR EXISTS (SELECT 1 FROM cold_objects WHERE state <> 'stored') AS busy,
             EXISTS (SELECT 1 FROM cold_objects WHERE state = 'writing') AS writing`,
        )
        .one();
      return { ...found, busy: found.busy === 1 || coldMs <= Date.now() };
    });
    if (!busy) return;
    if (writing === 1) await new Promise((resolve) => setTimeout(resolve, WRITING_MS));
  }
  throw new Error(`still not quiet: ${JSON.stringify(await coldState(workspaceId))}`);
}
