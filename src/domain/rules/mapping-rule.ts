/**
 * Mapping rules (spec §1), compiled once and indexed by event. No part of a rule becomes a regular
 * expression.
 */
import { parseDotPath, readValue, type DotPath } from "../json/dot-path.ts";
import { isJsonObject, type JsonObject } from "../json/json-value.ts";
import { comparatorOf, negates, type Comparator, type MappingCondition } from "./comparators.ts";
import type { Exclusion } from "./exclusion.ts";
import { fitsName } from "../signal/validate-signal.ts";
import { dayOf } from "../duration.ts";
import { NAME_MAX_CODE_POINTS } from "../../limits.ts";

/** Frequencies of a rule for each person: at each match, once per UTC day of occurrence, once ever. */
export const RULE_FREQUENCIES = ["every_time", "once_per_day", "once_ever"] as const;
export type RuleFrequency = (typeof RULE_FREQUENCIES)[number];

/** Days that points can count after the day on which the signal occurred (`lapseDayOf`). */
export const POINTS_LAST_DAYS = [30, 90, 180, 365] as const;
export type PointsLastDays = (typeof POINTS_LAST_DAYS)[number];

export interface MappingRule {
  id: string;
  version: number;
  event: string;
  match: "all" | "any";
  conditions: MappingCondition[];
  scoringSignal: string;
  points: number;
  /** Absent: the rule scores at each match. */
  frequency?: RuleFrequency;
  /** Absent or null: the points always count. */
  pointsLastDays?: PointsLastDays | null;
}

export interface RuleMatch {
  readonly ruleId: string;
  readonly ruleVersion: number;
  readonly scoringSignal: string;
  readonly points: number;
  /** Present if not every match scores. The Signal Store knows which do. */
  readonly frequency?: Exclude<RuleFrequency, "every_time">;
  /** Present if the points lapse. */
  readonly lastDays?: PointsLastDays;
}

type SignalField = "event" | "source" | "email";
/** `properties` and `payload` read a path there. */
export type RulePath = { field: SignalField } | { from: "properties" | "payload"; path: DotPath };

export interface CompiledCondition {
  /** Index of the path's values during an evaluation; rules with the same path share the reading. */
  pathIndex: number;
  comparator: Comparator;
  negated: boolean;
}

export interface CompiledConditions {
  all: boolean;
  /** `null`: a condition that no validated rule can have; it never holds. */
  conditions: readonly (CompiledCondition | null)[];
}

export interface CompiledRule extends CompiledConditions {
  match: RuleMatch;
}

export interface CompiledRules {
  readonly byEvent: ReadonlyMap<string, readonly CompiledRule[]>;
  readonly byWildcard: readonly (Wildcard & { rule: CompiledRule })[];
  /** What does not score, in order: the first that holds counts. */
  readonly exclusions: readonly (CompiledConditions & { id: string })[];
  /** Whether an exclusion reads more than event, source and email. */
  readonly excludesByPayload: boolean;
  readonly paths: readonly RulePath[];
  /** Whether a condition reads the email. A signal without an email is then evaluated once its person is known. */
  readonly asksForEmail: boolean;
}

/** A path has at most NAME_MAX_CODE_POINTS characters. Each takes at most two UTF-16 units. */
const PATH_MAX_LENGTH = 2 * NAME_MAX_CODE_POINTS;

/** `event`, `source`, `email`, or a dot path after `properties.` or `payload.`, which is the signal as sent. */
export function isRulePath(path: string): boolean {
  return fitsName(path) && parseRulePath(path) !== undefined;
}

export function compileRules(rules: readonly MappingRule[], exclusions: readonly Exclusion[] = []): CompiledRules {
  const byEvent = new Map<string, CompiledRule[]>();
  const byWildcard: (Wildcard & { rule: CompiledRule })[] = [];
  const paths: RulePath[] = [];
  const pathIndexes = new Map<string, number>();

  const compileCondition = (condition: MappingCondition): CompiledCondition | null => {
    const path = parseRulePath(condition.path);
    const comparator = comparatorOf(condition);
    if (path === undefined || comparator === null) return null;
    const pathIndex = pathIndexes.get(condition.path) ?? paths.push(path) - 1;
    pathIndexes.set(condition.path, pathIndex);
    return { pathIndex, comparator, negated: negates(condition.operator) };
  };

  for (const rule of rules) {
    const compiled: CompiledRule = {
      // All matches share one object, so that a message that repeats the match carries it once.
      match: Object.freeze(matchOf(rule)),
      all: rule.match === "all",
      conditions: rule.conditions.map(compileCondition),
    };
    // Events arrive trimmed, so white space around a pattern can only be a mistake.
    const pattern = rule.event.trim().normalize("NFC");
    const wildcard = wildcardOf(pattern);
    if (wildcard !== null) {
      byWildcard.push({ ...wildcard, rule: compiled });
      continue;
    }
    const sameEvent = byEvent.get(pattern);
    if (sameEvent === undefined) byEvent.set(pattern, [compiled]);
    else sameEvent.push(compiled);
  }
  const compiledExclusions = exclusions.map(({ id, match, conditions }) => ({
    id,
    all: match === "all",
    conditions: conditions.map(compileCondition),
  }));
  const readsPayload = (condition: CompiledCondition | null): boolean => {
    const path = condition === null ? undefined : paths[condition.pathIndex];
    return path !== undefined && "from" in path;
  };
  return {
    byEvent,
    byWildcard,
    exclusions: compiledExclusions,
    excludesByPayload: compiledExclusions.some(({ conditions }) => conditions.some(readsPayload)),
    paths,
    asksForEmail: pathIndexes.has("email"),
  };
}

function matchOf({ id, version, scoringSignal, points, ...rule }: MappingRule): RuleMatch {
  const { frequency = "every_time", pointsLastDays = null } = rule;
  return {
    ruleId: id,
    ruleVersion: version,
    scoringSignal,
    points,
    ...(frequency === "every_time" ? {} : { frequency }),
    ...(pointsLastDays === null ? {} : { lastDays: pointsLastDays }),
  };
}

export function isAboutEvent({ byEvent, byWildcard }: CompiledRules, event: string): boolean {
  return byEvent.has(event) || byWildcard.some((wildcard) => fitsWildcard(wildcard, event));
}

/** Whether the evaluation of a signal with this event depends on more than its event. Exclusions concern each event. */
export function isEvaluable(rules: CompiledRules, event: string): boolean {
  return rules.exclusions.length > 0 || isAboutEvent(rules, event);
}

/** Whether the evaluation of a signal with this event reads its payload. */
export function needsPayload(rules: CompiledRules, event: string): boolean {
  return rules.excludesByPayload || isAboutEvent(rules, event);
}

function parseRulePath(path: string): RulePath | undefined {
  if (path === "event" || path === "source" || path === "email") return { field: path };
  const from = (["properties", "payload"] as const).find((root) => path.startsWith(`${root}.`));
  const steps = from && parseDotPath(path.slice(from.length + 1));
  return steps && { from, path: steps };
}

export function isEventPattern(pattern: string): boolean {
  return pattern.trim() !== "" && fitsName(pattern);
}

/** The literal parts of an event pattern between its `*`. */
interface Wildcard {
  readonly first: string;
  readonly middle: readonly string[];
  readonly last: string;
}

/** Null: the pattern is a plain event name. */
function wildcardOf(pattern: string): Wildcard | null {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  return last === undefined ? null : { first, middle: parts.filter((part) => part !== ""), last };
}

/** Searches each part at its first position. No later position helps, so there is no backtracking. */
export function fitsWildcard({ first, middle, last }: Wildcard, event: string): boolean {
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

/** The events that a pattern can match: all begin with `prefix`, or equal it if `exact`. */
export function eventRange(pattern: string): { prefix: string; exact: boolean } {
  const [prefix = "", ...rest] = pattern.trim().normalize("NFC").split("*");
  return { prefix, exact: rest.length === 0 };
}

/**
 * Every value except objects and arrays, with its path; of an array, only the first element. Leaves out what no rule can
 * reach: a path that is too long is not built, because thousands of leaves may share one long name.
 */
export function* leavesOf(properties: JsonObject): Generator<[path: string, value: unknown]> {
  yield* leavesAt("properties", properties);
}

function* leavesAt(path: string, value: unknown): Generator<[path: string, value: unknown]> {
  if (Array.isArray(value)) {
    if (path.length + 2 <= PATH_MAX_LENGTH) yield* leavesAt(`${path}[]`, value[0]);
  } else if (isJsonObject(value)) {
    for (const [name, inner] of Object.entries(value)) {
      if (path.length + 1 + name.length <= PATH_MAX_LENGTH) yield* leavesAt(`${path}.${name}`, inner);
    }
  } else if (value !== undefined) {
    yield [path, value];
  }
}

/** Paths that reach a value of a sample: special characters in a name may prevent that. */
export function propertyPaths(samples: readonly JsonObject[], limit: number): string[] {
  const paths = new Set<string>();
  for (const properties of samples) {
    for (const [path] of leavesOf(properties)) {
      if (paths.size === limit) return [...paths];
      if (hasValueAt(properties, path)) paths.add(path);
    }
  }
  return [...paths];
}

function hasValueAt(properties: JsonObject, path: string): boolean {
  const steps = isRulePath(path) ? parseDotPath(path.slice("properties.".length)) : undefined;
  return steps !== undefined && readValue(properties, steps) !== undefined;
}

/** The day (`dayOf`) at whose start the points lapse. They count until the end of the day before. */
export function lapseDayOf(occurredMs: number, lastDays: PointsLastDays): number {
  return dayOf(occurredMs) + lastDays + 1;
}
