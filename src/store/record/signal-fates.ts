/** What becomes of the signals of a batch, each in exactly one place. */
import { hashBytes } from "../log/originals.ts";
import type { Candidate } from "../log/originals.ts";
import { isOfDeleted, isOfOneBeingDeleted, namesDeletedUntilMs } from "../people/deleted-names.ts";
import type { People } from "../people/people.ts";
import { visitorOfPayload } from "../people/visitor-names.ts";
import type { StoreState } from "../state/store-state.ts";
import { visitorOf } from "./pending-signal.ts";
import type { PendingSignal } from "./pending-signal.ts";

/**
 * Decides what becomes of each signal, in this order: its person deleted → dead → past its period → held → duplicate → to be
 * processed.
 */
export function decideFates(state: StoreState, pending: readonly PendingSignal[], people: People, nowMs: number): void {
  const namesUntilMs = namesDeletedUntilMs(state.sql);
  const candidates: { one: PendingSignal; key: string; candidate: Candidate }[] = [];
  for (const one of pending) {
    const { admission, work } = one.signal;
    if (isDeleted(state, one, people, namesUntilMs)) {
      one.status = "purged";
      one.isDeleted = true;
    } else if (work.kind === "dead") one.status = "dead";
    else if (admission.verdict === "held") one.status = admission.periodEndMs <= nowMs ? "purged" : "held";
    else if (work.contentHash !== null) {
      one.hash = hashBytes(work.contentHash, work.duplicateWindowMs);
      const { receivedAtMs } = one.receipt;
      const again = admission.again !== undefined;
      const candidate = { hash: one.hash, receivedAtMs, windowMs: work.duplicateWindowMs, again };
      candidates.push({ one, key: work.contentHash, candidate });
    }
  }
  const recorded = state.originals.find(
    candidates.map(({ candidate }) => candidate),
    nowMs,
  );
  const inBatch = new Map<string, PendingSignal[]>();
  for (const [index, { one, key, candidate }] of candidates.entries()) {
    const twins = inBatch.get(key) ?? [];
    one.original = recorded[index] ?? twins.find((twin) => isNear(twin, one, candidate.windowMs)) ?? null;
    if (one.original !== null) one.status = "duplicate";
    else inBatch.set(key, [...twins, one]);
  }
}

/** Whether a signal's person has been deleted. A dead letter goes by the fields that name people, as far as it can be read. */
function isDeleted(
  state: StoreState,
  { signal, receipt }: PendingSignal,
  people: People,
  namesUntilMs: number,
): boolean {
  if (receipt.receivedAtMs > namesUntilMs) return false;
  const isDead = signal.work.kind === "dead";
  const visitor = isDead ? visitorOfPayload(signal.payload, signal.admission) : visitorOf(signal);
  if (visitor === null) return false;
  const { sql } = state;
  return (
    isOfDeleted(sql, visitor, receipt, (id) => people.identities.claimsOf(id)) ||
    isOfOneBeingDeleted(sql, visitor, receipt)
  );
}

function isNear(one: PendingSignal, other: PendingSignal, windowMs: number): boolean {
  return Math.abs(one.receipt.receivedAtMs - other.receipt.receivedAtMs) <= windowMs;
}
