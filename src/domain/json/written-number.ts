/**
 * Design §8.2: numbers count as they were written, not as they were rounded. JSON.parse makes one number of
 * 9007199254740993 and 9007199254740992, which are two ids. Here such a number keeps its digits.
 */

/** A number that JSON.parse has rounded, as the decimal that was sent. */
export class WrittenNumber {
  /** The number as JSON: the same text for the same number, however it was written. */
  readonly decimal: string;

  constructor(decimal: string) {
    this.decimal = decimal;
  }
}

/** Of up to 15 digits every decimal is a number of its own, so that only longer ones can have been rounded. */
const LONG = /[\d.]{16}/;

/**
 * The payload with a WrittenNumber in place of each number that was rounded: the payload itself where there is none. The
 * text is parsed anew only if it holds 16 digits in a row. What is not long enough for that is left alone also beside
 * longer ones, so that each number is compared by itself alone.
 *
 * @param payload what JSON.parse makes of the text.
 */
export function asWritten(payload: unknown, text: string): unknown {
  if (!LONG.test(text)) return payload;
  return JSON.parse(text, (_, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== "number" || source === undefined || !LONG.test(source)) return value;
    const sent = decimalOf(source);
    return sent === decimalOf(String(value)) ? value : new WrittenNumber(sent);
  });
}

/** A number without zeros at either end of its digits: `123e2` for 12300 and for 1.23e4. */
function decimalOf(number: string): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  // A loop: /0+$/ would try each zero of a long row of them as the first.
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  if (end === 0) return "0";
  return `${sign}${digits.slice(0, end)}e${Number(exponent) - fraction.length + digits.length - end}`;
}
