/** The straightforward Worker's consumer: normalise, drop duplicates, evaluate the rules, write one D1 batch. */
import { contentHash } from "./straightforward-hash.ts";
import { matches } from "./straightforward-rules.ts";
import type { Rule, Signal } from "./straightforward-rules.ts";

export interface QueuedSignal {
  id: string;
  workspaceId: string;
  receivedAt: string;
  signal: Signal;
}

interface Prepared extends QueuedSignal {
  hash: string;
}

/** One transaction per batch: a retry finds its own hashes and does nothing. */
export async function consume(batch: MessageBatch<QueuedSignal>, db: D1Database): Promise<void> {
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
