/**
 * Admitted signals by key, billing period and day of receipt. Each is counted once, when it is first recorded, in any status. So the
 * counts of a period equal the usage when nothing is in flight. Releases, replays, purges and deletions change nothing.
 */
import { addToDays, DAY_MS, dayOf, latestDays, type DayCounts } from "../../domain/duration.ts";
import { DAYS_COUNTED } from "../../limits.ts";
import type { Admission } from "../../wire/message.ts";
import type { KeyUsage } from "../protocol/store-operations.ts";

/** The current billing period, and those that the latest 30 days touch. */
const PERIODS_KEPT_MS = 62 * DAY_MS;

interface PeriodDays {
  count: number;
  days: Record<string, number>;
}

/** Counts that wait in the head of the log, because every batch writes the head anyway. */
export interface PendingKeyDays {
  /** By key and start of the billing period, in milliseconds since 1970. */
  keys: Record<string, Record<string, PeriodDays>>;
}

interface StoredKeyDays {
  sql: SqlStorage;
  head: PendingKeyDays;
}

/** Call it once for each admitted signal. The caller flushes the log. */
export function countKeySignal({ keys }: PendingKeyDays, { keyId, periodStartMs, receivedAtMs }: Admission): void {
  const period = ((keys[keyId] ??= {})[periodStartMs] ??= { count: 0, days: {} });
  const day = dayOf(receivedAtMs);
  period.count++;
  period.days[day] = (period.days[day] ?? 0) + 1;
}

/** Moves the counts from the head to the keys' rows. The caller flushes the log. */
export function updateKeyDays({ sql, head }: StoredKeyDays): void {
  let newestMs = 0;
  for (const [keyId, periods] of Object.entries(head.keys)) {
    for (const [start, pending] of Object.entries(periods)) {
      const [row] = sql.exec<{ days: DayCounts }>(
        "SELECT days FROM key_days WHERE key_id = ? AND period_start = ?",
        keyId,
        Number(start),
      );
      sql.exec(
        `INSERT INTO key_days (key_id, period_start, count, days) VALUES (?, ?, ?, ?)
         ON CONFLICT (key_id, period_start) DO UPDATE SET count = count + excluded.count, days = excluded.days`,
        keyId,
        Number(start),
        pending.count,
        addToDays(row?.days ?? "", changesOf(pending)),
      );
      newestMs = Math.max(newestMs, Number(start));
    }
  }
  sql.exec("DELETE FROM key_days WHERE period_start < ?", newestMs - PERIODS_KEPT_MS);
  head.keys = {};
}

/** Signals by key: in the billing period, and on each of the latest days up to `today`, the oldest first. */
export function readKeyUsage({ sql, head }: StoredKeyDays, periodStartMs: number, today: number): KeyUsage {
  const usage: KeyUsage = {};
  const add = (keyId: string, startMs: number, count: number, days: DayCounts): void => {
    const key = (usage[keyId] ??= { signals: 0, days: Array.from({ length: DAYS_COUNTED }, () => 0) });
    if (startMs === periodStartMs) key.signals += count;
    key.days = latestDays(days, today, DAYS_COUNTED).map((signals, index) => signals + (key.days[index] ?? 0));
  };
  const rows = sql.exec<{ key_id: string; period_start: number; count: number; days: DayCounts }>(
    "SELECT key_id, period_start, count, days FROM key_days",
  );
  for (const row of rows) add(row.key_id, row.period_start, row.count, row.days);
  for (const [keyId, periods] of Object.entries(head.keys)) {
    for (const [start, pending] of Object.entries(periods))
      add(keyId, Number(start), pending.count, addToDays("", changesOf(pending)));
  }
  return usage;
}

function changesOf({ days }: PeriodDays): Map<number, number> {
  return new Map(Object.entries(days).map(([day, count]) => [Number(day), count] as const));
}
