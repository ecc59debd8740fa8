/** How the destinations of a workspace share its rate of deliveries, on the tables of a real object and a simulated clock. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { DESTINATIONS_MAX } from "../../../src/limits.ts";
import { Deliveries } from "../../../src/notifications/deliveries.ts";
import { Dispatch } from "../../../src/notifications/dispatch.ts";
import { Roster, Settings } from "../../../src/notifications/roster.ts";
import { newId } from "../../../src/platform/ids.ts";
import { crossed } from "../../support/destination-harness.ts";

const START_MS = Date.UTC(2026, 0, 1);
const DELIVERED = { status: 200, error: null, answer: null, retryAfterMs: null, atMs: START_MS, tookMs: 1 };

test("the destinations of a workspace share its rate of deliveries evenly", async () => {
  await runInDurableObject(env.DESTINATIONS.getByName(newId("ws")), (_, { storage: { sql } }) => {
    const [roster, deliveries, settings] = [new Roster(sql), new Deliveries(sql), new Settings(sql)];
    const dispatch = new Dispatch(sql, { roster, deliveries, settings }, 60_000);
    const ids = Array.from({ length: DESTINATIONS_MAX }, (__, n) => `dst_${String(n).padStart(2, "0")}`);
    for (const id of ids) {
      const target = { type: "webhook", target: "https://crm.example.com/hook", headers: [] } as const;
      const wanted = { id, name: id, ...target, events: ["person.score_crossed" as const] };
      roster.add({ ...wanted, pagesUrl: "https://x.example" }, "whsec_x", START_MS);
    }
    for (let n = 0; n < 40; n++) deliveries.add(crossed(), ids, START_MS);
    const sent = new Map(ids.map((id) => [id, 0]));
    for (let nowMs = START_MS; nowMs < START_MS + 10_000; nowMs += 500) {
      for (const { destinationId, id } of dispatch.takeDue(nowMs).due) {
        sent.set(destinationId, (sent.get(destinationId) ?? 0) + 1);
        const delivery = deliveries.find(destinationId, id);
        if (delivery !== null) dispatch.attemptEnded(delivery, DELIVERED, nowMs);
      }
    }
    const counts = [...sent.values()];
    expect(counts.reduce((sum, count) => sum + count)).toBeLessThan(300);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(10);
  });
});
