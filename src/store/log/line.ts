/**
 * A line of the log: one signal. What the store knows of it is its facts, which change; its payload stands beside them,
 * verbatim.
 */
import type { Traits } from "../../domain/signal/traits.ts";
import type { Admission } from "../../wire/admission.ts";
import type { NamedBy } from "../protocol/recorded-signals.ts";

export type LineKind = "signal" | "identify" | "account";

/**
 * `released`: no signal is here any more. A held one has gone through the queue again, and is recorded elsewhere; or
 * retention has deleted it, and then it has no id.
 */
export type LineStatus = "processed" | "anonymous" | "duplicate" | "purged" | "held" | "released";

/** An id of a line by which lines are listed. */
export type ListingId = Exclude<NamedBy, "email">;

export interface Owner {
  personId: number;
  /** What named the owner. */
  by: NamedBy;
}

/** What the store knows of a signal. Times are milliseconds since 1970; null where there is none. */
export interface Facts {
  admission: Admission;
  recordedAtMs: number;
  kind: LineKind;
  status: LineStatus;
  event: string | null;
  source: string | null;
  /** Names as the signal itself has them, normalised. */
  email: string | null;
  userId: string | null;
  anonymousId: string | null;
  traits: Traits;
  owner: Owner | null;
  /** The ids of the line whose lists of lines (people/timelines.ts) it stands on. The owner's list always has the line. */
  listedBy: readonly ListingId[];
  /** When an anonymous signal became a person's. */
  linkedAtMs: number | null;
  duplicateOf: string | null;
  rulesTried: number;
  /** Numbers of what the rules made of the signal, see state/rule-outcomes.ts. */
  outcomes: readonly number[];
  /** When the signal's person was deleted; from then on nothing here names anybody. */
  deletedAtMs: number | null;
}

export interface Line {
  facts: Facts;
  /** The payload as it was sent; null where it is not kept. */
  payload: string | null;
}

/** Whether the payload of such a line is kept. */
export function keepsPayload({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous" || status === "held");
}

/** Whether other signals can be duplicates of this one. */
export function isOriginal({ status, deletedAtMs }: Facts): boolean {
  return deletedAtMs === null && (status === "processed" || status === "anonymous");
}
