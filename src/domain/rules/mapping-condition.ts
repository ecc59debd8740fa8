/** How one condition of a mapping rule compares (design §8.5): numbers as numbers, text without regard to letter case. */
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

/** Operators whose condition has a list as its `value`. */
export const OPERATORS_WITH_LIST: readonly MappingOperator[] = ["in"];

/** Operators that compare numbers: with any other `value` a condition holds for nothing. */
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

/** A value made ready to compare: text in lower case, undefined for objects and arrays; `NaN` where it is no number. */
export interface Comparable {
  text: string | undefined;
  number: number;
}

/** One condition without its path and its `not_`, made ready to be tried on many values. */
export interface Comparator {
  fits(value: Comparable): boolean;
  /** Whether it goes through the whole of a text: the longer the text, the longer it takes. */
  scansText: boolean;
}

/** A condition made ready; null: it lacks the value that its operator needs, and fits nothing. */
export function comparatorOf({ operator, value }: MappingCondition): Comparator | null {
  if (operator === "exists" || operator === "not_exists") return at(() => true);
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
      return { fits: (one) => one.text !== undefined && one.text.includes(text), scansText: true };
    case "starts_with":
      return at((one) => one.text !== undefined && one.text.startsWith(text));
    case "ends_with":
      return at((one) => one.text !== undefined && one.text.endsWith(text));
    // `NaN` makes every numeric comparison false.
    case "greater_than":
      return at(({ number }) => number > operand);
    case "greater_or_equal":
      return at(({ number }) => number >= operand);
    case "less_than":
      return at(({ number }) => number < operand);
    case "less_or_equal":
      return at(({ number }) => number <= operand);
    default:
      return operator satisfies never;
  }
}

/** Equality with one of the operands, as text or as numbers: one look-up for any number of them. */
function equalTo(operands: readonly (string | number | boolean)[]): Comparator {
  const texts = new Set(operands.map((one) => String(one).toLowerCase()));
  const numbers = new Set(operands.map((one) => toComparable(one).number).filter(isExact));
  return at(({ text, number }) => (text !== undefined && texts.has(text)) || (isExact(number) && numbers.has(number)));
}

function at(fits: Comparator["fits"]): Comparator {
  return { fits, scansText: false };
}

/** Whether a number has all its digits. Beyond 2^53 two different order numbers would be equal: there the text decides alone. */
function isExact(number: number): boolean {
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER;
}

export function toComparable(value: unknown): Comparable {
  if (typeof value === "string") return { text: value.toLowerCase(), number: numberOfText(value) };
  if (typeof value === "number") return { text: String(value), number: Number.isFinite(value) ? value : NaN };
  return { text: typeof value === "boolean" ? String(value) : undefined, number: NaN };
}

/** A text that is compared as a number. It has no exponent: `1e5` is more often an id, and would equal `100000`. */
const DECIMAL = /^\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*$/;

/** A text that is longer is compared as none, whatever digits it has: no number that can be calculated with is. */
const NUMBER_MAX_CHARACTERS = 1_000;

export function numberOfText(text: string): number {
  if (text.length > NUMBER_MAX_CHARACTERS || !DECIMAL.test(text)) return NaN;
  const number = Number(text);
  return Number.isFinite(number) ? number : NaN;
}
