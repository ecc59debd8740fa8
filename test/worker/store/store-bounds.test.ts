/** The Signal Store with very many rows of one kind, and after rollbacks. */
import { describe, expect, test, vi, onTestFinished } from "vitest";
import { notificationTypes } from "../../../src/domain/notifications/notification.ts";
import { beginDeletion } from "../../../src/store/deletion/person-deletions.ts";
import { People } from "../../../src/store/people/people.ts";
import { startRuleJob } from "../../../src/store/rules/rule-jobs.ts";
import { Identities, CLAIM_FOLLOWERS_MAX, Owners } from "../../../src/store/people/identities.ts";
import { scoredBy } from "../../../src/store/people/timelines.ts";
import { heldSignals } from "../../../src/store/resend-jobs.ts";
import { wantNotifications } from "../../../src/store/state/raise-notifications.ts";
import { transact } from "../../../src/store/state/store-state.ts";
import { expectStateToAddUp, linesOf } from "../../support/adds-up.ts";
import { rowsRead } from "../../support/sql-cost.ts";
import { inStore, type Sent, type TestStore } from "../../support/store.ts";
import { wanting } from "../../support/wanting.ts";
import { testStored, factsOf } from "../../support/log.ts";
import { Segments } from "../../../src/store/log/segments.ts";
import { STEPS } from "../../../src/store/steps.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const DAY = 24 * 3_600_000;
const HOUR = 3_600_000;

const visit = (n: number, fields: object = {}): Sent => ({
  payload: { type: "track", event: "Visit", messageId: `m-${n}`, anonymousId: "a-1", ...fields },
});
const nobody: Sent = { payload: { event: "Nobody's" } };
const alias = (previousId: string, userId: string): Sent => ({ payload: { type: "alias", previousId, userId } });
const identify = (ids: object, name = "ann"): Sent => ({
  payload: { type: "identify", ...ids, traits: { email: `${name}@example.com` } },
});
const statuses = ({ state }: TestStore) => linesOf(state.signals).map(({ facts }) => facts.status);

describe("duplicates in the store", () => {
  test("are searched on disk only where memory does not reach", () =>
    inStore((store) => {
      const at = [NOW - 8 * DAY, NOW - 7 * DAY - 2 * HOUR, NOW - 6 * DAY, NOW - 3 * HOUR];
      for (const [n, atMs] of at.entries()) {
        store.record(atMs, visit(n));
        store.seal();
      }
      store.restart();
      const late = (n: number): Sent => ({ ...visit(n), receivedAtMs: NOW - 2 * HOUR });
      store.record(NOW, { ...visit(0), receivedAtMs: NOW - 2 * DAY }, late(1), late(2), late(3), late(4));
      expect(statuses(store).slice(at.length)).toEqual([...at.map(() => "duplicate"), "anonymous"]);
    }));

  test("are searched on disk separately for each window", () =>
    inStore((store) => {
      const form = (n: number): Sent => ({ payload: { event: "Form", email: "a@example.com", n } });
      for (let day = 8; day > 0; day--) {
        store.record(NOW - day * DAY, visit(day), form(day));
        store.seal();
      }
      store.record(NOW - 2 * HOUR, form(0));
      store.seal();
      store.restart();
      store.record(NOW, nobody);
      const looked = new Set<number>();
      const segments = new Segments(store.sql, "signals");
      onTestFinished(() => void vi.restoreAllMocks());
      vi.spyOn(Segments.prototype, "hashesReceived").mockImplementation(function* (fromMs, toMs) {
        for (const row of segments.rows("received_to >= ? AND received_from <= ?", fromMs, toMs)) {
          looked.add(row.first_seq);
          yield { firstSeq: row.first_seq, receivedToMs: row.received_to, hashes: segments.hashesOf(row.first_seq) };
        }
      });
      const late = (sent: Sent): Sent => ({ ...sent, receivedAtMs: NOW - 2 * HOUR });
      store.record(NOW, late(form(0)), late(visit(100)));
      expect(statuses(store).slice(-2)).toEqual(["duplicate", "anonymous"]);
      // The day before memory begins, and the minutes of the form: not the seven days between them.
      expect(looked.size).toBeLessThanOrEqual(2);
    }));
});

test("a step of a release reads the rows of a few segments", () =>
  inStore((store) => {
    const [segments, periodEndMs] = [300, NOW + 10 * DAY];
    for (let n = 0; n < segments; n++) {
      store.record(NOW, { payload: { event: "E", n }, verdict: "held", periodEndMs });
      store.seal();
    }
    const { sql, state } = store;
    let cursor = 0;
    const ordinals: number[] = [];
    const next = (): void => {
      const page = heldSignals(state, periodEndMs, cursor, 10);
      ordinals.push(...page.map(({ admission }) => admission.ordinal));
      cursor = ordinals.at(-1) ?? cursor;
    };
    expect(rowsRead(sql, next)).toBeLessThan(100);
    for (let pages = 1; pages < segments / 10; pages++) next();
    expect(ordinals).toEqual(Array.from({ length: segments }, (_, n) => n + 1));
  }));

test("a step of linking reads a bounded number of segments", () =>
  inStore(async (store) => {
    const count = STEPS.portions + 40;
    for (let n = 0; n < count; n++) {
      store.record(NOW, visit(n));
      store.seal();
    }
    store.record(NOW, identify({ anonymousId: "a-1" }));
    const waiting = () => statuses(store).filter((status) => status === "anonymous").length;
    expect(waiting()).toBe(count);
    await store.link();
    expect(waiting()).toBe(40);
    await store.link();
    expect(waiting()).toBe(0);
    expectStateToAddUp(store.state);
  }));

testStored("a person who loses a line finds times and traits in the timeline, and reads one line for a value", () =>
  inStore((store) => {
    store.record(NOW, identify({ anonymousId: "a-1" }));
    for (let n = 0; n < 200; n++) {
      store.record(NOW + 1 + n, visit(n, n % 50 === 0 ? { traits: { name: `Bob ${n}` } } : {}));
      store.seal();
    }
    const readsWithout = (...seqs: number[]): number => {
      const facts = seqs.map((seq) => [seq, factsOf(store.state.signals, seq)] as const);
      const people = new People(store.state, Date.now());
      for (const [seq, line] of facts) people.removeLine(1, seq, line);
      return rowsRead(store.sql, () => people.flush());
    };
    const person = () => store.sql.exec("SELECT name, last_seen FROM people").one();
    expect(readsWithout(100)).toBeLessThan(10);
    expect(person()).toEqual({ name: "Bob 150", last_seen: NOW + 200 });
    expect(readsWithout(152, 201)).toBeLessThan(20);
    expect(person()).toEqual({ name: "Bob 100", last_seen: NOW + 199 });
  }),
);

test("the removal of a once-a-day rule does not search timelines for replacements", () =>
  inStore((store) => {
    store.frequency = "once_per_day";
    const form = { event: "E", email: "ann@example.com" };
    store.record(NOW, ...Array.from({ length: 3_000 }, (_, id): Sent => ({ payload: { ...form, id: `${id}` } })));
    const scored = scoredBy(factsOf(store.state.signals, 1));
    startRuleJob(store.state, { ruleId: "rule_1", rule: null, rulesVersion: 2 }, NOW);
    const people = new People(store.state, Date.now());
    const reads = rowsRead(store.sql, () => {
      const change = { before: scored, after: null };
      people.changeEntries(1, new Map([[1, change]]));
      people.changeScore(1, 1, change);
      people.flush();
    });
    expect(reads).toBeLessThan(20);
    expect(store.sql.exec("SELECT score FROM people").one()).toEqual({ score: 0 });
  }));

test("paired ids in a long chain create no dead letter, and are linked up to a limit", () =>
  inStore((store) => {
    const length = CLAIM_FOLLOWERS_MAX + 9_000;
    store.record(NOW, ...Array.from({ length }, (_, n) => alias(`u-${n}`, `u-${n + 1}`)));
    store.record(NOW + 1, identify({ userId: "u-0" }));
    const identities = new Identities(store.sql);
    const claims = (n: number) => identities.claimsOf({ kind: "user_id", value: `u-${n}` }).length;
    expect([claims(0), claims(1), claims(2)]).toEqual([1, 1, 1]);
    const { count } = store.sql.exec<{ count: number }>("SELECT count(*) AS count FROM identities").one();
    expect(count).toBe(CLAIM_FOLLOWERS_MAX);
  }));

test("a batch whose calls name ids of a deleted person one after the other is checked in proportion to its calls", () =>
  inStore((store) => {
    store.record(NOW, identify({ userId: "u-0" }));
    beginDeletion(store.state, "del_1", "ann@example.com", NOW + 10);
    const length = 300;
    const checks = vi.spyOn(Owners.prototype, "ownerOf");
    onTestFinished(() => checks.mockRestore());
    // The last call names the first further id.
    store.record(NOW + 2, ...Array.from({ length }, (_, n) => alias(`u-${length - n - 1}`, `u-${length - n}`)));
    expect(linesOf(store.state.signals).filter(({ facts }) => facts.status === "purged")).toHaveLength(length);
    expect(checks.mock.calls.length).toBeLessThan(5 * length);
  }));

test("a batch that is rolled back leaves nothing in memory, and can be recorded again", () =>
  inStore((store) => {
    wantNotifications(store.state, wanting({ types: [...notificationTypes], thresholds: [5] }));
    store.state.signals.flush();
    const batch = [
      { payload: { event: "E", email: "ann@example.com" } },
      { payload: { event: "E", email: "bob@example.com" }, verdict: "held" as const },
      { ...nobody, dead: true },
    ];
    const { storage, state } = store;
    const fail = () => {
      store.record(NOW, ...batch);
      throw new Error("the transaction fails");
    };
    expect(() => transact(storage, state, fail)).toThrow("the transaction fails");
    expect([state.signals.nextSeq, state.held.nextSeq, state.raised.isEmpty]).toEqual([1, 1, true]);
    store.record(NOW, ...batch);
    expect([statuses(store), store.scores]).toEqual([["processed"], { ann: 5 }]);
    expectStateToAddUp(state);
    store.restart();
    expectStateToAddUp(store.state);
  }));

test("a batch has the same result as its signals recorded separately, with any ids", async () => {
  const ids = ["v-1", "v\0-1", "v\0-2", 'v"1', "v\\u0000-1", "v'1", "v\u2028-1", "\u{1f600}-1", "01", "1", "1.0"];
  const people = (from: number) => ids.map((id, n) => identify({ anonymousId: id, userId: `u-${from + n}` }, `${n}`));
  const batches: Sent[][] = [
    ids.map((id, n) => visit(n, { anonymousId: id })),
    people(0),
    ids.map((id, n) => visit(100 + n, { anonymousId: id })),
    ids.map((_, n) => visit(200 + n, { anonymousId: "v-new", userId: `u-${n}` })),
    ids.map((_, n) => ({ payload: { event: "E", email: `${n}@example.com`, n } })),
  ];
  const recorded = (split: (batch: Sent[]) => Sent[][]) =>
    inStore((store) => {
      store.rulesVersion = 1;
      let ordinal = 0;
      for (const batch of batches) {
        for (const some of split(batch))
          store.record(NOW, ...some.map((signal) => ({ ...signal, ordinal: ++ordinal })));
        store.seal();
      }
      expectStateToAddUp(store.state);
      const rows = (query: string) => store.sql.exec(query).toArray();
      return {
        people: rows("SELECT email, score, first_seen, last_seen FROM people ORDER BY email"),
        owners: linesOf(store.state.signals).map(({ facts }) => [facts.anonymousId, facts.person?.by]),
        identities: rows("SELECT lower(hex(key)) AS key, person_id FROM identities ORDER BY key"),
      };
    });
  const together = await recorded((batch) => [batch]);
  expect(together).toEqual(await recorded((batch) => batch.map((signal) => [signal])));
  expect(together.people.length).toBe(ids.length);
});
