/**
 * Mapping rules (spec §1, design §8.5): which scoring signals one signal makes. Rules are compiled once, indexed by
 * event; nothing of a rule becomes a regular expression, so that no rule and no signal can make this slow.
 */
import { parseDotPath, readValues } from "./dot-path.ts";
import type { DotPath } from "./dot-path.ts";
import type { NormalisedSignal } from "./signal.ts";
import { conditionFits, comparisonOf, operandsOf, toComparable } from "./mapping-condition.ts";
import type { Comparable, Comparison, MappingCondition, Operand } from "./mapping-condition.ts";
import { fitsName } from "./validate-signal.ts";

export { MAPPING_OPERATORS, OPERATORS_WITHOUT_VALUE } from "./mapping-condition.ts";
export type { MappingCondition, MappingOperator } from "./mapping-condition.ts";

export interface MappingRule {
  id: string;
  version: number;
  event: string;
  match: "all" | "any";
  conditions: MappingCondition[];
  scoringSignal: string;
  points: number;
}

/** A rule that matched, as it stood when it was compiled. */
export interface RuleMatch {
  ruleId: string;
  ruleVersion: number;
  scoringSignal: string;
  points: number;
}

type SignalField = "event" | "source" | "email";
type RulePath = { field: SignalField } | { properties: DotPath };
interface CompiledCondition {
  /** Where the values of its path are kept during one evaluation, so that rules share the reading. */
  pathIndex: number;
  comparison: Comparison;
  negated: boolean;
  /** One that fits is enough. */
  operands: readonly Operand[];
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
  /** Whether a condition looks at the email: then a signal without one is not judged before its owner is known. */
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
    const operands = operandsOf(condition);
    if (path === undefined || operands.length === 0) return null;
    const pathIndex = pathIndexes.get(condition.path) ?? paths.push(path) - 1;
    pathIndexes.set(condition.path, pathIndex);
    return {
      pathIndex,
      comparison: comparisonOf(condition.operator),
      negated: condition.operator.startsWith("not_"),
      operands,
    };
  };

  for (const rule of rules) {
    const compiled: CompiledRule = {
      match: { ruleId: rule.id, ruleVersion: rule.version, scoringSignal: rule.scoringSignal, points: rule.points },
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

/**
 * @param email the person's, as conditions on `email` see it; without it the signal's own (design §8.4).
 * @returns `tried`: rules whose event pattern fits; `matches`: those whose conditions hold, exact event names first.
 */
export function evaluate(
  compiled: CompiledRules,
  signal: NormalisedSignal,
  email?: string,
): { tried: number; matches: RuleMatch[] } {
  const values: (readonly Comparable[] | undefined)[] = [];
  const valuesAt = (pathIndex: number): readonly Comparable[] =>
    (values[pathIndex] ??= readComparables(compiled.paths[pathIndex], signal, email));

  let tried = 0;
  const matches: RuleMatch[] = [];
  for (const rule of compiled.byEvent.get(signal.event) ?? []) {
    tried += 1;
    if (ruleHolds(rule, valuesAt)) matches.push({ ...rule.match });
  }
  for (const wildcard of compiled.byWildcard) {
    if (!fitsWildcard(wildcard, signal.event)) continue;
    tried += 1;
    if (ruleHolds(wildcard.rule, valuesAt)) matches.push({ ...wildcard.rule.match });
  }
  return { tried, matches };
}

/** Whether one of the rules is about signals of this event. */
export function isAboutEvent({ byEvent, byWildcard }: CompiledRules, event: string): boolean {
  return byEvent.has(event) || byWildcard.some((wildcard) => fitsWildcard(wildcard, event));
}

/** Where the events lie that a pattern can fit: all begin with `prefix`, or are it. */
export function eventRange(pattern: string): { prefix: string; exact: boolean } {
  const [prefix = "", ...rest] = pattern.trim().split("*");
  return { prefix, exact: rest.length === 0 };
}

type ValuesAt = (pathIndex: number) => readonly Comparable[];

function ruleHolds(rule: CompiledRule, valuesAt: ValuesAt): boolean {
  if (rule.conditions.length === 0) return true;
  for (const condition of rule.conditions) {
    if ((condition !== null && conditionHolds(condition, valuesAt)) !== rule.all) return !rule.all;
  }
  return rule.all;
}

/** A missing path has no values, so that only the `not_` operators hold; with `[]`, one value that fits is enough. */
function conditionHolds(condition: CompiledCondition, valuesAt: ValuesAt): boolean {
  for (const value of valuesAt(condition.pathIndex)) {
    if (conditionFits(condition.comparison, condition.operands, value)) return !condition.negated;
  }
  return condition.negated;
}

/** Each part at its first possible place: where that fails, no other place helps, so nothing is tried twice. */
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

const NO_VALUES: readonly Comparable[] = [];

function readComparables(
  path: RulePath | undefined,
  signal: NormalisedSignal,
  email = signal.email,
): readonly Comparable[] {
  if (path === undefined) return NO_VALUES;
  const found: unknown[] = [];
  if ("properties" in path) readValues(signal.properties, path.properties, found);
  else found.push(path.field === "email" ? email : signal[path.field]);
  const present = found.filter((value) => value !== undefined && value !== null);
  return present.length === 0 ? NO_VALUES : present.map(toComparable);
}
