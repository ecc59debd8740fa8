/**
 * The one place where a signal's verdict is decided (spec §3.2, §8). The Quota Counter applies it; it has no clock and
 * no memory.
 */

/** What a verdict depends on besides the ordinal. */
export interface QuotaPlan {
  /** The plan's signal limit L (the allowance) per billing period. */
  signalLimit: number;
  /** Whether signals beyond the limit are accepted and metered (pay-as-you-go). */
  overages: boolean;
  /** Whether three billing periods in a row have ended over the allowance (spec §8.5). */
  extraRoomRemoved: boolean;
}

export type QuotaRefusal = "allowance_exceeded" | "extra_room_exceeded";

/** The ordinals of a billing period, from 1: up to `accept` they are accepted, up to `hold` held, beyond it refused. */
export interface QuotaBounds {
  accept: number;
  hold: number;
  refusal: QuotaRefusal;
}

/**
 * The one place where the bounds stand. For the `n`-th signal, in this order:
 *
 * 1. overages on → accept (§8.6)
 * 2. n ≤ L → accept (§8.2)
 * 3. extra room removed → refuse (§8.5)
 * 4. n ≤ 2L → hold (§8.3)
 * 5. otherwise → refuse (§8.4)
 */
export function quotaBounds({ signalLimit, overages, extraRoomRemoved }: QuotaPlan): QuotaBounds {
  if (overages) return { accept: Infinity, hold: Infinity, refusal: "extra_room_exceeded" };
  if (extraRoomRemoved) return { accept: signalLimit, hold: signalLimit, refusal: "allowance_exceeded" };
  return { accept: signalLimit, hold: 2 * signalLimit, refusal: "extra_room_exceeded" };
}

/** The last ordinal that is not refused; null with overages on, when none is. */
export function quotaCeiling(plan: QuotaPlan): number | null {
  const { hold } = quotaBounds(plan);
  return hold === Infinity ? null : hold;
}

/** How many signals got each verdict. */
export interface VerdictCounts {
  accepted: number;
  held: number;
  rejected: number;
}

/** Of a billing period in which nothing has come. */
export const NO_VERDICTS: Readonly<VerdictCounts> = { accepted: 0, held: 0, rejected: 0 };

/** The counts alone, of what has them and more. */
export function verdictCounts({ accepted, held, rejected }: VerdictCounts): VerdictCounts {
  return { accepted, held, rejected };
}

/** The ordinals that signals of these verdicts have taken; a refused signal takes none. */
export function ordinalsTaken({ accepted, held }: Omit<VerdictCounts, "rejected">): number {
  return accepted + held;
}

/** Verdicts of `count` signals in a row: first the accepted ones, then the held, then the refused. */
export interface QuotaRun extends VerdictCounts {
  refusal: QuotaRefusal | null;
}

/** The verdict of one signal of a run. @param nth from 0, in the order of the signals. */
export function verdictInRun(nth: number, run: VerdictCounts): keyof VerdictCounts {
  if (nth < run.accepted) return "accepted";
  return nth < ordinalsTaken(run) ? "held" : "rejected";
}

/** Verdicts of the ordinals `used + 1 … used + count`. */
export function decideQuotaRun(used: number, count: number, plan: QuotaPlan): QuotaRun {
  const { accept, hold, refusal } = quotaBounds(plan);
  const upTo = (bound: number) => Math.min(count, Math.max(0, bound - used));
  const accepted = upTo(accept);
  const kept = upTo(hold);
  return { accepted, held: kept - accepted, rejected: count - kept, refusal: kept === count ? null : refusal };
}

/** How many of `accepted` signals, which follow on `used` ordinals, are beyond the plan's limit: metered (spec §8.6). */
export function overageOfRun(used: number, accepted: number, { signalLimit }: QuotaPlan): number {
  return Math.min(accepted, Math.max(0, used + accepted - signalLimit));
}

/** Held signals that may be accepted now: all with overages on, else as many as the plan's limit leaves. */
export function roomToRelease(now: { overages: boolean; signalLimit: number; accepted: number; held: number }): number {
  return now.overages ? now.held : Math.min(now.held, Math.max(0, now.signalLimit - now.accepted));
}

/**
 * What releasing so many held signals adds to the overage. A signal beyond the limit that was accepted when it came has
 * been metered by its ordinal already, which counts the held ones before it: only what is accepted beyond that is new.
 */
export function overageOfRelease(
  now: { overages: boolean; signalLimit: number; accepted: number; overage: number },
  released: number,
): number {
  if (!now.overages) return 0;
  return Math.min(released, Math.max(0, now.accepted + released - now.signalLimit - now.overage));
}
