/** Lists of a visitor's lines (src/store/people): a line stores its lists, and leaves them when it is removed. */
import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/domain/rules/mapping-rule.ts";
import { beginDeletion, findDeletion, handedOver } from "../../../../src/store/deletion/person-deletions.ts";
import { deleteExpired, setRetention } from "../../../../src/store/deletion/retention.ts";
import { startLinkJob } from "../../../../src/store/people/linking.ts";
import { stepLinkJobs } from "../../../../src/store/people/linking.ts";
import { insertEntries } from "../../../../src/store/people/timelines.ts";
import { listOfKey, visitorList } from "../../../../src/store/people/visitors.ts";
import { expectStateToAddUp } from "../../../support/adds-up.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const DAY = 24 * 3_600_000;
const DAYS = 31;
const NOW = Date.now() - 3 * DAY;
const JANE = "jane@example.com";

let sent = 0;
const track = (ids: object, receivedAtMs = NOW): Sent => ({
  payload: { type: "track", event: "E", messageId: `m-${sent++}`, ...ids },
  receivedAtMs,
});
const identify = (ids: object, email = JANE): Sent => ({
  payload: { type: "identify", messageId: `m-${sent++}`, ...ids, traits: { email } },
});

const NO_RULES = { version: 1, rules: compileRules([]) };
const step = (store: TestStore) =>
  stepLinkJobs({ state: store.state, storage: store.storage, objects: store.objects, rules: async () => NO_RULES });
const jobs = ({ sql }: TestStore) => sql.exec("SELECT key FROM link_jobs").toArray().length;
const visitorLists = ({ sql }: TestStore) =>
  sql
    .exec<{ list: ArrayBuffer }>("SELECT list FROM timelines")
    .toArray()
    .map(({ list }) => listOfKey(list))
    .filter((list) => !list.startsWith("p"));

function dropUntil(store: TestStore, receivedMs: number): void {
  const nowMs = receivedMs + DAYS * DAY + 1;
  setRetention(store.sql, { retentionDays: DAYS }, nowMs);
  for (let steps = 0; steps < 9; steps++) deleteExpired(store.state, nowMs);
}

function deleteJane(store: TestStore, nowMs = NOW + DAY): void {
  beginDeletion(store.state, "del_1", JANE, nowMs);
  handedOver(store.state, "del_1", nowMs);
  expect(findDeletion(store.sql, JANE)?.finishedAtMs).toBe(nowMs);
}

describe("a line", () => {
  test.each([
    ["its user id alone", { userId: "u-1" }, ["user_id"]],
    ["its anonymous id alone", { anonymousId: "a-1" }, ["anonymous_id"]],
    ["both ids", { userId: "u-1", anonymousId: "a-1" }, ["user_id", "anonymous_id"]],
    ["both ids, the anonymous one known", { userId: "u-1", anonymousId: "a-known" }, ["user_id"]],
    ["both ids, the user id known", { userId: "u-known", anonymousId: "a-1" }, []],
    ["an email besides", { userId: "u-1", anonymousId: "a-1", email: "bob@example.com" }, []],
  ])("of %s stores on which lists it stands", (_, ids, listedBy) =>
    inStore((store) => {
      store.record(NOW, identify({ anonymousId: "a-known", userId: "u-known" }));
      store.record(NOW, track(ids));
      expect(store.state.signals.read(2)?.listedBy).toEqual(listedBy);
      store.seal();
      store.restart();
      expect(store.state.signals.read(2)?.listedBy).toEqual(listedBy);
      expectStateToAddUp(store.state);
    }),
  );

  test("stays on the list of its user id while only its anonymous id is known, and leaves it when that is known too", () =>
    inStore((store) => {
      store.rulesVersion = 1;
      store.record(NOW, track({ userId: "u-1", anonymousId: "a-1" }));
      store.record(NOW, identify({ anonymousId: "a-1" }));
      expect(store.state.signals.read(1)).toMatchObject({ owner: { by: "anonymous_id" }, listedBy: ["user_id"] });
      expect(visitorLists(store)).toEqual(["uu-1"]);
      store.record(NOW, identify({ userId: "u-1" }));
      expect(store.state.signals.read(1)).toMatchObject({ owner: { by: "user_id" }, listedBy: [] });
      expect(visitorLists(store)).toEqual([]);
      expectStateToAddUp(store.state);
    }));

  test("leaves the list of its anonymous id when its user id names its person", () =>
    inStore((store) => {
      store.rulesVersion = 1;
      store.record(NOW, track({ userId: "u-1", anonymousId: "a-1" }));
      store.record(NOW, identify({ userId: "u-1" }));
      expect(visitorLists(store)).toEqual([]);
      expectStateToAddUp(store.state);
    }));
});

describe("a deletion", () => {
  test.each([{ rulesVersion: 1 }, { rulesVersion: null }])(
    "leaves no id of the person on any list, even if a signal named two ids and one became known (%o)",
    ({ rulesVersion }) =>
      inStore(async (store) => {
        store.rulesVersion = rulesVersion;
        store.record(NOW, track({ userId: "u-jane", anonymousId: "a-jane" }));
        store.record(NOW, identify({ userId: "u-jane" }));
        while (jobs(store) > 0) await step(store);
        deleteJane(store);
        expect(visitorLists(store)).toEqual([]);
      }),
  );
});

describe("a link job", () => {
  test("ends if retention has dropped a segment between others, whichever of its ids is known", () =>
    inStore(async (store) => {
      store.record(NOW, track({ anonymousId: "a-first" }, NOW + DAY));
      store.seal();
      store.record(NOW, track({ userId: "u-1", anonymousId: "a-1" }));
      store.seal();
      store.record(NOW + DAY, track({ anonymousId: "a-last" }, NOW + DAY));
      store.record(NOW, identify({ userId: "u-1" }));
      while (jobs(store) > 0) await step(store);
      dropUntil(store, NOW);
      expect([1, 2, 3].map((seq) => store.state.signals.segmentOf(seq) !== null)).toEqual([true, false, true]);
      store.record(NOW + DAY, identify({ anonymousId: "a-1" }));
      for (let steps = 0; jobs(store) > 0; steps++) {
        expect(steps).toBeLessThan(5);
        await step(store);
      }
      expect(visitorLists(store).sort()).toEqual(["aa-first", "aa-last"]);
      expectStateToAddUp(store.state, { hasDropped: true });
    }));

  test("ends if its list names a line without a segment", () =>
    inStore(async (store) => {
      const visitor = { kind: "anonymous_id", value: "a-1" } as const;
      for (let segment = 0; segment < 3; segment++) {
        store.record(NOW, track({ anonymousId: `a-${segment}` }));
        store.seal();
      }
      store.state.signals.drop(store.state.signals.segmentOf(2) ?? store.state.signals.open());
      store.record(NOW, identify({ anonymousId: "a-1" }));
      insertEntries(store.sql, visitorList(visitor), [{ seq: 2, scored: null }]);
      startLinkJob(store.sql, visitor, NOW);
      await step(store);
      expect(jobs(store)).toBe(0);
      expect(visitorLists(store).sort()).toEqual(["aa-0", "aa-2"]);
    }));

  test("ends if the id has no owner any more, and its lines wait for the next person named by it", () =>
    inStore(async (store) => {
      const visitor = { kind: "anonymous_id", value: "a-1" } as const;
      store.record(NOW, track({ anonymousId: "a-1" }));
      startLinkJob(store.sql, visitor, NOW);
      await step(store);
      expect(jobs(store)).toBe(0);
      store.record(NOW, identify({ anonymousId: "a-1" }));
      while (jobs(store) > 0) await step(store);
      expect(store.state.signals.read(1)?.owner).toMatchObject({ by: "anonymous_id" });
      expectStateToAddUp(store.state);
    }));
});
