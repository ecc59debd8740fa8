/** Which deliveries leave when, on the tables of a real object and a simulated clock. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import type { AnyEvent } from "../../../src/domain/events/workspace-event.ts";
import { DESTINATIONS_MAX, GATHER_EVERY_MS } from "../../../src/limits.ts";
import { Deliveries } from "../../../src/notifications/deliveries.ts";
import { Dispatch } from "../../../src/notifications/dispatch.ts";
import { Roster, Settings } from "../../../src/notifications/roster.ts";
import { newId } from "../../../src/platform/ids.ts";
import { crossed, scored } from "../../support/destination-harness.ts";

const START_MS = Date.UTC(2026, 0, 1);
const DELIVERED = { status: 200, error: null, answer: null, retryAfterMs: null, atMs: START_MS, tookMs: 1 };

interface Fixture {
  ids: string[];
  add: (event: AnyEvent, ids: string[], nowMs: number) => void;
  /** Delivers everything that may leave at `nowMs`. Returns the destinations, in order. */
  deliverDue: (nowMs: number) => { to: string[]; nextMs: number };
}

function withDestinations(count: number, run: (fixture: Fixture) => void): Promise<void> {
  const object = env.DESTINATIONS.getByName(newId("ws"));
  return runInDurableObject(object, (_, { storage: { sql } }) => {
    const [roster, deliveries, settings] = [new Roster(sql), new Deliveries(sql), new Settings(sql)];
    const ids = Array.from({ length: count }, (__, n) => `dst_${String(n).padStart(2, "0")}`);
    for (const id of ids) {
      const events = ["person.score_crossed" as const, "person.scored" as const];
      const target = "https://crm.example.com/hook";
      const wanted = { id, name: id, type: "webhook" as const, target, headers: [], events };
      roster.add({ ...wanted, pagesUrl: "https://x.example" }, "whsec_x", START_MS);
    }
    const dispatch = new Dispatch(sql, { roster, deliveries, settings }, 60_000);
    const deliverDue = (nowMs: number) => {
      const { due, nextMs } = dispatch.takeDue(nowMs);
      for (const { destinationId, id } of due) {
        const delivery = deliveries.find(destinationId, id);
        if (delivery === null) continue;
        deliveries.take(delivery, nowMs);
        dispatch.attemptEnded(delivery, DELIVERED, nowMs);
      }
      return { to: due.map(({ destinationId }) => destinationId), nextMs };
    };
    run({ ids, add: (event, to, nowMs) => deliveries.add(event, to, nowMs), deliverDue });
  });
}

test("the destinations of a workspace share its rate of deliveries evenly", async () => {
  await withDestinations(DESTINATIONS_MAX, ({ ids, add, deliverDue }) => {
    for (let n = 0; n < 40; n++) add(crossed(), ids, START_MS);
    const sent = new Map(ids.map((id) => [id, 0]));
    for (let ms = 0; ms < 10_000; ms += 500) {
      for (const id of deliverDue(START_MS + ms).to) sent.set(id, (sent.get(id) ?? 0) + 1);
    }
    const counts = [...sent.values()];
    expect(counts.reduce((sum, count) => sum + count)).toBeLessThan(300);
    expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(10);
  });
});

test("scoring signals of a destination leave one second apart, and those in between leave together", async () => {
  await withDestinations(1, ({ ids, add, deliverDue }) => {
    add(scored("a@example.com"), ids, START_MS);
    expect(deliverDue(START_MS).to).toHaveLength(1);
    for (const ms of [100, 200, 300]) add(scored("b@example.com"), ids, START_MS + ms);
    expect(deliverDue(START_MS + 400)).toEqual({ to: [], nextMs: START_MS + GATHER_EVERY_MS });
    add(crossed(), ids, START_MS + 500);
    expect(deliverDue(START_MS + 500).to).toHaveLength(1);
    expect(deliverDue(START_MS + GATHER_EVERY_MS).to).toHaveLength(1);
    expect(deliverDue(START_MS + 2 * GATHER_EVERY_MS).to).toEqual([]);
  });
});
