/**
 * Design §8.6, §8.7: the order of recording, repetitions, splits and late identities change no score of a person or an account, at any
 * later moment.
 */
import * as fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { RULE_FREQUENCIES, type MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { areLapsesDue, stepLapses } from "../../../../src/store/people/lapse-run.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { inStore, type TestStore } from "../../../support/store.ts";

const TODAY = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const LATER_DAYS = [0, 1, 2, 31, 32, 91, 400];

afterEach(() => void vi.useRealTimers());

const RULES = RULE_FREQUENCIES.flatMap((frequency) =>
  ([undefined, 30, 90] as const).map((pointsLastDays): MappingRule => ({
    id: `rule_${frequency}_${pointsLastDays}`,
    version: 1,
    event: "Visit",
    match: "all",
    conditions: [],
    scoringSignal: "visit",
    points: 1 + RULE_FREQUENCIES.indexOf(frequency) * 10 + (pointsLastDays ?? 0) * 100,
    frequency,
    ...(pointsLastDays === undefined ? {} : { pointsLastDays }),
  })),
);

/** The ids of two people. If two emails claimed an id, the order would decide (design §11.5). */
const ANN = {
  email: "ann@example.com",
  ids: [{ anonymousId: "a-1" }, { anonymousId: "a-1", userId: "u-1" }, { userId: "u-1" }],
};
const BOB = { email: "bob@example.com", ids: [{ anonymousId: "a-2" }, { anonymousId: "a-2", userId: "u-2" }] };
const visitor = fc.constantFrom<object>(...ANN.ids, ...BOB.ids);
const identified = fc
  .constantFrom(ANN, BOB)
  .chain(({ email: to, ids }) => fc.constantFrom<object>(...ids).map((who): [object, string] => [who, to]));
const email = fc.constantFrom(ANN.email, BOB.email);
const account = fc.constantFrom("acme", "globex");
const call = fc.oneof(
  { weight: 5, arbitrary: visitor.map((who): object => ({ type: "track", event: "Visit", ...who })) },
  { weight: 1, arbitrary: email.map((to): object => ({ type: "track", event: "Visit", properties: {}, email: to })) },
  {
    weight: 2,
    arbitrary: identified.map(([who, to]): object => ({ type: "identify", ...who, traits: { email: to } })),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(visitor, account).map(([who, groupId]): object => ({ type: "group", ...who, groupId })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(visitor, account)
      .map(([who, id]): object => ({ type: "identify", ...who, traits: { company: { id } } })),
  },
);
/** A call, and on which day before its receipt it occurred. */
const signals = fc.array(fc.record({ call, daysBefore: fc.constantFrom(0, 1, 2, 29, 30, 31, 95) }), {
  minLength: 1,
  maxLength: 14,
});
const delivery = fc.record({
  order: fc.array(fc.nat(), { minLength: 20, maxLength: 20 }),
  batch: fc.integer({ min: 1, max: 6 }),
});

interface Moment {
  people: Record<string, unknown>[];
  accounts: Record<string, unknown>[];
}

/** Records all signals in an order, the first of them twice. Returns the scores on later days. */
function scoresOf(
  sent: { payload: Record<string, unknown>; receivedAtMs: number }[],
  batch: number,
): Promise<Moment[]> {
  return inStore(async (store: TestStore) => {
    vi.setSystemTime(TODAY + DAY_MS / 2);
    store.mappingRules = RULES;
    store.rulesVersion = 1;
    const all = [...sent, ...sent.slice(0, 1)];
    for (let from = 0; from < all.length; from += batch) {
      store.record(Date.now(), ...all.slice(from, from + batch));
      // oxlint-disable-next-line no-await-in-loop -- batch by batch
      await store.linkAll();
    }
    return LATER_DAYS.map((days): Moment => {
      vi.setSystemTime(TODAY + days * DAY_MS + DAY_MS / 2);
      while (areLapsesDue(store.state)) stepLapses(store.state, Date.now());
      expectStateToAddUp(store.state);
      return {
        people: store.sql
          .exec("SELECT email, score, account, lapses, next_lapse_at FROM people ORDER BY email")
          .toArray(),
        accounts: store.sql.exec("SELECT external_id, score, people FROM accounts ORDER BY external_id").toArray(),
      };
    });
  });
}

test("scores of people and accounts are the same for every order and split of the delivery, on every later day", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: TODAY });
  await assertForSoLong(
    fc.asyncProperty(signals, delivery, async (drawn, { order, batch }) => {
      const sent = drawn.map(({ call: payload, daysBefore }, index) => {
        const receivedAtMs = TODAY - DAY_MS + index * 1_000;
        const timestamp = receivedAtMs - daysBefore * DAY_MS;
        return { payload: { ...payload, messageId: `m-${index}`, timestamp }, receivedAtMs, ordinal: index + 1 };
      });
      const shuffled = sent
        .map((signal, index) => ({ signal, place: order[index] ?? 0 }))
        .sort((a, b) => a.place - b.place)
        .map(({ signal }) => signal);
      const inOrder = await scoresOf(sent, sent.length);
      expect(await scoresOf(shuffled, batch)).toEqual(inOrder);
    }),
    { numRuns: 600, limitMs: 30_000 },
  );
});
