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
