/**
 * Retention and the purge (src/store/deletion/retention.ts) in the store's parts: the dropped data, the time, and the remaining data.
 * retention.test.ts tests retention over HTTP with plans.
 */
import { describe, expect, test, vi } from "vitest";
import {
  deleteExpired,
  purgeHeld,
  RETENTION_SWEEP_MS,
  setRetention,
} from "../../../../src/store/deletion/retention.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { PORTION_MAX_LINES } from "../../../../src/store/log/signal-log.ts";
import { Identities } from "../../../../src/store/people/identities.ts";
import { listOfKey } from "../../../../src/store/people/timelines.ts";
import { heldSignals } from "../../../../src/store/resend-jobs.ts";
import { readTotals } from "../../../../src/store/state/status-change.ts";
import { deletedUntilMs } from "../../../../src/store/state/store-state.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { textOfBucket, textOfTables } from "../../../support/everything.ts";
import { identify, inBalance, inStore, track, type Sent, type TestStore } from "../../../support/store.ts";
import { testStored } from "../../../support/log.ts";
import { DELETION_FIRST_MS, nextPurgeMs, nextRetentionMs } from "../../../../src/store/state/due.ts";
import { STEPS } from "../../../../src/store/steps.ts";

const DAY = 24 * 3_600_000;
const DAYS = 31;
const NOON = Date.UTC(2026, 5, 1, 12);
/** From this time on a signal received at noon is too old. */
const OVER = NOON + DAYS * DAY + 1;

const form = (email: string, n = 0): Sent => ({ payload: { event: "E", email, properties: { n } } });
const visit = (anonymousId: string): Sent => track({ event: "Visit", anonymousId });
const keep = (store: TestStore, nowMs: number) => setRetention(store.state, { retentionDays: DAYS }, nowMs);
const rowsOf = ({ sql }: TestStore, table: string) => sql.exec(`SELECT * FROM ${table}`).toArray();
const countsOf = (store: TestStore, books: "totals" | "dropped") => readTotals(store.state.head[books], undefined);

/** Rings as the alarm would, until nothing is due. Returns the number of steps. */
function ring({ state }: TestStore, nowMs: number): number {
  let steps = 0;
  while ((nextRetentionMs(state) ?? Number.POSITIVE_INFINITY) <= nowMs) {
    deleteExpired(state, nowMs);
    if (++steps > 100) throw new Error("it does not end");
  }
  return steps;
}

/** Ids of the lines in both logs. */
function stored({ state }: TestStore): string[] {
  return [...linesOf(state.signals), ...linesOf(state.held)].flatMap(({ facts }) => facts.admission.id || []);
}

const inBalanceAfterDrop = (act: (store: TestStore) => unknown) => inBalance(act, { hasDropped: true });

describe("retention", () => {
  test(
    "drops a segment once all its lines are too old, not a millisecond before",
    inBalanceAfterDrop((store) => {
      keep(store, NOON);
      const ids = store.record(NOON, form("jane@example.com"), form("bob@example.com"), form("bob@example.com"));
      ring(store, NOON + DAY);
      ring(store, OVER - 1);
      expect(stored(store)).toEqual(ids);
      // The hourly sweep.
      ring(store, OVER - 1 + RETENTION_SWEEP_MS);
      expect(stored(store)).toEqual([]);
      expect(ids.map((id) => store.state.signals.find(id))).toEqual([null, null, null]);
      expect(deletedUntilMs(store.sql)).toBe(NOON);
      expect(store.scores).toEqual({ jane: 5, bob: 5 });
      expect(countsOf(store, "totals")).toMatchObject({ processed: 2, duplicates: 1 });
      expect(countsOf(store, "dropped")).toEqual(countsOf(store, "totals"));
      // Line numbers are never used again.
      store.restart();
      store.record(OVER + DAY, form("jane@example.com", 3));
      expect(linesOf(store.state.signals).map(({ seq }) => seq)).toEqual([4]);
      ring(store, OVER + 2 * DAY);
      expect(deletedUntilMs(store.sql), "a step that drops nothing forgets no earlier one").toBe(NOON);
    }),
  );

  test("drops an open line when it is too old, and asks D1 once a day until then", () =>
    inBalanceAfterDrop((store) => {
      keep(store, NOON);
      store.record(NOON, form("jane@example.com", 1));
      store.record(NOON, { ...form("jane@example.com", 2), verdict: "held" });
      ring(store, NOON);
      for (let day = 1; day < 31; day++) {
        expect(nextRetentionMs(store.state)).toBe(NOON + day * DAY);
        ring(store, NOON + day * DAY);
      }
      expect(linesOf(store.state.signals)).toHaveLength(1);
      ring(store, OVER + DAY);
      // Retention never drops held signals.
      expect([linesOf(store.state.signals), linesOf(store.state.held)]).toMatchObject([[], [{ seq: 1 }]]);
    })());

  test.each(["hot", "cold"])("drops the old lines of a %s segment within a day, and the segment later", (where) =>
    inBalanceAfterDrop(async (store) => {
      const before = NOON - 20 * DAY;
      const [young = "", old = "", named = "", older = ""] = store.record(
        NOON,
        form("young@example.com"),
        { ...visit("v-old"), receivedAtMs: before },
        visit("v-young"),
        { id: "sig_late", ...form("old@example.com"), receivedAtMs: before, pathSource: "old-path" },
      );
      store.seal();
      if (where === "cold") await store.workOnCold(NOON + COLD_AFTER_MS);
      // The person and the group outlive the signal.
      const all = async () =>
        `${textOfTables(store.sql)
          .replaceAll("old@example.com", "")
          .replaceAll(/event_groups.*/gu, "")}${await textOfBucket(store.workspaceId)}`;
      keep(store, NOON + 1);
      const dayOver = NOON + 12 * DAY - DAY / 2;
      ring(store, dayOver - 1);
      expect(stored(store).toSorted()).toEqual([young, old, named, older].toSorted());
      expect(await all()).toContain("v-old");
      expect(nextRetentionMs(store.state)).toBeLessThanOrEqual(dayOver + RETENTION_SWEEP_MS);
      ring(store, dayOver + RETENTION_SWEEP_MS);
      await store.workOnCold(NOON + 12 * DAY);
      expect(stored(store).toSorted()).toEqual([young, named].toSorted());
      expect([old, older].map((id) => store.state.signals.find(id))).toEqual([null, null]);
      const left = await all();
      expect(/v-old|old-path/u.exec(left)).toBeNull();
      expect(left).not.toContain(old);
      expect(left).toContain("v-young");
      expect(rowsOf(store, "signals_late")).toEqual([]);
      expect(countsOf(store, "dropped")).toMatchObject({ processed: 2 });
      expect(store.sql.exec("SELECT anonymous FROM event_groups WHERE event = 'Visit'").one()).toEqual({
        anonymous: 1,
      });
      const rewrite = vi.spyOn(store.state.signals, "rewrite");
      ring(store, NOON + 12 * DAY + 3 * RETENTION_SWEEP_MS);
      expect(rewrite).not.toHaveBeenCalled();
      ring(store, OVER + RETENTION_SWEEP_MS);
      expect([stored(store), linesOf(store.state.signals)]).toEqual([[], []]);
      expect(countsOf(store, "dropped")).toMatchObject({ processed: 4 });
      await store.workOnCold(OVER + RETENTION_SWEEP_MS);
      expect([await textOfBucket(store.workspaceId), rowsOf(store, "cold_objects")]).toEqual(["", []]);
    })(),
  );

  testStored("keeps an object of R2 until the last of its segments is dropped", () =>
    inStore(async (store) => {
      for (const [ms, visitor] of [
        [0, "v-1"],
        [5, "v-2"],
      ] as const) {
        store.record(NOON + ms, visit(visitor));
        store.seal();
      }
      await store.workOnCold(NOON + 5 + COLD_AFTER_MS);
      expect(rowsOf(store, "cold_objects")).toHaveLength(1);
      keep(store, NOON + DAY);
      ring(store, OVER);
      await store.workOnCold(OVER);
      expect(await textOfBucket(store.workspaceId)).toContain("v-2");
    }),
  );

  test(
    "drops purged and released signals and dead letters, but never a held signal",
    inBalanceAfterDrop((store) => {
      const at = { verdict: "held" as const, receivedAtMs: NOON };
      const [longest, ended, released = ""] = store.record(
        NOON,
        { ...form("jane@example.com", 1), ...at, periodEndMs: NOON + 40 * DAY },
        { ...form("jane@example.com", 2), ...at, periodEndMs: NOON + DAY },
        { ...form("jane@example.com", 3), ...at, periodEndMs: NOON + 40 * DAY },
        { ...form("jane@example.com", 4), dead: true },
      );
      const later = NOON + 20 * DAY;
      const resent = { from: "held" as const, place: 3 };
      store.record(later, { ...form("jane@example.com", 3), id: released, receivedAtMs: NOON, resent });
      purgeHeld(store.state, later);
      expect(stored(store)).toEqual([released, longest, ended, released]);
      keep(store, later);
      ring(store, later + DAY);
      ring(store, OVER + DAY);
      expect([stored(store), rowsOf(store, "dead_letters")]).toEqual([[longest], []]);
      expect(countsOf(store, "dropped")).toMatchObject({ processed: 1, purged: 1, held: 0, deadLettered: 1 });
      const rewrite = vi.spyOn(store.state.held, "rewrite");
      ring(store, OVER + 2 * DAY);
      expect(rewrite).not.toHaveBeenCalled();
      purgeHeld(store.state, NOON + 40 * DAY);
      ring(store, NOON + 40 * DAY + RETENTION_SWEEP_MS);
      expect(stored(store)).toEqual([]);
    }),
  );

  test(
    "drops a pair of ids with the latest signal that says it, whatever other signals the ids have",
    inBalanceAfterDrop((store) => {
      const ids = (n: number) => ({ anonymousId: `v-${n}`, userId: `u-${n}` });
      const pair = (fields: object): Sent => ({
        payload: { type: "identify", messageId: crypto.randomUUID(), ...fields },
      });
      const alias = (n: number) => pair({ type: "alias", userId: `u-${n}`, previousId: `v-${n}` });
      const paired = () =>
        [...store.sql.exec("SELECT key FROM pairs ORDER BY key").raw<[ArrayBuffer]>()].map(([key]) => listOfKey(key));
      store.record(NOON, pair(ids(1)), pair(ids(2)), visit("v-3"), track({ userId: "u-3" }), alias(4));
      store.seal();
      store.record(NOON + DAY, track(ids(1)), pair(ids(2)), alias(3), track({ userId: "u-4" }));
      expect(paired()).toHaveLength(12);
      keep(store, OVER);
      ring(store, OVER);
      expect(paired()).toEqual(["av-2", "av-3", "uu-2", "uu-3", "uu-3", "uv-3"]);
      store.record(OVER, identify("jane@example.com", { anonymousId: "v-3" }));
      expect(new Identities(store.sql).claimsOf({ kind: "user_id", value: "u-3" })).toHaveLength(1);
    }),
  );

  test(
    "works in bounded steps, and survives a crash after each",
    inBalanceAfterDrop((store) => {
      const count = STEPS.retentionLines + 2 * PORTION_MAX_LINES;
      store.record(NOON, ...Array.from({ length: count }, (_, n) => visit(`v-${n}`)));
      store.seal();
      keep(store, OVER);
      deleteExpired(store.state, OVER);
      const left = stored(store).length;
      expect([left > 0, left <= count - STEPS.retentionLines]).toEqual([true, true]);
      expect(nextRetentionMs(store.state)).toBe(OVER);
      store.restart();
      ring(store, OVER);
      expect([stored(store), rowsOf(store, "timelines")]).toEqual([[], []]);
    }),
  );

  test("drops old lines from a bounded number of segments per step", () =>
    inStore((store) => {
      for (let n = 0; n < STEPS.portions + 10; n++) {
        store.record(OVER, { ...visit("v-old"), receivedAtMs: NOON - DAY }, visit("v-new"));
        store.seal();
      }
      keep(store, OVER);
      deleteExpired(store.state, OVER);
      expect(stored(store)).toHaveLength(STEPS.portions + 20);
      expect([nextRetentionMs(store.state), ring(store, OVER)]).toEqual([OVER, 1]);
      expect(stored(store)).toHaveLength(STEPS.portions + 10);
    }));

  test("keeps signals forever under a plan without retention, and asks D1 once a day", () =>
    inStore((store) => {
      expect(nextRetentionMs(store.state)).toBeNull();
      const ids = store.record(NOON, form("jane@example.com"));
      // A store that does not know its plan asks D1 at once.
      expect(nextRetentionMs(store.state)).toBe(0);
      keep(store, NOON);
      setRetention(store.state, { retentionDays: null }, NOON);
      expect(nextRetentionMs(store.state)).toBe(NOON + DAY);
      deleteExpired(store.state, NOON + DAY);
      expect(nextRetentionMs(store.state)).toBe(NOON + 2 * DAY);
      deleteExpired(store.state, OVER + DAY);
      expect(stored(store)).toEqual(ids);
      keep(store, OVER + DAY);
      ring(store, OVER + DAY);
      expect(stored(store)).toEqual([]);
    }));
});

describe("the purge of held signals (spec §3.2, §8.3)", () => {
  const held = (periodEndMs: number, fields: object = {}, more: Partial<Sent> = {}): Sent => ({
    verdict: "held",
    periodEndMs,
    payload: { event: "E", email: "jane@example.com", ...fields },
    ...more,
  });
  const statuses = ({ state }: TestStore) => linesOf(state.held).map(({ facts }) => facts.status);
  const nextEndMs = ({ state }: TestStore) => nextPurgeMs(state);
  const leftOf = (store: TestStore) => statuses(store).filter((status) => status === "held").length;

  test.each(["open", "sealed"])("ends each %s signal exactly with its period", (where) =>
    inBalance((store) => {
      store.record(NOON, held(NOON + 10), held(NOON + 20, { n: 2 }), held(NOON + 20, { n: 3 }));
      if (where === "sealed") store.seal();
      expect(nextEndMs(store)).toBe(NOON + 10);
      purgeHeld(store.state, NOON + 9);
      expect(statuses(store)).toEqual(["held", "held", "held"]);
      purgeHeld(store.state, NOON + 10);
      expect([statuses(store), nextEndMs(store)]).toEqual([["purged", "held", "held"], NOON + 20]);
      // Signals of the current period can be released, also from a segment with ended signals.
      const found = heldSignals(store.state, NOON + 20, 0, 10);
      expect(found.map(({ place }) => place)).toEqual([2, 3]);
      purgeHeld(store.state, NOON + 20);
      expect([statuses(store), nextEndMs(store)]).toEqual([["purged", "purged", "purged"], null]);
    })(),
  );

  test.each(["open", "sealed"])("leaves only id, event and place of %s signals", (where) =>
    inStore((store) => {
      const more = { pathSource: "form of jane", idempotencyKey: "jane-1" };
      store.record(NOON + 1, held(NOON + 50, { userId: "user-jane", name: "Jane" }));
      const [id = ""] = store.record(NOON + 2, held(NOON + 10, { properties: { a: "jane" } }, more));
      if (where === "sealed") store.seal();
      purgeHeld(store.state, NOON + 10);
      const left = { status: "purged", event: "E", email: null, source: null };
      expect(store.state.held.find(id)?.facts).toMatchObject(left);
      purgeHeld(store.state, NOON + 50);
      expect(textOfTables(store.sql)).not.toMatch(/jane/i);
      store.restart();
      expect(statuses(store)).toEqual(["purged", "purged"]);
    }),
  );

  test.each([
    ["held", [0, 1]],
    ["processed", [1, 0]],
  ] as const)("makes the latest signal that is left the sample of its group, here a %s signal", (latest, ms) =>
    inStore((store) => {
      const processed = store.record(NOON + ms[0], { payload: { event: "E", email: "bob@example.com" } });
      const waiting = store.record(NOON + ms[1], held(NOON + 50, { n: 2 }));
      store.record(NOON + 2, held(NOON + 10, { n: 3 }));
      purgeHeld(store.state, NOON + 10);
      const [sample] = latest === "held" ? waiting : processed;
      expect(store.sql.exec("SELECT sample_id FROM event_groups").toArray()).toEqual([{ sample_id: sample }]);
    }),
  );

  test("skips released signals", () =>
    inStore((store) => {
      const [id = ""] = store.record(NOON, held(NOON + 10));
      store.seal();
      store.record(NOON + 5, held(NOON + 10, {}, { id, verdict: "accepted", resent: { from: "held", place: 1 } }));
      purgeHeld(store.state, NOON + 10);
      expect([statuses(store), nextEndMs(store)]).toEqual([["released"], null]);
      expect(countsOf(store, "totals")).toMatchObject({ processed: 1, held: 0, purged: 0 });
    }));

  test.each([
    ["lines", STEPS.purgeLines + PORTION_MAX_LINES + 10, 1],
    ["segments", STEPS.portions + 10, STEPS.portions + 10],
  ])("works in steps of a bounded number of %s", (_, count, batches) =>
    inBalance((store) => {
      const all = Array.from({ length: count }, (_signal, n) => held(NOON + 10, { n }));
      for (let batch = 0; batch < batches; batch++) {
        store.record(NOON, ...all.splice(0, count / batches));
        store.seal();
      }
      purgeHeld(store.state, NOON + 10);
      expect([leftOf(store) > 0, leftOf(store) < count, nextEndMs(store)]).toEqual([true, true, NOON + 10]);
      for (let steps = 0; steps < 3; steps++) purgeHeld(store.state, NOON + 10);
      expect(leftOf(store)).toBe(0);
    })(),
  );
});

test("a deletion that does not go on stops neither retention nor the purge for more than a day", () =>
  inStore((store) => {
    const { state, sql } = store;
    keep(store, NOON);
    const payload = { event: "E", email: "jane@example.com" };
    store.record(NOON, { payload }, { payload: { ...payload, n: 1 }, verdict: "held", periodEndMs: OVER });
    store.beginDeletion("bob@example.com", OVER - 1);
    // As if each step failed.
    sql.exec("UPDATE deletions SET step = 'held', finished_at = NULL");
    state.due.atOnce("deletion");
    const run = (nowMs: number): [string[], number] => {
      purgeHeld(state, nowMs);
      deleteExpired(state, nowMs);
      return [linesOf(state.held).map(({ facts }) => facts.status), linesOf(state.signals).length];
    };
    const endMs = OVER - 1 + DELETION_FIRST_MS;
    expect([nextPurgeMs(state), nextRetentionMs(state)]).toEqual([endMs, endMs]);
    expect(run(endMs - 1)).toEqual([["held"], 1]);
    expect(run(endMs)).toEqual([[], 0]);
  }));
