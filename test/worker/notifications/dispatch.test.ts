/** Which deliveries leave and which are kept, on the tables of a real object and a simulated clock. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { DELIVERIES_KEPT, DESTINATIONS_MAX } from "../../../src/limits.ts";
import { Deliveries } from "../../../src/notifications/deliveries.ts";
import { Dispatch } from "../../../src/notifications/dispatch.ts";
import { Roster, Settings } from "../../../src/notifications/roster.ts";
import { newId } from "../../../src/platform/ids.ts";
import { crossed } from "../../support/destination-harness.ts";

const START_MS = Date.UTC(2026, 0, 1);

interface Fixture {
  ids: string[];
  deliveries: Deliveries;
  dispatch: Dispatch;
  delivered: (destinationId: string, id: string, nowMs: number) => void;
}

function withDestinations(count: number, run: (fixture: Fixture) => void): Promise<void> {
  return runInDurableObject(env.DESTINATIONS.getByName(newId("ws")), (_, { storage: { sql } }) => {
    const [roster, deliveries, settings] = [new Roster(sql), new Deliveries(sql), new Settings(sql)];
    const dispatch = new Dispatch(sql, { roster, deliveries, settings }, 60_000);
    const ids = Array.from({ length: count }, (__, n) => `dst_${String(n).padStart(2, "0")}`);
    for (const id of ids) {
      const target = {
        type: "webhook",
        target: "https://crm.example.com/hook",
        pagesUrl: "https://x.example",
      } as const;
      roster.add(
        { id, name: id, ...target, headers: [], notifications: ["person.score_crossed"] },
        { secret: "whsec_x", confirmation: null },
        START_MS,
      );
    }
    const delivered = (destinationId: string, id: string, nowMs: number) => {
      const delivery = deliveries.find(destinationId, id);
      const result = { status: 200, error: null, answer: null, retryAfterMs: null, atMs: nowMs, tookMs: 1 };
      if (delivery !== null) dispatch.attemptEnded(delivery, result, nowMs);
    };
    run({ ids, deliveries, dispatch, delivered });
  });
}

test("the destinations of a workspace share its rate of deliveries evenly", () =>
  withDestinations(DESTINATIONS_MAX, ({ ids, deliveries, dispatch, delivered }) => {
    for (let n = 0; n < 40; n++) deliveries.add(crossed(), ids, START_MS);
    const sent = new Map(ids.map((id) => [id, 0]));
    for (let nowMs = START_MS; nowMs < START_MS + 10_000; nowMs += 500) {
      for (const { destinationId, id } of dispatch.takeDue(nowMs).due) {
        sent.set(destinationId, (sent.get(destinationId) ?? 0) + 1);
        delivered(destinationId, id, nowMs);
      }
    }
    const counts = [...sent.values()];
    expect(counts.reduce((sum, count) => sum + count)).toBeLessThan(300);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(10);
  }));

test("old deliveries are deleted while new ones end, not only once an hour", () =>
  withDestinations(1, ({ ids: [id = ""], deliveries, delivered }) => {
    for (let n = 0; n < DELIVERIES_KEPT + 100; n++) {
      for (const delivery of deliveries.add(crossed(), [id], START_MS)) delivered(id, delivery, START_MS);
    }
    const { items } = deliveries.list(id, { cursor: null, limit: 1_000 });
    expect(items.length).toBeGreaterThanOrEqual(DELIVERIES_KEPT);
    expect(items.length).toBeLessThanOrEqual(DELIVERIES_KEPT + 50);
  }));
