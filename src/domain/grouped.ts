const NUMBER = new Intl.NumberFormat("en");

/** A number with its digits in groups of three, as people read it: `12,345`. */
export function grouped(value: number): string {
  return NUMBER.format(value);
}
