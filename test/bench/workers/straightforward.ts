/**
 * The same job as most of us would build it first: per request one D1 look-up of the key, one call to a counter object,
 * one `queue.send`; a consumer that writes each of its batches to D1 in one transaction. Competent, not tuned.
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

export class SignalCounter extends DurableObject<Env> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, count INTEGER NOT NULL)");
  }

  increment(): number {
    return this.ctx.storage.sql
      .exec<{ count: number }>(
        `INSERT INTO counter (id, count) VALUES (1, 1)
         ON CONFLICT (id) DO UPDATE SET count = count + 1 RETURNING count`,
      )
      .one().count;
  }
}

const app = new Hono<{ Bindings: Env }>();

app.post("/api/signal-staging/webhook/:key", async (c) => {
  const key = await c.env.DB.prepare(
    "SELECT workspace_id, signal_limit FROM api_keys WHERE key_hash = ? AND deactivated_at IS NULL",
  )
    .bind(await sha256(c.req.param("key")))
    .first<KeyRow>();
  if (key === null) return c.json({ title: "Unauthorized", status: 401 }, 401);

  const signal = await c.req.json<QueuedSignal["signal"]>().catch(() => null);
  if (signal === null || typeof signal.event !== "string") return c.json({ title: "Not a signal", status: 400 }, 400);

  const count = await c.env.SIGNAL_COUNTER.getByName(key.workspace_id).increment();
  if (count > 2 * key.signal_limit) return c.json({ title: "Too Many Requests", status: 429 }, 429);

  const id = `sig_${crypto.randomUUID()}`;
  await c.env.SIGNALS.send({ id, workspaceId: key.workspace_id, receivedAt: new Date().toISOString(), signal });
  return c.json({ status: "accepted", id }, 202);
});

export default {
  fetch: app.fetch,
  queue: (batch, env) => consume(batch, env.DB),
} satisfies ExportedHandler<Env, QueuedSignal>;
