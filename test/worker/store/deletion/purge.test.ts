/** Spec §3.2, §8.3: held signals are deleted at the end of their billing period, and never counted as processed. */
import { describe, expect, test } from "vitest";
import { RULE_STEP_SEGMENTS } from "../../../../src/limits.ts";
import { SEGMENT_MAX_LINES } from "../../../../src/store/log/head.ts";
import { purgeHeld, PURGE_ROWS } from "../../../../src/store/deletion/retention.ts";
import { heldSignals } from "../../../../src/store/return-jobs.ts";
import { readTotals } from "../../../../src/store/state/status-change.ts";
import { linesOf } from "../../../support/adds-up.ts";
import { expectToAddUp } from "../../../support/read-store.ts";
import { textOfTables } from "../../../support/everything.ts";
import { inStore } from "../../../support/store.ts";
import type { Sent, TestStore } from "../../../support/store.ts";

const NOW = Date.UTC(2026, 5, 1, 12);

function held(periodEndMs: number, payload: Record<string, unknown> = {}): Sent {
  return {
    verdict: "held",
    periodEndMs,
    pathSource: "unknown",
    payload: { event: "E", email: "jane@example.com", ...payload },
  };
}

const statuses = ({ state }: TestStore) => linesOf(state.held).map(({ facts }) => facts.status);

describe.each(["open", "sealed"])("held signals that are %s", (where) => {
  const seal = (store: TestStore) => void (where === "sealed" && store.seal());

  test("held signals end exactly when their own period ends, to the millisecond", async () => {
    const workspaceId = await inStore((store) => {
      store.record(NOW, held(NOW + 10), held(NOW + 20, { n: 2 }), held(NOW + 20, { n: 3 }));
      seal(store);
      expect(store.state.held.nextToEnd()?.endMs ?? null).toBe(NOW + 10);
      purgeHeld(store.state, NOW + 9);
      expect(statuses(store)).toEqual(["held", "held", "held"]);
      purgeHeld(store.state, NOW + 10);
      expect(statuses(store)).toEqual(["purged", "held", "held"]);
      expect(store.state.held.nextToEnd()?.endMs ?? null).toBe(NOW + 20);
      purgeHeld(store.state, NOW + 20);
      expect(statuses(store)).toEqual(["purged", "purged", "purged"]);
      expect(store.state.held.nextToEnd()?.endMs ?? null).toBeNull();
      return store.workspaceId;
    });
    await expectToAddUp(workspaceId);
  });

  test("purged signals keep only id, event and position", async () => {
    await inStore((store) => {
      const [id = ""] = store.record(NOW, {
        ...held(NOW + 10, { userId: "user-jane", name: "Jane", properties: { a: "jane" } }),
        pathSource: "form of jane",
        idempotencyKey: "jane-1",
      });
      seal(store);
      expect(textOfTables(store.sql)).toContain("jane");
      purgeHeld(store.state, NOW + 10);
      expect(textOfTables(store.sql)).not.toContain("jane");
      expect(store.state.held.find(id)?.facts).toMatchObject({
        status: "purged",
        event: "E",
        email: null,
        userId: null,
      });
      store.restart();
      expect(statuses(store)).toEqual(["purged"]);
    });
  });

  test("purged signals are no longer the sample of their group", async () => {
    await inStore((store) => {
      const [first] = store.record(NOW, { payload: { event: "E", email: "bob@example.com" } });
      const [second] = store.record(NOW + 1, held(NOW + 50, { n: 1 }));
      store.record(NOW + 2, held(NOW + 10, { n: 2 }));
      seal(store);
      const sample = () => store.sql.exec("SELECT sample_id, sample_seq FROM event_groups").one();
      purgeHeld(store.state, NOW + 10);
      expect(sample()).toEqual({ sample_id: second, sample_seq: -1 });
      purgeHeld(store.state, NOW + 50);
      expect(sample()).toEqual({ sample_id: first, sample_seq: 1 });
    });
  });
});

test("purging skips released held signals and reads them once", async () => {
  await inStore((store) => {
    const [id] = store.record(NOW, held(NOW + 10));
    store.seal();
    store.record(NOW + 5, {
      ...held(NOW + 10),
      ...(id === undefined ? {} : { id }),
      verdict: "accepted",
      resent: { from: "held", place: 1 },
    });
    expect(statuses(store)).toEqual(["released"]);
    purgeHeld(store.state, NOW + 10);
    expect(statuses(store)).toEqual(["released"]);
    expect(store.state.held.nextToEnd()?.endMs ?? null).toBeNull();
    expect(readTotals(store.state.books.totals, undefined)).toMatchObject({ processed: 1, held: 0, purged: 0 });
  });
});

test("held signals end in bounded steps", async () => {
  const workspaceId = await inStore((store) => {
    const count = PURGE_ROWS + SEGMENT_MAX_LINES + 10;
    store.record(NOW, ...Array.from({ length: count }, (_, n) => held(NOW + 10, { n })));
    const left = () => statuses(store).filter((status) => status === "held").length;
    purgeHeld(store.state, NOW + 10);
    expect(left()).toBeGreaterThan(0);
    expect(left()).toBeLessThan(count);
    expect(store.state.held.nextToEnd()?.endMs ?? null).toBe(NOW + 10);
    for (let steps = 0; steps < 3; steps++) purgeHeld(store.state, NOW + 10);
    expect(left()).toBe(0);
    return store.workspaceId;
  });
  await expectToAddUp(workspaceId);
});

test("large held signals, few per segment, end in steps of some segments", () =>
  inStore((store) => {
    for (let n = 0; n < RULE_STEP_SEGMENTS + 10; n++) {
      store.record(NOW, held(NOW + 10, { n }));
      store.seal();
    }
    const left = () => statuses(store).filter((status) => status === "held").length;
    purgeHeld(store.state, NOW + 10);
    expect(left()).toBe(10);
    expect(store.state.held.nextToEnd()?.endMs ?? null).toBe(NOW + 10);
    purgeHeld(store.state, NOW + 10);
    expect(left()).toBe(0);
  }));

test("held signals of a period are found for their release, even in a segment with some of an ended period", () =>
  inStore((store) => {
    const [ended, current] = [NOW + 10, NOW + 20];
    const [, id] = store.record(NOW, held(ended), held(current, { n: 2 }));
    store.seal();
    const found = heldSignals(store.state, current, { cursor: 0, last: Number.MAX_SAFE_INTEGER }, 10);
    expect(found.map(({ admission }) => admission.id)).toEqual([id]);
  }));
