/** JSON values as senders write them: `null`, `""` and white space mean absent, everywhere. */

export type JsonObject = { [name: string]: unknown };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof WrittenNumber);
}

/** A payload as `readPayload` gives it; as text if it is not JSON, which only a dead letter's can be. */
export function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return readPayload(payload);
  } catch {
    return payload;
  }
}

const { rawJSON } = JSON as typeof JSON & { rawJSON(this: void, text: string): unknown };

/**
 * A number that JSON.parse rounds or that is too large to show that it does not: 9007199254740993 and 9007199254740992 are two ids,
 * and JSON.parse makes one number of them.
 */
export class WrittenNumber {
  readonly sent: string;
  readonly rounded: number;

  constructor(sent: string) {
    this.sent = sent;
    this.rounded = Number(sent);
  }

  /** The number itself, or the text of its `decimalOf` if JSON.parse has rounded it: equal for equal numbers. */
  get exact(): number | string {
    const decimal = decimalOf(this.sent);
    return decimal === decimalOf(String(this.rounded)) ? this.rounded : decimal;
  }

  toJSON(): unknown {
    return rawJSON(this.sent);
  }
}

/** Only numbers of more than 15 digits, or with an exponent beyond 99, can have been rounded. */
const MAY_BE_ROUNDED = /[\d.]{16}|\de[+-]?\d{3}/i;
/** The same in a JSON text. A number follows one of these characters, or is the text. An id in quotes often looks like an exponent. */
const HOLDS_SUCH_NUMBER = /(?:^|[\s:,[])-?(?:[\d.]{16}|[\d.]+e[+-]?\d{3})/i;

/** Reads a signal's payload as JSON.parse does, but with each number that may be rounded as a WrittenNumber. @throws for text that is not JSON. */
export function readPayload(text: string): unknown {
  if (!HOLDS_SUCH_NUMBER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value: unknown, context?: { source?: string }) => {
    const sent = context?.source;
    if (typeof value !== "number" || sent === undefined || !MAY_BE_ROUNDED.test(sent)) return value;
    return isExact(value) && sent === String(value) ? value : new WrittenNumber(sent);
  });
}

/** A plain decimal, or a number of JSON. */
const NUMBER = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;

/** The same text for the same number, however it was written: `123e2` for 12300 and for 1.23e4. */
export function decimalOf(number: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = NUMBER.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  // A loop, because /0+$/ would retry at each zero of a long run.
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  if (end === 0) return "0";
  return `${sign === "-" ? sign : ""}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}

/** A text that may hold a number which JSON.stringify would write differently: many digits, a fraction, an exponent, minus zero. */
const MAY_BE_REWRITTEN = /\d{16}|\d\.\d|\d[eE]|-0/;

/**
 * A payload for an answer or a page, to be written by JSON.stringify: as `parsed`, and each number as it was sent. Otherwise `1e400` would
 * be `null`, and an id of twenty digits another id.
 */
export function asSent(payload: string | null): unknown {
  if (payload === null || !MAY_BE_REWRITTEN.test(payload)) return parsed(payload);
  try {
    return JSON.parse(payload, (_, value: unknown, context?: { source?: string }) => {
      const sent = context?.source;
      return typeof value === "number" && sent !== undefined && sent !== JSON.stringify(value) ? rawJSON(sent) : value;
    });
  } catch {
    return payload;
  }
}

export function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === "string" && value.trim() === "");
}

/** The trimmed, well-formed text; undefined for a blank text or a value of another type. */
export function presentText(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return value.trim().toWellFormed() || undefined;
}

/** Whether a number has all its digits. JSON.parse loses the last digits beyond 2^53, so different ids would be equal. */
export function isExact(number: number): boolean {
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER;
}

export function kindInWords(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "string") return "a text";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
