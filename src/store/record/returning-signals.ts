/**
 * Signals that come again (design §6, §8): a held one that was released, a dead letter that is replayed. Each names the
 * place that it left, and leaves it in the transaction that records it; where that place says something else by now, it
 * has been there and gone, and is ignored. None of them has had an effect on people.
 */
import { afterPurge } from "../log/line-remains.ts";
import type { Facts } from "../log/line.ts";
import type { SignalToRecord } from "../protocol/signals-to-record.ts";
import { changeStatus, countedSignal } from "../state/status-change.ts";
import type { SignalCounts } from "../state/status-change.ts";
import type { StoreState } from "../state/store-state.ts";
import { admissionOf, deleteDeadLetter, readDeadLetter } from "./dead-letters.ts";

export class Returning {
  readonly #state: StoreState;
  readonly #counts: SignalCounts;
  /** Held signals that have left, by their lines. */
  readonly #released = new Map<number, Facts>();

  constructor(state: StoreState, counts: SignalCounts) {
    this.#state = state;
    this.#counts = counts;
  }

  /** Whether the signal is to be recorded: always, when it comes for the first time. */
  leave(signal: SignalToRecord): boolean {
    const { again } = signal.admission;
    if (again === undefined) return true;
    return again.from === "held" ? this.#leaveHeld(signal, again.place) : this.#leaveDead(signal, again.place);
  }

  /** Writes what has left. To be called once all signals are recorded. */
  write(): void {
    const { held } = this.#state;
    for (const { segment, seqs } of held.segmentsOf(this.#released.keys())) {
      held.blank(segment, seqs);
      held.rewrite(segment, new Map(seqs.map((seq) => [seq, this.#released.get(seq) ?? segment.facts(seq)] as const)));
    }
    held.flush();
  }

  /** Takes a signal out of the held ones. One that was purged on its way is recorded all the same. */
  #leaveHeld({ admission: { id } }: SignalToRecord, place: number): boolean {
    const facts = this.#released.has(place) ? null : this.#state.held.read(place);
    if (facts === null || facts.admission.id !== id || facts.deletedAtMs !== null) return false;
    const { status } = facts;
    if (status !== "held" && status !== "purged") return false;
    changeStatus(this.#counts, countedSignal(facts), status, "released");
    this.#released.set(place, { ...afterPurge(facts), status: "released" });
    return true;
  }

  /** Takes a dead letter out. One that is dead again stays where it is. */
  #leaveDead({ admission: { id }, work }: SignalToRecord, place: number): boolean {
    const row = readDeadLetter(this.#state.sql, place);
    if (row === null || row.id !== id || row.status !== "dead" || work.kind === "dead") return false;
    changeStatus(this.#counts, { admission: admissionOf(row), group: null }, "dead", "released");
    deleteDeadLetter(this.#state.sql, place);
    return true;
  }
}
