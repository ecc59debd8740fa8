/**
 * People who lose signals: to another person, when a user id becomes known, or by retention. Times, traits and accounts are those of the
 * signals that a person has, and of those that the person had when retention dropped them, in any order of delivery.
 */
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { notificationTypes } from "../../../../src/domain/notifications/notification.ts";
import type { MappingRule } from "../../../../src/domain/rules/mapping-rule.ts";
import { PERSON_FIELDS } from "../../../../src/domain/signal/traits.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import type { SignalFacts } from "../../../../src/store/log/line.ts";
import { areLapsesDue, stepLapses } from "../../../../src/store/people/lapse-run.ts";
import { ascendingEntries, personList, readEntries } from "../../../../src/store/people/timelines.ts";
import { nextRetentionMs } from "../../../../src/store/state/due.ts";
import { wantNotifications } from "../../../../src/store/state/raise-notifications.ts";
import { STEPS } from "../../../../src/store/steps.ts";
import { isLater } from "../../../../src/wire/message.ts";
import { expectStateToAddUp, linesOf, ruleDaysOf } from "../../../support/adds-up.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { takeRaised } from "../../../support/raised.ts";
import { inStore, type Sent, type TestStore } from "../../../support/store.ts";
import { wanting } from "../../../support/wanting.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const [ANN, BOB] = ["ann@example.com", "bob@example.com"];
const daysAgo = (days: number) => NOW - days * DAY_MS;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
afterEach(() => void vi.useRealTimers());

let sent = 0;
/** A call of days ago. */
function call(type: string, days: number, fields: object, occurredDays = days): Sent {
  const payload = { type, messageId: `m-${sent++}`, timestamp: daysAgo(occurredDays), ...fields };
  return {
    payload: type === "track" ? { event: "E", ...payload } : payload,
    receivedAtMs: daysAgo(days),
    periodStartMs: 1,
  };
}

const isAnn = (days: number, traits: object = {}): Sent =>
  call("identify", days, { anonymousId: "v-ann", traits: { email: ANN, ...traits } });
const isBob = (days: number, traits: object = {}): Sent =>
  call("identify", days, { userId: "u-bob", traits: { email: BOB, ...traits } });
/** Is Ann's by the anonymous id, until Bob has the user id. */
const moving = (type: string, days: number, fields: object = {}, occurredDays = days): Sent =>
  call(type, days, { anonymousId: "v-ann", userId: "u-bob", ...fields }, occurredDays);

/** Drops all signals that are older than some days. */
function drop({ state }: TestStore, days: number, nowMs = Date.now()): void {
  setRetention(state, { retentionDays: days }, nowMs);
  state.sql.exec("UPDATE retention SET next_at = 0");
  for (let steps = 0; (nextRetentionMs(state) ?? Number.POSITIVE_INFINITY) <= nowMs; steps++) {
    expect(steps, "steps that do not end").toBeLessThan(500);
    deleteExpired(state, nowMs);
  }
  state.due.forget();
}

const people = ({ sql }: TestStore) =>
  sql
    .exec(
      `SELECT email, ${PERSON_FIELDS.join(", ")}, score, first_seen, last_seen, last_day FROM people ORDER BY email`,
    )
    .toArray();
const accounts = ({ sql }: TestStore) =>
  sql
    .exec(
      "SELECT external_id, name, attributes, score, people, first_named_at, first_seen FROM accounts ORDER BY external_id",
    )
    .toArray();

async function record(store: TestStore, ...batches: Sent[][]): Promise<void> {
  store.rulesVersion ??= 1;
  for (const batch of batches) store.record(Date.now(), ...batch);
  await store.linkAll();
}

describe("a person who loses a signal to another person", () => {
  test("keeps the account and the name that came from signals which retention has dropped", () =>
    inStore(async (store) => {
      await record(store, [
        isAnn(40, { name: "Ann", company: { id: "acme" } }),
        call("track", 1, { anonymousId: "v-ann" }),
      ]);
      drop(store, 31);
      await record(store, [
        moving("group", 2, { groupId: "globex" }),
        moving("track", 1, { context: { traits: { name: "Bo" } } }),
      ]);
      expect(people(store)).toMatchObject([{ account: "globex", name: "Bo", score: 10 }]);
      await record(store, [isBob(0)]);
      expect(people(store)).toMatchObject([
        { email: ANN, account: "acme", name: "Ann", score: 5 },
        { email: BOB, account: "globex", name: "Bo", score: 5 },
      ]);
      expect(accounts(store)).toMatchObject([
        { external_id: "acme", score: 5, people: 1, first_seen: daysAgo(40) },
        { external_id: "globex", score: 5, people: 1, first_seen: daysAgo(2) },
      ]);
      expectStateToAddUp(store.state, { hasDropped: true });
    }));

  test.each([
    ["first", { kept: [3, 15], moved: [1, 20] }, { first: 15, last: 10 }],
    ["last", { kept: [3, 12], moved: [1, 1] }, { first: 12, last: 10 }],
    ["last of a signal that is stored", { kept: [3, 3], moved: [1, 1] }, { first: 10, last: 3 }],
  ])("was seen when the remaining and the dropped signals occurred, without the %s time", (_, days, { first, last }) =>
    inStore(async (store) => {
      await record(store, [
        isAnn(10),
        call("track", days.kept[0] ?? 0, { anonymousId: "v-ann" }, days.kept[1]),
        moving("track", days.moved[0] ?? 0, {}, days.moved[1]),
      ]);
      drop(store, 5);
      await record(store, [isBob(0)]);
      expect(people(store)[0]).toMatchObject({ first_seen: daysAgo(first), last_seen: daysAgo(last) });
      expectStateToAddUp(store.state, { hasDropped: true });
    }),
  );

  test("stays in the account if another signal names it too: no notification, and the account is the same", () =>
    inStore(async (store) => {
      await record(store, [isAnn(4, { company: { id: "acme" } }), call("track", 4, { anonymousId: "v-ann" })]);
      await record(store, [moving("group", 3, { groupId: "acme" })]);
      wantNotifications(store.state, wanting({ types: [...notificationTypes], accountThresholds: [5] }));
      store.state.signals.flush();
      const before = store.sql.exec("SELECT id, score FROM accounts").toArray();
      store.record(NOW, isBob(0, { company: { id: "globex" } }));
      await store.link();
      expect(store.sql.exec("SELECT id, score FROM accounts WHERE external_id = 'acme'").toArray()).toEqual(before);
      expect(takeRaised(store.state.raised).filter(({ type }) => type.startsWith("account."))).toEqual([]);
      expectStateToAddUp(store.state);
    }));
});

describe("an entry of a signal that retention has dropped", () => {
  const rule = (id: string, more: Partial<MappingRule> = {}): MappingRule => ({
    id,
    version: 1,
    event: id,
    match: "all",
    conditions: [],
    scoringSignal: "s",
    points: 5,
    ...more,
  });
  const entries = ({ sql }: TestStore) => {
    const [ann] = sql.exec<{ id: number; recent: string }>("SELECT id, recent FROM people WHERE email = ?", ANN);
    return [...ascendingEntries(sql, personList(ann?.id ?? 0), readEntries(ann?.recent ?? ""))];
  };
  function visit(store: TestStore, nowMs: number): void {
    vi.setSystemTime(nowMs);
    while (areLapsesDue(store.state, nowMs)) stepLapses(store.state, nowMs);
  }

  test.each([0, 400])("goes when its points have lapsed and no once-ever rule names it, after %i others", (others) =>
    inStore((store) => {
      const once = (frequency: "once_per_day" | "once_ever") => ({ frequency, pointsLastDays: 30 }) as const;
      const [daily, ever] = [rule("Daily", once("once_per_day")), rule("Once", once("once_ever"))];
      store.mappingRules = [rule("Stays"), rule("Lapses", { pointsLastDays: 30 }), daily, ever];
      const track = (event: string, n = 0): Sent => call("track", 10, { email: ANN, event, properties: { n } });
      const events = ["Other", "Stays", "Lapses", "Lapses", "Once", "Once", "Daily", "Daily"];
      store.record(NOW, ...events.map((event, n) => track(event, n)));
      const later = Array.from({ length: others }, () => call("track", 1, { email: ANN, event: "Other" }));
      store.record(NOW, ...later);
      drop(store, 5);
      const left = () => entries(store).filter((entry) => entry.dropped !== undefined);
      expect(left().map(({ seq }) => seq)).toEqual([2, 3, 4, 5, 6, 7, 8]);
      expect(store.scores).toEqual({ ann: 25 });
      expectStateToAddUp(store.state, { hasDropped: true });
      visit(store, NOW + 21 * DAY_MS);
      expect(store.scores).toEqual({ ann: 5 });
      expect(left().map(({ seq }) => seq)).toEqual([2, 5, 6]);
      expect([...ruleDaysOf(store.state).keys()].toSorted()).toEqual(["Once", "Stays"]);
      expect(store.sql.exec("SELECT rule_id FROM single_scores").toArray()).toEqual([{ rule_id: "Once" }]);
      expectStateToAddUp(store.state, { hasDropped: true });
    }),
  );

  test("goes in bounded steps if very many points lapse in a night", () =>
    inStore((store) => {
      store.mappingRules = [rule("Lapses", { pointsLastDays: 30 })];
      const many = Array.from({ length: 600 }, (_, n) => call("track", 10, { email: ANN, event: "Lapses", n }));
      store.record(NOW, ...many, call("track", 1, { email: ANN, event: "Other" }));
      drop(store, 5);
      const rows = () => store.sql.exec("SELECT 1 FROM timelines").toArray().length;
      const before = rows();
      expect([before > 10, entries(store).length]).toEqual([true, 601]);
      vi.setSystemTime(NOW + 21 * DAY_MS);
      stepLapses(store.state, Date.now());
      expect([before - rows(), store.scores]).toEqual([STEPS.lapsedRows, { ann: 0 }]);
      visit(store, Date.now());
      expect(entries(store).map(({ seq }) => seq)).toEqual([601]);
      expectStateToAddUp(store.state, { hasDropped: true });
    }));

  test("goes at once if its points have lapsed before", () =>
    inStore((store) => {
      store.mappingRules = [rule("Lapses", { pointsLastDays: 30 })];
      store.record(NOW, call("track", 35, { email: ANN, event: "Lapses" }), call("track", 1, { email: ANN }));
      drop(store, 31);
      expect(entries(store).map(({ seq }) => seq)).toEqual([2]);
      expectStateToAddUp(store.state, { hasDropped: true });
    }));

  const DAILY = { frequency: "once_per_day", pointsLastDays: 30 } as const;
  test.each<[string, Partial<MappingRule>, number, number[]]>([
    ["goes if its rule still scores once a day", { ...DAILY }, 40, [3, 4]],
    ["goes if its rule still scores once a day, with other points", { ...DAILY, points: 7 }, 40, [3, 4]],
    ["stays if its rule now scores with points that last longer", { ...DAILY, pointsLastDays: 90 }, 40, [1, 2, 3, 4]],
    ["stays if its rule now scores with points that never lapse", { frequency: "once_per_day" }, 40, [1, 2, 3, 4]],
    ["stays alone if its rule now scores once ever", { frequency: "once_ever" }, 10, [1, 3, 4]],
  ])("has lapsed and %s, so no other signal scores in its place", (_, changed, occurredDays, left) =>
    inStore((store) => {
      const match = (days: number, occurred = days): Sent => call("track", days, { email: ANN, event: "V" }, occurred);
      store.mappingRules = [rule("V", DAILY)];
      store.record(NOW, match(40), match(39));
      store.mappingRules = [rule("V", { ...changed, version: 2 })];
      store.record(NOW, match(10, occurredDays));
      drop(store, 31);
      expectStateToAddUp(store.state, { hasDropped: true });
      store.record(NOW, match(1, occurredDays));
      expect(store.scores).toEqual({ ann: 0 });
      expect(entries(store).map(({ seq }) => seq)).toEqual(left);
      expectStateToAddUp(store.state, { hasDropped: true });
    }),
  );

  test("goes on a day that stays the latest for lapses when the clock is set back, also of a rule without points", () =>
    inStore((store) => {
      store.mappingRules = [rule("V", { ...DAILY, points: 0 })];
      store.record(NOW, call("track", 10, { email: ANN, event: "V" }));
      store.mappingRules = [rule("V", { ...DAILY, version: 2 })];
      store.record(NOW, call("track", 1, { email: ANN, event: "V" }, 10));
      drop(store, 31, NOW + 25 * DAY_MS);
      expect(entries(store).map(({ seq }) => seq)).toEqual([2]);
      expectStateToAddUp(store.state, { hasDropped: true });
      store.record(NOW, call("track", 1, { email: ANN, event: "V" }, 10));
      expect(store.scores).toEqual({ ann: 0 });
    }));

  test("goes at once if the signal has scored nothing", () =>
    inStore((store) => {
      const rows = () => store.sql.exec("SELECT 1 FROM timelines").toArray().length;
      store.record(NOW, ...Array.from({ length: 600 }, (_, n) => call("track", 40, { email: ANN, event: "Other", n })));
      expect(rows()).toBeGreaterThan(1);
      drop(store, 31);
      expect([rows(), entries(store)]).toEqual([0, []]);
      expect(people(store)).toMatchObject([{ first_seen: daysAgo(40), last_seen: daysAgo(40) }]);
    }));
});

/** The signals of each person: stored, or dropped while the person had them. */
class Owners {
  readonly #dropped: SignalFacts[] = [];
  readonly #store: TestStore;

  constructor(store: TestStore) {
    this.#store = store;
  }

  drop(days: number): void {
    const before = this.#lines();
    drop(this.#store, days);
    const left = new Set(this.#lines().map(({ admission }) => admission.id));
    this.#dropped.push(...before.filter(({ admission }) => !left.has(admission.id)));
  }

  /** What people must be. */
  get people() {
    const { sql } = this.#store;
    const all = [...this.#lines(), ...this.#dropped].sort((a, b) => (isLater(a.admission, b.admission) ? 1 : -1));
    return sql
      .exec<{ id: number; email: string }>("SELECT id, email FROM people ORDER BY email")
      .toArray()
      .map(({ id, email }) => {
        const theirs = all.filter(({ person }) => person?.personId === id);
        const times = theirs.map(({ occurred }) => occurred.ms);
        const fields = PERSON_FIELDS.map((field) => [
          field,
          theirs.findLast(({ traits }) => traits[field] !== undefined)?.traits[field] ?? null,
        ]);
        return { email, ...Object.fromEntries(fields), first_seen: Math.min(...times), last_seen: Math.max(...times) };
      });
  }

  #lines(): SignalFacts[] {
    return linesOf(this.#store.state.signals).map(({ facts }) => facts);
  }
}

const day = fc.integer({ min: 0, max: 60 });
const fields = fc.record(
  {
    userId: fc.constantFrom("u-1", "u-2", "u-3"),
    groupId: fc.constantFrom("acme", "globex"),
    context: fc.record({
      traits: fc.record({ name: fc.constantFrom("A", "B"), title: fc.constant("CTO") }, { requiredKeys: [] }),
    }),
  },
  { requiredKeys: [] },
);
const anyCall = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constantFrom("track", "group"), day, occurred: day, fields }) },
  fc.record({ type: fc.constant("identify"), day, id: fc.constantFrom("v-1", "u-1", "u-2", "u-3") }),
);
type AnyCall = typeof anyCall extends fc.Arbitrary<infer A> ? A : never;

function toSent(any: AnyCall): Sent {
  if ("id" in any) {
    // A signal that a user id has given to a person stays with that person, so each user id has one person.
    const ids = any.id === "v-1" ? { anonymousId: any.id } : { userId: any.id };
    const email = any.id === "v-1" || any.id === "u-1" ? ANN : BOB;
    return call("identify", any.day, { ...ids, traits: { email, company: { id: "initech" } } });
  }
  return call(any.type, any.day, { anonymousId: "v-1", traits: { plan: "pro" }, ...any.fields }, any.occurred);
}

/** Makes steps tiny until the returned function is called, so that jobs stop midway. */
function inTinySteps(): () => void {
  const before = { ...STEPS };
  Object.assign(STEPS, { linkSignals: 3, retentionLines: 2, portions: 2, lapsedRows: 1 });
  return () => void Object.assign(STEPS, before);
}

test("a person has the times, traits and account of the signals, whatever moves, whatever retention drops, and when", async () => {
  const action = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant("record" as const),
        batch: fc.array(anyCall, { minLength: 1, maxLength: 5 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("drop" as const), days: fc.integer({ min: 5, max: 55 }) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("link" as const, "seal", "restart") }) },
  );
  const endTinySteps = inTinySteps();
  try {
    await assertForSoLong(
      fc.asyncProperty(fc.array(action, { minLength: 4, maxLength: 16 }), (actions) =>
        inStore(async (store) => {
          store.rulesVersion = 1;
          const owners = new Owners(store);
          for (const act of actions) {
            if (act.do === "record") store.record(NOW, ...act.batch.map(toSent));
            else if (act.do === "drop") owners.drop(act.days);
            else if (act.do === "seal") store.seal();
            else if (act.do === "restart") store.restart();
            // oxlint-disable-next-line no-await-in-loop -- actions follow each other
            else await store.link();
          }
          await store.linkAll();
          const found = people(store).map(({ score: _score, last_day: _day, ...person }) => person);
          expect(found).toEqual(owners.people);
          expectStateToAddUp(store.state, { hasDropped: true });
        }),
      ),
      { numRuns: 400, limitMs: 40_000 },
    );
  } finally {
    endTinySteps();
  }
}, 60_000);

test("people and accounts are the same for any order of delivery, and any split into batches", async () => {
  const calls = fc.array(anyCall, { minLength: 2, maxLength: 12 });
  const delivery = (all: Sent[]) =>
    fc.tuple(
      fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length }),
      fc.infiniteStream(fc.integer({ min: 1, max: 4 })),
    );
  const deliver = (all: readonly Sent[], sizes: Iterator<number>) =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      for (let from = 0; from < all.length;) {
        const size = Number(sizes.next().value);
        store.record(NOW, ...all.slice(from, from + size));
        from += size;
        // oxlint-disable-next-line no-await-in-loop -- batches follow each other
        if (size % 2 === 0) await store.link();
      }
      await store.linkAll();
      expectStateToAddUp(store.state);
      return { people: people(store), accounts: accounts(store) };
    });
  await assertForSoLong(
    fc.asyncProperty(
      calls
        .map((all) => all.map((any, ordinal) => ({ ...toSent(any), ordinal: ordinal + 1 })))
        .chain((all) => fc.tuple(fc.constant(all), delivery(all))),
      async ([all, [shuffled, sizes]]) => {
        const once = await deliver(all, [all.length].values());
        expect(await deliver(shuffled, sizes)).toEqual(once);
      },
    ),
    { numRuns: 300, limitMs: 30_000 },
  );
}, 60_000);
