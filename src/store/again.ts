/** Stored signals that are to be sent through the queue once more: held ones that are released, dead letters replayed. */
import type { Admission, StoredSignal } from "./protocol.ts";

type Row = Record<string, string | number | null>;

/** Held signals of the billing period that ends then, by ordinal: the oldest first. */
export function heldSignals(sql: SqlStorage, periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
  const rows = sql.exec<Row>(
    "SELECT * FROM signals WHERE status = 'held' AND period_end = ? AND ordinal > ? ORDER BY ordinal LIMIT ?",
    periodEndMs,
    cursor,
    limit,
  );
  return [...rows].map((row) => storedSignal(row, "held", "ordinal"));
}

/** Dead letters in order of arrival. */
export function deadSignals(sql: SqlStorage, cursor: number, limit: number): StoredSignal[] {
  const rows = sql.exec<Row>(
    "SELECT * FROM signals WHERE status = 'dead' AND seq > ? ORDER BY seq LIMIT ?",
    cursor,
    limit,
  );
  return [...rows].map((row) => storedSignal(row, "dead", "seq"));
}

/** Of these signals the dead letters. */
export function deadSignalsById(sql: SqlStorage, ids: string[]): StoredSignal[] {
  const rows = sql.exec<Row>(
    "SELECT * FROM signals WHERE id IN (SELECT value FROM json_each(?)) AND +status = 'dead'",
    JSON.stringify(ids),
  );
  return [...rows].map((row) => storedSignal(row, "dead", "seq"));
}

function storedSignal(row: Row, from: StoredSignal["from"], cursor: "ordinal" | "seq"): StoredSignal {
  const admission: Admission = {
    id: String(row["id"]),
    keyId: String(row["key_id"]),
    endpoint: row["endpoint"] === "product_org" ? "product_org" : "signal_staging",
    verdict: row["verdict"] === "held" ? "held" : "accepted",
    ordinal: Number(row["ordinal"]),
    signalLimit: Number(row["signal_limit"]),
    receivedAtMs: Number(row["received_at"]),
    periodStartMs: Number(row["period_start"]),
    periodEndMs: Number(row["period_end"]),
  };
  if (row["path_source"] !== null) admission.pathSource = String(row["path_source"]);
  if (row["idempotency_key"] !== null) admission.idempotencyKey = String(row["idempotency_key"]);
  const place = Number(row["seq"]);
  return { admission, payload: String(row["payload"]), from, place, cursor: Number(row[cursor]) };
}
