/**
 * The one place where a signal's verdict is decided (spec §3.2, §8). The Quota Counter applies it; it has no clock and
 * no memory.
 */

/** What a verdict depends on besides the ordinal. */
export interface QuotaPlan {
  /** The plan's signal limit L (the allowance) per billing period. */
  signalLimit: number;
  /** Pay-as-you-go. */
  overages: boolean;
  /** Three billing periods in a row ended over the allowance (spec §8.5). */
  extraRoomRemoved: boolean;
}

export type QuotaVerdict = "accept" | "hold" | "allowance_exceeded" | "extra_room_exceeded";

/**
 * Verdict for the `n`-th signal of a billing period, n from 1. In this order:
 *
 * 1. overages on → accept (§8.6)
 * 2. n ≤ L → accept (§8.2)
 * 3. extra room removed → refuse (§8.5)
 * 4. n ≤ 2L → hold (§8.3)
 * 5. otherwise → refuse (§8.4)
 */
export function decideQuota(n: number, plan: QuotaPlan): QuotaVerdict {
  if (plan.overages) return "accept";
  if (n <= plan.signalLimit) return "accept";
  if (plan.extraRoomRemoved) return "allowance_exceeded";
  if (n <= 2 * plan.signalLimit) return "hold";
  return "extra_room_exceeded";
}

/** First ordinal that is refused, less one; null with overages on: none is. */
export function quotaCeiling(plan: QuotaPlan): number | null {
  if (plan.overages) return null;
  return plan.extraRoomRemoved ? plan.signalLimit : 2 * plan.signalLimit;
}

/** Verdicts of `count` signals in a row: first the accepted ones, then the held, then the refused. */
export interface QuotaRun {
  accepted: number;
  held: number;
  rejected: number;
  refusal: "allowance_exceeded" | "extra_room_exceeded" | null;
}

/** What `decideQuota` says of the ordinals `used + 1 … used + count`. A refused signal takes no ordinal. */
export function decideQuotaRun(used: number, count: number, plan: QuotaPlan): QuotaRun {
  if (plan.overages) return { accepted: count, held: 0, rejected: 0, refusal: null };
  const accepted = Math.min(count, Math.max(0, plan.signalLimit - used));
  const ceiling = plan.extraRoomRemoved ? plan.signalLimit : 2 * plan.signalLimit;
  const kept = Math.min(count, Math.max(accepted, ceiling - used));
  const rejected = count - kept;
  return {
    accepted,
    held: kept - accepted,
    rejected,
    refusal: rejected === 0 ? null : plan.extraRoomRemoved ? "allowance_exceeded" : "extra_room_exceeded",
  };
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
