/** Prints a line that helps with a failed test. Vitest shows it only then, or with `--silent=false`. */
export function note(text: string): void {
  // oxlint-disable-next-line no-console -- Vitest assigns the console's lines to their test
  console.info(text);
}
