/** Signals as mapping rules see them; stored ones are normalised again from their payload. */
import { isAboutEvent } from "../../domain/rules/mapping-rule.ts";
import { evaluate } from "../../domain/rules/evaluate-rules.ts";
import type { CompiledRules, RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { normalise } from "../../domain/signal/normalise.ts";
import type { JsonObject } from "../../domain/json/json-value.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { Segment } from "../log/segment.ts";
import type { People } from "../people/people.ts";

/** A line that can score. */
export type ScorableFacts = Facts & { owner: Owner };

/**
 * The rules' matches of a stored signal; none where that takes too many steps. Its person is only looked up where the rules
 * ask for their email.
 */
export function matchesOf(
  rules: CompiledRules,
  facts: ScorableFacts,
  payload: string,
  people: People,
): readonly RuleMatch[] {
  const email = rules.asksForEmail ? emailOf(facts, people) : undefined;
  if (email === null) return [];
  const signal = normalise(JSON.parse(payload) as JsonObject, facts.source ?? undefined);
  return evaluate(rules, signal, email).matches;
}

/** Email of a line's person. Where an email named the person, the line has it. */
function emailOf({ owner, email }: ScorableFacts, people: People): string | null {
  return owner.by === "email" && email !== null ? email : people.emailOf(owner.personId);
}

/** Only a processed signal of a person can score. */
export function canScore(facts: Facts): facts is ScorableFacts {
  return facts.kind === "signal" && facts.status === "processed" && facts.owner !== null;
}

/** Whether the signal queue counts a line. */
export function isCounted({ kind, status }: Facts): boolean {
  return kind === "signal" && (status === "processed" || status === "anonymous");
}

/** Whether a segment has signals that one of the rules covers. */
export function hasEventsOf(segment: Segment, rules: CompiledRules): boolean {
  return segment.hasEvent((event) => isAboutEvent(rules, event));
}
