/**
 * Design §1: the books balance and no signal is lost while calls of every binding fail, fail after they took effect,
 * or never return. `npm run test:longer -- faults --seeds 1000` for longer; a failed run names its seed.
 */
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import { amount, note } from "../support/amount.ts";
import { FaultyLife, expectAsPromised } from "../support/faulty-life.ts";
import { WaitingClock } from "../support/waiting-clock.ts";
import { expectLogged } from "../support/logged.ts";

// Bindings fail at random.
expectLogged();

const SEEDS = Number(env.FAULTS_SEEDS ?? amount(1, 2));
const FIRST_SEED = Number(env.FAULTS_SEED ?? 20_261_122);
const CALLS = amount(40, 200);
const RATES = [0.01, 0.1, 0.5];
/** So far ahead that the platform rings none of the alarms. */
const AHEAD_MS = 24 * 3_600_000;

const clock = new WaitingClock();
const bindings = { ...env };

afterEach(() => {
  clock.end();
  Object.assign(env, bindings);
});

test.each(RATES)(
  `with faults in %d of all calls, each signal answered with 202 ends in one place, in ${SEEDS} runs`,
  async (rate) => {
    expect.hasAssertions();
    const faults = new Map<string, number>();
    const answers = new Map<number, number>();
    let acknowledged = 0;
    const startedMs = performance.now();
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      clock.begin(Date.now() + AHEAD_MS);
      // Each fault writes a log line, which takes longer than the call.
      vi.spyOn(console, "log").mockImplementation(() => undefined);
      try {
        const life = await FaultyLife.make(clock, seed % 2 === 0 ? 150 : 1_000_000);
        await life.suffer(seed, rate, CALLS);
        await life.recover();
        await expectAsPromised(life);
        await life.stop();
        for (const [name, count] of life.faults.counts) faults.set(name, (faults.get(name) ?? 0) + count);
        for (const [status, count] of life.answers) answers.set(status, (answers.get(status) ?? 0) + count);
        acknowledged += life.acknowledged.size;
      } catch (error) {
        throw new Error(`rate ${rate}, seed ${seed}: repeat it with npm run test:longer -- faults --seed ${seed}`, {
          cause: error,
        });
      } finally {
        vi.restoreAllMocks();
        clock.end();
        Object.assign(env, bindings);
      }
    }
    note(
      `faults ${rate}: ${SEEDS} lives, ${acknowledged} signals acknowledged, answers ${JSON.stringify(Object.fromEntries(answers))}, ${Math.round(performance.now() - startedMs)} ms`,
    );
    if (env.FAULTS_SEEDS !== undefined) note(JSON.stringify(Object.fromEntries([...faults].sort())));
  },
  60_000 + SEEDS * 20_000,
);
