/**
 * A line of the log is one signal: its facts, which change, and its payload, kept verbatim. The functions below decide what
 * a deletion, a purge and retention leave of a line.
 */
import type { Occurred } from "../../domain/signal/occurred-at.ts";
import type { LineStatus, SignalKind } from "../../domain/signal/signal.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/stored-signals.ts";

export type ListingId = Exclude<NamedBy, "email">;

export interface Owner {
  personId: number;
  by: NamedBy;
}

/** Times are milliseconds since 1970. */
export interface Facts {
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
  owner: Owner | null;
  /** The ids whose timelines (people/timelines.ts) list the line. The owner's timeline always lists it. */
  listedBy: readonly ListingId[];
  linkedAtMs: number | null;
  duplicateOf: string | null;
  rulesTried: number;
  /** Ids of rule outcomes, see state/rule-outcomes.ts. */
  outcomes: readonly number[];
  /** Time of the deletion of the person. Afterwards the facts identify no person. */
  deletedAtMs: number | null;
}

export interface Line {
  facts: Facts;
  /** The unchanged payload; null: not kept. */
  payload: string | null;
}

export function keepsPayload({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous" || status === "held");
}

/** Whether other signals can be duplicates of this signal. */
export function isOriginal({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous");
}

/** A deletion keeps the signal's id, its event and its place in the books. */
export function afterDeletion(facts: Facts, nowMs: number): Facts {
  const status = facts.status === "anonymous" ? "processed" : facts.status === "held" ? "purged" : facts.status;
  return { ...withoutPerson(facts), status, deletedAtMs: nowMs };
}

/** A purge keeps the same of a held signal after its billing period. */
export function afterPurge(facts: Facts): Facts {
  return { ...withoutPerson(facts), status: "purged" };
}

/** Retention keeps the place of the line while its segment has other lines. */
export function afterRetention(facts: Facts): Facts {
  const left = withoutPerson(facts);
  return {
    ...left,
    admission: { ...left.admission, id: "", keyId: "" },
    status: "released",
    event: null,
    deletedAtMs: null,
  };
}

export function isDropped({ admission }: Facts): boolean {
  return admission.id === "";
}

/**
 * Facts that say nothing about a person. Every field is listed, so that a new field needs a decision here. The source goes too:
 * the sender chooses it and may put a name in it.
 */
function withoutPerson({ admission, recordedAtMs, kind, status, event, deletedAtMs }: Facts): Facts {
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
    owner: null,
    listedBy: [],
    linkedAtMs: null,
    duplicateOf: null,
    rulesTried: 0,
    outcomes: [],
    deletedAtMs,
  };
}
