/**
 * To whom an anonymous id or a user id belongs (design §8.4): claims, each made by an identify call with an email, or taken
 * over from an id that it is paired with. A signal goes by the claim in force at its receipt, else by the first.
 */
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";

export interface IdClaim extends ReceivedOrder {
  personId: number;
}

/** The claims with one more, in order of receipt, at most `most`; a claim of whoever has the id already says nothing. */
export function addClaim(claims: readonly IdClaim[], claim: IdClaim, most: number): IdClaim[] {
  const sorted = [...claims, claim].sort((one, other) => (isLater(one, other) ? 1 : -1));
  return sorted.filter(({ personId }, index) => sorted[index - 1]?.personId !== personId).slice(-most);
}

/** The claim that a signal of this receipt goes by; undefined: the id is nobody's. */
export function claimInForce(claims: readonly IdClaim[], receipt: ReceivedOrder): IdClaim | undefined {
  return claims.findLast((claim) => !isLater(claim, receipt)) ?? claims[0];
}
