/** Signals as the store tells of them: in lists, live, and the whole way of one. Times are milliseconds since 1970. */
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import type { EndpointType, Verdict } from "../../domain/signal/signal.ts";
import type { PageOf } from "../../platform/list-page.ts";

/** What says whose a signal is, the strongest first (design §8.3). */
export type NamedBy = "email" | "user_id" | "anonymous_id";

/** Where a signal ended up (design §9). `in_flight` is known by the Quota Counter only. */
export type SignalStatus = "processed" | "held" | "anonymous" | "duplicate" | "purged" | "dead";

export interface SignalSummary {
  id: string;
  status: SignalStatus;
  kind: "signal" | "identify" | "account" | "unknown";
  event: string | null;
  source: string | null;
  email: string | null;
  receivedAtMs: number;
}

/** A signal on the live page, with what explains its status. */
export interface LiveSignal extends SignalSummary {
  duplicateOf: string | null;
  deadReason: string | null;
  points: number;
}

export interface LatestSignals {
  /** The latest first. */
  signals: LiveSignal[];
  /** How many more there are. */
  more: number;
  /** Says which signals have been seen: the next call asks for what came since. */
  cursor: string;
}

/** A rule that has matched a signal. */
export interface MatchedRule extends RuleMatch {
  scored: boolean;
  /** The signal that has scored in place of this one; null: none has. */
  scoredBy: string | null;
}

/** The whole way of one signal. */
export interface SignalTrace extends SignalSummary {
  endpoint: EndpointType;
  keyId: string;
  verdict: Verdict;
  ordinal: number;
  signalLimit: number;
  recordedAtMs: number;
  duplicateOf: string | null;
  heldUntilMs: number | null;
  deadReason: string | null;
  anonymousId: string | null;
  userId: string | null;
  /** Whose the signal is, and what named them; null: nobody's. */
  person: { email: string; by: NamedBy; linkedAtMs: number | null } | null;
  rulesTried: number;
  rulesMatched: MatchedRule[];
  points: number;
  /** When the signal's person was deleted, and all that was theirs with it; null: they were not. */
  deletedAtMs: number | null;
  /** The payload as it was sent; null when it is not kept, and while cold storage does not answer. */
  payload: unknown;
  inColdStorage: boolean;
  /** Whether a restore of the workspace has lost the payload. */
  payloadLost: boolean;
}

export interface DeadLetter {
  id: string;
  reason: string;
  receivedAtMs: number;
  deadAtMs: number;
  payload: unknown;
}

export interface SignalFilter {
  event?: string;
  email?: string;
  status?: SignalStatus;
  keyId?: string;
  /** When the signals were received: not before `sinceMs`, and before `untilMs`, in milliseconds since 1970. */
  sinceMs?: number;
  untilMs?: number;
}

export interface FindFilter extends SignalFilter {
  source?: string;
}

export interface FoundSignals extends PageOf<SignalSummary> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
}
