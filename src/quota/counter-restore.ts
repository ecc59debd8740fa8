/**
 * The Quota Counter's part in a restore of its workspace (workspace/restore-workspace.ts): it takes no calls meanwhile, says
 * what it had counted before and after, goes on behind the rows that are lost, and keeps what was lost for the books.
 */
import type { SignalsByPeriod } from "../domain/restore.ts";
import { ordinalsTaken } from "../domain/quota/quota.ts";
import type { Correction, Corrections } from "./corrections.ts";
import { closedPeriods, type Ledger } from "./ledger.ts";
import type { LedgerState } from "./ledger-state.ts";
import type { Outbox } from "./outbox.ts";
import type { CountedBefore, RestoredCounter } from "./protocol.ts";

export class CounterRestore {
  readonly #storage: DurableObjectStorage;
  readonly #state: LedgerState;
  readonly #outbox: Outbox;
  readonly #corrections: Corrections;
  #closedUntilMs = 0;

  constructor(
    storage: DurableObjectStorage,
    { state, outbox, corrections }: { state: LedgerState; outbox: Outbox; corrections: Corrections },
  ) {
    this.#storage = storage;
    this.#state = state;
    this.#outbox = outbox;
    this.#corrections = corrections;
  }

  /** Whether calls are refused for now. A start forgets it, and so does the time: no restore closes a workspace for good. */
  get isClosed(): boolean {
    return Date.now() < this.#closedUntilMs;
  }

  /** Refuses calls until then. Returns how many signals wait for the Signal Store. */
  close(untilMs: number): number {
    this.#closedUntilMs = untilMs;
    return this.#outbox.unsettled();
  }

  open(): void {
    this.#closedUntilMs = 0;
  }

  before(): CountedBefore {
    const { ledger } = this.#state;
    return {
      highestRow: (ledger?.nextRow ?? 1) - 1,
      accepted: this.#corrections.accepted(this.#ordinals(ledger)),
    };
  }

  /**
   * What the restored counter had before it took new calls; later rows get numbers behind `highestRow`. Repeating it returns
   * the same counts, because nothing is settled until the restore ends.
   */
  after(highestRow: number, nowMs: number): RestoredCounter {
    this.#state.update(nowMs, (ledger) => {
      ledger.nextRow = Math.max(ledger.nextRow, highestRow + 1);
      return { save: true };
    });
    const accepted = this.#ordinals(this.#state.ledger);
    const unsettled = this.#outbox.unsettledRows();
    for (const { row, periodStartMs, signals, isAgain } of unsettled) {
      if (row > highestRow && !isAgain) accepted[periodStartMs] = (accepted[periodStartMs] ?? 0) - signals;
    }
    return { accepted, unsettled: unsettled.filter(({ row }) => row <= highestRow) };
  }

  /** Writes what all restores have lost, and takes calls again. */
  correct(corrections: readonly Correction[]): void {
    this.#storage.transactionSync(() => this.#corrections.write(corrections));
    this.open();
  }

  /** Signals that have taken ordinals, by billing period. */
  #ordinals(ledger: Readonly<Ledger> | null): SignalsByPeriod {
    const periods = [...closedPeriods(this.#storage.sql), ...(ledger === null ? [] : [ledger])];
    return Object.fromEntries(periods.map((period) => [period.periodStartMs, ordinalsTaken(period)]));
  }
}
