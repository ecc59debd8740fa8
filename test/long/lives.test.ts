/**
 * Random lives of a workspace's Signal Store, next to a naive model that recomputes everything from a plain list of signals.
 * `npm run test:longer -- lives --runs 10000` for a night; a failed run prints the command that repeats it.
 */
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { amount } from "../support/amount.ts";
import { livesOf, type Feature } from "../support/lives/generate.ts";
import { runLife } from "../support/lives/life.ts";
import { reportWith } from "../support/properties.ts";
import { expectLogged } from "../support/logged.ts";

// Jobs are stopped midway.
expectLogged();

const LIVES = Number(env.LIVES_RUNS ?? amount(3, 100));
/** Lives without one of these features meet the others more often. `none`: with all of them. */
const DEFAULT = ["none", "clock", "deletions"];
const WITHOUT = env.LIVES_WITHOUT === undefined ? DEFAULT : [env.LIVES_WITHOUT];

test.each(WITHOUT.map((features) => [features, features.split(",") as Feature[]] as const))(
  `the store agrees with the model after each event, in ${LIVES} lives without %s`,
  async (_, without) => {
    expect.hasAssertions();
    await fc.assert(fc.asyncProperty(livesOf(40, without), runLife), {
      numRuns: LIVES,
      ...(env.LIVES_SEED === undefined ? {} : { seed: Number(env.LIVES_SEED) }),
      endOnFailure: env.MODEL_SHRINK === undefined,
      reporter: reportWith(
        (seed) => `npm run test:longer -- lives --runs ${LIVES} --seed ${seed} --without ${without.join(",")}`,
      ),
    });
  },
  60_000 + LIVES * 5_000,
);
