/** Cold storage under a test's control: when signals are packed, and when R2 does not do as it is told. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { COLD_ABANDONED_MS, COLD_AFTER_MS } from "../../src/limits.ts";
import { ColdObjects } from "../../src/store/cold-objects.ts";
import { nextColdWorkMs } from "../../src/store/cold-storage.ts";
import { workOnColdStorage } from "../../src/store/cold-work.ts";
import { nextLinkJobMs } from "../../src/store/link-jobs.ts";

const AGE_SIGNALS = `UPDATE signals SET recorded_at = recorded_at - ?
  WHERE status = 'anonymous' AND status <> 'processed' AND seq > 0`;

const stub = (workspaceId: string) => env.SIGNAL_STORE.getByName(workspaceId);

/**
 * Rings the store's alarm, as if everything that waits for a time had waited long enough. What it sets the next one to is
 * only heeded when asked for: otherwise it rings when a test says so.
 */
export async function ring(workspaceId: string, { setNext = false } = {}): Promise<void> {
  await runInDurableObject(stub(workspaceId), async (instance, { storage }) => {
    const { sql } = storage;
    const setAlarm = storage.setAlarm.bind(storage);
    let nextMs = Number.POSITIVE_INFINITY;
    storage.setAlarm = (atMs) => Promise.resolve(void (nextMs = Math.min(nextMs, Number(atMs))));
    await storage.deleteAlarm();
    sql.exec(AGE_SIGNALS, COLD_AFTER_MS + 1);
    sql.exec("UPDATE link_jobs SET due_at = 1 WHERE kind > ''");
    sql.exec("UPDATE cold_objects SET at = at - ? WHERE state = 'writing' AND state <> 'stored'", COLD_ABANDONED_MS);
    await instance.alarm();
    storage.setAlarm = setAlarm;
    if (setNext && nextMs !== Number.POSITIVE_INFINITY) await setAlarm(nextMs);
  });
}

/** Packs what there is, while the store's alarm is busy with something else. */
export async function packNow(workspaceId: string): Promise<void> {
  await runInDurableObject(stub(workspaceId), async (_, { storage }) => {
    storage.sql.exec(AGE_SIGNALS, COLD_AFTER_MS + 1);
    await workOnColdStorage(storage, new ColdObjects(env.COLD, workspaceId));
  });
}

/** The store as it is after a restart, with these bindings in place of its own; with none, its own again. */
export async function withBindings(workspaceId: string, bindings: Partial<Env> = {}): Promise<void> {
  await runInDurableObject(stub(workspaceId), (instance) => {
    Object.defineProperty(instance, "env", { value: { ...env, ...bindings }, configurable: true });
  });
}

type BucketCall = "put" | "get" | "delete";

/** The real bucket, with `before` and `after` around each of its calls; what they throw is what the caller gets. */
export function bucketWith(around: {
  before?: (call: BucketCall, argument: unknown) => void | Promise<void>;
  after?: (call: BucketCall, argument: unknown) => void | Promise<void>;
}): R2Bucket {
  return new Proxy(env.COLD, {
    get(bucket, property) {
      const call = Reflect.get(bucket, property) as unknown;
      if (typeof call !== "function") return call;
      return async (...given: unknown[]) => {
        await around.before?.(property as BucketCall, given[0]);
        const answer: unknown = await Reflect.apply(call, bucket, given);
        await around.after?.(property as BucketCall, given[0]);
        return answer;
      };
    },
  });
}

export interface ColdObjectRow {
  [column: string]: SqlStorageValue;
  id: string;
  state: string;
  scrub: number;
}

export interface ColdState {
  /** Keys in the bucket. */
  keys: string[];
  objects: ColdObjectRow[];
  /** Signals whose payload is in the bucket only. */
  cold: string[];
  /** Anonymous signals with their payload. */
  warm: string[];
  jobs: number;
}

export async function coldState(workspaceId: string): Promise<ColdState> {
  const { objects: listed } = await env.COLD.list({ prefix: `cold/${workspaceId}/` });
  return runInDurableObject(stub(workspaceId), (_, { storage: { sql } }) => {
    const ids = (where: string) =>
      [...sql.exec<{ id: string }>(`SELECT id FROM signals WHERE status = 'anonymous' AND ${where} ORDER BY seq`)].map(
        ({ id }) => id,
      );
    return {
      keys: listed.map(({ key }) => key),
      objects: sql.exec<ColdObjectRow>("SELECT id, state, scrub FROM cold_objects ORDER BY id").toArray(),
      cold: ids("payload IS NULL"),
      warm: ids("payload IS NOT NULL"),
      jobs: sql.exec<{ count: number }>("SELECT count(*) AS count FROM link_jobs").one().count,
    };
  });
}

/** The lines of an object, as they are in R2. */
export async function linesOf(key: string): Promise<string[]> {
  const object = await env.COLD.get(key);
  if (object === null) throw new Error(`${key} is not in the bucket`);
  const text = await new Response(object.body.pipeThrough(new DecompressionStream("gzip"))).text();
  return text.split("\n");
}

/** Rings until nothing is left to be done; `limit` times at most. */
export async function ringUntilQuiet(workspaceId: string, limit = 50): Promise<void> {
  for (let rings = 0; rings < limit; rings++) {
    await ring(workspaceId);
    const next = await runInDurableObject(stub(workspaceId), (_, { storage: { sql } }) => [
      nextLinkJobMs(sql),
      nextColdWorkMs(sql, 0),
    ]);
    if (next.every((atMs) => atMs === null)) return;
  }
  throw new Error(`still not quiet: ${JSON.stringify(await coldState(workspaceId))}`);
}

export function gzip(text: string): Promise<ArrayBuffer> {
  return new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
}
