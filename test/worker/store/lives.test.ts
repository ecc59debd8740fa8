/** A few random lives of a store with a fixed seed. test/long/lives.test.ts runs more, from other seeds. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { amount } from "../../support/amount.ts";
import { livesOf } from "../../support/lives/generate.ts";
import { runLife } from "../../support/lives/life.ts";
import { expectLogged } from "../../support/logged.ts";

// R2 does not answer.
expectLogged("cold_read_failed");

const LIVES = amount(25, 100);

test(
  `the store agrees with a naive model after each event, in ${LIVES} known lives`,
  { timeout: 120_000 },
  async () => {
    expect.hasAssertions();
    await fc.assert(fc.asyncProperty(livesOf(20), runLife), { numRuns: LIVES, seed: 1, endOnFailure: true });
  },
);
