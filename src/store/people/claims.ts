/**
 * Owners of anonymous ids and user ids (design §8.4). An identify call with an email makes a claim; a paired id takes
 * it over. A signal belongs to the claim in force at its receipt, else to the first claim.
 */
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";

export interface IdClaim extends ReceivedOrder {
  personId: number;
}

/** Adds a claim in order of receipt, at most `most`. A repeated claim of the current owner changes nothing. */
export function addClaim(claims: readonly IdClaim[], claim: IdClaim, most: number): IdClaim[] {
  const sorted = [...claims, claim].sort((one, other) => (isLater(one, other) ? 1 : -1));
  return sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId).slice(-most);
}

/** The claim that applies to a signal of this receipt; undefined: the id has no owner. */
export function claimInForce(claims: readonly IdClaim[], receipt: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, receipt)) ?? claims[0];
}
