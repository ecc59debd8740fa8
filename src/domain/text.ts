/** Made when it is first used: it loads the language's data, which no isolate needs before its first signal. */
let format: Intl.NumberFormat | undefined;

/** A number with its digits in groups of three, as people read it: `12,345`. */
export function grouped(value: number): string {
  format ??= new Intl.NumberFormat("en");
  return format.format(value);
}

/** A count with its noun, such as `1 signal` or `2 signals`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

/** The beginning of a text of more than `max` characters, with an ellipsis; a shorter text as it is. */
export function cut(text: string, max: number): string {
  // Half a character may be left at the end.
  return text.length > max ? `${text.slice(0, max).toWellFormed()}…` : text;
}
