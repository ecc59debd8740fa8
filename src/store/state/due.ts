/**
 * When the chores of the store's alarm are due. Code that makes work for a chore says when, so that `record` sets the alarm without
 * asking the chores. The functions below read it from the tables: after a start and an alarm, and in `health`.
 *
 * All times are milliseconds since 1970; null: there is nothing to do.
 */
import { DAY_MS } from "../../domain/duration.ts";
import { DELETION_REMEMBERED_DAYS, MISFIT_KEPT_DAYS, MISFIT_NOTICE_DAYS } from "../../limits.ts";
import type { SignalLog } from "../log/signal-log.ts";

export type ChoreName =
  | "purge"
  | "apply_rules"
  | "deletion"
  | "retention"
  | "link"
  | "replace"
  | "lapse"
  | "cold"
  | "misfits"
  | "notify_dead_letters"
  | "resend"
  | "export"
  | "forward";

/** A time may be too early, never too late: an alarm too many is harmless, and a missing one is not. */
export class NextDue {
  /** In milliseconds since 1970; null: the chores must be asked. */
  #times: Map<ChoreName, number> | null = null;

  get isKnown(): boolean {
    return this.#times !== null;
  }

  /** Infinity: no chore is due. */
  get nextMs(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...(this.#times?.values() ?? []));
  }

  /** Infinity: the chore has no work, or the chores must be asked. */
  of(chore: ChoreName): number {
    return this.#times?.get(chore) ?? Number.POSITIVE_INFINITY;
  }

  /** Says that a chore has work at this time. @param atMs null: it has none. An earlier time stays. */
  by(chore: ChoreName, atMs: number | null): void {
    if (atMs !== null && atMs < this.of(chore)) this.#times?.set(chore, atMs);
  }

  atOnce(chore: ChoreName): void {
    this.by(chore, 0);
  }

  /** @param times what the chores have answered. */
  set(times: Iterable<readonly [ChoreName, number]>): void {
    this.#times = new Map(times);
  }

  /** Lets the chores be asked again. A rollback needs none: a time that it leaves is too early at worst. */
  forget(): void {
    this.#times = null;
  }
}

/** Dead letters within this time after a notification share the next one: a broken sender causes one a minute. */
export const DEAD_LETTERS_PAUSE_MS = 60_000;
/** A day after a store was last full, all signals that waited for room are recorded: 5 GB are 60 signals a second. */
export const FULL_DRAINED_MS = DAY_MS;
/** Retention and the purge of held signals wait this long for a deletion. Each of its steps takes milliseconds. */
export const DELETION_FIRST_MS = DAY_MS;
export const DELETION_REMEMBERED_MS = DELETION_REMEMBERED_DAYS * DAY_MS;
/** After its recording, a misfit is purged, and its notice is raised. */
export const MISFIT_KEPT_MS = MISFIT_KEPT_DAYS * DAY_MS;
export const MISFIT_NOTICE_MS = (MISFIT_KEPT_DAYS - MISFIT_NOTICE_DAYS) * DAY_MS;
/** Condition for deletions with a next step in this store, and for those that only cold storage may delay. */
export const UNFINISHED = "finished_at IS NULL AND step <> 'cold'";
export const ONLY_COLD_LEFT = "finished_at IS NULL AND step = 'cold' AND to_forward = 0";

/** The part of the store's state that the functions below read. */
interface DueState {
  sql: SqlStorage;
  signals: SignalLog;
  held: SignalLog;
  head: {
    fullAtMs: number;
    lapseRun: object | null;
    misfits: { noticedUntilMs: number };
    deadLetterNotification: { notifiedAtMs: number; waiting: readonly unknown[] } | null;
  };
}

/** Held signals end with their billing period. Deletions come first: a held signal may name ids of the person. */
export function nextPurgeMs({ sql, held }: Pick<DueState, "sql" | "held">): number | null {
  const { periodEndMs } = held.earliest();
  return periodEndMs && afterDeletions(sql, periodEndMs);
}

/** A deletion that fails, or one after another, must not stop other work for ever. */
function afterDeletions(sql: SqlStorage, atMs: number): number {
  const askedAtMs = earliest(sql, `SELECT min(last_requested_at) AS at FROM deletions WHERE ${UNFINISHED}`);
  return askedAtMs === null ? atMs : Math.max(atMs, askedAtMs + DELETION_FIRST_MS);
}

export function nextRuleJobMs(sql: SqlStorage): number | null {
  return earliest(sql, "SELECT min(due_at) AS at FROM rule_jobs WHERE status <> 'done'");
}

/** Whether a deletion has a next step in this store. */
export function isDeleting(sql: SqlStorage): boolean {
  return exists(sql, `SELECT 1 FROM deletions WHERE ${UNFINISHED} LIMIT 1`);
}

/** When a deletion continues, or a finished one can be forgotten. */
export function nextDeletionMs({ sql, head, signals }: Omit<DueState, "held">): number | null {
  const isInR2 = exists(sql, `SELECT 1 FROM deletions WHERE ${ONLY_COLD_LEFT} LIMIT 1`);
  if (isDeleting(sql) || (isInR2 && !signals.isClearing)) return 0;
  const oldest = earliest(sql, "SELECT min(finished_at) AS at FROM deletions");
  return oldest === null ? null : Math.max(oldest + DELETION_REMEMBERED_MS, head.fullAtMs + FULL_DRAINED_MS);
}

/** Deletions come first: of a line that retention drops, its person keeps what a deletion would take from them. */
export function nextRetentionMs({ sql, signals, held }: Omit<DueState, "head">): number | null {
  const hasLines = [signals, held].some((log) => log.earliest().receivedMs !== null);
  if (!hasLines && !exists(sql, "SELECT 1 FROM dead_letters LIMIT 1")) return null;
  // A store that does not know its retention asks D1 at once.
  return afterDeletions(sql, earliest(sql, "SELECT min(next_at) AS at FROM retention") ?? 0);
}

export function nextLinkJobMs(sql: SqlStorage): number | null {
  return earliest(sql, "SELECT min(due_at) AS at FROM link_jobs");
}

/** Rule jobs come first: they remove and add scores that a replacement would count. */
export function nextReplacementMs(sql: SqlStorage): number | null {
  return exists(sql, "SELECT 1 FROM replacements LIMIT 1") && nextRuleJobMs(sql) === null ? 0 : null;
}

/** A run of lapses needs a last step that ends it, also if no person is left to visit. */
export function nextLapseMs({ sql, head }: Pick<DueState, "sql" | "head">): number | null {
  return head.lapseRun === null ? nextLapsingMs(sql) : 0;
}

/** When the next points of a person lapse. */
export function nextLapsingMs(sql: SqlStorage): number | null {
  return earliest(sql, "SELECT min(next_lapse_at) AS at FROM people WHERE next_lapse_at IS NOT NULL");
}

export function nextDeadLetterNotificationMs({
  head: { deadLetterNotification },
}: Pick<DueState, "head">): number | null {
  if (deadLetterNotification === null || deadLetterNotification.waiting.length === 0) return null;
  return deadLetterNotification.notifiedAtMs + DEAD_LETTERS_PAUSE_MS;
}

export function nextResendMs(sql: SqlStorage): number | null {
  return earliest(sql, "SELECT min(due_at) AS at FROM resend_jobs WHERE logged_at IS NULL");
}

/** When the oldest misfits are purged, or a notice of that is due. Deletions come first: a misfit may name ids of the person. */
export function nextMisfitsMs({ sql, head }: Pick<DueState, "sql" | "head">): number | null {
  const oldestMs = earliest(sql, "SELECT min(recorded_at) AS at FROM dead_letters WHERE misfit_bytes IS NOT NULL");
  if (oldestMs === null) return null;
  const noticedMs = nextNoticedMs({ sql, head });
  const noticeMs = noticedMs === null ? Number.POSITIVE_INFINITY : noticedMs + MISFIT_NOTICE_MS;
  return Math.min(noticeMs, afterDeletions(sql, oldestMs + MISFIT_KEPT_MS));
}

/** When the oldest misfit was recorded that no notice has named; null: there is none. */
export function nextNoticedMs({ sql, head }: Pick<DueState, "sql" | "head">): number | null {
  const query = "SELECT min(recorded_at) AS at FROM dead_letters WHERE misfit_bytes IS NOT NULL AND recorded_at > ?";
  return earliest(sql, query, head.misfits.noticedUntilMs);
}

function earliest(sql: SqlStorage, query: string, ...bindings: number[]): number | null {
  return sql.exec<{ at: number | null }>(query, ...bindings).one().at;
}

function exists(sql: SqlStorage, query: string): boolean {
  return sql.exec(query).toArray().length > 0;
}
