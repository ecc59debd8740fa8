/**
 * A deletion finds the person in every place of the store, whatever has happened to the signals that name them, and takes nothing of
 * others. Each test searches all tables of the store, the segments and the bucket.
 */
import { expect, test, describe } from "vitest";
import { DELETION_REMEMBERED_MS } from "../../../../src/store/state/due.ts";
import { findDeletion, stepDeletions } from "../../../../src/store/deletion/person-deletions.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { Identities } from "../../../../src/store/people/identities.ts";
import { STEPS } from "../../../../src/store/steps.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { crossed } from "../../../support/destination-harness.ts";
import { textOfBucket, textOfTables } from "../../../support/everything.ts";
import { identify, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);
const ASKED = NOW + 1_000;
const LATER = ASKED + 1_000;
const [JANE, BOB, CYD] = ["jane.doe@example.com", "bob@example.com", "cyd@example.com"];

const at = (receivedAtMs: number, sent: Sent): Sent => ({ ...sent, receivedAtMs });
const held = (sent: Sent): Sent => ({ ...sent, verdict: "held" });
const dead = (sent: Sent): Sent => ({ ...sent, dead: true });
const many = <T>(count: number, of: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const visit = (anonymousId: string, more: object = {}): Sent => track({ anonymousId, note: anonymousId, ...more });
const isAnonymous = (value: string) => ({ kind: "anonymous_id" as const, value });
const isUser = (value: string) => ({ kind: "user_id" as const, value });

/** The places in which a text of the deleted person stands. */
async function found({ sql, workspaceId }: TestStore, text = /jane/iu): Promise<string | null> {
  const all = `${textOfTables(sql)}${await textOfBucket(workspaceId)}`;
  const around = new RegExp(`.{0,80}(?:${text.source}).{0,40}`, text.flags);
  return around.exec(all)?.[0] ?? null;
}

/** Deletes Jane, and runs everything that waits. */
async function deleteJane(store: TestStore, atMs = ASKED): Promise<void> {
  store.deletePerson(JANE, atMs);
  await settle(store);
}

async function settle(store: TestStore): Promise<void> {
  store.finishDeletions(LATER);
  await store.linkAll();
  await store.workOnCold(LATER + 2 * COLD_AFTER_MS);
  store.finishDeletions(LATER);
  expectStateToAddUp(store.state);
}

const personOf = (store: TestStore, id = ""): string | null => {
  const { person = null } = store.state.signals.find(id)?.facts ?? {};
  const rows = store.sql.exec<{ email: string }>("SELECT email FROM people WHERE id = ?", person?.personId ?? 0);
  return rows.toArray()[0]?.email ?? null;
};
const namedBy = (store: TestStore, ids: readonly string[]) => ids.map((id) => personOf(store, id));

describe("an identify that names the person and has not taken effect", () => {
  const call = identify(JANE, { anonymousId: "v-jane", userId: "u-jane" });

  test.each<[string, (store: TestStore) => Promise<void>]>([
    [
      "is held",
      async (store) => {
        store.record(NOW, held(call));
        await deleteJane(store);
      },
    ],
    [
      "is a dead letter",
      async (store) => {
        store.record(NOW, dead(call));
        await deleteJane(store);
      },
    ],
    [
      "is in flight",
      async (store) => {
        await deleteJane(store);
        expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBe(LATER - 1_000);
        store.record(ASKED + 5, at(NOW, call));
        expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBeNull();
        await settle(store);
      },
    ],
    [
      "is in flight as a dead letter",
      async (store) => {
        await deleteJane(store);
        store.record(ASKED + 5, at(NOW, dead(call)));
        await settle(store);
      },
    ],
  ])("gives its ids to the deletion if it %s", (_, act) =>
    inStore(async (store) => {
      store.record(NOW, visit("v-jane"), track({ userId: "u-jane" }), held(visit("v-jane")), dead(visit("v-jane")));
      store.record(NOW, held({ payload: { type: "alias", messageId: "a", userId: "new", previousId: "v-jane" } }));
      store.record(NOW, { payload: { type: "identify", messageId: "p", userId: "u-jane", anonymousId: "v-jane-2" } });
      store.record(NOW, visit("v-jane-2"), visit("v-bob"));
      store.seal();
      await act(store);
      expect(await found(store)).toBeNull();
      expect(await found(store, /v-bob/u)).not.toBeNull();
      const { finishedAtMs, anonymous, identities } = findDeletion(store.sql, JANE) ?? {};
      expect([anonymous, identities, finishedAtMs]).toEqual([3, 5, expect.any(Number)]);
    }),
  );

  test("gives them once: a repetition lets a finished deletion rest", () =>
    inStore(async (store) => {
      await deleteJane(store);
      store.record(ASKED + 5, at(NOW, call));
      await settle(store);
      store.record(ASKED + 6, at(NOW + 1, identify(JANE, { anonymousId: "v-jane", userId: "u-jane" })));
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).not.toBeNull();
    }));

  test("gives the ids that a purged call pairs with those of the person", () =>
    inStore(async (store) => {
      store.record(NOW, identify(JANE, { userId: "u-jane" }), visit("v-jane"), visit("v-jane-2"));
      await deleteJane(store);
      expect(await found(store)).not.toBeNull();
      store.record(ASKED + 5, at(NOW, { payload: { type: "identify", userId: "u-jane", anonymousId: "v-jane" } }));
      const alias = { type: "alias", messageId: "a", userId: "u-jane", previousId: "v-jane-2" };
      store.record(ASKED + 6, at(NOW, { payload: alias }));
      await settle(store);
      expect(await found(store)).toBeNull();
    }));
});

describe("a shared device", () => {
  test("with two intervals of the person keeps nothing of them, and everything of the people between and after", () =>
    inStore(async (store) => {
      const owners = [JANE, BOB, JANE, CYD].map((email, n) =>
        at(NOW + 100 * n, identify(email, { anonymousId: "shared" })),
      );
      store.record(NOW, ...owners);
      const during = (n: number, more: object = {}) => at(NOW + 100 * n + 50, visit("shared", { who: n, ...more }));
      const isHeld = store.record(NOW + 400, ...[0, 1, 2, 3].map((n) => held(during(n))));
      await deleteJane(store);
      const inFlight = store.record(LATER, ...[0, 1, 2, 3].map((n) => during(n, { late: true })));
      const status = (id: string) => (store.state.held.find(id) ?? store.state.signals.find(id))?.facts.status;
      expect(isHeld.map(status)).toEqual(["purged", "held", "purged", "held"]);
      expect(inFlight.map(status)).toEqual(["purged", "processed", "purged", "processed"]);
      expect(namedBy(store, inFlight)).toEqual([null, BOB, null, CYD]);
    }));

  test("is the person's again after somebody else, even if their second identify arrives after the deletion, and first", () =>
    inStore(async (store) => {
      const login = (ms: number, email: string) => at(NOW + ms, identify(email, { anonymousId: "shared" }));
      const visitAt = (ms: number) => at(NOW + ms, visit("shared", { ms }));
      store.record(NOW, login(0, JANE));
      await deleteJane(store);
      store.record(LATER, login(200, JANE));
      store.record(LATER, login(100, BOB));
      const ids = store.record(LATER, visitAt(150), visitAt(250));
      await settle(store);
      expect(ids.map((id) => store.state.signals.find(id)?.facts.status)).toEqual(["processed", "purged"]);
    }));

  test("gives its next user neither ids nor pairs of the person, while the deletion is under way", () =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      store.record(NOW, ...many(STEPS.deletionLines + 500, (n) => track({ email: JANE, n })));
      store.record(NOW, { payload: { type: "identify", userId: "u-jane", anonymousId: "shared" } });
      store.record(NOW, identify(JANE, { anonymousId: "shared" }));
      store.beginDeletion(JANE, ASKED);
      expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBeNull();
      store.record(LATER, at(LATER, identify(BOB, { anonymousId: "shared" })));
      const { sql } = store;
      expect(new Identities(sql).claimsOf(isUser("u-jane"))).toEqual([]);
      await settle(store);
      expect(new Identities(sql).claimsOf(isAnonymous("shared"))).toHaveLength(1);
      expect(await found(store)).toBeNull();
    }));

  test("keeps the pairs that its next user makes while the deletion is under way", () =>
    inStore(async (store) => {
      store.record(NOW, ...many(STEPS.deletionLines + 500, () => visit("shared")));
      store.record(NOW, identify(JANE, { anonymousId: "shared" }));
      store.beginDeletion(JANE, ASKED);
      store.record(LATER, at(LATER, { payload: { type: "identify", userId: "u-bob", anonymousId: "shared" } }));
      await settle(store);
      store.record(LATER, at(LATER + 1, identify(BOB, { anonymousId: "shared" })));
      expect(new Identities(store.sql).claimsOf(isUser("u-bob"))).toHaveLength(1);
    }));

  test("leaves its next user what they send between two requests", () =>
    inStore(async (store) => {
      store.record(
        NOW,
        identify(JANE, { anonymousId: "shared" }),
        ...many(STEPS.deletionLines + 500, () => visit("shared")),
      );
      store.beginDeletion(JANE, ASKED);
      const between = ASKED + 100;
      const bobs = store.record(between, ...[held(visit("shared")), visit("shared")].map((sent) => at(between, sent)));
      const janes = store.record(between, at(between, held({ payload: { event: "E", email: JANE } })));
      store.beginDeletion(JANE, LATER);
      bobs.push(...store.record(LATER + 1, at(between, visit("shared"))));
      janes.push(...store.record(LATER + 1, at(between, track({ email: JANE }))));
      await settle(store);
      const isGone = (id: string) =>
        (store.state.held.find(id) ?? store.state.signals.find(id))?.facts.deletedAtMs !== null;
      expect([bobs.map(isGone), janes.map(isGone)]).toEqual([
        [false, false, false],
        [true, true],
      ]);
    }));

  test("leaves its next user what they send between two requests, if only a dead letter names the person's device", () =>
    inStore(async (store) => {
      store.record(NOW, ...many(STEPS.deletionLines + 500, (n) => track({ email: JANE, n })));
      store.record(NOW, dead(identify(JANE, { anonymousId: "shared" })));
      const [before = ""] = store.record(NOW, visit("shared"));
      store.beginDeletion(JANE, ASKED);
      const [between = ""] = store.record(ASKED + 100, at(ASKED + 100, visit("shared")));
      store.beginDeletion(JANE, LATER);
      await settle(store);
      const isGone = (id: string) => store.state.signals.find(id)?.facts.deletedAtMs !== null;
      expect([before, between].map(isGone)).toEqual([true, false]);
    }));

  test("forgets nobody's names before the deletion has finished", () =>
    inStore((store) => {
      store.record(NOW, identify(JANE, { anonymousId: "v-jane" }), ...many(STEPS.deletionLines, () => visit("v-jane")));
      store.beginDeletion(JANE, ASKED);
      const names = () => store.sql.exec("SELECT 1 FROM deleted_names").toArray().length;
      const muchLater = ASKED + 2 * DELETION_REMEMBERED_MS;
      stepDeletions(store.state, muchLater);
      expect([names(), findDeletion(store.sql, JANE)?.finishedAtMs]).toEqual([2, muchLater]);
      stepDeletions(store.state, muchLater + DELETION_REMEMBERED_MS - 1);
      expect(names()).toBe(2);
      stepDeletions(store.state, muchLater + DELETION_REMEMBERED_MS);
      expect([names(), findDeletion(store.sql, JANE)]).toEqual([0, null]);
    }));
});

describe("a line that a login gives to somebody else", () => {
  /** The line has Jane's device. Bob's login is known, and his link job may have run. */
  const prepare = (store: TestStore): string => {
    store.record(NOW, identify(JANE, { anonymousId: "device" }));
    const [id = ""] = store.record(NOW + 1, visit("device", { userId: "u-bob", traits: { company: "Bob Ltd" } }));
    expect(personOf(store, id)).toBe(JANE);
    store.record(NOW + 2, identify(BOB, { userId: "u-bob" }));
    return id;
  };

  test.each<[string, (store: TestStore) => void | Promise<void>]>([
    ["link job, deletion", async (store) => void (await store.linkAll(), store.deletePerson(JANE, ASKED))],
    ["deletion, link job", (store) => void store.deletePerson(JANE, ASKED)],
    [
      "a link job between the steps of the deletion",
      async (store) => {
        store.record(NOW + 3, ...many(STEPS.deletionLines, (n) => track({ email: JANE, n })));
        store.beginDeletion(JANE, ASKED);
        await store.linkAll();
      },
    ],
    [
      "deletion, the rules change, link job",
      (store) => {
        store.deletePerson(JANE, ASKED);
        store.changeRules(9);
        store.changeRules(5);
      },
    ],
  ])("ends with them, with its score and traits, in the order: %s", (_, act) =>
    inStore(async (store) => {
      store.rulesVersion = 1;
      const id = prepare(store);
      await act(store);
      await settle(store);
      expect([personOf(store, id), store.scores]).toEqual([BOB, { bob: 5 }]);
      expect(store.sql.exec("SELECT company FROM people").one()).toEqual({ company: "Bob Ltd" });
      expect(findDeletion(store.sql, JANE)?.signals).toBeGreaterThan(0);
      expect(store.state.signals.find(id)?.facts.deletedAtMs).toBeNull();
    }),
  );

  test("is shown as nobody's meanwhile, and goes with them if they are deleted too", () =>
    inStore(async (store) => {
      const id = prepare(store);
      store.record(NOW + 3, ...many(STEPS.deletionLines, (n) => track({ email: JANE, n })));
      store.beginDeletion(JANE, ASKED);
      expect(store.shown.signals.find(id)?.facts).toMatchObject({ person: null, deletedAtMs: null });
      store.deletePerson(BOB, ASKED + 1);
      await settle(store);
      expect(await found(store, /u-bob/u)).toBeNull();
      expect(findDeletion(store.sql, BOB)?.identities).toBe(1);
    }));
});

test("a signal of a new person is no duplicate of a line that the deletion has not reached", () =>
  inStore(async (store) => {
    const form: Sent = { payload: { event: "E", email: JANE, id: "form-1" } };
    store.record(NOW, ...many(STEPS.deletionLines + 500, (n) => track({ email: JANE, n })), form);
    store.beginDeletion(JANE, ASKED);
    expect(store.state.signals.find(store.record(LATER, at(LATER, form))[0] ?? "")?.facts.status).toBe("processed");
    expect(store.state.signals.find(store.record(LATER, at(LATER, form))[0] ?? "")?.facts.status).toBe("duplicate");
    await settle(store);
    expect(store.scores).toEqual({ "jane.doe": 5 });
  }));

test("waiting notifications are gone when the deletion is complete", () =>
  inStore(async (store) => {
    store.record(NOW, track({ email: JANE }));
    store.state.raised.raise([crossed(JANE), crossed(BOB)]);
    await deleteJane(store);
    expect(await found(store)).toBeNull();
    expect(findDeletion(store.sql, JANE)?.finishedAtMs).not.toBeNull();
  }));

test("a batch asks once whether names are remembered, and nothing more if there are none", () =>
  inStore((store) => {
    store.rulesVersion = 1;
    store.record(NOW, visit("v-1"), identify(BOB, { anonymousId: "v-2" }));
    const queries: string[] = [];
    store.verifyWork = () => {};
    const { sql } = store;
    const exec = sql.exec.bind(sql);
    sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      queries.push(query);
      return exec(query, ...bindings);
    }) as typeof exec;
    store.record(NOW, visit("v-2"), dead(visit("v-3")), identify(CYD, { anonymousId: "v-1" }), held(visit("v-2")));
    Reflect.deleteProperty(sql, "exec");
    expect(queries.filter((query) => /deletions|deleted_names/u.test(query))).toHaveLength(1);
  }));
