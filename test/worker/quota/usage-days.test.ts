/** Usage by day in the Quota Counter: its cost, and its survival of new days, periods, upgrades and restarts. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { stopClock } from "../../support/clock.ts";
import { countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";

const at = (month: number, day: number, hour = 12) => Date.UTC(2031, month - 1, day, hour);

async function daysOf(counter: TestCounter) {
  const found = await counter.stub.usageByDay();
  return found?.days.map(({ dayMs, accepted, held, rejected }) => [
    new Date(dayMs).toISOString().slice(5, 10),
    accepted,
    held,
    rejected,
  ]);
}

describe("usage by day", () => {
  test("costs no row with a commit, and two rows with a new day", async () => {
    stopClock(at(3, 5));
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(1);
    const cost = async () => (await countRows(counter, () => counter.counted(2))).rows;
    expect(await cost()).toBe(1);
    stopClock(at(3, 6));
    expect(await cost()).toBe(1 + 2);
    expect(await cost()).toBe(1);
  });

  test("holds the period's counts at the end of each day with signals", async () => {
    stopClock(at(3, 5));
    const counter = await newCounter({ signalLimit: 4 });
    await counter.sendTo(lose);
    await counter.counted(3);
    stopClock(at(3, 9));
    await counter.counted(7);
    // No signal has arrived since, but the day has ended.
    stopClock(at(3, 12));
    expect(await daysOf(counter)).toEqual([
      ["03-05", 3, 0, 0],
      ["03-09", 4, 4, 2],
    ]);
  });

  test("has an entry for each of two periods that share a day", async () => {
    stopClock(at(3, 31, 9));
    const counter = await newCounter({ anchorMs: Date.UTC(2026, 0, 30, 10) });
    await counter.sendTo(lose);
    stopClock(at(4, 30, 9));
    await counter.counted(5);
    stopClock(at(4, 30, 11));
    await counter.counted(2);
    stopClock(at(5, 1));
    expect(await daysOf(counter)).toEqual([
      ["04-30", 5, 0, 0],
      ["04-30", 2, 0, 0],
    ]);
  });

  test("continues after a restart at night and after the clock went back", async () => {
    stopClock(at(3, 5));
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(3);
    await evictDurableObject(counter.stub);
    stopClock(at(3, 6));
    await counter.counted(1);
    stopClock(at(3, 5));
    await counter.counted(1, { keyId: "key_2" });
    stopClock(at(3, 7));
    expect(await daysOf(counter)).toEqual([
      ["03-05", 3, 0, 0],
      ["03-06", 5, 0, 0],
    ]);
  });

  test("drops periods that began more than thirteen months ago", async () => {
    stopClock(at(3, 5));
    const counter = await newCounter();
    await counter.sendTo(lose);
    await counter.counted(1);
    stopClock(Date.UTC(2032, 4, 5));
    await counter.counted(1);
    stopClock(Date.UTC(2032, 4, 6));
    await counter.counted(1);
    const kept = await runInDurableObject(counter.stub, (_, { storage }) =>
      storage.sql.exec<{ day_ms: number }>("SELECT day_ms FROM usage_days").toArray(),
    );
    expect(kept).toEqual([{ day_ms: Date.UTC(2032, 4, 5) }]);
  });
});
