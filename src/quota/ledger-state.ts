/** The ledger in memory, and the one place where it changes. */
import type { EventType, WantedEvents, WorkspaceEvent } from "../domain/events/workspace-event.ts";
import type { QuotaConfig } from "../domain/quota/billing.ts";
import { usageNews } from "../domain/quota/usage-news.ts";
import type { CounterAlarm } from "./counter-alarm.ts";
import type { CounterNotices } from "./counter-notices.ts";
import type { Drain } from "./drain.ts";
import * as tables from "./ledger.ts";
import type { Ledger } from "./ledger.ts";
import type { Outbox, PackedRow } from "./outbox.ts";

interface LedgerChange {
  /** Outbox rows, which carry the counts. */
  rows?: PackedRow[];
  /** Whether the ledger row must be written because facts besides the counts changed. */
  save?: boolean;
  /** Notifications that the change causes. */
  events?: WorkspaceEvent[];
}

interface Parts {
  outbox: Outbox;
  drain: Drain;
  notices: CounterNotices;
  alarm: CounterAlarm;
}

export class LedgerState {
  readonly #storage: DurableObjectStorage;
  readonly #parts: Parts;
  #ledger: Ledger | null;
  /** Whether the count of refused signals is newer than the stored ledger. */
  #unsaved = false;

  constructor(storage: DurableObjectStorage, parts: Parts) {
    this.#storage = storage;
    this.#parts = parts;
    tables.createLedgerTables(storage.sql);
    const ledger = tables.loadLedger(storage.sql, parts.outbox.lastCounts());
    // A clock that was set back must not produce used numbers.
    const nextRow = Math.max(ledger?.nextRow ?? 0, tables.firstRowAfterStart(Date.now()));
    this.#ledger = ledger && { ...ledger, nextRow };
  }

  /** The ledger as of the last change; null: not configured yet. */
  get current(): Readonly<Ledger> | null {
    return this.#ledger;
  }

  /** The ledger after closing the period and day that ended by `nowMs`. */
  at(nowMs: number): Readonly<Ledger> | null {
    this.update(nowMs, () => ({}));
    return this.#ledger;
  }

  /** Applies a configuration, unless it is older than or equal to the ledger's. */
  configure(config: QuotaConfig, nowMs: number): void {
    const ledger = this.#ledger;
    const save = () => ({ save: true });
    if (ledger === null) this.#change(tables.openLedger(config, nowMs), nowMs, save);
    else if (config.configVersion > ledger.configVersion) {
      this.#change(ledger, nowMs, save, (sql, changed) => tables.applyConfig(sql, changed, config, nowMs));
    }
  }

  /** Subscribes to notification types. Levels that were reached before the subscription are not notified. */
  want(wanted: WantedEvents, nowMs: number): void {
    const isNew = (type: EventType): boolean => wanted.types.includes(type) && !this.#parts.notices.wants(type);
    const [levels, lateness] = [isNew("usage.level"), isNew("processing.late")];
    this.update(nowMs, (ledger) => {
      if (levels) ledger.notified = usageNews({ notified: 0, now: ledger, hasRefused: ledger.rejected > 0 }).notified;
      if (lateness) ledger.late = false;
      return { save: levels || lateness };
    });
    this.#parts.notices.want(wanted);
  }

  /**
   * Changes the ledger and writes its outbox rows in one transaction; memory follows only if that succeeds. Ended periods
   * and the ended day are closed first. Does nothing before `configure`.
   */
  update(nowMs: number, change: (ledger: Ledger) => LedgerChange): void {
    if (this.#ledger !== null) this.#change(this.#ledger, nowMs, change);
  }

  /** Stores counts that no row carries yet: writes at most one row. */
  save(): void {
    if (this.#unsaved && this.#ledger !== null) tables.saveLedger(this.#storage.sql, this.#ledger);
    this.#unsaved = false;
  }

  /** @param close closes the periods that ended by `nowMs`. */
  #change(
    before: Ledger,
    nowMs: number,
    change: (ledger: Ledger) => LedgerChange,
    close = tables.closeEndedPeriods,
  ): void {
    const { outbox, drain, notices, alarm } = this.#parts;
    const ledger = { ...before };
    let rows: PackedRow[] = [];
    let save = false;
    try {
      this.#storage.transactionSync(() => {
        const closed = close(this.#storage.sql, ledger, nowMs);
        const isNewDay = tables.endDay(this.#storage.sql, ledger, nowMs);
        const changed = change(ledger);
        rows = changed.rows ?? [];
        ledger.nextRow = (rows.at(-1)?.row ?? ledger.nextRow - 1) + 1;
        outbox.write(rows, ledger);
        notices.raiseForChange(before, ledger, closed, changed.events ?? [], nowMs);
        save = closed.length > 0 || isNewDay || changed.save === true || ledger.notified !== before.notified;
        if (save) tables.saveLedger(this.#storage.sql, ledger);
      });
    } catch (error) {
      outbox.rolledBack();
      notices.raised.reload();
      throw error;
    }
    this.#ledger = ledger;
    this.#unsaved = !save && rows.length === 0 && (this.#unsaved || ledger.rejected !== before.rejected);
    notices.handOn.start();
    if (rows.length === 0) return;
    // The alarm sends the rows if the object crashes before the drain does.
    alarm.watch(nowMs);
    drain.committed(rows);
  }
}
