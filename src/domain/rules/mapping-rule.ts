/**
 * Mapping rules (spec §1, design §8.5): which scoring signals one signal makes. Rules are compiled once, indexed by
 * event; nothing of a rule becomes a regular expression, and steps are counted, so that no rule and no signal can make this
 * slow. What a workspace's rules may amount to is in rule-size.ts.
 */
import { parseDotPath, readValues } from "../json/dot-path.ts";
import type { DotPath } from "../json/dot-path.ts";
import type { NormalisedSignal } from "../signal/signal.ts";
import { comparatorOf, toComparable } from "./mapping-condition.ts";
import type { Comparable, Comparator, MappingCondition } from "./mapping-condition.ts";
import { fitsName } from "../signal/validate-signal.ts";
import { RULE_PATH_MAX_ELEMENTS, RULES_MAX_STEPS } from "../../limits.ts";

export { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "./mapping-condition.ts";
export type { MappingCondition, MappingOperator } from "./mapping-condition.ts";

/** How often a rule may score one person: each time that it matches, once a UTC day of receipt, once ever. */
export const RULE_FREQUENCIES = ["every_time", "once_per_day", "once_ever"] as const;
export type RuleFrequency = (typeof RULE_FREQUENCIES)[number];

export interface MappingRule {
  id: string;
  version: number;
  event: string;
  match: "all" | "any";
  conditions: MappingCondition[];
  scoringSignal: string;
  points: number;
  /** Absent: the rule scores each time that it matches. */
  frequency?: RuleFrequency;
}

/** A rule that matched, as it stood when it was compiled. */
export interface RuleMatch {
  readonly ruleId: string;
  readonly ruleVersion: number;
  readonly scoringSignal: string;
  readonly points: number;
  /** Present where not every match scores; which of them do is decided where the person's other scores are known. */
  readonly frequency?: Exclude<RuleFrequency, "every_time">;
}

type SignalField = "event" | "source" | "email";
type RulePath = { field: SignalField } | { properties: DotPath };
interface CompiledCondition {
  /** Where the values of its path are kept during one evaluation, so that rules share the reading. */
  pathIndex: number;
  comparator: Comparator;
  negated: boolean;
}

interface CompiledRule {
  match: RuleMatch;
  all: boolean;
  /** `null`: a condition that a validated rule cannot have; it never holds. */
  conditions: readonly (CompiledCondition | null)[];
}

/** The literal parts of an event pattern between its `*`. */
interface Wildcard {
  first: string;
  middle: readonly string[];
  last: string;
  rule: CompiledRule;
}

export interface CompiledRules {
  readonly byEvent: ReadonlyMap<string, readonly CompiledRule[]>;
  readonly byWildcard: readonly Wildcard[];
  readonly paths: readonly RulePath[];
  /** Whether a condition looks at the email: a signal without one is then not judged before its owner is known. */
  readonly asksForEmail: boolean;
}

/** An event name, or a pattern of one in which `*` stands for any run of characters, also none. */
export function isEventPattern(pattern: string): boolean {
  return pattern.trim() !== "" && fitsName(pattern);
}

/** `event`, `source`, `email`, or `properties.` and a dot path. */
export function isRulePath(path: string): boolean {
  return fitsName(path) && parseRulePath(path) !== undefined;
}

export function compileRules(rules: readonly MappingRule[]): CompiledRules {
  const byEvent = new Map<string, CompiledRule[]>();
  const byWildcard: Wildcard[] = [];
  const paths: RulePath[] = [];
  const pathIndexes = new Map<string, number>();

  const compileCondition = (condition: MappingCondition): CompiledCondition | null => {
    const path = parseRulePath(condition.path);
    const comparator = comparatorOf(condition);
    if (path === undefined || comparator === null) return null;
    const pathIndex = pathIndexes.get(condition.path) ?? paths.push(path) - 1;
    pathIndexes.set(condition.path, pathIndex);
    return { pathIndex, comparator, negated: condition.operator.startsWith("not_") };
  };

  for (const rule of rules) {
    const compiled: CompiledRule = {
      // All signals that match share one object, so that a call that names it often carries it once.
      match: Object.freeze(matchOf(rule)),
      all: rule.match === "all",
      conditions: rule.conditions.map(compileCondition),
    };
    // Events come trimmed, so white space around a pattern can only be a slip.
    const pattern = rule.event.trim();
    const [first = "", ...parts] = pattern.split("*");
    const last = parts.pop();
    if (last !== undefined) {
      byWildcard.push({ first, middle: parts.filter((part) => part !== ""), last, rule: compiled });
      continue;
    }
    const sameEvent = byEvent.get(pattern);
    if (sameEvent === undefined) byEvent.set(pattern, [compiled]);
    else sameEvent.push(compiled);
  }
  return { byEvent, byWildcard, paths, asksForEmail: pathIndexes.has("email") };
}

function matchOf({ id, version, scoringSignal, points, frequency = "every_time" }: MappingRule): RuleMatch {
  const match = { ruleId: id, ruleVersion: version, scoringSignal, points };
  return frequency === "every_time" ? match : { ...match, frequency };
}

export interface Evaluated {
  /** How many rules' event patterns fit. */
  tried: number;
  /** The rules whose conditions hold as well, those with exact event names first. */
  matches: RuleMatch[];
  /** Whether it took more than RULES_MAX_STEPS: nobody knows what matches then, and `matches` is empty. */
  exceeded: boolean;
}

/** @param email the person's address, as conditions on `email` see it; without it the signal's own (design §8.4). */
export function evaluate(compiled: CompiledRules, signal: NormalisedSignal, email?: string): Evaluated {
  const run = new Run(compiled.paths, signal, email);
  let tried = 0;
  const matches: RuleMatch[] = [];
  for (const rule of compiled.byEvent.get(signal.event) ?? []) {
    tried += 1;
    if (run.holds(rule)) matches.push(rule.match);
  }
  for (const wildcard of compiled.byWildcard) {
    run.take(1 + wildcard.middle.length);
    if (!fitsWildcard(wildcard, signal.event)) continue;
    tried += 1;
    if (run.holds(wildcard.rule)) matches.push(wildcard.rule.match);
  }
  return run.isExceeded ? { tried, matches: [], exceeded: true } : { tried, matches, exceeded: false };
}

/** Whether one of the rules is about signals of this event. */
export function isAboutEvent({ byEvent, byWildcard }: CompiledRules, event: string): boolean {
  return byEvent.has(event) || byWildcard.some((wildcard) => fitsWildcard(wildcard, event));
}

/** The events that a pattern can fit: all begin with `prefix`, or are just that where `exact`. */
export function eventRange(pattern: string): { prefix: string; exact: boolean } {
  const [prefix = "", ...rest] = pattern.trim().split("*");
  return { prefix, exact: rest.length === 0 };
}

/** Rules tried on one signal: what is at their paths is read once, and steps are counted. */
class Run {
  readonly #paths: readonly RulePath[];
  readonly #signal: NormalisedSignal;
  readonly #email: string | undefined;
  readonly #values: (readonly Comparable[] | undefined)[] = [];
  #steps = 0;

  constructor(paths: readonly RulePath[], signal: NormalisedSignal, email: string | undefined) {
    this.#paths = paths;
    this.#signal = signal;
    this.#email = email;
  }

  get isExceeded(): boolean {
    return this.#steps > RULES_MAX_STEPS;
  }

  take(steps: number): void {
    this.#steps += steps;
  }

  holds({ conditions, all }: CompiledRule): boolean {
    this.#steps++;
    if (conditions.length === 0) return true;
    for (const condition of conditions) {
      if (this.isExceeded) return false;
      if ((condition !== null && this.#conditionHolds(condition)) !== all) return !all;
    }
    return all;
  }

  /** A missing path has no values, so that only the `not_` operators hold; with `[]`, one value that fits is enough. */
  #conditionHolds({ pathIndex, comparator, negated }: CompiledCondition): boolean {
    this.#steps++;
    for (const value of this.#valuesAt(pathIndex)) {
      this.#steps += comparator.scansText ? stepsOf(value) : 1;
      if (comparator.fits(value)) return !negated;
    }
    return negated;
  }

  #valuesAt(pathIndex: number): readonly Comparable[] {
    return (this.#values[pathIndex] ??= this.#read(this.#paths[pathIndex]));
  }

  #read(path: RulePath | undefined): readonly Comparable[] {
    if (path === undefined) return NO_VALUES;
    const found: unknown[] = [];
    const looks = { left: RULE_PATH_MAX_ELEMENTS };
    if ("properties" in path) readValues(this.#signal.properties, path.properties, found, looks);
    else found.push(path.field === "email" ? (this.#email ?? this.#signal.email) : this.#signal[path.field]);
    this.#steps += RULE_PATH_MAX_ELEMENTS - looks.left;
    const values: Comparable[] = [];
    for (const one of found) {
      if (one === undefined || one === null) continue;
      const value = toComparable(one);
      this.#steps += stepsOf(value);
      values.push(value);
    }
    return values;
  }
}

const NO_VALUES: readonly Comparable[] = [];

/** Characters of a text that are gone through in about the time that a short comparison takes. */
const CHARACTERS_A_STEP = 16;

function stepsOf({ text }: Comparable): number {
  return text === undefined ? 1 : 1 + Math.floor(text.length / CHARACTERS_A_STEP);
}

/** Looks for each part at its first possible place: where that fails, no other place helps, so nothing is tried twice. */
function fitsWildcard({ first, middle, last }: Wildcard, event: string): boolean {
  const end = event.length - last.length;
  if (end < first.length || !event.startsWith(first) || !event.endsWith(last)) return false;
  let at = first.length;
  for (const part of middle) {
    const found = event.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

function parseRulePath(path: string): RulePath | undefined {
  if (path === "event" || path === "source" || path === "email") return { field: path };
  if (!path.startsWith("properties.")) return undefined;
  const properties = parseDotPath(path.slice("properties.".length));
  return properties && { properties };
}
