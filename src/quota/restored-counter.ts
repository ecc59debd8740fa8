/**
 * A Quota Counter that was restored from a backup has forgotten what came since: rows that the Signal Store has recorded,
 * under numbers that it would use again. Here its ledger and its outbox are brought behind them, see workspace/recover-workspace.ts.
 */
import type { LedgerState } from "./ledger-state.ts";
import type { Outbox } from "./outbox.ts";

/** Has later rows numbered behind `behindRow`. */
export function goOnBehind(state: LedgerState, behindRow: number, nowMs: number): void {
  state.update(nowMs, (ledger) => {
    ledger.nextRow = Math.max(ledger.nextRow, behindRow + 1);
    return { save: true };
  });
}

/** Counts forgotten signals, if no more were admitted than the caller has seen; says whether it has. */
export function countForgotten(
  state: LedgerState,
  seen: { signals: number; admitted: number },
  nowMs: number,
): boolean {
  let counted = false;
  state.update(nowMs, (ledger) => {
    counted = ledger.admitted === seen.admitted;
    if (counted) ledger.admitted += seen.signals;
    return { save: counted };
  });
  return counted;
}

/** Gives the unsettled among these rows new numbers, in the same order. Returns how many it has renumbered. */
export function renumber(state: LedgerState, outbox: Outbox, rows: readonly number[], nowMs: number): number {
  let renumbered = 0;
  state.update(nowMs, (ledger) => {
    // The new numbers are behind all that were used, so that nothing under way that names a number means another row, and
    // behind all that was sent, so that the drain sends them.
    renumbered = outbox.renumber(rows, ledger.nextRow);
    ledger.nextRow += renumbered;
    return { save: true };
  });
  return renumbered;
}
