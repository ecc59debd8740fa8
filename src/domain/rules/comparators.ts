/**
 * The comparators of conditions, as one table: everything that depends on a comparator is here or derives from here.
 * Only its words on the pages are elsewhere (`COMPARATOR_LABEL`). Conditions compare numbers as numbers, and text case-insensitively.
 */
import { decimalOf, WrittenNumber } from "../json/json-value.ts";

type Scalar = string | number | boolean;

/** The `value` that a comparator needs. */
type ConditionValue = "none" | "one" | "number" | "list";

/** A value prepared for comparison. `text` is in lower case; undefined for objects and arrays. */
export interface Comparable {
  text: string | undefined;
  /** `NaN`: no number. */
  number: number;
  /** `number`, or its text in the form of `decimalOf` if `number` is rounded. */
  exact: number | string;
}

/** A prepared condition, without its path and its negation. */
export interface Comparator {
  fits(value: Comparable): boolean;
  /** How often it scans the whole text, so that its cost grows with the length. */
  scans: number;
}

interface ComparatorEntry {
  value: ConditionValue;
  /** Holds where the comparison does not, also on a missing path. */
  negates?: true;
  /** @param operands the condition's values: none for `none`, at least one otherwise. */
  compare: (operands: readonly Scalar[]) => Comparator;
}

// `NaN` makes every numeric comparison false.
const COMPARATORS = {
  equals: { value: "one", compare: equalTo },
  not_equals: { value: "one", negates: true, compare: equalTo },
  contains: { value: "one", compare: containing },
  not_contains: { value: "one", negates: true, compare: containing },
  contains_any: { value: "list", compare: containing },
  starts_with: { value: "one", compare: onText((actual, text) => actual.startsWith(text)) },
  ends_with: { value: "one", compare: onText((actual, text) => actual.endsWith(text)) },
  in: { value: "list", compare: equalTo },
  greater_than: { value: "number", compare: onDifference((by) => by > 0) },
  greater_or_equal: { value: "number", compare: onDifference((by) => by >= 0) },
  less_than: { value: "number", compare: onDifference((by) => by < 0) },
  less_or_equal: { value: "number", compare: onDifference((by) => by <= 0) },
  exists: { value: "none", compare: present },
  not_exists: { value: "none", negates: true, compare: present },
  is_true: { value: "none", compare: () => equalTo([true, 1]) },
  is_false: { value: "none", compare: () => equalTo([false, 0]) },
} as const satisfies Record<string, ComparatorEntry>;

export type ComparatorName = keyof typeof COMPARATORS;

const entries: Record<ComparatorName, ComparatorEntry> = COMPARATORS;

export const COMPARATOR_NAMES = Object.keys(COMPARATORS) as [ComparatorName, ...ComparatorName[]];

export function isComparatorName(text: string): text is ComparatorName {
  return Object.hasOwn(COMPARATORS, text);
}

export function conditionValue(name: ComparatorName): ConditionValue {
  return entries[name].value;
}

export function negates(name: ComparatorName): boolean {
  return entries[name].negates === true;
}

export interface MappingCondition {
  path: string;
  operator: ComparatorName;
  value?: Scalar | Scalar[];
  /** It is about the same element of a list as the condition before it. Absent: it is about any element. */
  same_element?: boolean;
}

/** Null: the condition lacks the value that its comparator needs, and never holds. */
export function comparatorOf({ operator, value }: MappingCondition): Comparator | null {
  const entry = entries[operator];
  const operands = value === undefined ? [] : Array.isArray(value) ? value : [value];
  return entry.value !== "none" && operands.length === 0 ? null : entry.compare(operands);
}

function present(): Comparator {
  return withoutScan(() => true);
}

function containing(operands: readonly Scalar[]): Comparator {
  const texts = operands.map((operand) => foldedCase(String(operand)));
  const fits = ({ text: actual }: Comparable): boolean =>
    actual !== undefined && texts.some((text) => actual.includes(text));
  return { fits, scans: texts.length };
}

function onText(fits: (actual: string, text: string) => boolean): ComparatorEntry["compare"] {
  return ([first]) => {
    const text = foldedCase(String(first));
    return withoutScan((actual) => actual.text !== undefined && fits(actual.text, text));
  };
}

function onDifference(fits: (by: number) => boolean): ComparatorEntry["compare"] {
  return ([first]) => {
    const operand = toComparable(first);
    return withoutScan((actual) => fits(difference(actual, operand)));
  };
}

/** Equality with any of the operands, as text or as numbers, in a single look-up. */
function equalTo(operands: readonly Scalar[]): Comparator {
  const texts = new Set(operands.map((operand) => foldedCase(String(operand))));
  const numbers = new Set(
    operands.map((operand) => toComparable(operand).exact).filter((exact) => !Number.isNaN(exact)),
  );
  return withoutScan(({ text, exact }) => (text !== undefined && texts.has(text)) || numbers.has(exact));
}

/** Below, equal to or above 0 as the numbers are, with all their digits. `NaN`: one of them is no number. */
function difference(a: Comparable, b: Comparable): number {
  if (a.number !== b.number) return a.number > b.number ? 1 : a.number < b.number ? -1 : Number.NaN;
  if (a.exact === b.exact) return 0;
  const [one, other] = [partsOf(a), partsOf(b)];
  if (one.sign !== other.sign) return one.sign - other.sign;
  if (one.length !== other.length) return one.length > other.length ? one.sign : -one.sign;
  return one.digits > other.digits ? one.sign : -one.sign;
}

/** The digits of a number without zeros around them, and how many stand before its point. Digits compare as texts. */
function partsOf({ exact }: Comparable): { sign: number; digits: string; length: number } {
  const decimal = typeof exact === "string" ? exact : decimalOf(String(exact));
  const [digits = "", exponent = "0"] = decimal.replace(/^-/, "").split("e");
  const sign = decimal === "0" ? 0 : decimal.startsWith("-") ? -1 : 1;
  return { sign, digits, length: digits.length + Number(exponent) };
}

function withoutScan(fits: Comparator["fits"]): Comparator {
  return { fits, scans: 0 };
}

export function toComparable(value: unknown): Comparable {
  if (typeof value === "string") return { text: foldedCase(value), ...numbersOfText(value) };
  if (typeof value === "number") return { text: String(value), number: value, exact: value };
  if (value instanceof WrittenNumber) {
    return { text: foldedCase(value.sent), number: value.rounded, exact: value.exact };
  }
  return { text: typeof value === "boolean" ? String(value) : undefined, number: NaN, exact: NaN };
}

/** Up to this length, a text loses no digit when it becomes a number. */
const EXACT_CHARACTERS = 15;

function numbersOfText(text: string): Pick<Comparable, "number" | "exact"> {
  const number = numberOfText(text);
  const isExact = text.length <= EXACT_CHARACTERS || Number.isNaN(number);
  return { number, exact: isExact ? number : new WrittenNumber(text.trim()).exact };
}

/** The form in which texts are compared: in lower case, and an accent is part of its letter (NFC) however it was sent. */
function foldedCase(text: string): string {
  return text.toLowerCase().normalize("NFC");
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
