/**
 * Whether the books balance (design §1.2): accepted = processed + duplicates + held + purged + dead-lettered + in
 * flight + lost in restores. Counter and store are two objects without a common snapshot, so the counter is read
 * before and after the store.
 */

/** The counter's side: all admitted signals, those in unsettled outbox rows, and those lost in restores. */
export interface Admissions {
  admitted: number;
  unsettled: number;
  lost: number;
}

/** The store's side: every recorded signal is in exactly one of these counts. */
export interface RecordedCounts {
  processed: number;
  duplicates: number;
  held: number;
  purged: number;
  deadLettered: number;
}

export interface Balance extends RecordedCounts {
  accepted: number;
  inFlight: number;
  lost: number;
  balanced: boolean;
}

/**
 * Signals that are admitted but not recorded count as in flight. That is right only if they still wait in the outbox:
 * there may be no more than were unsettled before the store was read, plus those admitted since. At rest, with
 * nothing unsettled, any discrepancy shows.
 */
export function balanceBooks(before: Admissions, recorded: RecordedCounts, after: Admissions): Balance {
  const { processed, duplicates, held, purged, deadLettered } = recorded;
  const missing = after.admitted - after.lost - (processed + duplicates + held + purged + deadLettered);
  const admittedMeanwhile = after.admitted - before.admitted;
  return {
    accepted: after.admitted,
    processed,
    duplicates,
    held,
    purged,
    deadLettered,
    inFlight: missing,
    lost: after.lost,
    balanced: missing >= 0 && missing <= before.unsettled + admittedMeanwhile,
  };
}

/** Whether signals were admitted while the store was read, so that another reading may be more exact. */
export function readAgain(before: Admissions, after: Admissions): boolean {
  return before.admitted !== after.admitted;
}
