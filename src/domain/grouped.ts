const NUMBER = new Intl.NumberFormat("en");

/** `12,345`, as people read it. */
export function grouped(value: number): string {
  return NUMBER.format(value);
}
