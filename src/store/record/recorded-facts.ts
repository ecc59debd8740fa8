/** What the log says of a signal as it is recorded. */
import { tellsWhose } from "../../domain/signal/personal-source.ts";
import type { NormalisedSignal } from "../../domain/signal/signal.ts";
import type { Facts, LineStatus } from "../log/line.ts";
import type { StoreState } from "../state/store-state.ts";
import { signalIdOf } from "./pending-signal.ts";
import type { PendingSignal } from "./pending-signal.ts";

export function recordedFacts(state: StoreState, one: PendingSignal, status: LineStatus, nowMs: number): Facts {
  const { again: _again, pathSource, idempotencyKey, ...admission } = one.signal.admission;
  const { work } = one.signal;
  const worked = work.kind === "signal" || work.kind === "identify" ? work : null;
  // Of a purged signal neither who it was nor what it said is written at all; a duplicate's original says it, which is
  // found when its person is deleted, while the duplicate is not.
  const names = status === "purged" || status === "duplicate" ? null : worked?.normalised;
  const comesAgain = status === "held";
  // An anonymous signal keeps its matches for when it is linked.
  const matches = status === "anonymous" ? (worked?.evaluation?.matches ?? []) : one.matches;
  return {
    admission: {
      ...admission,
      ...(comesAgain && pathSource !== undefined ? { pathSource } : {}),
      ...(comesAgain && idempotencyKey !== undefined ? { idempotencyKey } : {}),
    },
    recordedAtMs: nowMs,
    kind: work.kind === "dead" ? "signal" : work.kind,
    status,
    event: worked?.normalised.event ?? null,
    source: worked === null || status === "purged" ? null : sourceOf(worked, status),
    email: names?.email ?? null,
    userId: names?.userId ?? null,
    anonymousId: names?.anonymousId ?? null,
    traits: names?.traits ?? {},
    owner: one.owner,
    linkedAtMs: null,
    duplicateOf: one.original === null ? null : signalIdOf(one.original),
    rulesTried: names === null ? 0 : (worked?.evaluation?.rulesTried ?? 0),
    verdicts: state.verdicts.idsOf(matches),
    deletedAtMs: one.isDeleted ? nowMs : null,
  };
}

function sourceOf(
  { normalised }: { normalised: Omit<NormalisedSignal, "properties"> },
  status: LineStatus,
): string | null {
  return status === "duplicate" && tellsWhose(normalised.source, normalised) ? null : normalised.source;
}
