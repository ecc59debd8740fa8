/**
 * Mapping rules (spec §1), compiled once and indexed by event. No part of a rule becomes a regular
 * expression.
 */
import { parseDotPath, parseListPath, readValue, type DotPath, type ListPath } from "../json/dot-path.ts";
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

/** A condition on an element of a list. */
export interface CompiledElementCondition {
  /** Index of the path's values in each element. */
  pathIndex: number;
  path: DotPath;
  comparator: Comparator;
  negated: boolean;
}

/** Conditions that one element of a list must fit together. */
export interface CompiledGroup {
  listIndex: number;
  conditions: readonly CompiledElementCondition[];
}

export interface CompiledConditions {
  all: boolean;
  /** `null`: a condition or group that no validated rule can have; it never holds. */
  conditions: readonly (CompiledCondition | null)[];
  /** Each counts as one condition. */
  groups: readonly CompiledGroup[];
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
  /** The lists of groups: each path leads to the elements. */
  readonly lists: readonly RulePath[];
  /** Whether a condition reads the email. A signal without an email is then evaluated once its person is known. */
  readonly asksForEmail: boolean;
}

/** A path has at most NAME_MAX_CODE_POINTS characters. Each takes at most two UTF-16 units. */
const PATH_MAX_LENGTH = 2 * NAME_MAX_CODE_POINTS;

/** `event`, `source`, `email`, or a dot path after `properties.` or `payload.`, which is the signal as sent. */
export function isRulePath(path: string): boolean {
  return fitsName(path) && parseRulePath(path) !== undefined;
}

/** The path of a condition in a group; undefined: it has no `[]`. `list` begins with `properties.` or `payload.`. */
export function parseListRulePath(path: string): (ListPath & { from: "properties" | "payload" }) | undefined {
  const from = rootOf(path);
  const parsed = from && parseListPath(path.slice(from.length + 1));
  return parsed && { ...parsed, from, list: `${from}.${parsed.list}` };
}

/** Conditions in a row that are about one element. Most groups have one condition, which is about any element. */
export function groupsOf(conditions: readonly MappingCondition[]): [MappingCondition, ...MappingCondition[]][] {
  const groups: [MappingCondition, ...MappingCondition[]][] = [];
  for (const condition of conditions) {
    const group = condition.same_element === true ? groups.at(-1) : undefined;
    if (group === undefined) groups.push([condition]);
    else group.push(condition);
  }
  return groups;
}

export function compileRules(rules: readonly MappingRule[], exclusions: readonly Exclusion[] = []): CompiledRules {
  const byEvent = new Map<string, CompiledRule[]>();
  const byWildcard: (Wildcard & { rule: CompiledRule })[] = [];
  const compiler = new ConditionsCompiler();
  for (const rule of rules) {
    const compiled: CompiledRule = {
      // All matches share one object, so that a message that repeats the match carries it once.
      match: Object.freeze(matchOf(rule)),
      ...compiler.compile(rule),
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
  const compiledExclusions = exclusions.map((exclusion) => ({ id: exclusion.id, ...compiler.compile(exclusion) }));
  const { paths, lists } = compiler;
  const readsPayload = (condition: CompiledCondition | null): boolean => {
    const path = condition === null ? undefined : paths[condition.pathIndex];
    return path !== undefined && "from" in path;
  };
  return {
    byEvent,
    byWildcard,
    exclusions: compiledExclusions,
    excludesByPayload: compiledExclusions.some(
      ({ conditions, groups }) => groups.length > 0 || conditions.some(readsPayload),
    ),
    paths,
    lists,
    asksForEmail: paths.some((path) => "field" in path && path.field === "email"),
  };
}

/** Collects the paths of all conditions, so that each is read once for all rules. */
class ConditionsCompiler {
  readonly paths: RulePath[] = [];
  readonly lists: RulePath[] = [];
  readonly #pathIndexes = new Map<string, number>();
  readonly #listIndexes = new Map<string, number>();
  readonly #elementPathIndexes = new Map<string, number>();

  compile({ match, conditions: listed }: Pick<MappingRule, "match" | "conditions">): CompiledConditions {
    const conditions: (CompiledCondition | null)[] = [];
    const groups: CompiledGroup[] = [];
    for (const [first, ...joined] of groupsOf(listed)) {
      const group = joined.length === 0 ? null : this.#group([first, ...joined]);
      if (group !== null) groups.push(group);
      else conditions.push(joined.length === 0 ? this.#condition(first) : null);
    }
    return { all: match === "all", conditions, groups };
  }

  #condition(condition: MappingCondition): CompiledCondition | null {
    const path = parseRulePath(condition.path);
    const comparator = comparatorOf(condition);
    if (path === undefined || comparator === null) return null;
    const pathIndex = this.#pathIndexes.get(condition.path) ?? this.paths.push(path) - 1;
    this.#pathIndexes.set(condition.path, pathIndex);
    return { pathIndex, comparator, negated: negates(condition.operator) };
  }

  #group(group: readonly MappingCondition[]): CompiledGroup | null {
    let ofGroup: number | undefined;
    const conditions: CompiledElementCondition[] = [];
    for (const condition of group) {
      const parsed = parseListRulePath(condition.path);
      const comparator = comparatorOf(condition);
      if (parsed === undefined || comparator === null) return null;
      const { from, list, elements, inElement } = parsed;
      const listIndex = this.#listIndexes.get(list) ?? this.lists.push({ from, path: elements }) - 1;
      this.#listIndexes.set(list, listIndex);
      if (listIndex !== (ofGroup ??= listIndex)) return null;
      const pathIndex = this.#elementPathIndexes.get(condition.path) ?? this.#elementPathIndexes.size;
      this.#elementPathIndexes.set(condition.path, pathIndex);
      conditions.push({ pathIndex, path: inElement, comparator, negated: negates(condition.operator) });
    }
    return ofGroup === undefined ? null : { listIndex: ofGroup, conditions };
  }
}

export function matchOf({ id, version, scoringSignal, points, ...rule }: MappingRule): RuleMatch {
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
  const from = rootOf(path);
  const steps = from && parseDotPath(path.slice(from.length + 1));
  return steps && { from, path: steps };
}

function rootOf(path: string): "properties" | "payload" | undefined {
  return (["properties", "payload"] as const).find((root) => path.startsWith(`${root}.`));
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
