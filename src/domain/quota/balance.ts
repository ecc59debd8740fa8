/**
 * Whether the books balance (design §1.2). Counter and store are two objects without a common snapshot, so the counter
 * is read before and after the store.
 */

/** The counter's side. `unsettled`: signals in outbox rows. */
interface Admissions {
  admitted: number;
  unsettled: number;
}

/** The store's side: every recorded signal is in exactly one of these counts. */
interface RecordedCounts {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

export interface Balance extends RecordedCounts {
  accepted: number;
  inFlight: number;
  balanced: boolean;
}

/**
 * Signals that are admitted but not recorded count as in flight. That is right only if they still wait in the outbox.
 * Their upper limit is the unsettled signals before the store was read, plus the signals admitted since.
 */
export function balanceBooks(before: Admissions, recorded: RecordedCounts, after: Admissions): Balance {
  const { processed, duplicates, held, purged, deadLettered } = recorded;
  const { admitted: accepted } = after;
  const inFlight = accepted - (processed + duplicates + held + purged + deadLettered);
  const balanced = inFlight >= 0 && inFlight <= before.unsettled + accepted - before.admitted;
  return { accepted, processed, duplicates, held, purged, deadLettered, inFlight, balanced };
}
