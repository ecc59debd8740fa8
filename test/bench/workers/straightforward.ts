/**
 * The same job as a first straightforward implementation: per request one D1 look-up of the key, one call to a
 * counter object, one `queue.send`, or `sendBatch` for a batch; a consumer that writes each of its batches to D1 in
 * one transaction. Solid, but not tuned.
 */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";
import { consume } from "./straightforward-consumer.ts";
import type { QueuedSignal } from "./straightforward-consumer.ts";
import { sha256 } from "./straightforward-hash.ts";

interface Env {
  DB: D1Database;
  SIGNAL_COUNTER: DurableObjectNamespace<SignalCounter>;
  SIGNALS: Queue<QueuedSignal>;
}

interface KeyRow {
  workspace_id: string;
  signal_limit: number;
}

/** The maximum number of messages of `sendBatch`. */
const QUEUE_BATCH = 100;

export class SignalCounter extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, count INTEGER NOT NULL)");
  }

  increment(by: number): number {
    return this.ctx.storage.sql
      .exec<{ count: number }>(
        `INSERT INTO counter (id, count) VALUES (1, ?1)
         ON CONFLICT (id) DO UPDATE SET count = count + ?1 RETURNING count`,
        by,
      )
      .one().count;
  }
}

const app = new Hono<{ Bindings: Env }>();

app.post("/api/signal-staging/webhook/:key", async (c) => {
  const key = await findKey(c.env.DB, c.req.param("key"));
  if (key === null) return c.json({ title: "Unauthorized", status: 401 }, 401);

  const signal = await c.req.json<QueuedSignal["signal"]>().catch(() => null);
  if (!isSignal(signal)) return c.json({ title: "Not a signal", status: 400 }, 400);

  const count = await c.env.SIGNAL_COUNTER.getByName(key.workspace_id).increment(1);
  if (count > 2 * key.signal_limit) return c.json({ title: "Too Many Requests", status: 429 }, 429);

  const queued = toQueue(key, signal);
  await c.env.SIGNALS.send(queued);
  return c.json({ status: "accepted", id: queued.id }, 202);
});

app.post("/api/signal-staging/webhook/:key/batch", async (c) => {
  const key = await findKey(c.env.DB, c.req.param("key"));
  if (key === null) return c.json({ title: "Unauthorized", status: 401 }, 401);

  const body = await c.req.json<{ batch: QueuedSignal["signal"][] }>().catch(() => null);
  const signals = body?.batch ?? [];
  if (signals.length === 0 || signals.length > QUEUE_BATCH || !signals.every(isSignal))
    return c.json({ title: "Not a batch", status: 400 }, 400);

  const count = await c.env.SIGNAL_COUNTER.getByName(key.workspace_id).increment(signals.length);
  if (count > 2 * key.signal_limit) return c.json({ title: "Too Many Requests", status: 429 }, 429);

  const queued = signals.map((signal) => toQueue(key, signal));
  await c.env.SIGNALS.sendBatch(queued.map((message) => ({ body: message })));
  return c.json({ status: "accepted", ids: queued.map(({ id }) => id) }, 202);
});

async function findKey(db: D1Database, key: string): Promise<KeyRow | null> {
  return db
    .prepare("SELECT workspace_id, signal_limit FROM api_keys WHERE key_hash = ? AND deactivated_at IS NULL")
    .bind(await sha256(key))
    .first<KeyRow>();
}

function isSignal(signal: QueuedSignal["signal"] | null): signal is QueuedSignal["signal"] {
  return typeof signal?.event === "string";
}

function toQueue({ workspace_id: workspaceId }: KeyRow, signal: QueuedSignal["signal"]): QueuedSignal {
  return { id: `sig_${crypto.randomUUID()}`, workspaceId, receivedAt: new Date().toISOString(), signal };
}

export default {
  fetch: app.fetch,
  queue: (batch, env) => consume(batch, env.DB),
} satisfies ExportedHandler<Env, QueuedSignal>;
