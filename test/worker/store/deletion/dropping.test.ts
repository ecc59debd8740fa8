/**
 * Retention (src/store/deletion) in the store's parts: the dropped data, the time, and the remaining data.
 * retention.test.ts tests it over HTTP with plans.
 */
import { describe, expect, test } from "vitest";
import { RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { COLD_AFTER_MS } from "../../../../src/store/log/cold.ts";
import { SEGMENT_MAX_LINES } from "../../../../src/store/log/head.ts";
import { deletedUntilMs } from "../../../../src/store/state/store-state.ts";
import {
  deleteExpired,
  nextRetentionMs,
  setRetention,
  RETENTION_ROWS,
  RETENTION_SWEEP_MS,
  purgeHeld,
} from "../../../../src/store/deletion/retention.ts";
import { readTotals } from "../../../../src/store/state/status-change.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { expectToAddUp } from "../../../support/read-store.ts";
import { textOfBucket, textOfTables } from "../../../support/everything.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const DAY = 24 * 3_600_000;
const DAYS = 31;
const NOON = Date.UTC(2026, 5, 1, 12);
/** From this time on a signal received at noon is too old. */
const OVER = NOON + DAYS * DAY + 1;

const form = (email: string, n = 0): Sent => ({ payload: { event: "E", email, properties: { n } } });
const visit = (anonymousId: string, n = 0): Sent => ({
  payload: { type: "track", event: "Visit", messageId: `${anonymousId}-${n}`, anonymousId },
});

/** Rings as the alarm would, until nothing is due. */
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
  return [...linesOf(state.signals as never), ...linesOf(state.held)].flatMap(({ facts }) => facts.admission.id || []);
}

const keep = (store: TestStore, nowMs: number) => setRetention(store.sql, { retentionDays: DAYS }, nowMs);

describe("a segment", () => {
  test("is dropped once all of its lines are too old, not a millisecond before", async () => {
    const workspaceId = await inStore((store) => {
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
      expect(store.sql.exec("SELECT email, score FROM people ORDER BY id").toArray()).toEqual([
        { email: "jane@example.com", score: 5 },
        { email: "bob@example.com", score: 5 },
      ]);
      expect(readTotals(store.state.books.totals, undefined)).toMatchObject({ processed: 2, duplicates: 1 });
      expect(store.state.books.dropped).toEqual(store.state.books.totals);
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId, { hasDropped: true });
  });

  test("is sealed at the end of the UTC day, so that a segment never spans weeks", async () => {
    await inStore((store) => {
      keep(store, NOON);
      store.record(NOON, form("jane@example.com", 1));
      ring(store, NOON);
      expect(store.state.signals.open().lines).toHaveLength(1);
      expect(nextRetentionMs(store.state)).toBe(NOON + DAY / 2);
      store.record(NOON + 5, { ...form("jane@example.com", 2), verdict: "held" });
      ring(store, NOON + DAY / 2);
      expect(store.state.signals.open().lines).toHaveLength(0);
      expect(store.state.held.open().lines).toHaveLength(0);
      // There are no open lines, so that no sealing is due until a signal comes, and D1 is asked a day later.
      expect(nextRetentionMs(store.state)).toBe(NOON + 1.5 * DAY);
      store.record(NOON + DAY, form("jane@example.com", 3));
      ring(store, NOON + 1.5 * DAY);
      store.record(NOON + 1.5 * DAY, form("jane@example.com", 4));
      expect(nextRetentionMs(store.state)).toBe(NOON + 2.5 * DAY);
    });
  });

  test.each(["hot", "cold"])(
    "with lines of both kinds loses those that are too old within a day (%s)",
    async (where) => {
      const workspaceId = await inStore(async (store) => {
        const before = NOON - 20 * DAY;
        const [young = ""] = store.record(NOON, form("young@example.com"));
        const [old = ""] = store.record(NOON, { ...visit("v-old"), receivedAtMs: before });
        const [named = ""] = store.record(NOON, visit("v-young"));
        const [older = ""] = store.record(NOON, {
          id: "sig_late",
          ...form("old@example.com"),
          receivedAtMs: before,
          pathSource: "old-path",
        });
        store.seal();
        if (where === "cold") await store.workOnCold(NOON + COLD_AFTER_MS);
        const all = async () =>
          `${textOfTables(store.sql).replaceAll("old@example.com", "o@")}${await textOfBucket(store.workspaceId)}`;
        keep(store, NOON + 1);
        const dayOver = NOON + 12 * DAY - DAY / 2;
        ring(store, dayOver - 1);
        expect(stored(store)).toEqual([young, old, named, older]);
        expect(await all()).toContain("v-old");
        expect(nextRetentionMs(store.state)).toBeLessThanOrEqual(dayOver + RETENTION_SWEEP_MS);
        ring(store, dayOver + RETENTION_SWEEP_MS);
        await store.workOnCold(NOON + 12 * DAY);
        expect(stored(store)).toEqual([young, named]);
        expect([old, older].map((id) => store.state.signals.find(id))).toEqual([null, null]);
        expect([2, 4].map((seq) => store.state.signals.read(seq))).toEqual([null, null]);
        expect([1, 2, 3, 4].filter((seq) => store.state.signals.read(seq) !== null)).toEqual([1, 3]);
        const left = await all();
        expect(/.{0,80}(?:v-old|old-path).{0,20}/u.exec(left.replace(/event_groups.*/gu, ""))?.[0]).toBeUndefined();
        expect(left).not.toContain(old);
        expect(store.sql.exec("SELECT * FROM signals_late").toArray()).toEqual([]);
        expect(left).toContain("v-young");
        expect(readTotals(store.state.books.dropped, undefined)).toMatchObject({ processed: 2 });
        expect(store.sql.exec("SELECT anonymous FROM event_groups WHERE event = 'Visit'").one()).toEqual({
          anonymous: 1,
        });
        const version = store.state.signals.segmentOf(1)?.version;
        ring(store, NOON + 12 * DAY + 3 * RETENTION_SWEEP_MS);
        expect(store.state.signals.segmentOf(1)?.version).toBe(version);
        return store.workspaceId;
      });
      await expectToAddUp(workspaceId, { hasDropped: true });
    },
  );

  test("is dropped with the rest after it was partly emptied, and counted once", async () => {
    const workspaceId = await inStore((store) => {
      store.record(NOON, { ...form("a@example.com"), receivedAtMs: NOON - 20 * DAY }, form("b@example.com"));
      store.seal();
      keep(store, NOON + 1);
      ring(store, NOON + 13 * DAY);
      ring(store, OVER + RETENTION_SWEEP_MS);
      expect(stored(store)).toEqual([]);
      expect(store.state.signals.segmentOf(1)).toBeNull();
      expect(readTotals(store.state.books.dropped, undefined)).toMatchObject({ processed: 2 });
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId, { hasDropped: true });
  });
});

test("line numbers continue after retention has emptied the store", async () => {
  await inStore((store) => {
    keep(store, NOON);
    store.record(NOON, form("jane@example.com", 1), form("jane@example.com", 2));
    ring(store, OVER + DAY);
    expect(stored(store)).toEqual([]);
    store.restart();
    store.record(OVER + DAY, form("jane@example.com", 3));
    expect(linesOf(store.state.signals as never).map(({ seq }) => seq)).toEqual([3]);
    expect(store.sql.exec("SELECT score FROM people").one()).toEqual({ score: 15 });
  });
});

test("lists of unknown visitors get shorter as their signals are dropped, and late ids are forgotten", async () => {
  await inStore((store) => {
    keep(store, NOON);
    for (let day = 0; day < 40; day++) {
      store.record(NOON + day * DAY, visit("v-1", day), { ...visit("v-1", day + 100), id: `sig_${day}` });
      ring(store, NOON + day * DAY + DAY / 2);
    }
    const [list] = store.sql.exec<{ entries: string }>("SELECT entries FROM timelines");
    expect(list?.entries.split(",")).toHaveLength(2 * 31);
    expect(store.sql.exec("SELECT count(*) AS n FROM signals_late").one()).toEqual({ n: 31 });
    ring(store, NOON + 80 * DAY);
    expect(store.sql.exec("SELECT * FROM timelines").toArray()).toEqual([]);
    expect(store.sql.exec("SELECT * FROM signals_late").toArray()).toEqual([]);
    expect(store.sql.exec("SELECT count, anonymous FROM event_groups").one()).toEqual({ count: 80, anonymous: 0 });
  });
});

test("a held signal is never dropped, of any age; purged and released ones and dead letters are", async () => {
  const workspaceId = await inStore((store) => {
    const at = { verdict: "held" as const, receivedAtMs: NOON };
    const [longest, ended, released = ""] = store.record(
      NOON,
      { ...form("jane@example.com", 1), ...at, periodEndMs: NOON + 40 * DAY },
      { ...form("jane@example.com", 2), ...at, periodEndMs: NOON + DAY },
      { ...form("jane@example.com", 3), ...at, periodEndMs: NOON + 40 * DAY },
      { ...form("jane@example.com", 4), dead: true },
    );
    const later = NOON + 20 * DAY;
    store.record(later, {
      ...form("jane@example.com", 3),
      id: released,
      receivedAtMs: NOON,
      resent: { from: "held", place: 3 },
    });
    purgeHeld(store.state, later);
    expect(stored(store)).toEqual([released, longest, ended, released]);
    keep(store, later);
    ring(store, later + DAY);
    ring(store, OVER + DAY);
    expect(stored(store)).toEqual([longest]);
    expect(store.sql.exec("SELECT * FROM dead_letters").toArray()).toEqual([]);
    expect(readTotals(store.state.books.dropped, undefined)).toMatchObject({
      processed: 1,
      purged: 1,
      held: 0,
      deadLettered: 1,
    });
    const version = store.state.held.segmentOf(1)?.version;
    ring(store, OVER + 2 * DAY);
    expect(store.state.held.segmentOf(1)?.version).toBe(version);
    expect(store.state.held.nextToEnd()?.endMs ?? null).toBe(NOON + 40 * DAY);
    purgeHeld(store.state, NOON + 40 * DAY);
    ring(store, NOON + 40 * DAY + RETENTION_SWEEP_MS);
    expect(stored(store)).toEqual([]);
    return store.workspaceId;
  });
  await expectToAddUp(workspaceId, { hasDropped: true });
});

test("objects of cold storage are deleted with the last of their segments", async () => {
  await inStore(async (store) => {
    store.record(NOON, visit("v-1"));
    store.seal();
    store.record(NOON + 5, visit("v-2"));
    store.seal();
    await store.workOnCold(NOON + 5 + COLD_AFTER_MS);
    expect(store.sql.exec("SELECT count(*) AS n FROM cold_objects").one()).toEqual({ n: 1 });
    keep(store, NOON + DAY);
    ring(store, OVER);
    await store.workOnCold(OVER);
    expect(await textOfBucket(store.workspaceId)).toContain("v-2");
    ring(store, OVER + 5 + RETENTION_SWEEP_MS);
    await store.workOnCold(OVER + RETENTION_SWEEP_MS);
    expect(await textOfBucket(store.workspaceId)).toBe("");
    expect(store.sql.exec("SELECT * FROM cold_objects").toArray()).toEqual([]);
  });
});

test("retention works in bounded steps and survives a crash after each", async () => {
  const workspaceId = await inStore((store) => {
    const count = RETENTION_ROWS + 2 * SEGMENT_MAX_LINES;
    store.record(NOON, ...Array.from({ length: count }, (_, n) => visit(`v-${n}`)));
    store.seal();
    keep(store, OVER);
    deleteExpired(store.state, OVER);
    const left = stored(store).length;
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(count - RETENTION_ROWS);
    expect(nextRetentionMs(store.state)).toBe(OVER);
    store.restart();
    ring(store, OVER);
    expect(stored(store)).toEqual([]);
    expect(store.sql.exec("SELECT * FROM timelines").toArray()).toEqual([]);
    return store.workspaceId;
  });
  await expectToAddUp(workspaceId, { hasDropped: true });
});

test("retention removes single old lines from very many segments in steps", () =>
  inStore((store) => {
    for (let n = 0; n < RULE_STEP_SEGMENTS + 10; n++) {
      store.record(OVER, { ...visit("v-old", n), receivedAtMs: NOON - DAY }, visit("v-new", n));
      store.seal();
    }
    keep(store, OVER);
    const old = () => linesOf(store.state.signals as never).filter(({ facts }) => facts.anonymousId === "v-old").length;
    deleteExpired(store.state, OVER);
    expect(old()).toBe(10);
    expect(nextRetentionMs(store.state)).toBe(OVER);
    expect(ring(store, OVER)).toBe(1);
    expect(old()).toBe(0);
    expect(stored(store)).toHaveLength(RULE_STEP_SEGMENTS + 10);
  }));

test("signals are kept forever under a plan without retention, also if it is chosen again later", async () => {
  await inStore((store) => {
    expect(nextRetentionMs(store.state)).toBeNull();
    const ids = store.record(NOON, form("jane@example.com"));
    // The store does not know its plan yet: it asks D1 at once, and then once a day.
    expect(nextRetentionMs(store.state)).toBe(0);
    keep(store, NOON);
    setRetention(store.sql, { retentionDays: null }, NOON);
    expect(nextRetentionMs(store.state)).toBe(NOON + DAY);
    deleteExpired(store.state, NOON + DAY);
    expect(nextRetentionMs(store.state)).toBe(NOON + 2 * DAY);
    deleteExpired(store.state, OVER + DAY);
    expect(stored(store)).toEqual(ids);
    expect(store.state.signals.open().lines).toHaveLength(1);
    keep(store, OVER + DAY);
    ring(store, OVER + DAY);
    expect(stored(store)).toEqual([]);
  });
});
