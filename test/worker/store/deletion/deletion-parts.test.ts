/**
 * The deletion of a person (src/store/deletion) in the store's parts: the data that it finds at any time, and the
 * data that it keeps. person-deletion.test.ts tests it over HTTP.
 */
import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import {
  beginDeletion,
  handedOver,
  findDeletion,
  nextDeletionMs,
  stepDeletions,
  DELETION_STEP_LINES,
} from "../../../../src/store/deletion/person-deletions.ts";
import { purgeHeld, PURGE_ROWS, deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { isScrubbing, COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { Identities } from "../../../../src/store/people/identities.ts";
import { dueLinkJobs } from "../../../../src/store/people/linking.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { entriesAfter } from "../../../../src/store/people/timelines.ts";
import { listOfKey, visitorList } from "../../../../src/store/people/visitors.ts";
import { Names } from "../../../../src/store/queries/names.ts";
import { traceSignal } from "../../../../src/store/queries/trace.ts";
import { amount } from "../../../support/amount.ts";
import { expectStateToAddUp, linesOf, ruleDaysOf } from "../../../support/adds-up.ts";
import { expectToAddUp } from "../../../support/read-store.ts";
import { bucketWith } from "../../../support/cold.ts";
import { textOfBucket, textOfTables } from "../../../support/everything.ts";
import { rowsRead } from "../../../support/sql-cost.ts";
import { TestStore, inStore } from "../../../support/store.ts";
import type { Sent } from "../../../support/store.ts";
import type { StoreState } from "../../../../src/store/state/store-state.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const DAY = 24 * 3_600_000;
const LATER = NOW + 1_000;
const JANE = "jane.doe@example.com";
const BOB = "bob@example.com";

const form = (email: string, n = 0): Sent => ({ payload: { event: "E", email, properties: { n, note: email } } });
const visit = (anonymousId: string, n = 0, more: object = {}): Sent => ({
  payload: { type: "track", event: "Visit", messageId: `${anonymousId}-${n}`, anonymousId, ...more },
});
let identified = 0;
const identify = (email: string, anonymousId: string, userId?: string): Sent => ({
  payload: {
    type: "identify",
    messageId: `i-${++identified}`,
    anonymousId,
    userId,
    traits: { email, name: email },
  },
});
const held = (sent: Sent): Sent => ({ ...sent, verdict: "held" });
const dead = (sent: Sent): Sent => ({ ...sent, dead: true });

function finish(store: TestStore, nowMs = LATER): number {
  let steps = 0;
  while ((nextDeletionMs(store.state, nowMs) ?? Number.POSITIVE_INFINITY) <= nowMs) {
    stepDeletions(store.state, nowMs);
    if (++steps > 1_000) throw new Error("it does not end");
  }
  return steps;
}

/** Begins a deletion that Destinations has already accepted. */
function beginHere(state: StoreState, id: string, email: string, nowMs: number): void {
  beginDeletion(state, id, email, nowMs);
  for (let next = state.raised.next(); next !== null; next = state.raised.next()) {
    state.raised.handedOn(next.lastRow);
    if (next.deletion !== null) handedOver(state, next.deletion.receiptId, nowMs);
  }
}

function deletePerson(store: TestStore, email = JANE, nowMs = LATER) {
  beginHere(store.state, `del_${crypto.randomUUID()}`, email, nowMs);
  finish(store, nowMs);
  return findDeletion(store.sql, email);
}

/** Statuses of signals by id, dead letters included. */
function statusOf({ state, sql }: TestStore, id = ""): string | null {
  const [row] = sql.exec<{ status: string }>("SELECT status FROM dead_letters WHERE id = ?", id);
  return state.signals.find(id)?.facts.status ?? state.held.find(id)?.facts.status ?? row?.status ?? null;
}

const namesIn = (text: string) => /.{0,60}(?:jane|doe@).{0,20}/u.exec(text)?.[0] ?? null;

describe.each(["open", "sealed", "cold"])("a person whose signals are %s", (where) => {
  const settle = async (store: TestStore) => {
    if (where !== "open") store.seal();
    if (where === "cold") await store.workOnCold(NOW + COLD_AFTER_MS);
  };

  test("deletes a person from every table and storage, and nothing of other people", async () => {
    const workspaceId = await inStore(async (store) => {
      store.record(NOW, visit("v-jane"), visit("v-bob"), visit("v-carol"));
      store.record(NOW, identify(JANE, "v-jane", "u-jane"), identify(BOB, "v-bob", "u-bob"));
      store.record(NOW, form(JANE), form(JANE), form(BOB), form(BOB), held(form(JANE, 1)), held(form(BOB, 1)));
      store.record(NOW, held(visit("v-jane", 2)), dead(form(JANE, 3)), dead(visit("v-jane", 4)), dead(form(BOB, 3)));
      await settle(store);
      const of = (who: RegExp) =>
        linesOf(store.state.signals as never).filter(({ facts }) => who.test(JSON.stringify(facts)));
      const bobs = of(/bob/u);
      expect(deletePerson(store)).toMatchObject({
        people: 1,
        identities: 2,
        signals: 2,
        anonymous: 1,
        held: 2,
        deadLetters: 2,
        scoringSignals: 1,
      });
      await store.workOnCold(LATER + COLD_AFTER_MS);
      finish(store);
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBe(LATER);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      expect(namesIn(await textOfBucket(store.workspaceId))).toBeNull();
      expect(of(/bob/u)).toEqual(bobs);
      expect(store.sql.exec("SELECT email, score FROM people").toArray()).toEqual([{ email: BOB, score: 5 }]);
      expect(`${textOfTables(store.sql)}${await textOfBucket(store.workspaceId)}`).toContain("v-carol");
      store.restart();
      expect(linesOf(store.state.signals as never).every(({ facts }) => facts.owner?.personId !== 1)).toBe(true);
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("deletes the person from the sources of duplicates, under any name of the field", async () => {
    await inStore(async (store) => {
      const content = { ...form("zoe@example.com"), pathSource: "mail to Jane" };
      store.record(NOW, content, content);
      await settle(store);
      expect(linesOf(store.state.signals as never).map(({ facts }) => [facts.status, facts.source])).toEqual([
        ["processed", "mail to Jane"],
        ["duplicate", null],
      ]);
      deletePerson(store, "zoe@example.com");
      await store.workOnCold(LATER + COLD_AFTER_MS);
      expect(namesIn(`${textOfTables(store.sql)}${await textOfBucket(store.workspaceId)}`.toLowerCase())).toBeNull();
    });
  });

  test("removes the person's signals as samples of groups and as originals of duplicates", async () => {
    await inStore(async (store) => {
      const [bob] = store.record(NOW, form(BOB));
      store.record(NOW, form(JANE));
      await settle(store);
      deletePerson(store);
      expect(store.sql.exec("SELECT sample_id FROM event_groups").one()).toEqual({ sample_id: bob });
      const [again] = store.record(LATER + 1, { ...form(JANE), receivedAtMs: LATER + 1 });
      expect(statusOf(store, again)).toBe("processed");
    });
  });
});

describe("held signals and dead letters", () => {
  test("belong to a deleted person by the fields that name people, never by other content", async () => {
    await inStore((store) => {
      store.record(NOW, identify(JANE, "v-1", "42"));
      const kept = store.record(
        NOW,
        held({ payload: { event: "E", email: `not.${JANE}`, properties: { friend: JANE } } }),
        held({ payload: { event: "E", email: BOB, properties: { userId: "42", anonymousId: "v-1" } } }),
        dead({ payload: { event: "E", email: `x${JANE}`, properties: { friend: JANE, userId: "42" } } }),
        dead({ payload: { event: "42", userId: "421", properties: { email: JANE } } }),
        dead({ payload: `{"email":"${JANE}", broken` }),
      );
      const gone = store.record(
        NOW,
        held({ payload: { event: "E", email: JANE.toUpperCase() } }),
        held({ payload: { event: "E", userId: 42 } }),
        dead({ payload: { event: "E", email: ` ${JANE.toUpperCase()} ` } }),
        dead({ payload: { type: "track", event: "E", messageId: "m", userId: 42 } }),
        dead({ payload: `{"event":"E","email":"${JANE.replace("@", String.raw`\u0040`)}"}` }),
      );
      expect(deletePerson(store)).toMatchObject({ held: 2, deadLetters: 3 });
      expect(kept.map((id) => statusOf(store, id))).toEqual(["held", "held", "dead", "dead", "dead"]);
      expect(gone.map((id) => statusOf(store, id))).toEqual(gone.map(() => "purged"));
    });
  });

  test("belong to another person who shares an anonymous id, by user id and by the time of ownership", async () => {
    await inStore((store) => {
      store.record(NOW - 300, identify(BOB, "shared", "u-bob"));
      store.record(NOW - 200, identify(JANE, "shared", "u-jane"));
      store.record(NOW - 100, identify(BOB, "shared", "u-bob"));
      const at = (receivedAtMs: number, set: (sent: Sent) => Sent, more = {}) => ({
        ...set(visit("shared", receivedAtMs, more)),
        receivedAtMs,
      });
      const [bobs, earlier, later, deads] = store.record(
        NOW,
        at(NOW - 150, held, { userId: "u-bob" }),
        at(NOW - 250, held),
        at(NOW - 50, held),
        at(NOW - 50, dead),
      );
      const [janes, theirs] = store.record(NOW, at(NOW - 150, held), at(NOW - 150, dead, { userId: "u-jane" }));
      expect(deletePerson(store)).toMatchObject({ held: 1, deadLetters: 1 });
      expect([bobs, earlier, later, deads].map((id) => statusOf(store, id))).toEqual(["held", "held", "held", "dead"]);
      expect([janes, theirs].map((id) => statusOf(store, id))).toEqual(["purged", "purged"]);
    });
  });

  test("keep nothing if they arrive after the deletion and name the person in such a field", async () => {
    const workspaceId = await inStore((store) => {
      store.record(NOW, identify(JANE, "v-jane", "u-jane"));
      deletePerson(store);
      const [letter, visited, unread, others] = store.record(
        LATER + 5,
        { ...dead(form(JANE)), receivedAtMs: NOW, pathSource: "web-jane", idempotencyKey: "jane" },
        { ...dead(visit("v-jane")), receivedAtMs: NOW },
        { ...dead({ payload: "{broken" }), receivedAtMs: NOW },
        { ...dead({ payload: { event: "E", email: BOB, properties: { x: "j" } } }), receivedAtMs: NOW },
      );
      expect([letter, visited, unread, others].map((id) => statusOf(store, id))).toEqual([
        "purged",
        "purged",
        "dead",
        "dead",
      ]);
      expect(store.state.signals.find(letter ?? "")?.facts.deletedAtMs).toBe(LATER + 5);
      const [heldLate] = store.record(LATER + 5, { ...held(form(JANE, 9)), receivedAtMs: NOW });
      expect(statusOf(store, heldLate)).toBe("purged");
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      const [new_] = store.record(LATER + 5, { ...dead(form("j@example.com")), receivedAtMs: LATER + 5 });
      expect(statusOf(store, new_)).toBe("dead");
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("are not recorded if they are in transit, released or replayed", async () => {
    const workspaceId = await inStore((store) => {
      const [waiting = "", letter = ""] = store.record(NOW, held(form(JANE)), dead(form(JANE, 1)));
      const place = store.sql.exec<{ seq: number }>("SELECT seq FROM dead_letters").one().seq;
      deletePerson(store);
      store.record(
        LATER + 5,
        { ...form(JANE), id: waiting, receivedAtMs: NOW, resent: { from: "held", place: 1 } },
        { ...form(JANE, 1), id: letter, receivedAtMs: NOW, resent: { from: "dead", place } },
      );
      expect([statusOf(store, waiting), statusOf(store, letter)]).toEqual(["purged", "purged"]);
      expect(store.state.signals.nextSeq).toBe(1);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("are purged again on arrival if they were purged in transit", async () => {
    const workspaceId = await inStore((store) => {
      const [id = ""] = store.record(NOW, { ...held(form(JANE)), periodEndMs: NOW + 5 });
      purgeHeld(store.state, NOW + 5);
      deletePerson(store);
      store.record(LATER + 5, {
        ...form(JANE),
        id,
        receivedAtMs: NOW,
        periodEndMs: NOW + 5,
        resent: { from: "held", place: 1 },
      });
      expect(linesOf(store.state.signals as never).map(({ facts }) => facts.status)).toEqual(["purged"]);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });
});

describe("an unlinked signal", () => {
  const keysIn = ({ sql }: TestStore, query: string) =>
    sql
      .exec<{ key: ArrayBuffer }>(query)
      .toArray()
      .map(({ key }) => listOfKey(key));
  /** The signal waits under an id that has become known, and its link job has not run yet. */
  const waiting = (store: TestStore, ...more: Sent[]) => {
    const ids = store.record(NOW, visit("v-jane"), ...more);
    store.record(NOW, identify(JANE, "v-jane", "u-jane"));
    expect(keysIn(store, "SELECT key FROM link_jobs")).toContain("av-jane");
    return ids;
  };

  test("is deleted with the person whose id it names, and so is its link job", async () => {
    const workspaceId = await inStore((store) => {
      waiting(store);
      expect(deletePerson(store)).toMatchObject({ anonymous: 1, signals: 1 });
      expect(store.sql.exec("SELECT * FROM link_jobs").toArray()).toEqual([]);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("is no longer paired with the person's ids", async () => {
    await inStore((store) => {
      const pair = (anonymousId: string, userId: string): Sent => ({
        payload: { type: "identify", messageId: `${anonymousId}-${userId}`, anonymousId, userId },
      });
      store.record(NOW, pair("v-1", "u-1"), pair("v-2", "u-2"));
      // One id of the pair was Bob's before the other became Jane's.
      store.record(NOW + 1, identify(BOB, "v-bob", "u-1"));
      store.record(NOW + 2, identify(JANE, "v-1"));
      expect(keysIn(store, "SELECT key FROM pairs")).toHaveLength(4);
      deletePerson(store);
      expect(keysIn(store, "SELECT key FROM pairs ORDER BY key")).toEqual(["av-2", "uu-2"]);
    });
  });

  test("is no longer paired with an id that an alias of the person named, unless another person has a signal of it", async () => {
    await inStore((store) => {
      const alias = { type: "alias", messageId: "a", userId: "u-1", previousId: "v-1", email: JANE };
      store.record(NOW, { payload: alias });
      expect(keysIn(store, "SELECT key FROM pairs")).toHaveLength(4);
      deletePerson(store);
      expect(keysIn(store, "SELECT key FROM pairs")).toEqual([]);
    });
  });

  test("belongs to another person if it names their user id, and is linked to them", async () => {
    await inStore((store) => {
      store.record(NOW - 10, visit("v-jane", 1, { userId: "u-bob" }));
      waiting(store);
      store.record(NOW + 1, identify(BOB, "v-bob", "u-bob"));
      expect(deletePerson(store)).toMatchObject({ anonymous: 1 });
      expect(statusOf(store, store.state.signals.read(1)?.admission.id)).toBe("anonymous");
      expect(dueLinkJobs(store.sql, LATER + DAY, 9)).toEqual([{ kind: "user_id", value: "u-bob" }]);
    });
  });

  test("is not linked to a person during the person's deletion", async () => {
    await inStore((store) => {
      const more = Array.from({ length: DELETION_STEP_LINES + 700 }, (_, n) => visit("v-jane", n + 1));
      waiting(store, ...more);
      beginHere(store.state, "del_1", JANE, LATER);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ people: 1, finishedAtMs: null });
      expect(entriesAfter(store.sql, visitorList({ kind: "anonymous_id", value: "v-jane" }))).not.toEqual([]);
      expect(dueLinkJobs(store.sql, LATER + 60_000, 9)).toEqual([]);
      const last = store.state.signals.read(DELETION_STEP_LINES + 700);
      expect(last).toMatchObject({ anonymousId: "v-jane", deletedAtMs: null });
      expect(last && new Names(store.sql).visible(last).anonymousId).toBeNull();
      // A new person in the same browser.
      const [newer] = store.record(LATER + 10, { ...visit("v-jane", -1), receivedAtMs: LATER + 10 });
      expect(statusOf(store, newer)).toBe("anonymous");
      finish(store);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ anonymous: DELETION_STEP_LINES + 701, signals: 1 });
      expect(statusOf(store, newer)).toBe("anonymous");
    });
  });

  test.each(["nobody", "somebody"])(
    "goes with its person, whose deletion has stood for days, where %s else has the id",
    (else_) =>
      inStore(async (store) => {
        const more = Array.from({ length: DELETION_STEP_LINES + 700 }, (_, n) => visit("v-jane", n + 1));
        waiting(store, ...more);
        if (else_ === "somebody") store.record(NOW + 1, identify(BOB, "v-jane"));
        beginHere(store.state, "del_1", JANE, LATER);
        // Months have passed by the clock of linking.
        const { state, storage, objects } = store;
        const rules = async () => ({ version: 1, rules: compileRules([]) });
        for (let steps = 0; steps < 10; steps++) await stepLinkJobs({ state, storage, objects, rules });
        expect(store.sql.exec("SELECT email FROM people WHERE email = ? AND score > 0", BOB).toArray()).toEqual([]);
        finish(store);
        expect(findDeletion(store.sql, JANE)).toMatchObject({ anonymous: DELETION_STEP_LINES + 701, signals: 1 });
        const left = linesOf(state.signals as never).filter(({ facts }) => facts.anonymousId === "v-jane");
        expect(left.map(({ facts }) => facts.kind)).toEqual(else_ === "somebody" ? ["identify"] : []);
        for (let steps = 0; steps < 10; steps++) await stepLinkJobs({ state, storage, objects, rules });
        expect(dueLinkJobs(store.sql, Number.MAX_SAFE_INTEGER, 9)).toEqual([]);
        expectStateToAddUp(state);
      }),
  );

  test("is deleted with its person even if another owner of the id is deleted at the same time, and finishes first", () =>
    inStore(async (store) => {
      const { state, storage, objects } = store;
      const rules = async () => ({ version: 1, rules: compileRules([]) });
      const more = Array.from({ length: DELETION_STEP_LINES }, (_, n) => visit("v-jane", n + 1));
      waiting(store, ...more);
      store.record(NOW + 10, identify(BOB, "v-jane"));
      store.record(NOW + 20, { ...visit("v-jane", -1), receivedAtMs: NOW + 20 });
      beginHere(store.state, "del_1", BOB, LATER);
      beginHere(store.state, "del_2", JANE, LATER + 1);
      while (findDeletion(store.sql, JANE)?.finishedAtMs === null) {
        for (let steps = 0; steps < 10; steps++) await stepLinkJobs({ state, storage, objects, rules });
        stepDeletions(state, LATER + 1);
      }
      expect(linesOf(state.signals as never).filter(({ facts }) => facts.anonymousId === "v-jane")).toEqual([]);
      expect(dueLinkJobs(store.sql, Number.MAX_SAFE_INTEGER, 9)).toEqual([]);
      expectStateToAddUp(state);
    }));

  test("is removed with its traits from a person who got it by an anonymous id before its user id was known", async () => {
    const workspaceId = await inStore((store) => {
      store.record(NOW, identify(BOB, "v-bob"));
      const [id] = store.record(NOW + 1, {
        payload: {
          type: "track",
          event: "E",
          messageId: "m",
          anonymousId: "v-bob",
          userId: "u-jane",
          traits: { name: "Jane Doe" },
        },
      });
      store.record(NOW + 2, identify(JANE, "v-jane", "u-jane"));
      deletePerson(store);
      expect(store.state.signals.find(id ?? "")?.facts).toMatchObject({
        owner: null,
        userId: null,
        deletedAtMs: LATER,
      });
      const people = store.sql.exec("SELECT email, score, name FROM people").toArray();
      expect(people).toEqual([{ email: BOB, score: 0, name: BOB }]);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });
});

describe("cold storage", () => {
  test("has no copy of the person when the deletion is complete, even if it was being written meanwhile", async () => {
    const workspaceId = crypto.randomUUID();
    await inStore(async ({ storage }) => {
      let isBegun = false;
      const bucket = bucketWith({
        before: (call) => {
          if (call !== "put" || isBegun) return;
          isBegun = true;
          deletePerson(store);
          expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBeNull();
        },
      });
      const store = new TestStore(workspaceId, storage, bucket);
      store.record(NOW, form(JANE), form(BOB));
      store.seal();
      await store.workOnCold(NOW + COLD_AFTER_MS);
      await store.workOnCold(NOW + COLD_AFTER_MS);
      expect(isBegun).toBe(true);
      expect(isScrubbing(store.sql)).toBe(false);
      finish(store);
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).not.toBeNull();
      expect(namesIn(await textOfBucket(workspaceId))).toBeNull();
      expect(await textOfBucket(workspaceId)).toContain(BOB);
    });
  });

  test("delays only the end of a deletion while it does not answer", async () => {
    await inStore(async (store) => {
      store.record(NOW, form(JANE), form(BOB));
      store.seal();
      await store.workOnCold(NOW + COLD_AFTER_MS);
      expect(deletePerson(store)).toMatchObject({ signals: 1, coldObjects: 1, finishedAtMs: null });
      expect(nextDeletionMs(store.state, LATER)).toBeGreaterThan(LATER);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      expect(namesIn(await textOfBucket(store.workspaceId))).not.toBeNull();
      await store.workOnCold(LATER);
      finish(store);
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBe(LATER);
      expect(namesIn(await textOfBucket(store.workspaceId))).toBeNull();
    });
  });
});

describe("a large person", () => {
  const IDS = amount(15_000, 60_000);

  test(`with ${IDS} ids disappears at once and is deleted in bounded steps`, { timeout: 60_000 }, async () => {
    await inStore((store) => {
      store.record(NOW, form(JANE));
      store.sql.exec(
        `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${IDS})
         INSERT INTO identities (key, at, ordinal, person_id) SELECT CAST('av-jane-' || i AS BLOB), 1, 1, 1 FROM n`,
      );
      const [waiting] = store.record(NOW, held(visit(`v-jane-${IDS - 1}`)));
      beginHere(store.state, "del_1", JANE, LATER);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ people: 1, finishedAtMs: null, signals: 0 });
      const claims = new Identities(store.sql).claimsOf({ kind: "anonymous_id", value: `v-jane-${IDS}` });
      expect(claims).toEqual([]);
      expect(store.sql.exec("SELECT * FROM people").toArray()).toEqual([]);
      expect(rowsRead(store.sql, () => stepDeletions(store.state, LATER))).toBeLessThan(20 * DELETION_STEP_LINES);
      expect(finish(store)).toBeGreaterThan(amount(2, 10));
      expect(findDeletion(store.sql, JANE)).toMatchObject({
        identities: IDS,
        signals: 1,
        held: 1,
        finishedAtMs: LATER,
      });
      expect(statusOf(store, waiting)).toBe("purged");
      expect(namesIn(textOfTables(store.sql))).toBeNull();
    });
  });

  test("with signals in very many segments is deleted in steps", async () => {
    await inStore((store) => {
      const segments = 4 * RULE_STEP_SEGMENTS;
      for (let n = 0; n < segments; n++) {
        store.record(NOW, form(JANE, n), form(BOB, n));
        store.seal();
      }
      const left = () => linesOf(store.state.signals as never).filter(({ facts }) => facts.email === JANE).length;
      beginHere(store.state, "del_1", JANE, LATER);
      for (let [before, now] = [segments, left()]; before > 0; [before, now] = [now, left()]) {
        expect(before - now).toBeLessThan(2 * RULE_STEP_SEGMENTS);
        stepDeletions(store.state, LATER);
      }
      finish(store);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ signals: segments, finishedAtMs: LATER });
    });
  });

  test("with signals in one row of a list but in very many segments is deleted in steps", async () => {
    await inStore((store) => {
      const segments = 3 * RULE_STEP_SEGMENTS;
      for (let n = 0; n < segments; n++) {
        store.record(NOW, visit("v-jane", n), visit("v-bob", n));
        store.seal();
      }
      const rows = store.sql.exec("SELECT * FROM timelines WHERE list = CAST('av-jane' AS BLOB)").toArray();
      expect(rows).toHaveLength(1);
      store.record(NOW, identify(JANE, "v-jane"));
      const left = () =>
        linesOf(store.state.signals as never).filter(({ facts }) => facts.anonymousId === "v-jane").length;
      let [before, steps] = [left(), 0];
      beginHere(store.state, "del_1", JANE, LATER);
      for (; findDeletion(store.sql, JANE)?.finishedAtMs === null; steps++) {
        expect(before - left()).toBeLessThan(2 * RULE_STEP_SEGMENTS);
        before = left();
        stepDeletions(store.state, LATER);
      }
      expect(steps).toBeGreaterThan(1);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ anonymous: segments, finishedAtMs: LATER });
      expect(linesOf(store.state.signals as never).filter(({ facts }) => facts.anonymousId === "v-bob").length).toBe(
        segments,
      );
      expectStateToAddUp(store.state);
    });
  });

  test("is deleted with lines that would otherwise go to another person meanwhile", async () => {
    await inStore(async (store) => {
      store.record(NOW, identify(JANE, "v-jane"));
      store.record(NOW + 1, ...Array.from({ length: 2 * DELETION_STEP_LINES }, (_, n) => form(JANE, n)));
      const [shared] = store.record(NOW + 2, {
        payload: { type: "track", event: "E", messageId: "m", anonymousId: "v-jane", userId: "u-bob" },
      });
      beginHere(store.state, "del_1", JANE, LATER);
      store.record(LATER + 1, { payload: { type: "identify", userId: "u-bob", traits: { email: BOB } } });
      const { state, storage, objects } = store;
      await stepLinkJobs({ state, storage, objects, rules: async () => ({ version: 1, rules: compileRules([]) }) });
      finish(store, LATER + 2);
      expect(state.signals.find(shared ?? "")?.facts).toMatchObject({ deletedAtMs: LATER + 2, owner: null });
      expect(dueLinkJobs(store.sql, Number.MAX_SAFE_INTEGER, 1)).toEqual([]);
      expectStateToAddUp(state);
    });
  });

  describe("a person whose ids are being processed", () => {
    const visitAt = (receivedAtMs: number, anonymousId: string, n: number): Sent => ({
      ...visit(anonymousId, n),
      receivedAtMs,
    });
    const anonymousIdOf = ({ state }: TestStore, id = "") => state.signals.find(id)?.facts.anonymousId;
    /** Begins the deletion. The first step ends after the list of v-jane, where a new person's signal stays. */
    const begin = (store: TestStore, ...more: Sent[]): void => {
      store.record(NOW, ...Array.from({ length: DELETION_STEP_LINES }, (_, n) => visit("v-jane", n)));
      store.record(NOW + 1, visitAt(LATER + 1, "v-jane", -1));
      store.record(NOW + 2, identify(JANE, "v-jane"), ...more);
      beginHere(store.state, "del_1", JANE, LATER);
      const [progress] = store.sql.exec("SELECT step, position FROM deletions");
      expect(progress).toEqual({ step: "identities", position: DELETION_STEP_LINES + 1 });
    };

    test("is deleted with signals that arrive late on a processed list", () =>
      inStore((store) => {
        begin(store);
        const [late, newer] = store.record(LATER + 2, visitAt(NOW, "v-jane", -2), visitAt(LATER + 2, "v-jane", -3));
        finish(store, LATER + 2);
        expect([late, newer].map((id) => anonymousIdOf(store, id))).toEqual([null, "v-jane"]);
      }));

    test("is deleted with late signals that would otherwise go to another owner of the id, earlier or next", () =>
      inStore((store) => {
        begin(store, identify(JANE, "shared"), identify(JANE, "v-next"), {
          ...identify(BOB, "shared"),
          receivedAtMs: NOW + 500,
        });
        store.rulesVersion = 1;
        const late = store.record(
          LATER + 2,
          visitAt(NOW + 400, "shared", 1),
          visitAt(NOW + 400, "v-next", 1),
          visitAt(NOW + 600, "shared", 2),
        );
        store.record(LATER + 3, { ...identify(BOB, "v-next"), receivedAtMs: LATER + 3 });
        finish(store, LATER + 3);
        expect(late.map((id) => anonymousIdOf(store, id))).toEqual([null, null, "shared"]);
        expectStateToAddUp(store.state);
      }));

    test("is deleted with signals that reached such a list before a repeated request", () =>
      inStore((store) => {
        begin(store);
        const [since] = store.record(LATER + 2, visitAt(LATER + 2, "v-jane", -2));
        beginHere(store.state, "del_2", JANE, LATER + 10);
        finish(store, LATER + 10);
        expect(anonymousIdOf(store, since)).toBeNull();
      }));
  });

  test("is deleted by a repeated request up to the same moment as another person deleted then", async () => {
    await inStore((store) => {
      store.record(NOW, ...Array.from({ length: 2 * DELETION_STEP_LINES }, (_, n) => form(JANE, n)), form(BOB));
      beginHere(store.state, "del_1", JANE, LATER);
      beginHere(store.state, "del_2", BOB, LATER);
      const [again] = store.record(LATER + 60_000, held(form(BOB, 1)));
      beginHere(store.state, "del_3", JANE, LATER + 120_000);
      finish(store, LATER + 120_000);
      expect(statusOf(store, again)).toBe("held");
    });
  });

  test("with many signals is deleted in bounded steps, each followed by a possible crash", async () => {
    const workspaceId = await inStore((store) => {
      const count = 2 * DELETION_STEP_LINES + 1;
      store.record(NOW, ...Array.from({ length: count }, (_, n) => form(JANE, n)), form(BOB));
      beginHere(store.state, "del_1", JANE, LATER);
      const left = () => linesOf(store.state.signals as never).filter(({ facts }) => facts.email === JANE).length;
      expect(left()).toBeGreaterThan(0);
      expect(left()).toBeLessThan(count);
      for (let steps = 0; findDeletion(store.sql, JANE)?.finishedAtMs === null; steps++) {
        if (steps > 20) throw new Error("it does not end");
        store.restart();
        stepDeletions(store.state, LATER);
      }
      expect(findDeletion(store.sql, JANE)).toMatchObject({ signals: count, scoringSignals: count });
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("is searched in all held signals and dead letters, however many", async () => {
    await inStore((store) => {
      const unrelated = Array.from({ length: PURGE_ROWS + 900 }, (_, n) => held(form(BOB, n)));
      const letters = Array.from({ length: 120 }, (_, n) => dead(form(BOB, n)));
      const ids = store.record(NOW, ...unrelated, held(form(JANE)), ...letters, dead(form(JANE)));
      expect(deletePerson(store)).toMatchObject({ people: 0, held: 1, deadLetters: 1, finishedAtMs: LATER });
      expect(ids.filter((id) => statusOf(store, id) === "purged")).toHaveLength(2);
    });
  });
});

describe("a repeated deletion", () => {
  test("continues the one in progress and includes later signals", async () => {
    const workspaceId = await inStore(async (store) => {
      store.record(NOW, form(JANE), identify(JANE, "v-jane"));
      store.seal();
      await store.workOnCold(NOW + COLD_AFTER_MS);
      beginHere(store.state, "del_1", JANE, LATER);
      const ids = store.record(
        LATER + 5,
        { ...held(form(JANE, 1)), receivedAtMs: LATER + 5 },
        { ...held(visit("v-jane", 1)), receivedAtMs: LATER + 5 },
      );
      expect(ids.map((id) => statusOf(store, id))).toEqual(["held", "held"]);
      beginHere(store.state, "del_2", JANE, LATER + 10);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ id: "del_1", people: 1, signals: 2, held: 2 });
      expect(ids.map((id) => statusOf(store, id))).toEqual(["purged", "purged"]);
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("ignores later signals of unknown visitors with an id that it has already processed", () =>
    inStore(async (store) => {
      store.record(NOW, form(JANE), identify(JANE, "v-jane"));
      store.seal();
      await store.workOnCold(NOW + COLD_AFTER_MS);
      beginHere(store.state, "del_1", JANE, LATER);
      const [since, heldSince] = store.record(
        LATER + 5,
        { ...visit("v-jane", 1), receivedAtMs: LATER + 5 },
        { ...held(visit("v-jane", 2)), receivedAtMs: LATER + 5 },
      );
      beginHere(store.state, "del_2", JANE, LATER + 10);
      const [late] = store.record(LATER + 20, { ...visit("v-jane", 3), receivedAtMs: LATER + 6 });
      expect([since, heldSince, late].map((id) => statusOf(store, id))).toEqual(["anonymous", "purged", "purged"]);
      await store.workOnCold(LATER + 20);
      finish(store, LATER + 20);
      beginHere(store.state, "del_3", JANE, LATER + 30);
      expect(statusOf(store, since)).toBe("anonymous");
    }));

  test("is a separate one if a new person has the email by now, and both are completed", async () => {
    const workspaceId = await inStore((store) => {
      store.record(NOW, ...Array.from({ length: DELETION_STEP_LINES + 900 }, (_, n) => form(JANE, n)));
      beginHere(store.state, "del_1", JANE, LATER);
      store.record(LATER + 5, { ...form(JANE, -1), receivedAtMs: LATER + 5 });
      beginHere(store.state, "del_2", JANE, LATER + 10);
      expect(findDeletion(store.sql, JANE)).toMatchObject({ id: "del_2", people: 1, finishedAtMs: null });
      finish(store, LATER + 10);
      expect(findDeletion(store.sql, JANE)).toMatchObject({
        id: "del_2",
        people: 1,
        signals: 1,
        finishedAtMs: LATER + 10,
      });
      expect(store.sql.exec("SELECT signals FROM deletions WHERE id = 'del_1'").one()).toEqual({
        signals: DELETION_STEP_LINES + 900,
      });
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("finds nothing and is complete at once", async () => {
    await inStore((store) => {
      store.record(NOW, form(JANE));
      deletePerson(store);
      expect(deletePerson(store, JANE, LATER + 5)).toMatchObject({ people: 0, signals: 0, finishedAtMs: LATER + 5 });
    });
  });
});

test("deleting a person also deletes what retention has left of them", async () => {
  const workspaceId = await inStore((store) => {
    store.record(NOW - 40 * DAY, form(JANE), form(BOB));
    store.seal();
    store.record(NOW, form(JANE, 1));
    setRetention(store.sql, { retentionDays: 31 }, NOW);
    deleteExpired(store.state, NOW);
    expect(linesOf(store.state.signals as never)).toHaveLength(1);
    expect(deletePerson(store)).toMatchObject({ signals: 1, scoringSignals: 2 });
    expect(namesIn(textOfTables(store.sql))).toBeNull();
    expect([...ruleDaysOf(store.state)].map(([, { count }]) => count)).toEqual([1]);
    return store.workspaceId;
  });
  await expectToAddUp(workspaceId, { hasDropped: true });
});

describe("while a deletion is under way", () => {
  const many = Array.from({ length: DELETION_STEP_LINES + 700 }, (_, n) => form(JANE, n));

  test("the trace of the person's signals shows no more during the deletion than after it", async () => {
    await inStore(async (store) => {
      const ids = store.record(NOW, ...many, held(form(JANE, -1)), dead(form(JANE, -2)));
      beginHere(store.state, "del_1", JANE, LATER);
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBeNull();
      for (const id of ids.slice(-4)) {
        const trace = await traceSignal(store.state, store.objects, id);
        expect(trace?.deletedAtMs).not.toBeNull();
        expect(namesIn(JSON.stringify(trace))).toBeNull();
      }
      finish(store);
      for (const id of ids.slice(-4)) {
        const trace = await traceSignal(store.state, store.objects, id);
        expect(namesIn(JSON.stringify(trace))).toBeNull();
      }
    });
  });
});

test("a late signal belongs to the person who had its id at that time, even if later owners were deleted later", async () => {
  await inStore((store) => {
    const has = (email: string, receivedAtMs: number): Sent => ({ ...identify(email, "shared"), receivedAtMs });
    store.record(NOW, has("cyd@example.com", NOW - 400), has(JANE, NOW - 300), has(BOB, NOW - 200));
    deletePerson(store, JANE, LATER);
    deletePerson(store, BOB, LATER + 10);
    const late = [-250, -150, -350].map((ms) => ({ ...visit("shared", ms), receivedAtMs: NOW + ms }));
    const ids = store.record(LATER + 20, ...late);
    expect(ids.map((id) => statusOf(store, id))).toEqual(["purged", "purged", "processed"]);
  });
});
