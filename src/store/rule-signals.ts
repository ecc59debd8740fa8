/** Signals as mapping rules see them: stored ones normalised again from what was sent, with the email of their person. */
import { evaluate } from "../domain/mapping-rule.ts";
import type { CompiledRules } from "../domain/mapping-rule.ts";
import { normalise } from "../domain/normalise.ts";
import type { JsonObject, NormalisedSignal } from "../domain/signal.ts";
import type { Evaluation, RuleMatch } from "./protocol.ts";

/** What a rule needs of a stored signal. Only a processed signal of a person, with its payload, can score. */
export interface StoredSignal {
  [column: string]: SqlStorageValue;
  seq: number;
  id: string;
  source: string;
  person_id: number | null;
  email: string | null;
  received_at: number;
  /** Whether the signal queue counts it. */
  counted: number;
  /** Null where it cannot score. */
  payload: string | null;
}

/** For a statement with `signals LEFT JOIN people`. */
export const STORED_SIGNAL = `signals.seq, signals.id, signals.source, signals.person_id, people.email,
  signals.received_at, signals.kind = 'signal' AND signals.status IN ('processed', 'anonymous', 'held') AS counted,
  iif(signals.kind = 'signal' AND signals.status = 'processed' AND people.id IS NOT NULL, signals.payload, NULL)
    AS payload`;

/** What the only rule of `compiled` makes of it; undefined: nothing. */
export function matchOf(compiled: CompiledRules, signal: StoredSignal): RuleMatch | undefined {
  if (signal.payload === null || signal.email === null) return undefined;
  const normalised = normalise(JSON.parse(signal.payload) as JsonObject, signal.source);
  return evaluate(compiled, normalised, signal.email).matches[0];
}

/** The rules' verdict, or null where they ask for an email that only the signal's owner has. */
export function evaluateSignal(rules: CompiledRules, signal: NormalisedSignal, ownerEmail?: string): Evaluation | null {
  if (rules.asksForEmail && signal.email === undefined && ownerEmail === undefined) return null;
  const { tried, matches } = evaluate(rules, signal, ownerEmail);
  return { rulesTried: tried, matches };
}
