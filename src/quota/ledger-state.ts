/**
 * The ledger, and the one place where it changes. A change closes ended periods and the day first; it is made with the rows
 * that it writes to the outbox in one transaction or not at all, and memory follows only when that succeeded.
 */
import type { EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import { usageNews } from "../domain/quota/usage-news.ts";
import type { CounterNews } from "./counter-news.ts";
import {
  applyConfig,
  closeEndedPeriods,
  createLedgerTables,
  firstRowAfterStart,
  loadLedger,
  openLedger,
  saveLedger,
} from "./ledger.ts";
import type { Ledger } from "./ledger.ts";
import type { Outbox } from "./outbox.ts";
import type { PackedRow } from "./pack.ts";
import type { QuotaConfig } from "../domain/quota/quota-config.ts";
import { createDaysTable, endDay } from "./usage-days.ts";

/** What a change of the ledger comes with. */
export interface LedgerChange {
  /** Rows for the outbox; they carry the counts. */
  rows?: PackedRow[];
  /** Whether more than the counts has changed, so that the ledger's row is written too. */
  save?: boolean;
  /** Events that the change makes true. */
  events?: WorkspaceEvent[];
}

export interface LedgerStateOptions {
  outbox: Outbox;
  news: CounterNews;
  /** To be called after each change, with the rows that it has written. */
  changed: (rows: readonly PackedRow[], nowMs: number) => void;
}

export class LedgerState {
  readonly #storage: DurableObjectStorage;
  readonly #outbox: Outbox;
  readonly #news: CounterNews;
  readonly #changed: LedgerStateOptions["changed"];
  #ledger: Ledger | null;
  /** Whether the count of refused signals is ahead of what is stored. */
  #unsaved = false;

  constructor(storage: DurableObjectStorage, { outbox, news, changed }: LedgerStateOptions) {
    this.#storage = storage;
    this.#outbox = outbox;
    this.#news = news;
    this.#changed = changed;
    createLedgerTables(storage.sql);
    createDaysTable(storage.sql);
    const ledger = loadLedger(storage.sql, outbox.lastCounts());
    // A clock that went back must not give numbers again.
    const nextRow = Math.max(ledger?.nextRow ?? 0, firstRowAfterStart(Date.now()));
    this.#ledger = ledger && { ...ledger, nextRow };
  }

  /** The ledger as of the last change; null before `configure` has reached the object. */
  get ledger(): Readonly<Ledger> | null {
    return this.#ledger;
  }

  /** The ledger as of `nowMs`, its ended period and day closed. */
  ledgerAt(nowMs: number): Readonly<Ledger> | null {
    this.update(nowMs, () => ({}));
    return this.#ledger;
  }

  /** Applies a configuration; one that is not newer than the ledger's changes nothing. */
  configure(config: QuotaConfig, nowMs: number): void {
    const ledger = this.#ledger;
    const save = () => ({ save: true });
    if (ledger === null) this.#change(openLedger(config, nowMs), nowMs, save);
    else if (config.configVersion > ledger.configVersion) {
      this.#change(ledger, nowMs, save, (sql, changed) => applyConfig(sql, changed, config, nowMs));
    }
  }

  /** Says which events are wanted from now on. What was reached before somebody wanted to know of it is no news. */
  want(wanted: WantedEvents, nowMs: number): void {
    const isNew = (type: EventType): boolean => wanted.types.includes(type) && !this.#news.wants(type);
    const [levels, lateness] = [isNew("usage.level"), isNew("processing.late")];
    this.update(nowMs, (ledger) => {
      if (levels) ledger.notified = usageNews({ notified: 0, now: ledger, hasRefused: ledger.rejected > 0 }).notified;
      if (lateness) ledger.late = false;
      return { save: levels || lateness };
    });
    this.#news.want(wanted);
  }

  /** Changes the ledger; before `configure` there is none, and nothing happens. */
  update(nowMs: number, change: (ledger: Ledger) => LedgerChange): void {
    if (this.#ledger !== null) this.#change(this.#ledger, nowMs, change);
  }

  /** Stores what has been counted without a row: one row written, or none. */
  save(): void {
    if (this.#unsaved && this.#ledger !== null) saveLedger(this.#storage.sql, this.#ledger);
    this.#unsaved = false;
  }

  /** @param close closes the periods that have ended by `nowMs`. */
  #change(before: Ledger, nowMs: number, change: (ledger: Ledger) => LedgerChange, close = closeEndedPeriods): void {
    const ledger = { ...before };
    let rows: PackedRow[] = [];
    let save = false;
    try {
      this.#storage.transactionSync(() => {
        const closed = close(this.#storage.sql, ledger, nowMs);
        const newDay = endDay(this.#storage.sql, ledger, nowMs);
        const changed = change(ledger);
        rows = changed.rows ?? [];
        ledger.nextRow = (rows.at(-1)?.row ?? ledger.nextRow - 1) + 1;
        this.#outbox.write(rows, ledger);
        const events = this.#news.ofChange(before, ledger, closed, nowMs);
        this.#news.raised.raise(changed.events === undefined ? events : [...events, ...changed.events]);
        save = closed.length > 0 || newDay || changed.save === true || ledger.notified !== before.notified;
        if (save) saveLedger(this.#storage.sql, ledger);
      });
    } catch (error) {
      this.#outbox.rolledBack();
      this.#news.raised.reload();
      throw error;
    }
    this.#ledger = ledger;
    this.#unsaved = !save && rows.length === 0 && (this.#unsaved || ledger.rejected !== before.rejected);
    this.#changed(rows, nowMs);
  }
}
