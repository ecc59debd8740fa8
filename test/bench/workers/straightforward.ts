/**
 * The same job as a first straightforward implementation: per request one D1 look-up of the key, one call to a
 * counter object, one `queue.send`, or `sendBatch` for a batch; a consumer that writes each of its batches to D1 in
 * one transaction. Solid, but not tuned.
 */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";

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

interface QueuedSignal {
  id: string;
  workspaceId: string;
  receivedAt: string;
  signal: Signal;
}

interface Prepared extends QueuedSignal {
  hash: string;
}

/** One transaction per batch: a retry finds its own hashes and does nothing. */
async function consume(batch: MessageBatch<QueuedSignal>, db: D1Database): Promise<void> {
  const incoming = await Promise.all(
    batch.messages.map(async ({ body }) => {
      const email = body.signal.email?.trim().toLowerCase();
      const signal = { ...body.signal, source: body.signal.source ?? "unknown", ...(email ? { email } : {}) };
      return { ...body, signal, hash: await contentHash(body.signal) };
    }),
  );
  const rules = await readRules(db, incoming);
  const seen = await readKnownHashes(db, incoming);
  const statements: D1PreparedStatement[] = [];
  for (const prepared of incoming) {
    const content = `${prepared.workspaceId} ${prepared.hash}`;
    if (seen.has(content)) continue;
    seen.add(content);
    const matched = (rules.get(prepared.workspaceId) ?? []).filter((rule) => matches(rule, prepared.signal));
    statements.push(...writes(db, prepared, matched));
  }
  if (statements.length > 0) await db.batch(statements);
}

async function readRules(db: D1Database, incoming: Prepared[]): Promise<Map<string, Rule[]>> {
  const { results } = await db
    .prepare("SELECT workspace_id, rule FROM mapping_rules WHERE workspace_id IN (SELECT value FROM json_each(?))")
    .bind(JSON.stringify([...new Set(incoming.map((prepared) => prepared.workspaceId))]))
    .all<{ workspace_id: string; rule: string }>();
  const rules = new Map<string, Rule[]>();
  for (const row of results) {
    const ofWorkspace = rules.get(row.workspace_id) ?? [];
    const rule: Rule = JSON.parse(row.rule);
    ofWorkspace.push(rule);
    rules.set(row.workspace_id, ofWorkspace);
  }
  return rules;
}

async function readKnownHashes(db: D1Database, incoming: Prepared[]): Promise<Set<string>> {
  const { results } = await db
    .prepare(
      `SELECT workspace_id || ' ' || content_hash AS content FROM json_each(?) AS incoming
       JOIN signals ON workspace_id = incoming.value ->> 0 AND content_hash = incoming.value ->> 1`,
    )
    .bind(JSON.stringify(incoming.map((prepared) => [prepared.workspaceId, prepared.hash])))
    .all<{ content: string }>();
  return new Set(results.map((row) => row.content));
}

function writes(db: D1Database, prepared: Prepared, matched: Rule[]): D1PreparedStatement[] {
  const { id, workspaceId, signal } = prepared;
  const statements = [
    db
      .prepare(
        `INSERT INTO signals (id, workspace_id, content_hash, event, source, email, payload, received_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .bind(
        id,
        workspaceId,
        prepared.hash,
        signal.event,
        signal.source,
        signal.email ?? null,
        JSON.stringify(signal),
        prepared.receivedAt,
      ),
  ];
  if (signal.email === undefined) return statements;
  const points = matched.reduce((sum, rule) => sum + rule.points, 0);
  statements.push(
    db
      .prepare(
        `INSERT INTO people (workspace_id, email, company, title, score) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (workspace_id, email) DO UPDATE SET
           company = coalesce(excluded.company, company), title = coalesce(excluded.title, title),
           score = score + excluded.score`,
      )
      .bind(
        workspaceId,
        signal.email,
        text(signal.properties?.["company"]),
        text(signal.properties?.["title"]),
        points,
      ),
    ...matched.map((rule) =>
      db
        .prepare(
          `INSERT INTO scoring_signals (signal_id, rule_id, workspace_id, email, scoring_signal, points)
           VALUES (?, ?, ?, ?, ?, ?)`,
        )
        .bind(id, rule.id, workspaceId, signal.email, rule.scoring_signal, rule.points),
    ),
  );
  return statements;
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

interface Signal {
  event: string;
  source?: string;
  email?: string;
  properties?: Record<string, unknown>;
}

interface Rule {
  id: string;
  event: string;
  match: "all" | "any";
  conditions: { path: string; operator: string; value?: string | number | string[] }[];
  scoring_signal: string;
  points: number;
}

function matches(rule: Rule, signal: Signal): boolean {
  if (rule.event !== signal.event && rule.event !== "*") return false;
  const holds = (condition: Rule["conditions"][number]): boolean =>
    compare(condition.operator, valueAt(signal, condition.path), condition.value);
  return rule.match === "all" ? rule.conditions.every(holds) : rule.conditions.some(holds);
}

function valueAt(signal: Signal, path: string): unknown {
  let value: unknown = signal;
  for (const name of path.split(".")) {
    if (!isObject(value)) return undefined;
    value = value[name];
  }
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function compare(operator: string, actual: unknown, wanted: unknown): boolean {
  const left = String(actual).toLowerCase();
  const right = String(wanted).toLowerCase();
  switch (operator) {
    case "equals":
      return left === right;
    case "contains":
      return left.includes(right);
    case "starts_with":
      return left.startsWith(right);
    case "ends_with":
      return left.endsWith(right);
    case "in":
      return Array.isArray(wanted) && wanted.some((value) => String(value).toLowerCase() === left);
    case "greater_than":
      return Number(actual) > Number(wanted);
    case "less_than":
      return Number(actual) < Number(wanted);
    case "exists":
      return actual !== undefined && actual !== null;
    default:
      return false;
  }
}

async function sha256(content: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(content));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The same for every order of keys. */
function contentHash(signal: object): Promise<string> {
  return sha256(
    JSON.stringify(signal, (_, value: unknown) =>
      typeof value === "object" && value !== null && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
        : value,
    ),
  );
}
