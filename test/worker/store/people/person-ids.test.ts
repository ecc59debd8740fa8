/** A person with more ids than PERSON_MAX_IDS (src/store/people/identities.ts), and the signals of the dropped ids. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PERSON_MAX_IDS } from "../../../../src/limits.ts";
import { beginDeletion, findDeletion } from "../../../../src/store/deletion/person-deletions.ts";
import { exportPart } from "../../../../src/store/queries/exports.ts";
import { readPeople } from "../../../../src/store/queries/people-search.ts";
import { readPersonPage } from "../../../../src/store/queries/person-page.ts";
import { Identities, IDENTITY_MAX_CLAIMS, PAIRS_MAX } from "../../../../src/store/people/identities.ts";
import { visitorKey, type VisitorId } from "../../../../src/store/people/timelines.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { textOfTables } from "../../../support/everything.ts";
import { assertForSoLong } from "../../../support/for-so-long.ts";
import { allSlices } from "../../../support/slices.ts";
import { identify, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const ANN = "ann@example.com";
const BOB = "bob@example.com";

const visit = (anonymousId: string): Sent => track({ anonymousId });
const anonymous = (value: string): VisitorId => ({ kind: "anonymous_id", value });

/** Gives a person ids of a kind, up to `places` below PERSON_MAX_IDS. */
function leaveRoom(
  store: TestStore,
  email: string,
  places: number,
  { kind = "anonymous_id", atMs = NOW + 1_000_000_000 }: { kind?: VisitorId["kind"]; atMs?: number } = {},
): void {
  if (personOf(store, email) === undefined) store.record(NOW, { payload: { event: "Form", email } });
  const { id, anonymous_ids, user_ids } = personOf(store, email) ?? { id: 0, anonymous_ids: 0, user_ids: 0 };
  const taken = PERSON_MAX_IDS - places - (kind === "user_id" ? user_ids : anonymous_ids);
  store.sql.exec(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     INSERT INTO identities (key, at, ordinal, person_id) SELECT CAST(?2 || 'taken-' || ?3 || '-' || i AS BLOB), ?4, i, ?3 FROM n`,
    taken,
    kind.slice(0, 1),
    id,
    atMs,
  );
  store.sql.exec(`UPDATE people SET ${kind}s = ${kind}s + ? WHERE id = ?`, taken, id);
}

function personOf({ sql }: TestStore, email: string) {
  type Row = { id: number; anonymous_ids: number; user_ids: number; ids_dropped: number; score: number };
  return sql
    .exec<Row>("SELECT id, anonymous_ids, user_ids, ids_dropped, score FROM people WHERE email = ?", email)
    .toArray()[0];
}

const countsOf = (store: TestStore, email: string) => {
  const { anonymous_ids: ids, ids_dropped: dropped } = personOf(store, email) ?? {};
  return { ids, dropped };
};

function holderOf({ sql }: TestStore, id: VisitorId): number | null {
  return new Identities(sql).claimsOf(id).at(-1)?.personId ?? null;
}

const linePersonOf = ({ state }: TestStore, id = "") => state.signals.find(id)?.facts.person?.personId ?? null;

test("a person keeps the newest ids, and page, API and export show them with the number of dropped ids", () =>
  inStore(async (store) => {
    const more = 7;
    const names = Array.from({ length: PERSON_MAX_IDS + more }, (_, n) => `v-${n}`);
    const signals = names.map((anonymousId) => identify(ANN, { anonymousId }));
    for (let from = 0; from < signals.length; from += 500) {
      store.record(NOW + from, ...signals.slice(from, from + 500));
    }
    expect(countsOf(store, ANN)).toEqual({ ids: PERSON_MAX_IDS, dropped: more });
    expectStateToAddUp(store.state);

    const newest = names.toReversed();
    const page = readPersonPage(store.shown, ANN, "all", { cursor: null, limit: 1 });
    expect(page?.identities.map(({ value }) => value)).toEqual(newest.slice(0, 50));
    expect([page?.moreIdentities, page?.person.idsDropped]).toEqual([true, more]);
    const [listed] = readPeople(store.shown, {}, { cursor: null, limit: 1 }).items;
    expect(listed?.identities.map(({ value }) => value)).toEqual(newest.slice(0, 100));
    expect(listed?.idsDropped).toBe(more);
    const parts = await allSlices((cursor) =>
      exportPart(() => store.shown, { records: "people", format: "ndjson", cursor }),
    );
    expect(JSON.parse(parts.map(({ text }) => text).join(""))).toMatchObject({
      ids_dropped: more,
      anonymous_ids: newest.slice(0, PERSON_MAX_IDS),
    });
  }));

describe("a dropped id", () => {
  test("is still counted by the deletion of the person who had it before", () =>
    inStore((store) => {
      leaveRoom(store, ANN, 1);
      leaveRoom(store, BOB, 1, { atMs: NOW - 1 });
      store.record(NOW + 1, identify(BOB, { anonymousId: "zz-shared" }));
      store.record(NOW + 2, identify(ANN, { anonymousId: "zz-shared" }));
      beginDeletion(store.state, "del_1", BOB, NOW + 3);
      expect(findDeletion(store.sql, BOB)).toMatchObject({ identities: expect.closeTo(1_000, -2), finishedAtMs: null });
      store.record(NOW + 4, identify(ANN, { anonymousId: "new" }));
      expect(holderOf(store, anonymous("zz-shared"))).toBeNull();
      store.finishDeletions(NOW + 5);
      expect(findDeletion(store.sql, BOB)?.identities).toBe(PERSON_MAX_IDS);
    }));

  test("loses its pairs, so that the next person does not get the signals of the paired id", () =>
    inStore((store) => {
      store.rulesVersion = 1;
      leaveRoom(store, ANN, 1);
      store.record(NOW + 1, { payload: { type: "identify", anonymousId: "v-1", userId: "u-1" } });
      expect(store.sql.exec("SELECT * FROM pairs").toArray()).toHaveLength(2);
      store.record(NOW + 2, identify(ANN, { anonymousId: "v-1" }));
      expect(holderOf(store, { kind: "user_id", value: "u-1" })).toBe(personOf(store, ANN)?.id);
      store.record(NOW + 3, identify(ANN, { anonymousId: "v-2" }));
      expect(holderOf(store, anonymous("v-1"))).toBeNull();
      expect(store.sql.exec("SELECT * FROM pairs").toArray()).toEqual([]);
    }));

  test("does not hide its signals from a deletion of the person", () =>
    inStore((store) => {
      leaveRoom(store, ANN, 1);
      store.record(NOW + 1, identify(ANN, { anonymousId: "zz-old" }));
      const [theirs = ""] = store.record(NOW + 2, visit("zz-old"));
      store.record(NOW + 3, identify(ANN, { anonymousId: "zz-new" }));
      store.seal();
      expect(holderOf(store, anonymous("zz-old"))).toBeNull();
      beginDeletion(store.state, "del_1", ANN, NOW + 4);
      store.finishDeletions(NOW + 4);
      expect(findDeletion(store.sql, ANN)).toMatchObject({ identities: PERSON_MAX_IDS, signals: 4 });
      expect(store.state.signals.find(theirs)?.facts).toMatchObject({ deletedAtMs: NOW + 4, anonymousId: null });
      expect(textOfTables(store.sql)).not.toMatch(/zz-|taken-/);
    }));
});

test("an id keeps its latest claims and a bounded number of pairs", () =>
  inStore((store) => {
    store.rulesVersion = 1;
    const more = 3;
    const count = (table: string, id: VisitorId) =>
      store.sql.exec(`SELECT count(*) AS n FROM ${table} WHERE key = ?`, visitorKey(id)).one()["n"];
    for (let n = 0; n < IDENTITY_MAX_CLAIMS + more; n++) {
      store.record(NOW + n, identify(`p${n}@example.com`, { anonymousId: "claimed" }));
    }
    expect(count("identities", anonymous("claimed"))).toBe(IDENTITY_MAX_CLAIMS);
    expect(new Identities(store.sql).claimsOf(anonymous("claimed"))[0]?.receivedAtMs).toBe(NOW + more);
    for (let n = 0; n < PAIRS_MAX + more; n++) {
      store.record(NOW + n, { payload: { type: "identify", anonymousId: "paired", userId: `u-${n}` } });
    }
    expect(count("pairs", anonymous("paired"))).toBe(PAIRS_MAX);
    expectStateToAddUp(store.state);
  }));

describe("dropping ids", () => {
  test("counts each kind separately, so that many anonymous ids drop no user id", () =>
    inStore((store) => {
      leaveRoom(store, ANN, 1);
      leaveRoom(store, ANN, 2, { kind: "user_id" });
      const users = ["u-1", "u-2", "u-3"].map((value) => ({ kind: "user_id", value }) as const);
      store.record(NOW + 1, identify(ANN, { userId: "u-1" }));
      store.record(NOW + 2, ...["a-1", "a-2", "a-3"].map((anonymousId) => identify(ANN, { anonymousId })));
      const ann = personOf(store, ANN)?.id;
      const holders = () => [...users, anonymous("a-2"), anonymous("a-3")].map((id) => holderOf(store, id));
      expect(holders()).toEqual([ann, null, null, null, ann]);
      store.record(NOW + 3, identify(ANN, { userId: "u-2" }), identify(ANN, { userId: "u-3" }));
      expect(holders()).toEqual([null, ann, ann, null, ann]);
      expect(personOf(store, ANN)?.ids_dropped).toBe(3);
    }));

  test("skips an id with unlinked signals until they are linked", () =>
    inStore(async (store) => {
      const ids = store.record(NOW, ...[1, 2, 3].map(() => visit("old")));
      leaveRoom(store, ANN, 2);
      let atMs = NOW;
      const name = (anonymousId: string) => store.record(++atMs, identify(ANN, { anonymousId }));
      // The rules of their evaluation are unknown, so that a job links them.
      for (const id of ["old", "new", "newer"]) name(id);
      const ann = personOf(store, ANN)?.id;
      const holders = () => ["old", "new", "newer"].map((id) => holderOf(store, anonymous(id)));
      expect(holders()).toEqual([ann, null, ann]);
      expect(countsOf(store, ANN)).toEqual({ ids: PERSON_MAX_IDS, dropped: 1 });
      await store.link();
      expect(ids.map((id) => linePersonOf(store, id))).toEqual([ann, ann, ann]);
      name("newest");
      expect(holders()).toEqual([null, null, ann]);
      expectStateToAddUp(store.state);
    }));
});

test("each signal belongs to the person who claimed its id, or waits, for any claims of ids", async () => {
  const PEOPLE = [ANN, BOB];
  const IDS = ["v-0", "v-1", "v-2", "v-3"];
  const act = fc.record({ id: fc.constantFrom(...IDS), email: fc.option(fc.constantFrom(...PEOPLE), { freq: 2 }) });
  await assertForSoLong(
    fc.asyncProperty(fc.array(act, { minLength: 8, maxLength: 30 }), (acts) =>
      inStore((store) => {
        store.rulesVersion = 1;
        for (const email of PEOPLE) leaveRoom(store, email, 2);
        const numbers = PEOPLE.map((email) => personOf(store, email)?.id ?? 0);
        const held = new Map<string, { person: number; since: number }>();
        const waiting = new Map<string, string[]>();
        const people = new Map<string, number>();
        for (const [n, { id, email }] of acts.entries()) {
          const person = email === null ? null : (numbers[PEOPLE.indexOf(email)] ?? 0);
          const signal = email === null ? visit(id) : identify(email, { anonymousId: id });
          const [signalId = ""] = store.record(NOW + n, signal);
          if (person === null) {
            const holder = held.get(id);
            if (holder === undefined) waiting.set(id, [...(waiting.get(id) ?? []), signalId]);
            else people.set(signalId, holder.person);
            continue;
          }
          people.set(signalId, person);
          for (const earlier of waiting.get(id) ?? []) people.set(earlier, person);
          waiting.delete(id);
          if (held.get(id)?.person !== person) held.set(id, { person, since: n });
          for (const [heldId, { person: holder, since }] of held) {
            const now = holderOf(store, anonymous(heldId));
            if (now !== null) expect(now).toBe(holder);
            else {
              const theirs = [...held.values()].filter((kept) => kept.person === holder);
              // The dropped id was the oldest of the person's ids, when there was one too many.
              expect(Math.min(...theirs.map((kept) => kept.since))).toBe(since);
              held.delete(heldId);
            }
          }
        }
        for (const email of PEOPLE) expect(countsOf(store, email).ids).toBeLessThanOrEqual(PERSON_MAX_IDS);
        for (const [signalId, person] of people) expect(linePersonOf(store, signalId)).toBe(person);
        for (const signalId of [...waiting.values()].flat()) {
          expect(store.state.signals.find(signalId)?.facts.status).toBe("anonymous");
        }
        expectStateToAddUp(store.state);
      }),
    ),
    { numRuns: 100, limitMs: 20_000 },
  );
});
