/**
 * Evaluates compiled mapping rules for a signal. Counts steps, so that no rule and no signal can make this slow.
 * Reads each path once for all rules.
 */
import { RULE_PATH_MAX_ELEMENTS, RULES_MAX_STEPS } from "../../limits.ts";
import { PathReading, type DotPath } from "../json/dot-path.ts";
import type { JsonObject } from "../json/json-value.ts";
import type { NormalisedSignal } from "../signal/signal.ts";
import {
  fitsWildcard,
  type CompiledCondition,
  type CompiledConditions,
  type CompiledElementCondition,
  type CompiledGroup,
  type CompiledRule,
  type CompiledRules,
  type RuleMatch,
  type RulePath,
} from "./mapping-rule.ts";
import { toComparable, type Comparable, type Comparator } from "./comparators.ts";

export interface Evaluation {
  rulesTried: number;
  /** The rules whose conditions hold too, those with exact event names first. Those of an excluded signal do not count. */
  matches: RuleMatch[];
  /** Id of the first exclusion that covers the signal; absent: none does. */
  excludedBy?: string;
}

/** A signal beyond the budget becomes a dead letter, so it does not delay the next one. */
export const TOO_MANY_STEPS = `The mapping rules take more than ${RULES_MAX_STEPS} steps for it: too many of them look at all elements of a large array, or through long texts.`;

/** Steps that evaluations took; each takes 10 to 100 ns. */
export interface StepCount {
  steps: number;
}

/** The fields of a signal that rules read. */
export type EvaluatedSignal = Pick<NormalisedSignal, "event" | "source" | "email" | "properties"> & {
  /** The signal as sent, as `readPayload` gives it. Absent: paths of `payload.` find nothing. */
  payload?: JsonObject | undefined;
};

/**
 * Null: that takes more than RULES_MAX_STEPS.
 *
 * @param email the person's: conditions on `email` then read it in place of the signal's.
 * @param count gets the steps of this evaluation added.
 */
export function evaluate(
  compiled: CompiledRules,
  signal: EvaluatedSignal,
  email?: string,
  count?: StepCount,
): Evaluation | null {
  const run = new Run(compiled, signal, email);
  const exclusion = compiled.exclusions.find((one) => run.holds(one));
  let rulesTried = 0;
  const matches: RuleMatch[] = [];
  const evaluateRule = (rule: CompiledRule): void => {
    rulesTried++;
    if (run.holds(rule)) matches.push(rule.match);
  };
  for (const rule of compiled.byEvent.get(signal.event) ?? []) evaluateRule(rule);
  for (const wildcard of compiled.byWildcard) {
    run.spend(1 + wildcard.middle.length);
    if (fitsWildcard(wildcard, signal.event)) evaluateRule(wildcard.rule);
  }
  if (count !== undefined) count.steps += run.steps;
  if (run.isExceeded) return null;
  return { rulesTried, matches, ...(exclusion !== undefined && { excludedBy: exclusion.id }) };
}

class Run {
  readonly #paths: readonly RulePath[];
  readonly #lists: readonly RulePath[];
  readonly #signal: EvaluatedSignal;
  readonly #email: string | undefined;
  readonly #values: (readonly Comparable[] | undefined)[] = [];
  readonly #elements: (readonly unknown[] | undefined)[] = [];
  /** By path and then by the number of the element. */
  readonly #elementValues: (readonly Comparable[] | undefined)[][] = [];
  #longTexts: Map<string, Comparable> | undefined;
  #steps = 0;

  constructor({ paths, lists }: CompiledRules, signal: EvaluatedSignal, email: string | undefined) {
    this.#paths = paths;
    this.#lists = lists;
    this.#signal = signal;
    this.#email = email;
  }

  get steps(): number {
    return this.#steps;
  }

  get isExceeded(): boolean {
    return this.#steps > RULES_MAX_STEPS;
  }

  spend(steps: number): void {
    this.#steps += steps;
  }

  holds({ conditions, groups, all }: CompiledConditions): boolean {
    this.#steps++;
    if (conditions.length + groups.length === 0) return true;
    for (const condition of conditions) {
      if (this.isExceeded) return false;
      if ((condition !== null && this.#conditionHolds(condition)) !== all) return !all;
    }
    for (const group of groups) {
      if (this.isExceeded) return false;
      if (this.#groupHolds(group) !== all) return !all;
    }
    return all;
  }

  /** A missing path has no values: only `not_` comparators hold. With `[]`, one matching value is enough. */
  #conditionHolds({ pathIndex, comparator, negated }: CompiledCondition): boolean {
    this.#steps++;
    return this.#fitsAny(comparator, this.#valuesAt(pathIndex)) !== negated;
  }

  #fitsAny(comparator: Comparator, values: readonly Comparable[]): boolean {
    for (const value of values) {
      this.#steps += comparator.scans === 0 ? 1 : comparator.scans * (1 + stepsOfText(value));
      if (comparator.fits(value)) return true;
    }
    return false;
  }

  /** One element fits all conditions, each as if the list had this element alone. Without elements it does not hold. */
  #groupHolds({ listIndex, conditions }: CompiledGroup): boolean {
    this.#steps++;
    const list = this.#lists[listIndex];
    const elements = (this.#elements[listIndex] ??= list === undefined ? [] : this.#found(list));
    for (let number = 0; number < elements.length && !this.isExceeded; number++) {
      if (conditions.every((condition) => this.#holdsFor(condition, elements[number], number))) return true;
    }
    return false;
  }

  #holdsFor({ pathIndex, path, comparator, negated }: CompiledElementCondition, element: unknown, number: number) {
    this.#steps++;
    const known = (this.#elementValues[pathIndex] ??= []);
    const values = (known[number] ??= this.#comparables(this.#read(path, element)));
    return this.#fitsAny(comparator, values) !== negated;
  }

  #valuesAt(pathIndex: number): readonly Comparable[] {
    const path = this.#paths[pathIndex];
    return (this.#values[pathIndex] ??= path === undefined ? [] : this.#comparables(this.#found(path)));
  }

  #comparables(found: readonly unknown[]): readonly Comparable[] {
    return found.filter((value) => value !== undefined && value !== null).map((value) => this.#comparable(value));
  }

  /** Converts a long text once, even if several paths reach it: lower-casing is slow in some scripts. */
  #comparable(read: unknown): Comparable {
    const isLong = typeof read === "string" && read.length >= LONG_TEXT_CHARACTERS;
    const known = isLong ? this.#longTexts?.get(read) : undefined;
    this.#steps++;
    if (known !== undefined) return known;
    const value = toComparable(read);
    this.#steps += stepsOfText(value);
    if (isLong) (this.#longTexts ??= new Map<string, Comparable>()).set(read, value);
    return value;
  }

  #found(path: RulePath): readonly unknown[] {
    if (!("from" in path)) {
      return [path.field === "email" ? (this.#email ?? this.#signal.email) : this.#signal[path.field]];
    }
    return this.#read(path.path, this.#signal[path.from]);
  }

  #read(path: DotPath, root: unknown): readonly unknown[] {
    const maxSteps = Math.max(0, RULES_MAX_STEPS - this.#steps);
    const reading = new PathReading(path, { maxElements: RULE_PATH_MAX_ELEMENTS, maxSteps });
    reading.read(root);
    this.#steps += reading.steps;
    return reading.found;
  }
}

/** Characters of a text that take about as long as a short comparison. */
const CHARACTERS_A_STEP = 16;

/** Texts of this length are cached, because converting them twice would matter. */
const LONG_TEXT_CHARACTERS = 256;

function stepsOfText({ text }: Comparable): number {
  return text === undefined ? 0 : Math.floor(text.length / CHARACTERS_A_STEP);
}

export function pointsOf(matches: readonly RuleMatch[]): number {
  return matches.reduce((sum, { points }) => sum + points, 0);
}
