/** A signal that has been recorded, as the live page shows it. */
import { pointsOf } from "../../domain/rules/evaluation.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { People } from "../people/people.ts";
import type { LiveSignal } from "../protocol/recorded-signals.ts";
import type { StoreState } from "../state/store-state.ts";
import { signalIdOf } from "./pending-signal.ts";
import type { PendingSignal } from "./pending-signal.ts";

/** The matches of a signal that count: a rule may have scored the person before. */
function countedOf({ once }: StoreState, { owner, matches, signal, receipt }: PendingSignal): readonly RuleMatch[] {
  const occasion = { signalId: signal.admission.id, atMs: receipt.receivedAtMs };
  return owner === null ? matches : matches.filter((match) => once.counts(owner.personId, occasion, match));
}

export function toLive(state: StoreState, one: PendingSignal, people: People): LiveSignal {
  const { admission, work } = one.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work.normalised : null;
  const isNamed = one.status !== "purged" && one.status !== "duplicate";
  return {
    id: admission.id,
    status: one.status,
    kind: work.kind === "dead" ? "unknown" : work.kind,
    event: worked?.event ?? null,
    source: worked?.source ?? null,
    email: (one.owner && people.emailOf(one.owner.personId)) ?? (isNamed ? (worked?.email ?? null) : null),
    receivedAtMs: admission.receivedAtMs,
    duplicateOf: one.original === null ? null : signalIdOf(one.original),
    deadReason: one.deadReason,
    points: pointsOf(countedOf(state, one)),
  };
}
