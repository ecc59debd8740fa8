/** Property tests whose cases take long. */
import * as fc from "fast-check";

/**
 * As `fc.assert`, and after `limitMs` no case begins: those that are left pass without a look. fast-check's own limit
 * leaves the case behind that is under way, which then goes on in the next test and aborts that one's objects.
 *
 * @param isSeen whether what the cases are to come upon has been come upon: until then more begin on a slow machine too.
 */
export async function assertForSoLong<Case>(
  property: fc.IAsyncProperty<Case>,
  { numRuns, limitMs, isSeen = () => true }: { numRuns: number; limitMs: number; isSeen?: () => boolean },
): Promise<void> {
  const run = property.run.bind(property);
  const endMs = performance.now() + limitMs;
  property.run = async (one) => (performance.now() < endMs || !isSeen() ? run(one) : null);
  await fc.assert(property, { numRuns });
}
