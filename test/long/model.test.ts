/**
 * Random lives of a workspace: the real Quota Counter, consumer and Signal Store execute each step, and so does a
 * plain model. After any loss, repetition, restart or delay every answer and every count equal the model's. `npm run
 * test:longer -- model --runs 10000` for a night; a failed run prints the command that repeats it.
 */
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { amount } from "../support/amount.ts";
import { commands, applyRules, preview, look } from "../support/model-commands.ts";
import { Model } from "../support/model.ts";
import { emailOf } from "../support/model-expected.ts";
import { expectAccounts, expectPeople, expectScores, expectSignals, readPages } from "../support/model-reads.ts";
import { Real } from "../support/model-real.ts";
import { reportWith } from "../support/properties.ts";
import { expectToAddUp } from "../support/read-store.ts";
import { expectLogged } from "../support/logged.ts";

// Lives restart objects and fill stores.
expectLogged();

const LIVES = Number(env.MODEL_RUNS ?? amount(3, 200));

/** At the end most data exists and no message is on its way, so that a check has no side effect. */
const lastLooks = fc.tuple(look, preview);

afterEach(() => {
  vi.useRealTimers();
});

/** The expected counts of rejections: all of them, or those written before the counter restarted. */
function rejections({ restarted }: Real, predicted: number): unknown {
  return restarted ? expect.toSatisfy((rejected: number) => rejected >= 0 && rejected <= predicted) : predicted;
}

async function expectAsPredicted(model: Model, real: Real): Promise<void> {
  await applyRules(model, real);
  const { workspace } = real;
  const usage = await workspace.counter.usage();
  const books = await workspace.books();
  const people = await readPages<{ email: string; score: number }>(real, "/people", 1);
  const { accepted, held, rejected, overage, streak, extraRoomRemoved } = usage ?? {};
  expect({ accepted, held, rejected, overage, streak, extraRoomRemoved }).toEqual({
    ...model.current,
    rejected: rejections(real, model.current.rejected),
    streak: model.streak,
    extraRoomRemoved: model.extraRoomRemoved,
  });
  const counted = [...model.budgets].flatMap(([key, { used }]) => (used === 0 ? [] : [[key, used]]));
  expect(Object.entries(usage?.budgetUse ?? {}).toSorted()).toEqual(counted.toSorted());
  const byKey = Object.entries(await workspace.store.keyUsage(usage?.periodStartMs ?? 0));
  const ofPeriod = model.signals.filter(({ period }) => period === model.period);
  const sent = Map.groupBy(ofPeriod, ({ key }) => key);
  expect(byKey.flatMap(([key, { signals }]) => (signals === 0 ? [] : [[key, signals]])).toSorted()).toEqual(
    [...sent].map(([key, signals]) => [key, signals.length]).toSorted(),
  );
  const history = (usage?.history ?? []).map(({ periodStartMs: _start, periodEndMs: _end, ...counts }) => counts);
  const closed = model.closed.map((period) => ({ ...period, rejected: rejections(real, period.rejected) }));
  expect(history).toEqual(closed.slice(0, history.length));
  expect(history.length).toBe(model.closed.length);

  expect(books).toMatchObject({
    accepted: model.signals.length,
    processed: model.count("accepted", "deleted", "dropped"),
    held: model.count("held"),
    purged: model.count("purged", "held, deleted", "dead, deleted", "misfit, purged"),
    duplicates: model.count("duplicate"),
    dead_lettered: model.count("dead", "lost"),
    in_flight: 0,
    balanced: true,
  });

  const scores = [...model.scores()].map(([person, score]) => [emailOf(person), score]);
  expect(people.map(({ email, score }) => [email, score]).toSorted()).toEqual(scores.toSorted());
  const format = model.signals.length % 2 === 0 ? "ndjson" : "csv";
  await expectSignals(model, real, format);
  await expectPeople(model, real, format);
  await expectScores(model, real, format);
  await expectAccounts(model, real, 1);
  await expectToAddUp(workspace.id, { hasDropped: model.hasDropped });
}

test(
  `every answer and every count match the model, in ${LIVES} lives of a workspace`,
  async () => {
    expect.hasAssertions();
    await fc.assert(
      fc.asyncProperty(fc.commands(commands, { maxCommands: 24, size: "max" }), lastLooks, async (life, looks) => {
        const model = new Model();
        const real = await Real.make(model);
        await fc.asyncModelRun(() => ({ model, real }), life);
        await fc.asyncModelRun(() => ({ model, real }), looks);
        await expectAsPredicted(model, real);
        await real.end();
      }),
      {
        numRuns: LIVES,
        ...(env.MODEL_SEED === undefined ? {} : { seed: Number(env.MODEL_SEED) }),
        endOnFailure: env.MODEL_SHRINK === undefined,
        reporter: reportWith((seed) => `npm run test:longer -- model --runs ${LIVES} --seed ${seed}`),
      },
    );
  },
  // A run takes a third of a second in memory, and several seconds on a busy disk.
  60_000 + LIVES * 10_000,
);
