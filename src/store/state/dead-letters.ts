/** Dead letters: signals that could not be processed, with the reason, until an admin replays them. */
import { DAY_MS } from "../../domain/duration.ts";
import type { Notification } from "../../domain/notifications/notification.ts";
import type { Problems } from "../../domain/signal/normalise.ts";
import { MISFITS_MAX, MISFITS_MAX_BYTES } from "../../limits.ts";
import { newNotification } from "../../notifications/raised-notifications.ts";
import { toSqlBlob, updateRow } from "../../platform/sql-row.ts";
import { compress, decompress } from "../../platform/zstd.ts";
import type { Admission } from "../../wire/message.ts";
import type { SignalToRecord } from "../protocol/stored-signals.ts";
import type { DeadLetterRow } from "../schema.ts";
import { STEPS } from "../steps.ts";
import { wants } from "./raise-notifications.ts";
import { changeStatus } from "./status-change.ts";
import type { MisfitCounts, StoreState } from "./store-state.ts";
import {
  DEAD_LETTERS_PAUSE_MS,
  MISFIT_KEPT_MS,
  MISFIT_NOTICE_MS,
  nextDeadLetterNotificationMs,
  nextMisfitsMs,
  nextNoticedMs,
} from "./due.ts";

/** The highest number that a dead letter has had, even if it is gone; 0: there was none. */
export function lastDeadLetter(sql: SqlStorage): number {
  const [last] = sql.exec<{ seq: number }>("SELECT seq FROM sqlite_sequence WHERE name = 'dead_letters'");
  return last?.seq ?? 0;
}

/** The caller flushes the head. */
export function insertDeadLetter(state: StoreState, signal: SignalToRecord, reason: string, nowMs: number): void {
  const { resent: _resent, ...admission } = signal.admission;
  const misfit = isMisfit(signal) ? compress(signal.payload) : null;
  state.sql.exec(
    `INSERT INTO dead_letters (id, status, admission, reason, payload, recorded_at, received_at, problems, misfit_bytes)
     VALUES (?, 'dead', ?, ?, ?, ?, ?, ?, ?)`,
    admission.id,
    JSON.stringify(admission),
    reason,
    misfit === null ? signal.payload : toSqlBlob(misfit),
    nowMs,
    admission.receivedAtMs,
    signal.problems === undefined ? null : JSON.stringify(signal.problems),
    misfit?.length ?? null,
  );
  if (misfit === null) return;
  countMisfit(state.head, misfit.length, 1);
  state.due.by("misfits", nextMisfitsMs(state));
}

/**
 * A signal that is dead again after its replay keeps its place. By another template it may have another reason, and may become
 * a misfit, which is purged later, or be one no longer. The caller flushes the head.
 */
export function replaceReason(
  state: StoreState,
  row: DeadLetterRow,
  work: SignalToRecord["work"] & { kind: "dead" },
  nowMs: number,
): void {
  const isNowMisfit = work.isMisfit === true;
  if (row.reason === work.reason && isNowMisfit === (row.misfit_bytes !== null)) return;
  const text = payloadOfLetter(row) ?? "";
  const misfit = isNowMisfit ? compress(text) : null;
  const bytes = misfit?.length ?? null;
  // A misfit is kept for its days from when it is known to be one.
  const recordedMs = isNowMisfit && row.misfit_bytes === null ? nowMs : row.recorded_at;
  state.sql.exec(
    "UPDATE dead_letters SET reason = ?, payload = ?, misfit_bytes = ?, recorded_at = ? WHERE seq = ?",
    work.reason,
    misfit === null ? text : toSqlBlob(misfit),
    bytes,
    recordedMs,
    row.seq,
  );
  countMisfit(state.head, row.misfit_bytes, -1);
  countMisfit(state.head, bytes, 1);
  if (misfit !== null) state.due.by("misfits", nextMisfitsMs(state));
}

export function isMisfit({ work }: Pick<SignalToRecord, "work">): boolean {
  return work.kind === "dead" && work.isMisfit === true;
}

export function payloadOfLetter({ payload }: Pick<DeadLetterRow, "payload">): string | null {
  return payload === null || typeof payload === "string" ? payload : decompress(payload);
}

export function admissionOf({ admission }: Pick<DeadLetterRow, "admission">): Admission {
  return JSON.parse(admission) as Admission;
}

export function problemsOfLetter({ problems }: Pick<DeadLetterRow, "problems">): Problems {
  return problems === null ? {} : (JSON.parse(problems) as Problems);
}

/** The dead letter that a deletion or a purge leaves. Source, Idempotency-Key and surroundings may name the person too. */
export function emptyLetter(
  { pathSource: _source, idempotencyKey: _key, around: _around, ...admission }: Admission,
  deletedAtMs: number | null,
): Omit<DeadLetterRow, "seq" | "id" | "recorded_at" | "received_at"> {
  const nothing = { reason: "", payload: null, problems: null, misfit_bytes: null };
  return { status: "purged", admission: JSON.stringify(admission), ...nothing, deleted_at: deletedAtMs };
}

export function latestDeadLetterMs(sql: SqlStorage): number | null {
  const [latest] = sql.exec<{ recorded_at: number }>(
    "SELECT recorded_at FROM dead_letters WHERE status = 'dead' AND seq < ? ORDER BY seq DESC LIMIT 1",
    Number.MAX_SAFE_INTEGER,
  );
  return latest?.recorded_at ?? null;
}

// Misfits that wait for a template that fits. The head counts them, so that a full store of them needs no query.

/** @param bytes null: the dead letter is no misfit. */
export function countMisfit({ misfits }: { misfits: MisfitCounts }, bytes: number | null, by: 1 | -1): void {
  if (bytes === null) return;
  misfits.waiting += by;
  misfits.bytes += by * bytes;
}

/** Whether no more misfits may be kept. */
export function hasTooManyMisfits({ misfits }: { misfits: MisfitCounts }): boolean {
  return misfits.waiting >= MISFITS_MAX || misfits.bytes >= MISFITS_MAX_BYTES;
}

/** Raises the notice of a purge, and purges: one bounded step. */
export function stepMisfits(state: StoreState, nowMs: number): void {
  const { sql, head } = state;
  noticeMisfits(state, nowMs);
  const rows = sql
    .exec<Pick<DeadLetterRow, "seq" | "admission" | "misfit_bytes">>(
      `SELECT seq, admission, misfit_bytes FROM dead_letters
       WHERE misfit_bytes IS NOT NULL AND recorded_at <= ? ORDER BY recorded_at LIMIT ?`,
      nowMs - MISFIT_KEPT_MS,
      STEPS.purgeMisfits,
    )
    .toArray();
  for (const { seq, admission: text, misfit_bytes: bytes } of rows) {
    const admission = admissionOf({ admission: text });
    updateRow<Partial<DeadLetterRow>>(sql, "dead_letters", ["seq"], { seq }, { seq, ...emptyLetter(admission, null) });
    countMisfit(head, bytes, -1);
    changeStatus(head, { admission, group: null }, "dead", "purged");
  }
  state.signals.flush();
}

/** One notice for the misfits of a day, a week before the first is purged. */
function noticeMisfits(state: StoreState, nowMs: number): void {
  const { sql, head } = state;
  const firstMs = nextNoticedMs(state);
  if (firstMs === null || firstMs + MISFIT_NOTICE_MS > nowMs) return;
  const untilMs = firstMs + DAY_MS;
  const { signals } = sql
    .exec<{ signals: number }>(
      "SELECT count(*) AS signals FROM dead_letters WHERE misfit_bytes IS NOT NULL AND recorded_at BETWEEN ? AND ?",
      firstMs,
      untilMs,
    )
    .one();
  head.misfits.noticedUntilMs = untilMs;
  if (!wants(state, "misfits.expiring")) return;
  const data = { signals, purged_from: new Date(firstMs + MISFIT_KEPT_MS).toISOString() };
  state.raised.raise([newNotification("misfits.expiring", data, nowMs)]);
}

// Notifications of new dead letters

/** Reasons that a notification lists apart, and characters of each. */
const DEAD_LETTER_REASONS = 20;
const DEAD_LETTER_REASON_CHARACTERS = 200;
const OTHER_REASONS = "Other reasons";

/** Counts added dead letters by reason. Returns the notification if it is due at once. The caller flushes the head. */
export function noteDeadLetters(state: StoreState, reasons: readonly string[], nowMs: number): Notification[] {
  if (reasons.length === 0 || !wants(state, "dead_letters.added")) return [];
  const notification = (state.head.deadLetterNotification ??= { notifiedAtMs: 0, waiting: [] });
  const counts = new Map(notification.waiting);
  for (const reason of reasons) {
    const cut = reason.slice(0, DEAD_LETTER_REASON_CHARACTERS);
    const name = counts.has(cut) || counts.size < DEAD_LETTER_REASONS ? cut : OTHER_REASONS;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  notification.waiting = [...counts];
  state.due.by("notify_dead_letters", nextDeadLetterNotificationMs(state));
  // A longer wait means that the clock was set back.
  return Math.abs(nowMs - notification.notifiedAtMs) < DEAD_LETTERS_PAUSE_MS
    ? []
    : takeDeadLetterNotifications(state, nowMs);
}

export function raiseDeadLetters(state: StoreState, nowMs: number): void {
  state.raised.raise(takeDeadLetterNotifications(state, nowMs));
  state.signals.flush();
}

function takeDeadLetterNotifications(state: StoreState, nowMs: number): Notification[] {
  const reasons = state.head.deadLetterNotification?.waiting ?? [];
  if (reasons.length === 0) return [];
  state.head.deadLetterNotification = { notifiedAtMs: nowMs, waiting: [] };
  const signals = reasons.reduce((sum, [, count]) => sum + count, 0);
  return [newNotification("dead_letters.added", { signals, reasons: Object.fromEntries(reasons) }, nowMs)];
}
