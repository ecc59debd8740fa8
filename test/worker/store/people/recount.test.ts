/**
 * Recomputes a person who loses lines with a first or last time or a trait (src/store/people/recount.ts), in bounded
 * steps for any number of lines.
 */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { beginDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { hasRecounts, stepRecounts } from "../../../../src/store/people/recount.ts";
import { expectStateToAddUp, linesOf } from "../../../support/adds-up.ts";
import { ringUntilQuiet } from "../../../support/cold.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { readStore } from "../../../support/read-store.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
/** One line in each, so that a step does not finish them. */
const SEGMENTS = 2 * RULE_STEP_SEGMENTS + 20;
const ANN = "ann@example.com";

let sent = 0;
const visit = (receivedAtMs: number, fields: object = {}): Sent => ({
  payload: { type: "track", event: "E", messageId: `m-${sent++}`, anonymousId: "v-ann", ...fields },
  receivedAtMs,
});
const identify = (email: string, ids: object): Sent => ({
  payload: { type: "identify", messageId: `m-${sent++}`, ...ids, traits: { email } },
});
const named = (name: string) => ({ context: { traits: { name } } });

/** Ann's lines. Some are hers only by her anonymous id: the person identified by their user id takes them. */
function history(store: TestStore, ...lines: Sent[]): void {
  store.rulesVersion = 1;
  store.record(NOW, identify(ANN, { anonymousId: "v-ann" }));
  for (const line of lines) {
    store.record(NOW, line);
    store.seal();
  }
}

/** Gives the lines with a user id to another person. */
async function take(store: TestStore, userId: string): Promise<void> {
  store.record(NOW, identify(`${userId}@example.com`, { userId }));
  const { state, storage, objects } = store;
  const rules = async () => ({ version: 1, rules: compileRules([]) });
  while (await stepLinkJobs({ state, storage, objects, rules }));
}

/** Names and times of people, as stored and as recomputed from all lines at once. */
function people({ sql }: TestStore) {
  return sql.exec("SELECT id, first_seen, last_seen, name FROM people ORDER BY id").toArray();
}
function counted(store: TestStore) {
  return people(store).map(({ id }) => {
    const ownLines = linesOf(store.state.signals as never)
      .map(({ facts }) => facts)
      .filter(({ owner }) => owner?.personId === id)
      .sort((a, b) => a.admission.receivedAtMs - b.admission.receivedAtMs);
    const times = ownLines.map(({ admission }) => admission.receivedAtMs);
    const name = ownLines.findLast(({ traits }) => traits.name !== undefined)?.traits.name ?? null;
    return { id, first_seen: times[0], last_seen: times.at(-1), name };
  });
}

/** Runs the recount with a restart after each step. @returns the number of steps. */
function finish(store: TestStore): number {
  let steps = 0;
  for (; hasRecounts(store.sql); steps++) {
    if (steps > 50) throw new Error("it does not end");
    store.restart();
    expect(rowsRead(store.sql, () => stepRecounts(store.state))).toBeLessThan(8 * RULE_STEP_SEGMENTS);
  }
  return steps;
}

/** The first and the last signal, which also has a name. */
const bobs = () => [visit(NOW - 9_000, { userId: "u-1" }), visit(NOW + 9_000, { userId: "u-1", ...named("Bob") })];
/** The first step stops at the line with Ann's name. */
const many = () =>
  Array.from({ length: SEGMENTS }, (_, n) =>
    visit(NOW + n, n === SEGMENTS - RULE_STEP_SEGMENTS - 5 ? named("Ann") : {}),
  );

test("recomputes a person with many signals in steps after the first and last are removed, and knows them by no removed line", () =>
  inStore(async (store) => {
    history(store, ...bobs(), ...many());
    expect(people(store)).toMatchObject([{ first_seen: NOW - 9_000, last_seen: NOW + 9_000, name: "Bob" }]);
    await take(store, "u-1");
    const [ann] = people(store);
    expect(ann).toMatchObject({ last_seen: NOW + SEGMENTS - 1, name: null });
    // A line recorded in the meantime counts for its person.
    store.record(NOW, visit(NOW - 1));
    expect(finish(store)).toBeGreaterThan(1);
    expect(people(store)[0]).toMatchObject({ first_seen: NOW - 1, last_seen: NOW + SEGMENTS - 1, name: "Ann" });
    expect(people(store)).toEqual(counted(store));
    expectStateToAddUp(store.state);
  }));

test("recomputes very many people who lose a line to the same person, in steps", () =>
  inStore(async (store) => {
    store.rulesVersion = 1;
    const ids = Array.from({ length: RULE_STEP_SEGMENTS }, (_, n) => `v-${n}`);
    for (const anonymousId of ids) {
      store.record(NOW, identify(`${anonymousId}@example.com`, { anonymousId }));
      store.record(NOW, visit(NOW - 5, { anonymousId, userId: "u-1" }), visit(NOW - 4, { anonymousId, ...named("N") }));
      store.seal();
    }
    await take(store, "u-1");
    finish(store);
    expect(people(store)).toHaveLength(ids.length + 1);
    expect(people(store)).toEqual(counted(store));
    expectStateToAddUp(store.state);
  }));

test("stops recomputing a person who is deleted", () =>
  inStore(async (store) => {
    history(store, visit(NOW - 9_000, { userId: "u-1" }), ...many());
    await take(store, "u-1");
    expect(hasRecounts(store.sql)).toBe(true);
    beginDeletion(store.state, "del_1", ANN, NOW + 10_000);
    stepRecounts(store.state);
    expect(hasRecounts(store.sql)).toBe(false);
    expect(people(store)).toHaveLength(1);
  }));

test("the alarm continues recomputing after the object was evicted", async () => {
  const workspaceId = await inStore(async (store) => {
    history(store, ...bobs(), ...many());
    await take(store, "u-1");
    expect(hasRecounts(store.sql)).toBe(true);
    return store.workspaceId;
  });
  await evictDurableObject(env.SIGNAL_STORE.getByName(workspaceId));
  await ringUntilQuiet(workspaceId);
  const names = await readStore(workspaceId, ({ sql }) => sql.exec("SELECT name FROM people ORDER BY id").toArray());
  expect(names).toEqual([{ name: "Ann" }, { name: "Bob" }]);
});

const anyAction = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant("take" as const), user: fc.nat(5) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("count" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("record" as const),
      after: fc.integer({ min: -99, max: 999 }),
      isNamed: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("restart" as const) }) },
);
/** Lines that another person may take: their places, their receipt, and whether they have a name. */
const taken = fc.array(
  fc.record({ at: fc.nat(SEGMENTS), after: fc.integer({ min: -99, max: 999 }), isNamed: fc.boolean() }),
  {
    minLength: 6,
    maxLength: 6,
  },
);

test("any order of removals and recordings ends with the same result as recomputing everything at once", async () => {
  await assertForSoLong(
    fc.asyncProperty(taken, fc.array(anyAction, { minLength: 3, maxLength: 14 }), (lines, actions) =>
      inStore(async (store) => {
        const all = many();
        for (const [user, { at, after, isNamed }] of lines.entries()) {
          const line = visit(NOW + after, { userId: `u-${user}`, ...(isNamed ? named(`Name ${user}`) : {}) });
          all.splice(at, 0, line);
        }
        history(store, ...all);
        for (const action of actions) {
          if (action.do === "take") await take(store, `u-${action.user}`);
          else if (action.do === "count") stepRecounts(store.state);
          else if (action.do === "restart") store.restart();
          else store.record(NOW, visit(NOW + action.after, action.isNamed ? named("New") : {}));
        }
        finish(store);
        expect(people(store)).toEqual(counted(store));
        expectStateToAddUp(store.state);
      }),
    ),
    { numRuns: 15, limitMs: 10_000 },
  );
}, 60_000);
