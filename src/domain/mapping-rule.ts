/**
 * Mapping rules (spec §1, design §8.5): which scoring signals one signal makes. Rules are compiled once, indexed by
 * event; nothing of a rule becomes a regular expression, so that no rule and no signal can make this slow.
 */
import { parseDotPath, readValues } from "./dot-path.ts";
import type { DotPath } from "./dot-path.ts";
import type { NormalisedSignal } from "./signal.ts";
import { fitsName } from "./validate-signal.ts";

export const MAPPING_OPERATORS = [
  "equals",
  "not_equals",
  "contains",
  "not_contains",
  "starts_with",
  "ends_with",
  "in",
  "greater_than",
  "greater_or_equal",
  "less_than",
  "less_or_equal",
  "exists",
  "not_exists",
  "is_true",
  "is_false",
] as const;
export type MappingOperator = (typeof MAPPING_OPERATORS)[number];

/** Operators whose condition has no `value`. */
export const OPERATORS_WITHOUT_VALUE: readonly MappingOperator[] = ["exists", "not_exists", "is_true", "is_false"];

export interface MappingCondition {
  path: string;
  operator: MappingOperator;
  value?: string | number | boolean | (string | number | boolean)[];
}
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

/** A value made ready to compare: text in lower case, undefined for objects and arrays; `NaN` where it is no number. */
interface Comparable {
  text: string | undefined;
  number: number;
}
interface Operand extends Comparable {
  text: string;
}

type SignalField = "event" | "source" | "email";
type RulePath = { field: SignalField } | { properties: DotPath };
/** What the operators come down to: `in` is `equals` with several operands, `is_true` is `equals` with `true`. */
type Comparison = Exclude<MappingOperator, `not_${string}` | `is_${string}` | "in">;

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
  return { byEvent, byWildcard, paths };
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
    if (valueFits(condition, value)) return !condition.negated;
  }
  return condition.negated;
}

function valueFits({ comparison, operands }: CompiledCondition, value: Comparable): boolean {
  for (const operand of operands) if (fits(comparison, value, operand)) return true;
  return false;
}

/** `NaN` makes every numeric comparison false. */
function fits(comparison: Comparison, { text, number }: Comparable, operand: Operand): boolean {
  switch (comparison) {
    case "exists":
      return true;
    case "equals":
      return text === operand.text || isSameNumber(number, operand.number);
    case "contains":
      return text !== undefined && text.includes(operand.text);
    case "starts_with":
      return text !== undefined && text.startsWith(operand.text);
    case "ends_with":
      return text !== undefined && text.endsWith(operand.text);
    case "greater_than":
      return number > operand.number;
    case "greater_or_equal":
      return number >= operand.number;
    case "less_than":
      return number < operand.number;
    case "less_or_equal":
      return number <= operand.number;
    default:
      return comparison satisfies never;
  }
}

/** Beyond 2^53 digits are lost, and two different order numbers would be equal: there the text decides alone. */
function isSameNumber(one: number, other: number): boolean {
  return one === other && Math.abs(one) <= Number.MAX_SAFE_INTEGER;
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

function comparisonOf(operator: MappingOperator): Comparison {
  switch (operator) {
    case "not_equals":
    case "in":
    case "is_true":
    case "is_false":
      return "equals";
    case "not_contains":
      return "contains";
    case "not_exists":
      return "exists";
    default:
      return operator;
  }
}

function operandsOf({ operator, value }: MappingCondition): Operand[] {
  // `exists` ignores its operand, but needs one to be compared at all.
  if (OPERATORS_WITHOUT_VALUE.includes(operator))
    return [{ text: operator === "is_false" ? "false" : "true", number: NaN }];
  if (value === undefined) return [];
  return (Array.isArray(value) ? value : [value]).map((one) => ({
    ...toComparable(one),
    text: String(one).toLowerCase(),
  }));
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

function toComparable(value: unknown): Comparable {
  if (typeof value === "string") return { text: value.toLowerCase(), number: numberOfText(value) };
  if (typeof value === "number") return { text: String(value), number: Number.isFinite(value) ? value : NaN };
  return { text: typeof value === "boolean" ? String(value) : undefined, number: NaN };
}

/** No exponents: `1e5` is more often an id than a number, and would equal `100000`. */
const DECIMAL = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*$/;

function numberOfText(text: string): number {
  if (!DECIMAL.test(text)) return NaN;
  const number = Number(text);
  return Number.isFinite(number) ? number : NaN;
}
