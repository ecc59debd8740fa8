/** A property is tried for a moment only, with one seed: what a mutant breaks shows early, and thousands are waiting. */
import * as fc from "fast-check";

fc.configureGlobal({ seed: 20_261_120, interruptAfterTimeLimit: 150, markInterruptAsFailure: false });
