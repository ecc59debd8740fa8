/** The editable content of a mapping rule (everything except id, version and times), its differences and its size. */
import type { MappingCondition } from "./comparators.ts";
import type { MappingRule, PointsLastDays, RuleFrequency } from "./mapping-rule.ts";

export interface RuleContent extends Pick<MappingRule, "event" | "match" | "conditions" | "scoringSignal" | "points"> {
  name: string;
  frequency: RuleFrequency;
  /** Null: the points always count. */
  pointsLastDays: PointsLastDays | null;
  enabled: boolean;
}

export const RULE_FIELDS = [
  "name",
  "event",
  "match",
  "conditions",
  "scoringSignal",
  "points",
  "frequency",
  "pointsLastDays",
  "enabled",
] as const satisfies (keyof RuleContent)[];

export function contentOf(rule: RuleContent): RuleContent {
  const { name, event, match, conditions, scoringSignal, points, frequency, pointsLastDays, enabled } = rule;
  return { name, event, match, conditions, scoringSignal, points, frequency, pointsLastDays, enabled };
}

type PlainField = Exclude<keyof RuleContent, "conditions">;

/** For conditions: those removed and those added; both empty if only their order changed (`movedConditions`). */
type RuleDifference =
  | { field: PlainField; from: RuleContent[PlainField]; to: RuleContent[PlainField] }
  | { field: "conditions"; removed: MappingCondition[]; added: MappingCondition[] };

export function ruleDifferences(before: RuleContent, after: RuleContent): RuleDifference[] {
  return RULE_FIELDS.flatMap((field): RuleDifference[] => {
    if (field !== "conditions") {
      return before[field] === after[field] ? [] : [{ field, from: before[field], to: after[field] }];
    }
    const [from, to] = [before.conditions, after.conditions];
    if (jsonOf(from) === jsonOf(to)) return [];
    const kept = keptConditions(from, to);
    const [placesBefore, placesAfter] = [new Set(kept.map((one) => one.from)), new Set(kept.map((one) => one.to))];
    return [
      {
        field,
        removed: from.filter((_, index) => !placesBefore.has(index + 1)),
        added: to.filter((_, index) => !placesAfter.has(index + 1)),
      },
    ];
  });
}

/** A condition that both lists have, with its places before and after, from 1 on. */
interface KeptCondition {
  condition: MappingCondition;
  from: number;
  to: number;
}

/** In the order of `after`. Of equal conditions each needs its own. */
function keptConditions(before: readonly MappingCondition[], after: readonly MappingCondition[]): KeptCondition[] {
  const left: (string | null)[] = before.map(jsonOf);
  return after.flatMap((condition, index): KeptCondition[] => {
    const at = left.indexOf(jsonOf(condition));
    if (at < 0) return [];
    left[at] = null;
    return [{ condition, from: at + 1, to: index + 1 }];
  });
}

/** The fewest conditions whose move, after those removed and added, makes one order of the other. */
export function movedConditions(
  before: readonly MappingCondition[],
  after: readonly MappingCondition[],
): KeptCondition[] {
  const kept = keptConditions(before, after);
  const staying = new Set(longestRise(kept));
  return kept.filter((condition) => !staying.has(condition));
}

/** The longest of the selections whose places before rise. */
function longestRise(conditions: readonly KeptCondition[]): KeptCondition[] {
  const best: KeptCondition[][] = [];
  for (const condition of conditions) {
    const earlier = best.filter((rise) => (rise.at(-1)?.from ?? 0) < condition.from);
    best.push([...longest(earlier), condition]);
  }
  return longest(best);
}

function longest(lists: readonly KeptCondition[][]): KeptCondition[] {
  return lists.reduce((most, list) => (list.length > most.length ? list : most), []);
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value);
}

const CHARACTERS_COUNTED_AS_ONE = 50;

/**
 * The size of a rule: one for each path and each value of its conditions, and for each `*` of the event pattern.
 * Limits the memory of compiled rules, and the time that they take for a signal without arrays.
 */
export function ruleSize({ event, conditions }: Pick<MappingRule, "event" | "conditions">): number {
  let size = event.split("*").length - 1;
  for (const { path, value } of conditions) {
    size += sizeOf(path);
    const operands = Array.isArray(value) ? value : [value];
    for (const operand of operands) if (operand !== undefined) size += sizeOf(String(operand));
  }
  return size;
}

/** The size of all exclusions of a workspace, as that of rules. */
export function exclusionsSize(exclusions: readonly Pick<MappingRule, "conditions">[]): number {
  return exclusions.reduce((size, { conditions }) => size + ruleSize({ event: "", conditions }), 0);
}

function sizeOf(text: string): number {
  return Math.max(1, Math.ceil(text.length / CHARACTERS_COUNTED_AS_ONE));
}

export interface RuleVersions {
  /** The version of all the workspace's rules together; 0: no rules have evaluated signals. */
  workspace: number;
  rules: [ruleId: string, version: number][];
}
