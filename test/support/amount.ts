/** The size of a test: small in `npm test`, larger in `npm run test:all`. */

/** True in a run of test/long/vitest.config.ts. */
export const isLongRun = process.env["LONG_RUN"] === "yes";

export function amount(inShortRun: number, inLongRun: number): number {
  return isLongRun ? inLongRun : inShortRun;
}

/** @param given the seed from a variable. Without it the seed is PROPERTY_SEED, which CI sets, or the current time. */
export function seedOr(given: string | undefined): number {
  return Number(given ?? process.env["PROPERTY_SEED"] ?? Date.now() % 2 ** 31);
}

/** Prints a line that helps with a failed test. Vitest shows it only then, or with `--silent=false`. */
export function note(text: string): void {
  // oxlint-disable-next-line no-console -- Vitest assigns the console's lines to their test
  console.info(text);
}
