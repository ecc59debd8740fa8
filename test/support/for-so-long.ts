/** Property tests whose cases take long. */
import * as fc from "fast-check";
import { amount } from "./amount.ts";

/** The part of its cases and of its time that a property has in this run. */
const PART = amount(1 / 8, 1);

interface Limits {
  numRuns: number;
  limitMs: number;
  /** Whether the cases have come upon what the property is about. Until then, cases start after `limitMs` too. */
  isSeen?: () => boolean;
  part?: number;
}

/**
 * Calls `fc.assert`, but starts no case after `limitMs`: the remaining cases pass without being run. The time limit of
 * fast-check would leave the last case running, and that case would abort the objects of the next test.
 */
export async function assertForSoLong<Case>(
  property: fc.IAsyncProperty<Case>,
  { numRuns, limitMs, isSeen = () => true, part = PART }: Limits,
): Promise<void> {
  const run = property.run.bind(property);
  const endMs = performance.now() + limitMs * part;
  property.run = async (one) => (performance.now() < endMs || !isSeen() ? run(one) : null);
  await fc.assert(property, { numRuns: Math.ceil(numRuns * part) });
}
