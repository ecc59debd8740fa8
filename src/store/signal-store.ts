/**
 * SignalStore: one Durable Object per workspace, with the workspace's own database: signals, people, scores. The
 * consumer records into it; everything else reads.
 *
 * Why this is correct on the platform: each writing method is one transaction with no `await` in it, so that methods
 * cannot interleave; an exception rolls all of it back; and no answer leaves before the writes are durable, so what the
 * consumer settles has been stored.
 */
import { DurableObject } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/durable-sqlite";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { migrate } from "drizzle-orm/durable-sqlite/migrator";
import migrations from "../../migrations/signal-store/migrations.js";
import { errorText, logEvent } from "../http/log.ts";
import { deadSignals, deadSignalsById, heldSignals } from "./again.ts";
import { listAccounts } from "./account-list.ts";
import { listEventGroups } from "./event-groups.ts";
import { nextPurgeMs, purgeHeld } from "./held.ts";
import { linkSignals, unlinkedSignals } from "./link.ts";
import type { VisitorId } from "./link.ts";
import type {
  Account,
  AccountFilter,
  DeadLetter,
  EventGroup,
  LinkedSignal,
  Page,
  PageOf,
  Person,
  SignalFilter,
  SignalSummary,
  SignalToRecord,
  SignalTrace,
  StoreTotals,
  StoredSignal,
  UnlinkedSignal,
} from "./protocol.ts";
import { listDeadLetters, listPeople, listSignals, readTotals, traceSignal } from "./queries.ts";
import { recordBatch } from "./record.ts";

const PURGE_RETRY_MS = 60_000;

export class SignalStore extends DurableObject<Env> {
  readonly #sql: SqlStorage;
  readonly #db: DrizzleSqliteDODatabase;
  #alarmAtMs = Number.POSITIVE_INFINITY;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    this.#db = drizzle(ctx.storage);
    void ctx.blockConcurrencyWhile(() => migrate(this.#db, migrations));
  }

  /** Records signals; those that were recorded before change nothing. One that cannot be recorded becomes a dead letter. */
  record(batch: SignalToRecord[]): void {
    const nowMs = Date.now();
    try {
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, batch, nowMs));
    } catch (error) {
      logEvent("record_failed", { workspace: this.ctx.id.name ?? "", signals: batch.length, error: errorText(error) });
      for (const signal of batch) this.#recordAlone(signal, nowMs);
    }
    this.#alarmForHeld();
  }

  /** See link.ts. */
  unlinked(visitors: VisitorId[], limit: number): UnlinkedSignal[] {
    return unlinkedSignals(this.#sql, visitors, limit);
  }

  /** Returns how many were given to their person. */
  link(linked: LinkedSignal[]): number {
    const nowMs = Date.now();
    return this.ctx.storage.transactionSync(() => linkSignals(this.#sql, linked, nowMs));
  }

  /** See again.ts. */
  held(periodEndMs: number, cursor: number, limit: number): StoredSignal[] {
    return heldSignals(this.#sql, periodEndMs, cursor, limit);
  }

  dead(cursor: number, limit: number): StoredSignal[] {
    return deadSignals(this.#sql, cursor, limit);
  }

  deadById(ids: string[]): StoredSignal[] {
    return deadSignalsById(this.#sql, ids);
  }

  /** Since the beginning, or for one billing period. */
  totals(periodStartMs?: number): StoreTotals {
    return readTotals(this.#db, periodStartMs);
  }

  events(page: Page): PageOf<EventGroup> {
    return listEventGroups(this.#db, page);
  }

  signals(filter: SignalFilter, page: Page): PageOf<SignalSummary> {
    return listSignals(this.#db, filter, page);
  }

  signal(id: string): SignalTrace | null {
    return traceSignal(this.#db, id);
  }

  people(filter: { email?: string }, page: Page): PageOf<Person> {
    return listPeople(this.#db, filter, page);
  }

  accounts(filter: AccountFilter, page: Page): PageOf<Account> {
    return listAccounts(this.#db, filter, page);
  }

  deadLetters(page: Page): PageOf<DeadLetter> {
    return listDeadLetters(this.#db, page);
  }

  /** Purges held signals, a bounded number at a time. Never throws: an alarm that throws six times is gone. */
  override alarm(): void {
    this.#alarmAtMs = Number.POSITIVE_INFINITY;
    const nowMs = Date.now();
    try {
      this.ctx.storage.transactionSync(() => purgeHeld(this.#sql, nowMs));
      this.#alarmForHeld();
    } catch (error) {
      logEvent("purge_failed", { workspace: this.ctx.id.name ?? "", error: errorText(error) });
      this.#alarmBy(nowMs + PURGE_RETRY_MS);
    }
  }

  #recordAlone(signal: SignalToRecord, nowMs: number): void {
    try {
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, [signal], nowMs));
    } catch (error) {
      const dead = { ...signal, work: { kind: "dead" as const, reason: `Could not be recorded: ${String(error)}` } };
      this.ctx.storage.transactionSync(() => recordBatch(this.#sql, [dead], nowMs));
    }
  }

  #alarmForHeld(): void {
    const nextMs = nextPurgeMs(this.#sql);
    if (nextMs !== null) this.#alarmBy(nextMs);
  }

  #alarmBy(atMs: number): void {
    if (atMs >= this.#alarmAtMs) return;
    this.#alarmAtMs = atMs;
    void this.ctx.storage.setAlarm(atMs);
  }
}
