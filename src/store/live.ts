/** Signals for the live page: what has just been recorded, and the latest to begin with. By index, a few rows. */
import type { LiveSignal, SignalStatus } from "./protocol.ts";

type Row = {
  id: string;
  status: SignalStatus;
  kind: LiveSignal["kind"];
  event: string | null;
  source: string | null;
  email: string | null;
  received_at: number;
  duplicate_of: string | null;
  dead_reason: string | null;
  points: number | null;
};

const SELECT = `SELECT signals.id, status, kind, event, source, coalesce(people.email, signals.email) AS email, received_at,
    duplicate_of, dead_reason, (SELECT sum(points) FROM scoring_signals WHERE signal_id = signals.id) AS points
  FROM signals LEFT JOIN people ON people.id = person_id`;

/** Those of these ids that were recorded at that time: one that has come again was recorded before. */
export function recordedSignals(sql: SqlStorage, ids: string[], recordedAtMs: number): LiveSignal[] {
  const rows = sql.exec<Row>(
    `${SELECT} WHERE signals.id IN (SELECT value FROM json_each(?)) AND recorded_at = ? ORDER BY signals.seq`,
    JSON.stringify(ids),
    recordedAtMs,
  );
  return rows.toArray().map(toLive);
}

/** Newest first. */
export function latestSignals(sql: SqlStorage, limit: number): LiveSignal[] {
  return sql.exec<Row>(`${SELECT} ORDER BY signals.seq DESC LIMIT ?`, limit).toArray().map(toLive);
}

function toLive({ received_at, duplicate_of, dead_reason, points, ...row }: Row): LiveSignal {
  return { ...row, receivedAtMs: received_at, duplicateOf: duplicate_of, deadReason: dead_reason, points: points ?? 0 };
}
