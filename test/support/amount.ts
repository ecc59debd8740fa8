/** How much a test does: little in `npm test`, more in the commands of test/long. */

/** Whether this is a run of test/long/vitest.config.ts. */
export const isLongRun = process.env["LONG_RUN"] === "yes";

export function amount(inShortRun: number, inLongRun: number): number {
  return isLongRun ? inLongRun : inShortRun;
}

/** @param given by a variable. Without it PROPERTY_SEED decides, which CI sets, or else the time. */
export function seedOr(given: string | undefined): number {
  return Number(given ?? process.env["PROPERTY_SEED"] ?? Date.now() % 2 ** 31);
}
