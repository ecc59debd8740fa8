/** Property tests whose cases take long. */
import * as fc from "fast-check";
import { amount } from "./amount.ts";

/** The share of its cases and of its time that a property gets in this run. */
const PART = amount(1 / 8, 1);

interface Limits {
  numRuns: number;
  limitMs: number;
  /** Whether the cases have met the situation that the property is about. Until then cases go on, up to `numRuns`. */
  isSeen?: () => boolean;
  part?: number;
}

/**
 * Calls `fc.assert`, but starts no case after `limitMs`: the remaining cases pass without being run. fast-check's own
 * time limit would leave the last case running, and it would abort the objects of the next test.
 */
export async function assertForSoLong<Case>(
  property: fc.IAsyncProperty<Case>,
  { numRuns, limitMs, isSeen = () => true, part = PART }: Limits,
): Promise<void> {
  const run = property.run.bind(property);
  const endMs = performance.now() + limitMs * part;
  const most = Math.ceil(numRuns * part);
  let runs = 0;
  let failed = false;
  property.run = async (value) => {
    // A failed case is run again in smaller forms.
    const isEnough = runs >= most && !failed;
    if (isSeen() && (isEnough || performance.now() >= endMs)) return null;
    runs++;
    const failure = await run(value);
    failed ||= failure !== null;
    return failure;
  };
  await fc.assert(property, { numRuns });
}
