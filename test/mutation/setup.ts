/** A property is tried for a moment only, with one seed: what a mutant breaks shows early, and thousands are waiting. */
import * as fc from "fast-check";

fc.configureGlobal({
  seed: 20_261_120,
  interruptAfterTimeLimit: 150,
  markInterruptAsFailure: false,
  reporter(details) {
    // On a busy machine the time limit can pass before the first value. The library calls this a failure.
    if (details.interrupted && details.numRuns === 0) return;
    const message = fc.defaultReportMessage(details);
    if (message !== undefined) throw new Error(message);
  },
});
