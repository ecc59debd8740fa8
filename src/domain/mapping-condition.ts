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
export interface Operand extends Comparable {
  text: string;
}

/** What the operators come down to: `in` is `equals` with several operands, `is_true` is `equals` with `true`. */
export type Comparison = Exclude<MappingOperator, `not_${string}` | `is_${string}` | "in">;

export function comparisonOf(operator: MappingOperator): Comparison {
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

export function operandsOf({ operator, value }: MappingCondition): Operand[] {
  // `exists` ignores its operand, but needs one to be compared at all.
  if (OPERATORS_WITHOUT_VALUE.includes(operator))
    return [{ text: operator === "is_false" ? "false" : "true", number: NaN }];
  if (value === undefined) return [];
  return (Array.isArray(value) ? value : [value]).map((one) => ({
    ...toComparable(one),
    text: String(one).toLowerCase(),
  }));
}

/** One operand that fits is enough. */
export function conditionFits(comparison: Comparison, operands: readonly Operand[], value: Comparable): boolean {
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

export function toComparable(value: unknown): Comparable {
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
