/**
 * The deletion of a person (src/store/deletion) in the store's parts: the data that it finds at any time, and the data that it keeps.
 * person-deletion.test.ts tests it over HTTP.
 */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { DAY_MS } from "../../../../src/domain/duration.ts";
import { hashOfName } from "../../../../src/domain/signal/identity.ts";
import {
  beginDeletion,
  findDeletion,
  noteForwarded,
  repeatDeletions,
  stepDeletions,
} from "../../../../src/store/deletion/person-deletions.ts";
import { Forwarding } from "../../../../src/notifications/raised-notifications.ts";
import { purgeHeld } from "../../../../src/store/deletion/retention.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { dueLinkJobs } from "../../../../src/store/people/linking.ts";
import { entriesAfter, listOfKey, visitorList } from "../../../../src/store/people/timelines.ts";
import { exportPart } from "../../../../src/store/queries/exports.ts";
import { Names } from "../../../../src/store/queries/names.ts";
import { traceSignal } from "../../../../src/store/queries/newest-signals.ts";
import { expectStateToAddUp, linesOf } from "../../../support/adds-up.ts";
import { bucketWith } from "../../../support/cold.ts";
import { textOfBucket, textOfTables } from "../../../support/everything.ts";
import { expectLogged } from "../../../support/logged.ts";
import { allSlices } from "../../../support/slices.ts";
import { identify, inBalance, inStore, TestStore, track, type Sent } from "../../../support/store.ts";
import { readLine } from "../../../../src/store/log/signal-log.ts";
import { testStored } from "../../../support/log.ts";
import { nextDeletionMs } from "../../../../src/store/state/due.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const LATER = NOW + 1_000;
const JANE = "jane.doe@example.com";
const BOB = "bob@example.com";
const ALL = Number.MAX_SAFE_INTEGER;

const form = (email: string, n = 0): Sent => ({
  payload: { event: "E", email, properties: { n, note: email.replace("@", " at ") } },
});
const visit = (anonymousId: string, more: object = {}): Sent => track({ event: "Visit", anonymousId, ...more });
const known = (email: string, anonymousId: string, userId?: string): Sent => {
  const traits = { email, name: email };
  return { payload: { ...(identify(email, { anonymousId, userId }).payload as object), traits } };
};
const at = (receivedAtMs: number, sent: Sent): Sent => ({ ...sent, receivedAtMs });
const held = (sent: Sent): Sent => ({ ...sent, verdict: "held" });
const dead = (sent: Sent): Sent => ({ ...sent, dead: true });
const many = <T>(count: number, of: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));

const lines = ({ state }: TestStore) => linesOf(state.signals).map(({ facts }) => facts);
const receiptOf = ({ sql }: TestStore, email = JANE) => findDeletion(sql, email);
const allLinkJobs = ({ sql }: TestStore) => dueLinkJobs(sql, ALL, 9);

/** The status of each signal, in whichever place it is. */
function statusesOf({ state, sql }: TestStore, ids: readonly string[]): (string | undefined)[] {
  return ids.map((id) => {
    const [row] = sql.exec<{ status: string }>("SELECT status FROM dead_letters WHERE id = ?", id);
    return state.signals.find(id)?.facts.status ?? state.held.find(id)?.facts.status ?? row?.status;
  });
}

const namesIn = (text: string) => /.{0,60}(?:[jJ]ane|doe@).{0,20}/u.exec(text)?.[0] ?? null;
const textOf = async ({ sql, workspaceId }: TestStore) => `${textOfTables(sql)}${await textOfBucket(workspaceId)}`;

describe.each(["open", "sealed", "cold"])("a deletion of a person with %s signals", (where) => {
  const settle = async (store: TestStore) => {
    if (where !== "open") store.seal();
    if (where === "cold") await store.workOnCold(NOW + COLD_AFTER_MS);
  };

  test(
    "removes the person from every table and storage, and nothing of other people",
    inBalance(async (store) => {
      store.record(NOW, visit("v-jane"), visit("v-bob"), visit("v-carol"));
      store.record(NOW, known(JANE, "v-jane", "u-jane"), known(BOB, "v-bob", "u-bob"));
      store.record(NOW, form(JANE), form(JANE), form(BOB), form(BOB), held(form(JANE, 1)), held(form(BOB, 1)));
      store.record(NOW, held(visit("v-jane")), dead(form(JANE, 3)), dead(visit("v-jane")), dead(form(BOB, 3)));
      await settle(store);
      const bobs = () => lines(store).filter((facts) => JSON.stringify(facts).includes("bob"));
      const before = bobs();
      expect(store.deletePerson(JANE, LATER)).toMatchObject({
        people: 1,
        identities: 2,
        signals: 2,
        anonymous: 1,
        held: 2,
        deadLetters: 2,
        scoringSignals: 1,
      });
      await store.workOnCold(LATER + COLD_AFTER_MS);
      store.finishDeletions(LATER);
      expect(receiptOf(store)?.finishedAtMs).toBe(LATER);
      expect(namesIn(await textOf(store))).toBeNull();
      expect(await textOf(store)).toContain("v-carol");
      expect(bobs()).toEqual(before);
      expect(store.scores).toEqual({ bob: 5 });
      store.restart();
      expect(lines(store).every(({ person }) => person?.personId !== 1)).toBe(true);
    }),
  );

  test("removes sources of duplicates, samples of groups and originals", () =>
    inStore(async (store) => {
      const [bobs] = store.record(NOW, form(BOB));
      const named = { ...form(JANE), pathSource: "mail to Jane" };
      store.record(NOW, named, named);
      await settle(store);
      expect(
        lines(store)
          .map(({ status, source }) => [status, source])
          .slice(1),
      ).toEqual([
        ["processed", "mail to Jane"],
        ["duplicate", null],
      ]);
      store.deletePerson(JANE, LATER);
      await store.workOnCold(LATER + COLD_AFTER_MS);
      expect(namesIn(await textOf(store))).toBeNull();
      expect(store.sql.exec("SELECT sample_id FROM event_groups WHERE source <> ''").one()).toEqual({
        sample_id: bobs,
      });
      expect(statusesOf(store, store.record(LATER + 1, at(LATER + 1, form(JANE))))).toEqual(["processed"]);
    }));
});

describe("held signals and dead letters", () => {
  test("belong to a deleted person by the fields that name people, a dead letter by any text", () =>
    inStore((store) => {
      store.record(NOW, known(JANE, "v-1", "42"));
      const kept = store.record(
        NOW,
        held({ payload: { event: "E", email: `not.${JANE}`, properties: { friend: JANE } } }),
        held({ payload: { event: "E", email: BOB, properties: { userId: "42", anonymousId: "v-1" } } }),
        dead({ payload: { event: "E", email: `x${JANE}`, properties: { note: `about ${JANE}`, n: 42 } } }),
        dead({ payload: { event: "421", userId: "421" } }),
        at(LATER + 1, dead({ payload: { event: "E", userId: 42 } })),
      );
      const gone = store.record(
        NOW,
        held({ payload: { event: "E", email: JANE.toUpperCase() } }),
        held({ payload: { event: "E", userId: 42 } }),
        dead({ payload: { event: "E", email: ` ${JANE.toUpperCase()} ` } }),
        dead({ payload: { type: "track", event: "E", messageId: "m", userId: 42 } }),
        dead(visit("v-1", { userId: "becomes known later" })),
        dead({ payload: { event: "E", email: BOB, properties: { friend: JANE } } }),
        dead({ payload: { event: "E", email: BOB, properties: { [JANE]: 1 } } }),
        dead({ payload: `{"email":"${JANE}", broken` }),
        dead({ payload: `{"event":"E","email":"${JANE.replace("@", String.raw`\u0040`)}"}` }),
      );
      expect(store.deletePerson(JANE, LATER)).toMatchObject({ held: 2, deadLetters: 7 });
      expect(statusesOf(store, kept)).toEqual(["held", "held", "dead", "dead", "dead"]);
      expect(statusesOf(store, gone)).toEqual(gone.map(() => "purged"));
    }));

  test("are hidden by a list while the deletion is under way, which hashes hardly any of thousands of texts", () =>
    inStore((store) => {
      store.record(NOW, known(JANE, "v-1", "42"), ...many(STEPS.deletionLines, (n) => form(JANE, n)));
      const texts = (from: number) => many(9_000, (n) => `x${(from + n).toString(36)}`);
      const letters = many(20, (n) => dead({ payload: { event: "E", texts: texts(9_000 * n) } }));
      const kept = store.record(NOW, ...letters);
      store.record(
        NOW,
        ...[` '${JANE.toUpperCase()}', `, "42", "\tv-1 "].map((text) => dead({ payload: { a: [...texts(0), text] } })),
        dead({ payload: { type: "track", event: "E", messageId: "m", userId: 42 } }),
      );
      store.beginDeletion(JANE, LATER);
      const list = () => store.shown.deadLetters.list({ cursor: null, limit: 50 }).items.map(({ id }) => id);
      const hash = vi.spyOn(process.getBuiltinModule("node:crypto"), "createHash");
      onTestFinished(() => hash.mockRestore());
      expect(list()).toEqual(kept.toReversed());
      expect(hash.mock.calls.length).toBeLessThan(50);
    }));

  test("are hidden by a list during the deletion of a person of whom only the hash is known", () =>
    inStore((store) => {
      const [, kept = ""] = store.record(NOW, dead(form(JANE)), dead(form(BOB)));
      const emailHash = hashOfName({ kind: "email", value: JANE });
      repeatDeletions(store.state, [{ id: "del_1", requestedAtMs: NOW, emailHash }], LATER);
      expect(store.shown.deadLetters.list({ cursor: null, limit: 50 }).items.map(({ id }) => id)).toEqual([kept]);
    }));

  test("with a shared anonymous id belong to the person of their user id, or of the id at that time; dead letters go", () =>
    inStore((store) => {
      store.record(NOW - 300, known(BOB, "shared", "u-bob"));
      store.record(NOW - 200, known(JANE, "shared", "u-jane"));
      store.record(NOW - 100, known(BOB, "shared", "u-bob"));
      const bobs = store.record(
        NOW,
        at(NOW - 150, held(visit("shared", { userId: "u-bob" }))),
        at(NOW - 250, held(visit("shared"))),
        at(NOW - 50, held(visit("shared"))),
      );
      const janes = store.record(
        NOW,
        at(NOW - 150, held(visit("shared"))),
        at(NOW - 50, dead(visit("shared"))),
        at(NOW - 150, dead(visit("shared", { userId: "u-jane" }))),
      );
      expect(store.deletePerson(JANE, LATER)).toMatchObject({ held: 1, deadLetters: 2 });
      expect(statusesOf(store, bobs)).toEqual(["held", "held", "held"]);
      expect(statusesOf(store, janes)).toEqual(["purged", "purged", "purged"]);
    }));

  test(
    "keep nothing if they arrive after the deletion and name the person",
    inBalance((store) => {
      store.record(NOW, known(JANE, "v-jane", "u-jane"));
      store.deletePerson(JANE, LATER);
      const ids = store.record(
        LATER + 5,
        { ...at(NOW, dead(form(JANE))), pathSource: "web-jane", idempotencyKey: "jane" },
        at(NOW, dead(visit("v-jane"))),
        at(NOW, held(form(JANE, 9))),
        at(NOW, dead({ payload: "{broken" })),
        at(NOW, dead({ payload: { event: "E", email: BOB, properties: { x: "j" } } })),
        at(LATER + 5, dead(form("j@example.com"))),
      );
      expect(statusesOf(store, ids)).toEqual(["purged", "purged", "purged", "dead", "dead", "dead"]);
      expect(store.state.signals.find(ids[0] ?? "")?.facts.deletedAtMs).toBe(LATER + 5);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
    }),
  );

  test(
    "are not recorded from the queue when they are released, replayed or purged meanwhile",
    inBalance((store) => {
      const ended = { ...held(form(JANE, 2)), periodEndMs: NOW + 5 };
      const ids = store.record(NOW, held(form(JANE)), ended, dead(form(JANE, 1)));
      const [released = "", purged = "", replayed = ""] = ids;
      const place = store.sql.exec<{ seq: number }>("SELECT seq FROM dead_letters").one().seq;
      purgeHeld(store.state, NOW + 5);
      store.deletePerson(JANE, LATER);
      store.record(
        LATER + 5,
        { ...at(NOW, form(JANE)), id: released, resent: { from: "held", place: 1 } },
        { ...at(NOW, form(JANE, 2)), id: purged, periodEndMs: NOW + 5, resent: { from: "held", place: 2 } },
        { ...at(NOW, form(JANE, 1)), id: replayed, resent: { from: "dead", place } },
      );
      expect(lines(store).map(({ admission }) => admission.id)).toEqual([purged]);
      expect(statusesOf(store, ids)).toEqual(["purged", "purged", "purged"]);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
    }),
  );
});

describe("an unlinked signal", () => {
  const keysIn = ({ sql }: TestStore, query: string) =>
    [...sql.exec(query).raw<[ArrayBuffer]>()].map(([key]) => listOfKey(key));
  /** The signal waits under an id that has become known, and its link job has not run yet. */
  const waiting = (store: TestStore, ...more: Sent[]) => {
    store.record(NOW, visit("v-jane"), ...more);
    store.record(NOW, known(JANE, "v-jane", "u-jane"));
    expect(keysIn(store, "SELECT key FROM link_jobs")).toContain("av-jane");
  };
  const MORE = STEPS.deletionLines + 700;
  const linkOften = async (store: TestStore) => {
    for (let steps = 0; steps < 10; steps++) await store.link();
  };

  test("is no longer paired with ids of the person, also from an alias", () =>
    inStore((store) => {
      const pair = (anonymousId: string, userId: string): Sent => ({
        payload: { type: "identify", messageId: `${anonymousId}-${userId}`, anonymousId, userId },
      });
      store.record(NOW, pair("v-1", "u-1"), pair("v-2", "u-2"));
      // One id of the pair was Bob's before the other became Jane's.
      store.record(NOW + 1, known(BOB, "v-bob", "u-1"));
      store.record(NOW + 2, known(JANE, "v-1"));
      store.record(NOW + 3, {
        payload: { type: "alias", messageId: "a", userId: "u-3", previousId: "v-3", email: JANE },
      });
      expect(keysIn(store, "SELECT key FROM pairs")).toHaveLength(8);
      store.deletePerson(JANE, LATER);
      expect(keysIn(store, "SELECT key FROM pairs ORDER BY key")).toEqual(["av-2", "uu-2"]);
    }));

  test("is not linked to a person during the deletion, but a later signal of the same browser is a visitor's", () =>
    inStore(async (store) => {
      waiting(store, ...many(MORE, () => visit("v-jane")));
      store.beginDeletion(JANE, LATER);
      expect(receiptOf(store)).toMatchObject({ people: 1, finishedAtMs: null });
      await linkOften(store);
      expect(entriesAfter(store.sql, visitorList({ kind: "anonymous_id", value: "v-jane" }))).not.toEqual([]);
      expect(allLinkJobs(store)).toEqual([]);
      const last = readLine(store.state.signals, MORE);
      expect(last).toMatchObject({ anonymousId: "v-jane", deletedAtMs: null });
      expect(last && new Names(store.sql).visible(last).anonymousId).toBeNull();
      const newer = store.record(LATER + 10, at(LATER + 10, visit("v-jane")));
      store.finishDeletions(LATER);
      expect(receiptOf(store)).toMatchObject({ anonymous: MORE + 1, signals: 1 });
      expect(statusesOf(store, newer)).toEqual(["anonymous"]);
    }));

  test.each(["nobody", "somebody"])(
    "is deleted with its person while %s else has the id, whenever link jobs run",
    (elseHas) =>
      inStore(async (store) => {
        waiting(store, ...many(MORE, () => visit("v-jane")));
        if (elseHas === "somebody") store.record(NOW + 1, known(BOB, "v-jane"));
        store.beginDeletion(JANE, LATER);
        await linkOften(store);
        expect(store.scores["bob"] ?? 0).toBe(0);
        store.finishDeletions(LATER);
        expect(receiptOf(store)).toMatchObject({ anonymous: MORE + 1, signals: 1 });
        const left = lines(store).filter(({ anonymousId }) => anonymousId === "v-jane");
        expect(left.map(({ kind }) => kind)).toEqual(elseHas === "somebody" ? ["identify"] : []);
        await linkOften(store);
        expect(allLinkJobs(store)).toEqual([]);
        expectStateToAddUp(store.state);
      }),
  );

  test("is deleted with its person if another person of the id is deleted at the same time", () =>
    inStore(async (store) => {
      waiting(store, ...many(STEPS.deletionLines, () => visit("v-jane")));
      store.record(NOW + 10, known(BOB, "v-jane"));
      store.record(NOW + 20, at(NOW + 20, visit("v-jane")));
      store.beginDeletion(BOB, LATER);
      store.beginDeletion(JANE, LATER + 1);
      while (receiptOf(store)?.finishedAtMs === null) {
        await linkOften(store);
        stepDeletions(store.state, LATER + 1);
      }
      expect(lines(store).filter(({ anonymousId }) => anonymousId === "v-jane")).toEqual([]);
      expect(allLinkJobs(store)).toEqual([]);
      expectStateToAddUp(store.state);
    }));

  test(
    "is removed, with its traits, from another person who got it by an anonymous id before its user id was known",
    inBalance((store) => {
      store.record(NOW, known(BOB, "v-bob"));
      const fields = { anonymousId: "v-bob", userId: "u-jane", traits: { name: "Jane Doe" } };
      const [id = ""] = store.record(NOW + 1, track(fields));
      store.record(NOW + 2, known(JANE, "v-jane", "u-jane"));
      store.deletePerson(JANE, LATER);
      expect(store.state.signals.find(id)?.facts).toMatchObject({ person: null, userId: null, deletedAtMs: LATER });
      const people = store.sql.exec("SELECT email, score, name FROM people").toArray();
      expect(people).toEqual([{ email: BOB, score: 0, name: BOB }]);
      expect(namesIn(textOfTables(store.sql))).toBeNull();
    }),
  );
});

describe("cold storage", () => {
  testStored(
    "has no copy of the person when the deletion is complete, even if a copy was being written meanwhile",
    () => {
      const workspaceId = crypto.randomUUID();
      return inStore(async ({ storage }) => {
        let hasBegun = false;
        const bucket = bucketWith({
          before: (call) => {
            if (call !== "put" || hasBegun) return;
            hasBegun = true;
            expect(store.deletePerson(JANE, LATER)?.finishedAtMs).toBeNull();
          },
        });
        const store = new TestStore(workspaceId, storage, bucket);
        store.record(NOW, form(JANE), form(BOB));
        store.seal();
        await store.workOnCold(NOW + COLD_AFTER_MS);
        await store.workOnCold(NOW + COLD_AFTER_MS);
        expect([hasBegun, store.state.signals.isClearing]).toEqual([true, false]);
        store.finishDeletions(LATER);
        expect(receiptOf(store)?.finishedAtMs).toBe(LATER);
        expect(namesIn(await textOfBucket(workspaceId))).toBeNull();
        expect(await textOfBucket(workspaceId)).toContain(BOB.replace("@", " at "));
      });
    },
  );

  testStored("delays only the end of a deletion while it does not answer", () =>
    inStore(async (store) => {
      store.record(NOW, form(JANE), form(BOB));
      store.seal();
      await store.workOnCold(NOW + COLD_AFTER_MS);
      expect(store.deletePerson(JANE, LATER)).toMatchObject({ signals: 1, coldObjects: 1, finishedAtMs: null });
      expect(nextDeletionMs(store.state)).toBeNull();
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      expect(namesIn(await textOfBucket(store.workspaceId))).not.toBeNull();
      await store.workOnCold(LATER);
      store.finishDeletions(LATER);
      expect(receiptOf(store)?.finishedAtMs).toBe(LATER);
      expect(namesIn(await textOfBucket(store.workspaceId))).toBeNull();
    }),
  );
});

describe("a large person", () => {
  test("with signals in many segments, and in one row of a timeline, is deleted in bounded steps across crashes", () =>
    inStore((store) => {
      const segments = 3 * STEPS.portions;
      for (let n = 0; n < segments; n++) {
        store.record(NOW, visit("v-jane"), visit("v-bob"), form(JANE, n), form(BOB, n));
        store.seal();
      }
      const rows = store.sql.exec("SELECT * FROM timelines WHERE list = CAST('av-jane' AS BLOB)").toArray();
      expect(rows).toHaveLength(1);
      store.record(NOW, known(JANE, "v-jane"));
      const left = (who: string) => lines(store).filter((facts) => JSON.stringify(facts).includes(who)).length;
      const [bobs, janes] = [left("bob"), left("jane")];
      let [before, steps] = [janes, 0];
      store.beginDeletion(JANE, LATER);
      for (; receiptOf(store)?.finishedAtMs === null && steps < 100; steps++) {
        expect(before - left("jane")).toBeLessThan(2 * STEPS.portions);
        before = left("jane");
        store.restart();
        stepDeletions(store.state, LATER);
      }
      expect(steps).toBeGreaterThan(4);
      const counts = { anonymous: segments, signals: segments + 1, scoringSignals: segments };
      expect(receiptOf(store)).toMatchObject({ ...counts, finishedAtMs: LATER });
      expect(left("bob")).toBe(bobs);
      expectStateToAddUp(store.state);
    }));

  test("is deleted without lines that a login gives to another person meanwhile", () =>
    inStore(async (store) => {
      store.record(NOW, known(JANE, "v-jane"));
      store.record(NOW + 1, ...many(2 * STEPS.deletionLines, (n) => form(JANE, n)));
      const [shared = ""] = store.record(NOW + 2, visit("v-jane", { userId: "u-bob" }));
      store.beginDeletion(JANE, LATER);
      store.record(LATER + 1, identify(BOB, { userId: "u-bob" }));
      await store.link();
      store.finishDeletions(LATER + 2);
      await store.linkAll();
      expect(store.state.signals.find(shared)?.facts).toMatchObject({ deletedAtMs: null, person: { personId: 2 } });
      expect(allLinkJobs(store)).toEqual([]);
      expectStateToAddUp(store.state);
    }));

  test("has a bounded number of samples of groups replaced in a step", () =>
    inStore((store) => {
      const inEach = (email: string) => many(45, (n): Sent => ({ payload: { event: `E ${n}`, email } }));
      const bobs = store.record(NOW, ...inEach(BOB));
      store.record(NOW + 1, ...inEach(JANE));
      store.deletePerson(JANE, LATER);
      const samples = store.sql.exec<{ sample_id: string }>("SELECT sample_id FROM event_groups").toArray();
      expect(samples.filter(({ sample_id: id }) => bobs.includes(id))).toHaveLength(40);
    }));

  test("is searched in all held signals and dead letters, however many there are", () =>
    inStore((store) => {
      const unrelated = many(STEPS.purgeLines + 900, (n) => held(form(BOB, n)));
      const letters = many(120, (n) => dead(form(BOB, n)));
      const ids = store.record(NOW, ...unrelated, held(form(JANE)), ...letters, dead(form(JANE)));
      const counts = { people: 0, held: 1, deadLetters: 1 };
      expect(store.deletePerson(JANE, LATER)).toMatchObject({ ...counts, finishedAtMs: LATER });
      expect(statusesOf(store, ids).filter((status) => status === "purged")).toHaveLength(2);
    }));
});

describe("a signal that arrives while the ids of its person are being deleted", () => {
  /** Begins the deletion. The first step ends after the timeline of v-jane, where the signal of a new visitor stays. */
  const begin = (store: TestStore, ...more: Sent[]): void => {
    store.record(NOW, ...many(STEPS.deletionLines, () => visit("v-jane")));
    store.record(NOW + 1, at(LATER + 1, visit("v-jane")));
    store.record(NOW + 2, known(JANE, "v-jane"), ...more);
    store.beginDeletion(JANE, LATER);
    const [progress] = store.sql.exec("SELECT step, position FROM deletions");
    expect(progress).toEqual({ step: "identities", position: STEPS.deletionLines + 1 });
  };
  const idsOf = ({ state }: TestStore, ids: string[]) => ids.map((id) => state.signals.find(id)?.facts.anonymousId);

  test("is deleted if it was received before the deletion, not if before a repeated request", () =>
    inStore((store) => {
      begin(store);
      const ids = store.record(LATER + 2, at(NOW, visit("v-jane")), at(LATER + 2, visit("v-jane")));
      store.beginDeletion(JANE, LATER + 10);
      ids.push(...store.record(LATER + 12, at(LATER + 12, visit("v-jane"))));
      store.finishDeletions(LATER + 12);
      expect(idsOf(store, ids)).toEqual([null, "v-jane", "v-jane"]);
    }));

  test("is deleted even if another person had the id before, or gets it next", () =>
    inStore((store) => {
      begin(store, known(JANE, "shared"), known(JANE, "v-next"), at(NOW + 500, known(BOB, "shared")));
      store.rulesVersion = 1;
      const late = store.record(
        LATER + 2,
        at(NOW + 400, visit("shared")),
        at(NOW + 400, visit("v-next")),
        at(NOW + 600, visit("shared")),
      );
      store.record(LATER + 3, at(LATER + 3, known(BOB, "v-next")));
      store.finishDeletions(LATER + 3);
      expect(idsOf(store, late)).toEqual([null, null, "shared"]);
      expectStateToAddUp(store.state);
    }));

  test("belongs to the person of the id at that time, even if later persons of the id were deleted later", () =>
    inStore((store) => {
      const has = (email: string, receivedAtMs: number): Sent => at(receivedAtMs, known(email, "shared"));
      store.record(NOW, has("cyd@example.com", NOW - 400), has(JANE, NOW - 300), has(BOB, NOW - 200));
      store.deletePerson(JANE, LATER);
      store.deletePerson(BOB, LATER + 10);
      const ids = store.record(LATER + 20, ...[-250, -150, -350].map((ms) => at(NOW + ms, visit("shared"))));
      expect(statusesOf(store, ids)).toEqual(["purged", "purged", "processed"]);
    }));
});

describe("a repeated deletion", () => {
  const begun = async (store: TestStore): Promise<void> => {
    store.record(NOW, form(JANE), known(JANE, "v-jane"));
    store.seal();
    await store.workOnCold(NOW + COLD_AFTER_MS);
    store.beginDeletion(JANE, LATER, "del_1");
  };

  testStored(
    "continues the running deletion, and includes later signals with the email, not those of its ids",
    inBalance(async (store) => {
      await begun(store);
      const ids = store.record(LATER + 5, at(LATER + 5, held(form(JANE, 1))), at(LATER + 5, held(visit("v-jane"))));
      expect(statusesOf(store, ids)).toEqual(["held", "held"]);
      store.beginDeletion(JANE, LATER + 10, "del_2");
      expect(receiptOf(store)).toMatchObject({ id: "del_1", people: 1, signals: 2, held: 1 });
      expect(statusesOf(store, ids)).toEqual(["purged", "held"]);
    }),
  );

  testStored("leaves later signals of visitors whose id it has already processed", () =>
    inStore(async (store) => {
      await begun(store);
      const ids = store.record(LATER + 5, at(LATER + 5, visit("v-jane")), at(LATER + 5, held(visit("v-jane"))));
      store.beginDeletion(JANE, LATER + 10);
      ids.push(...store.record(LATER + 20, at(LATER + 6, visit("v-jane"))));
      expect(statusesOf(store, ids)).toEqual(["anonymous", "held", "anonymous"]);
      await store.workOnCold(LATER + 20);
      store.finishDeletions(LATER + 20);
      store.beginDeletion(JANE, LATER + 30);
      expect(statusesOf(store, ids)[0]).toBe("anonymous");
    }),
  );

  test(
    "is separate if a new person has the email by now, and both are completed",
    inBalance((store) => {
      const count = STEPS.deletionLines + 900;
      store.record(NOW, ...many(count, (n) => form(JANE, n)));
      store.beginDeletion(JANE, LATER, "del_1");
      store.record(LATER + 5, at(LATER + 5, form(JANE, -1)));
      store.beginDeletion(JANE, LATER + 10, "del_2");
      expect(receiptOf(store)).toMatchObject({ id: "del_2", people: 1, finishedAtMs: null });
      store.finishDeletions(LATER + 10);
      expect(receiptOf(store)).toMatchObject({ id: "del_2", people: 1, signals: 1, finishedAtMs: LATER + 10 });
      expect(store.sql.exec("SELECT signals FROM deletions WHERE id = 'del_1'").one()).toEqual({ signals: count });
      expect(namesIn(textOfTables(store.sql))).toBeNull();
      expect(store.deletePerson(JANE, LATER + 15)).toMatchObject({ people: 0, signals: 0, finishedAtMs: LATER + 15 });
    }),
  );

  test("does not move the time of another deletion that was requested at the same moment", () =>
    inStore((store) => {
      store.record(NOW, ...many(2 * STEPS.deletionLines, (n) => form(JANE, n)), form(BOB));
      store.beginDeletion(JANE, LATER);
      store.beginDeletion(BOB, LATER);
      const again = store.record(LATER + 60_000, held(form(BOB, 1)));
      store.beginDeletion(JANE, LATER + 120_000);
      store.finishDeletions(LATER + 120_000);
      expect(statusesOf(store, again)).toEqual(["held"]);
    }));
});

test("the receipt of an email is of the latest deletion, also after the clock was set back", () =>
  inStore((store) => {
    store.record(NOW, form(JANE));
    store.beginDeletion(JANE, NOW + 2, "del_1");
    store.record(NOW + 3, form(JANE, 1), ...many(STEPS.deletionLines + 700, (n) => form(JANE, n + 2)));
    beginDeletion(store.state, "del_2", JANE, NOW + 1);
    expect(receiptOf(store)).toMatchObject({ id: "del_2", finishedAtMs: null });
    // A repetition joins it.
    beginDeletion(store.state, "del_3", JANE, NOW + 1);
    expect(receiptOf(store)).toMatchObject({ id: "del_2", finishedAtMs: null });
    const { raised } = store.state;
    expect(raised.next()?.deletion).toMatchObject({ receiptId: "del_2" });
    noteForwarded(store.state, "del_2", NOW + 4);
    raised.forwarded(raised.next()?.lastRow ?? 0);
    store.finishDeletions(NOW + 4);
    expect(receiptOf(store)).toMatchObject({ id: "del_2", finishedAtMs: NOW + 4 });
    expect(store.scores).toEqual({});
  }));

test("a deletion is forwarded to Destinations again if the store cannot note that they have it", () =>
  inStore(async (store) => {
    expectLogged("raise_failed");
    store.record(NOW, form(JANE));
    beginDeletion(store.state, "del_1", JANE, LATER);
    const { raised } = store.state;
    const deletePerson = vi.fn(() => Promise.resolve());
    let failures = 1;
    const forwarding = new Forwarding(raised, {
      workspaceId: store.workspaceId,
      destinations: { getByName: () => ({ deletePerson, raise: () => Promise.resolve() }) },
      forwardedDeletion: ({ receiptId }) => {
        if (failures-- > 0) throw new Error("the write failed");
        noteForwarded(store.state, receiptId, LATER);
      },
      alarmBy: () => {},
    });
    await forwarding.run();
    expect([raised.isEmpty, receiptOf(store)?.finishedAtMs]).toEqual([false, null]);
    await forwarding.run();
    expect([raised.isEmpty, receiptOf(store)?.finishedAtMs]).toEqual([true, LATER]);
    expect(deletePerson).toHaveBeenCalledTimes(2);
  }));

test.each(["a stored", "no"])(
  "a deletion that the store did not know is remembered from its repetition on, with %s person",
  (which) =>
    inStore((store) => {
      const days = (count: number) => NOW + count * DAY_MS;
      if (which === "a stored") store.record(days(-29), form(JANE));
      const emailHash = hashOfName({ kind: "email", value: JANE });
      repeatDeletions(store.state, [{ id: "del_1", requestedAtMs: days(-29), emailHash }], NOW);
      store.finishDeletions(days(2));
      expect(store.scores).toEqual({});
      expect(statusesOf(store, store.record(days(2), at(days(-30), form(JANE, 1))))).toEqual(["purged"]);
    }),
);

test("traces and exports hide the same data during the deletion as after it", () =>
  inStore(async (store) => {
    store.record(NOW, visit("v-jane"), visit("v-bob"), known(JANE, "v-jane", "u-jane"), form(BOB));
    const signals = many(STEPS.deletionLines + 700, (n) => form(JANE, n));
    const ids = store.record(NOW, ...signals, held(form(JANE, -1)), dead(form(JANE, -2))).slice(-4);
    const records = ["signals", "people", "scoring_signals"] as const;
    const exported = async () => {
      const slicesOf = (kind: (typeof records)[number]) =>
        allSlices((cursor) => exportPart(() => store.shown, { records: kind, format: "ndjson", cursor }));
      return (await Promise.all(records.map(slicesOf))).flatMap((slices) => slices.map(({ text }) => text)).join("");
    };
    expect(await exported()).toContain(JANE);
    store.beginDeletion(JANE, LATER);
    expect(receiptOf(store)?.finishedAtMs).toBeNull();
    for (const atMs of [null, LATER]) {
      if (atMs !== null) store.finishDeletions(atMs);
      const traces = await Promise.all(ids.map((id) => traceSignal(() => store.shown, id)));
      expect(traces.every((trace) => trace !== null && trace.deletedAtMs !== null)).toBe(true);
      const text = await exported();
      expect(namesIn(`${JSON.stringify(traces)}${text}`)).toBeNull();
      for (const kept of [...ids, BOB, "v-bob"]) expect(text).toContain(kept);
    }
  }));
