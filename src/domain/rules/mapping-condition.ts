/** Compares values for a condition of a mapping rule (design §8.5): numbers as numbers, text case-insensitively. */
import { isExact } from "../json/json-value.ts";

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

export const OPERATORS_WITHOUT_VALUE: readonly MappingOperator[] = ["exists", "not_exists", "is_true", "is_false"];

export const OPERATORS_WITH_LIST: readonly MappingOperator[] = ["in"];

/** Operators that compare numbers: with any other `value` the condition never holds. */
export const OPERATORS_OF_NUMBERS: readonly MappingOperator[] = [
  "greater_than",
  "greater_or_equal",
  "less_than",
  "less_or_equal",
];

export interface MappingCondition {
  path: string;
  operator: MappingOperator;
  value?: string | number | boolean | (string | number | boolean)[];
}

/** A value prepared for comparison. `text` is in lower case; undefined for objects and arrays. */
export interface Comparable {
  text: string | undefined;
  number: number;
}

/** A prepared condition, without its path and its `not_`. */
export interface Comparator {
  fits(value: Comparable): boolean;
  /** Whether it scans the whole text, so that its cost grows with the length. */
  scansText: boolean;
}

/** Null: the condition lacks the value that its operator needs, and never holds. */
export function comparatorOf({ operator, value }: MappingCondition): Comparator | null {
  if (operator === "exists" || operator === "not_exists") return withoutScan(() => true);
  if (operator === "is_true") return equalTo([true]);
  if (operator === "is_false") return equalTo([false]);
  const operands = value === undefined ? [] : Array.isArray(value) ? value : [value];
  const [first] = operands;
  if (first === undefined) return null;
  const text = String(first).toLowerCase();
  const operand = toComparable(first).number;
  switch (operator) {
    case "equals":
    case "not_equals":
    case "in":
      return equalTo(operands);
    case "contains":
    case "not_contains":
      return { fits: (actual) => actual.text !== undefined && actual.text.includes(text), scansText: true };
    case "starts_with":
      return withoutScan((actual) => actual.text !== undefined && actual.text.startsWith(text));
    case "ends_with":
      return withoutScan((actual) => actual.text !== undefined && actual.text.endsWith(text));
    // `NaN` makes every numeric comparison false.
    case "greater_than":
      return withoutScan(({ number }) => number > operand);
    case "greater_or_equal":
      return withoutScan(({ number }) => number >= operand);
    case "less_than":
      return withoutScan(({ number }) => number < operand);
    case "less_or_equal":
      return withoutScan(({ number }) => number <= operand);
    default:
      return operator satisfies never;
  }
}

/** Equality with any of the operands, as text or as numbers, in a single look-up. */
function equalTo(operands: readonly (string | number | boolean)[]): Comparator {
  const texts = new Set(operands.map((operand) => String(operand).toLowerCase()));
  const numbers = new Set(operands.map((operand) => toComparable(operand).number).filter(isExact));
  return withoutScan(
    ({ text, number }) => (text !== undefined && texts.has(text)) || (isExact(number) && numbers.has(number)),
  );
}

function withoutScan(fits: Comparator["fits"]): Comparator {
  return { fits, scansText: false };
}

export function toComparable(value: unknown): Comparable {
  if (typeof value === "string") return { text: value.toLowerCase(), number: numberOfText(value) };
  if (typeof value === "number") return { text: String(value), number: Number.isFinite(value) ? value : NaN };
  return { text: typeof value === "boolean" ? String(value) : undefined, number: NaN };
}

/** A text that compares as a number. No exponents: `1e5` is more often an id than 100000. */
const DECIMAL = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*$/;

/** Longer texts are not compared as numbers: no useful number has as many digits. */
const NUMBER_MAX_CHARACTERS = 1_000;

export function numberOfText(text: string): number {
  if (text.length > NUMBER_MAX_CHARACTERS || !DECIMAL.test(text)) return NaN;
  const number = Number(text);
  return Number.isFinite(number) ? number : NaN;
}
