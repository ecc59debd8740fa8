/** The alarm of an object, which must neither be set to a time that has passed nor trust a stored one that never fired. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import { Alarm, FORGOTTEN_AFTER_MS } from "../../../src/platform/alarm.ts";

const HOUR = 3_600_000;
let objects = 0;

afterEach(() => vi.useRealTimers());

/** Runs in an object of its own. @param set the times that are given to `setAlarm`, which stores nothing. */
function withAlarm(run: (ctx: DurableObjectState, set: number[]) => Promise<void>): Promise<void> {
  const stub = env.QUOTA_COUNTER.getByName(`alarm ${++objects}`);
  return runInDurableObject(stub, async (_, ctx) => {
    const set: number[] = [];
    const { storage } = ctx;
    vi.spyOn(storage, "setAlarm").mockImplementation((at) => {
      set.push(Number(at));
      return Promise.resolve();
    });
    await run(ctx, set);
    vi.restoreAllMocks();
    await storage.deleteAlarm();
  });
}

/** The object's alarm, once it has read the stored one. */
async function started(ctx: DurableObjectState): Promise<Alarm> {
  const alarm = new Alarm(ctx);
  await ctx.blockConcurrencyWhile(() => Promise.resolve());
  return alarm;
}

test.each([0, 1, Date.UTC(2020, 0, 1)])("is never set to a time that has passed, such as %d", async (atMs) => {
  await withAlarm(async (ctx, set) => {
    const alarm = await started(ctx);
    const beforeMs = Date.now();
    alarm.by(atMs);
    alarm.by(atMs);
    expect(set).toHaveLength(1);
    expect(set[0]).toBeGreaterThan(beforeMs);
  });
});

test("moves only to an earlier time", async () => {
  await withAlarm(async (ctx, set) => {
    const alarm = await started(ctx);
    const nowMs = Date.now();
    for (const hours of [3, 4, 2, 2, Number.POSITIVE_INFINITY]) alarm.by(nowMs + hours * HOUR);
    expect(set).toEqual([3, 2].map((hours) => nowMs + hours * HOUR));
    alarm.reset();
    alarm.by(nowMs + 5 * HOUR);
    expect(set.at(-1)).toBe(nowMs + 5 * HOUR);
  });
});

test.each([
  ["is set again if the stored one is a minute late", -FORGOTTEN_AFTER_MS - 1_000, 1],
  ["waits for a stored one that is a little late", -1_000, 0],
  ["waits for a stored one that is earlier", HOUR, 0],
  ["is set before a stored one that is later", 3 * HOUR, 1],
])("after a start %s", async (_, storedInMs, times) => {
  await withAlarm(async (ctx, set) => {
    const nowMs = Date.now();
    vi.spyOn(ctx.storage, "getAlarm").mockResolvedValue(nowMs + storedInMs);
    const alarm = await started(ctx);
    alarm.by(nowMs + 2 * HOUR);
    expect(set).toEqual(Array.from({ length: times }, () => nowMs + 2 * HOUR));
  });
});

test("is set again if it has not fired a minute after its time", async () => {
  await withAlarm(async (ctx, set) => {
    const alarm = await started(ctx);
    const nowMs = Date.now();
    alarm.by(nowMs + HOUR);
    vi.useFakeTimers({ now: nowMs + HOUR + FORGOTTEN_AFTER_MS, toFake: ["Date"] });
    alarm.by(nowMs + 3 * HOUR);
    expect(set).toHaveLength(1);
    vi.setSystemTime(nowMs + HOUR + FORGOTTEN_AFTER_MS + 1);
    alarm.by(nowMs + 3 * HOUR);
    expect(set).toEqual([nowMs + HOUR, nowMs + 3 * HOUR]);
  });
});
