/**
 * A line of the log is one signal: its facts, which change, and its payload, kept verbatim. The functions below decide what a deletion,
 * a purge and retention leave of a line.
 */
import type { Occurred } from "../../domain/signal/occurred-at.ts";
import type { Problems } from "../../domain/signal/normalise.ts";
import type { LineStatus, SignalKind } from "../../domain/signal/signal.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/message.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";

export type ListingId = Exclude<NamedBy, "email">;

export interface LinePerson {
  personId: number;
  by: NamedBy;
}

/** Times are milliseconds since 1970. */
export interface SignalFacts {
  admission: Admission;
  recordedAtMs: number;
  occurred: Occurred;
  kind: SignalKind;
  /** `released`: a held signal that is recorded elsewhere now, or a line that retention dropped, which has no id. */
  status: LineStatus;
  event: string | null;
  source: string | null;
  /** Names as the signal itself has them, normalised. */
  email: string | null;
  userId: string | null;
  anonymousId: string | null;
  traits: Traits;
  person: LinePerson | null;
  /** The ids whose timelines (people/timelines.ts) list the line. The timeline of its person always lists it. */
  timelineIds: readonly ListingId[];
  linkedAtMs: number | null;
  /** The rules that evaluated the line when it was linked, see `RecordOptions.rulesVersion`; null: it was not linked later. */
  linkedRulesVersion: number | null;
  duplicateOf: string | null;
  /** A duplicate: because of the id that its template maps, not of its content. */
  sameId: boolean;
  rulesTried: number;
  /** What the rules match, see state/rule-outcomes.ts. An excluded line keeps them, to score as before when it is not excluded any more. */
  outcomes: readonly number[];
  /** Id of the exclusion that covers the line, so that it never scores; null: none does. */
  excludedBy: string | null;
  /** Why fields of the payload are not used. */
  problems: Problems;
  /** Whether a signal template made the fields above, so that `properties.` in a rule reads the payload itself. */
  mapped: boolean;
  /** What the signal is about, see domain/signal/topic.ts. */
  topic: string | null;
  /** When the person was deleted. The facts then identify no person. */
  deletedAtMs: number | null;
}

export interface Line {
  facts: SignalFacts;
  /** The unchanged payload; null: not kept. */
  payload: string | null;
}

/** The outcomes that may score. */
export function scoringOutcomes({ excludedBy, outcomes }: SignalFacts): readonly number[] {
  return excludedBy === null ? outcomes : [];
}

export function keepsPayload({ status, deletedAtMs }: SignalFacts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous" || status === "held");
}

/** A held signal that its template did not fit: only its payload may name a person. It is judged at its release. */
export function isHeldMisfit({ status, kind, event }: SignalFacts): boolean {
  return status === "held" && kind === "signal" && event === null;
}

/** Whether other signals can be duplicates of this signal. */
export function isOriginal({ status, deletedAtMs }: SignalFacts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous");
}

/** A deletion keeps the signal's id, its event and its place in the books. */
export function afterDeletion(facts: SignalFacts, nowMs: number): SignalFacts {
  const status = facts.status === "anonymous" ? "processed" : facts.status === "held" ? "purged" : facts.status;
  return { ...withoutPerson(facts), status, deletedAtMs: nowMs };
}

/** A line of a deleted person that belongs to somebody else: a visitor's line on the timelines of its ids, until it is linked. */
export function asVisitors(facts: SignalFacts): SignalFacts {
  const { kind, status, userId, anonymousId } = facts;
  const timelineIds: ListingId[] = [];
  if (userId !== null) timelineIds.push("user_id");
  if (anonymousId !== null) timelineIds.push("anonymous_id");
  const unlinked = {
    person: null,
    timelineIds,
    linkedAtMs: null,
    linkedRulesVersion: null,
    rulesTried: 0,
    outcomes: [],
    excludedBy: null,
  };
  return { ...facts, ...unlinked, status: kind === "signal" ? "anonymous" : status };
}

export function afterPurge(facts: SignalFacts): SignalFacts {
  return { ...withoutPerson(facts), status: "purged" };
}

/** Retention keeps the place of the line while its segment has other lines. */
export function afterRetention(facts: SignalFacts): SignalFacts {
  const left = withoutPerson(facts);
  return {
    ...left,
    admission: { ...left.admission, id: "", keyId: "" },
    status: "released",
    event: null,
    deletedAtMs: null,
  };
}

export function isDropped({ admission }: SignalFacts): boolean {
  return admission.id === "";
}

/** Lists every field, so that a new field needs a decision here. The source goes too: the sender chooses it and may put a name in it. */
function withoutPerson({ admission, recordedAtMs, kind, status, event, deletedAtMs }: SignalFacts): SignalFacts {
  const { id, keyId, endpoint, verdict, ordinal, signalLimit, receivedAtMs, periodStartMs, periodEndMs } = admission;
  return {
    admission: { id, keyId, endpoint, verdict, ordinal, signalLimit, receivedAtMs, periodStartMs, periodEndMs },
    recordedAtMs,
    occurred: { ms: receivedAtMs, from: "received" },
    kind,
    status,
    event,
    source: null,
    email: null,
    userId: null,
    anonymousId: null,
    traits: {},
    person: null,
    timelineIds: [],
    linkedAtMs: null,
    linkedRulesVersion: null,
    duplicateOf: null,
    sameId: false,
    rulesTried: 0,
    outcomes: [],
    excludedBy: null,
    problems: {},
    // No payload is left to read.
    mapped: false,
    // The sender chooses it and may put a name in it.
    topic: null,
    deletedAtMs,
  };
}
