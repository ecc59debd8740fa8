/** Created on first use: it loads language data that no isolate needs before its first signal. */
let format: Intl.NumberFormat | undefined;

/** A number with its digits in groups of three: `12,345`. */
export function grouped(value: number): string {
  format ??= new Intl.NumberFormat("en");
  return format.format(value);
}

/** A count with its noun, such as `1 signal` or `2 signals`. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${grouped(count)} ${count === 1 ? noun : plural}`;
}

/** Truncates a text to `max` characters and an ellipsis. */
export function cut(text: string, max: number): string {
  // The slice may end in half a surrogate pair.
  return text.length > max ? `${text.slice(0, max).toWellFormed()}…` : text;
}
