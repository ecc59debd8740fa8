/**
 * A replacement for a removed match of a rule that scores once a day (src/store/people/recount.ts): the search
 * reads the person's list in bounded steps, for any length.
 */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { beginDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { hasReplacements, stepReplacements } from "../../../../src/store/people/recount.ts";
import { REPLACE_STEP_ENTRIES } from "../../../../src/store/people/scoring.ts";
import { expectStateToAddUp, ruleDaysOf } from "../../../support/adds-up.ts";
import { ringUntilQuiet } from "../../../support/cold.ts";
import { expectToAddUp, readStore } from "../../../support/read-store.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const ANN = "ann@example.com";
const LINES = 2 * REPLACE_STEP_ENTRIES + 10;

let sent = 0;
const say = (fields: object): Sent => ({
  payload: { type: "track", messageId: `m-${sent++}`, anonymousId: "v-ann", ...fields },
  periodStartMs: NOW,
});
const identify = (email: string, ids: object): Sent => ({
  payload: { type: "identify", messageId: `m-${sent++}`, ...ids, traits: { email } },
  periodStartMs: NOW,
});

/**
 * Ann's first signal scores; behind very many without a score, others would. The first becomes Bob's, for whom no
 * rule scores now.
 */
async function loseFirst(store: TestStore): Promise<void> {
  store.rulesVersion = 1;
  store.frequency = "once_per_day";
  store.record(NOW, identify(ANN, { anonymousId: "v-ann" }));
  store.record(NOW + 1, say({ event: "E", userId: "u-bob" }));
  const unscored = Array.from({ length: LINES }, () => say({ event: "Other" }));
  for (let from = 0; from < LINES; from += 1_000) store.record(NOW + 2, ...unscored.slice(from, from + 1_000));
  store.record(NOW + 3, say({ event: "E" }), say({ event: "E", more: 1 }));
  expect(scores(store)).toEqual([5]);
  store.record(NOW + 4, identify("bob@example.com", { userId: "u-bob" }));
  const { state, storage, objects } = store;
  const rules = async () => ({ version: 1, rules: compileRules([]) });
  while (await stepLinkJobs({ state, storage, objects, rules }));
  expect(scores(store)).toEqual([0, 0]);
}

function scores({ sql }: TestStore): number[] {
  return sql
    .exec<{ score: number }>("SELECT score FROM people ORDER BY id")
    .toArray()
    .map(({ score }) => score);
}

const scored = (store: TestStore) => [...ruleDaysOf(store.state).values()].map(({ count }) => count);

test("the next scoring signal is found behind very many others, in steps with a bounded number of rows", () =>
  inStore(async (store) => {
    await loseFirst(store);
    let steps = 0;
    for (; hasReplacements(store.sql); steps++) {
      expect(steps).toBeLessThan(4);
      store.restart();
      expect(rowsRead(store.sql, () => stepReplacements(store.state, NOW))).toBeLessThan(REPLACE_STEP_ENTRIES / 10);
    }
    expect(steps).toBeGreaterThan(1);
    expect(scores(store)).toEqual([5, 0]);
    expect(scored(store)).toEqual([1]);
    expectStateToAddUp(store.state);
  }));

test("the search for a replacement ends if a new signal has taken the place", () =>
  inStore(async (store) => {
    await loseFirst(store);
    store.record(NOW + 5, say({ event: "E", more: 2 }));
    expect(scores(store)).toEqual([5, 0]);
    while (hasReplacements(store.sql)) stepReplacements(store.state, NOW);
    expect(scores(store)).toEqual([5, 0]);
    expect(scored(store)).toEqual([1]);
    expectStateToAddUp(store.state);
  }));

test("the search for a replacement ends if the person was deleted", () =>
  inStore(async (store) => {
    await loseFirst(store);
    beginDeletion(store.state, "del_1", ANN, NOW + 10_000);
    stepReplacements(store.state, NOW + 10_000);
    expect(hasReplacements(store.sql)).toBe(false);
    expect(scores(store)).toEqual([0]);
  }));

test("the alarm finds the replacement after the object was evicted", async () => {
  const workspaceId = await inStore(async (store) => {
    await loseFirst(store);
    expect(hasReplacements(store.sql)).toBe(true);
    return store.workspaceId;
  });
  await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
  await ringUntilQuiet(workspaceId);
  const found = await readStore(workspaceId, ({ sql }) => sql.exec("SELECT score FROM people ORDER BY id").toArray());
  expect(found).toEqual([{ score: 5 }, { score: 0 }]);
  await expectToAddUp(workspaceId);
});
