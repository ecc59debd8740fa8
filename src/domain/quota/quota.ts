/** The one place where a signal's verdict is decided (spec §3.2, §8). The Quota Counter applies the decision. */
import { grouped } from "../text.ts";

export interface QuotaPlan {
  signalLimit: number;
  overages: boolean;
  /** Whether three consecutive billing periods ended over the allowance (spec §8.5). */
  extraRoomRemoved: boolean;
}

export type QuotaRejection = "allowance_exceeded" | "extra_room_exceeded" | "key_limit_exceeded";

/** Ordinals of a period, from 1: up to `accept` accepted, up to `hold` held, beyond that rejected. */
interface QuotaBounds {
  accept: number;
  hold: number;
  rejection: QuotaRejection;
}

/**
 * The bounds for the `n`-th signal, in this order:
 *
 * 1. overages on → accept (§8.6)
 * 2. n ≤ L → accept (§8.2)
 * 3. extra room removed → reject (§8.5)
 * 4. n ≤ 2L → hold (§8.3)
 * 5. otherwise → reject (§8.4)
 */
export function quotaBounds({ signalLimit, overages, extraRoomRemoved }: QuotaPlan): QuotaBounds {
  if (overages) return { accept: Infinity, hold: Infinity, rejection: "extra_room_exceeded" };
  if (extraRoomRemoved) return { accept: signalLimit, hold: signalLimit, rejection: "allowance_exceeded" };
  return { accept: signalLimit, hold: 2 * signalLimit, rejection: "extra_room_exceeded" };
}

/** The last ordinal that is not rejected; null with overages on, because none is rejected. */
export function quotaCeiling(plan: QuotaPlan): number | null {
  const { hold } = quotaBounds(plan);
  return hold === Infinity ? null : hold;
}

/** The verdicts that keep a signal: each takes an ordinal. Stored lines hold the index in this list, so append only. */
export const ADMITTED_VERDICTS = ["accepted", "held"] as const;
export type AdmittedVerdict = (typeof ADMITTED_VERDICTS)[number];

/** In the order in which the signals of a run receive them. */
export const VERDICTS = [...ADMITTED_VERDICTS, "rejected"] as const;
export type Verdict = (typeof VERDICTS)[number];

export type VerdictCounts = Record<Verdict, number>;

export const NO_VERDICTS = eachVerdict(() => 0);

export function verdictCounts(counts: VerdictCounts): VerdictCounts {
  return eachVerdict((verdict) => counts[verdict]);
}

export function eachVerdict<Value>(valueOf: (verdict: Verdict) => Value): Record<Verdict, Value> {
  return Object.fromEntries(VERDICTS.map((verdict) => [verdict, valueOf(verdict)])) as Record<Verdict, Value>;
}

export function addVerdicts(counts: VerdictCounts, more: VerdictCounts): void {
  for (const verdict of VERDICTS) counts[verdict] += more[verdict];
}

/** The counts with the names of the verdicts: `500,000 accepted`, `12,000 held`, `0 rejected`. */
export function verdictWords(counts: VerdictCounts): string[] {
  return VERDICTS.map((verdict) => `${grouped(counts[verdict])} ${verdict}`);
}

export function ordinalsTaken(counts: Record<AdmittedVerdict, number>): number {
  return ADMITTED_VERDICTS.reduce((sum, verdict) => sum + counts[verdict], 0);
}

/** Verdicts of consecutive signals: first the accepted ones, then the held, then the rejected. */
interface QuotaRun extends VerdictCounts {
  rejection: QuotaRejection | null;
}

/** The verdict of a signal in a run. @param nth from 0, in the order of the signals. */
export function verdictInRun(nth: number, run: VerdictCounts): Verdict {
  let end = 0;
  return VERDICTS.find((verdict) => nth < (end += run[verdict])) ?? "rejected";
}

/**
 * Verdicts of the ordinals `used + 1 … used + count`. The rejected signals have one reason: the bound that comes first, and the plan's if
 * both end at the same signal. @param keyRoom signals that the budget of the key still allows.
 */
export function decideQuotaRun(used: number, count: number, plan: QuotaPlan, keyRoom = Infinity): QuotaRun {
  const { accept, hold, rejection } = quotaBounds(plan);
  const upTo = (bound: number) => Math.min(count, Math.max(0, bound - used));
  const planKept = upTo(hold);
  const kept = Math.min(planKept, keyRoom);
  const accepted = Math.min(upTo(accept), kept);
  const reason = keyRoom < planKept ? "key_limit_exceeded" : rejection;
  return { accepted, held: kept - accepted, rejected: count - kept, rejection: kept === count ? null : reason };
}

/** Signals of `accepted`, following `used` ordinals, that are metered beyond the limit (spec §8.6). */
export function overageOfRun(used: number, accepted: number, { signalLimit }: QuotaPlan): number {
  return Math.min(accepted, Math.max(0, used + accepted - signalLimit));
}

/** Number of held signals that can be accepted now: all with overages on, else as many as fit the plan's limit. */
export function roomToRelease(now: { overages: boolean; signalLimit: number; accepted: number; held: number }): number {
  return now.overages ? now.held : Math.min(now.held, Math.max(0, now.signalLimit - now.accepted));
}

/**
 * Overage added by releasing held signals. A signal accepted beyond the limit was metered by its ordinal, which
 * counts the held signals before it. Only acceptances beyond that are new overage.
 */
export function overageOfRelease(
  now: { overages: boolean; signalLimit: number; accepted: number; overage: number },
  released: number,
): number {
  if (!now.overages) return 0;
  return Math.min(released, Math.max(0, now.accepted + released - now.signalLimit - now.overage));
}
