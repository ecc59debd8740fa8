/** Design §7: which calls share a commit, and who waits for it. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { GroupCommit, GATHER_COMMITS, GATHER_MS, GATHER_ENOUGH_CALLS } from "../../../src/quota/incoming-calls.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

/** As long as a commit takes until its callers hear of it. */
const DURABLE_MS = 2;

class Senders {
  readonly sizes: number[] = [];
  readonly waitsMs: number[] = [];
  readonly #commits = new GroupCommit<number, number>(
    (calls) => {
      this.sizes.push(calls.length);
      return calls;
    },
    () => new Promise<void>((resolve) => void setTimeout(resolve, DURABLE_MS)),
  );

  async send(): Promise<void> {
    const sentMs = Date.now();
    await this.#commits.submit(this.waitsMs.length);
    this.waitsMs.push(Date.now() - sentMs);
  }

  /** Calls at random moments, whoever sends them. */
  async crowd(perSecond: number, seconds: number): Promise<number> {
    const before = this.sizes.length;
    let calls = 0;
    let random = 1;
    for (let ms = 0; ms < seconds * 1_000; calls++) {
      random = (random * 48_271) % 2_147_483_647;
      const gapMs = Math.round((-Math.log(random / 2_147_483_647) * 1_000) / perSecond);
      ms += gapMs;
      await vi.advanceTimersByTimeAsync(gapMs);
      void this.send();
    }
    await vi.advanceTimersByTimeAsync(100);
    return calls / (this.sizes.length - before);
  }

  /** One sender who waits for each answer. */
  async alone(calls: number): Promise<void> {
    for (let n = 0; n < calls; n++) {
      const answered = this.send();
      await vi.advanceTimersByTimeAsync(0);
      await vi.advanceTimersByTimeAsync(GATHER_MS);
      await answered;
      await vi.advanceTimersByTimeAsync(DURABLE_MS + 1);
    }
  }
}

describe("commits", () => {
  test("of one sender who waits for each answer never wait, however fast they follow each other", async () => {
    const senders = new Senders();
    for (let n = 0; n < 500; n++) {
      await senders.send();
      // What is answered is heard of once it is durable.
      await vi.advanceTimersByTimeAsync(DURABLE_MS + 1);
    }
    expect(senders.sizes).toEqual(Array.from({ length: 500 }, () => 1));
    expect(Math.max(...senders.waitsMs)).toBe(0);
  });

  test("of many senders gather calls for some milliseconds above 50 commits a second", async () => {
    const senders = new Senders();
    await senders.crowd(300, 2);
    expect(await senders.crowd(300, 10)).toBeGreaterThan(2.2);
    expect(Math.max(...senders.waitsMs)).toBeLessThanOrEqual(GATHER_MS);
  });

  test("below 50 a second wait for nobody", async () => {
    const senders = new Senders();
    await senders.crowd(20, 10);
    expect(Math.max(...senders.waitsMs)).toBe(0);
    expect(senders.sizes.filter((size) => size > 1).length).toBeLessThan(senders.sizes.length / 20);
  });

  test("gather no longer once enough calls have come", async () => {
    const senders = new Senders();
    await senders.crowd(300, 2);
    const before = senders.sizes.length;
    for (let n = 0; n < 3 * GATHER_ENOUGH_CALLS; n++) void senders.send();
    await vi.advanceTimersByTimeAsync(1);
    expect(senders.sizes.slice(before)).toEqual([3 * GATHER_ENOUGH_CALLS]);
    // Nothing is committed once more at the time until which the calls would have waited.
    await vi.advanceTimersByTimeAsync(10 * GATHER_MS);
    expect(senders.sizes.slice(before)).toEqual([3 * GATHER_ENOUGH_CALLS]);
  });

  test("wait for nobody soon after the others have gone", async () => {
    const senders = new Senders();
    await senders.crowd(300, 2);
    await senders.alone(GATHER_COMMITS);
    const before = senders.waitsMs.length;
    await senders.alone(20);
    expect(Math.max(...senders.waitsMs.slice(before))).toBe(0);
  });
});

describe("calls that arrive together", () => {
  const tick = () => vi.advanceTimersByTimeAsync(0);

  test("share a commit, but for the first after one that came alone; who comes alone after a crowd waits once", async () => {
    const senders = new Senders();
    const send = async (calls: number): Promise<number[]> => {
      const before = senders.sizes.length;
      for (let n = 0; n < calls; n++) void senders.send();
      const atOnce = senders.sizes.slice(before);
      await tick();
      // Too far apart to be frequent.
      await vi.advanceTimersByTimeAsync(60_000);
      return [atOnce.length, ...senders.sizes.slice(before)];
    };
    // How many commits are made at once, then the calls of each.
    expect(await send(1)).toEqual([1, 1]);
    expect(await send(3)).toEqual([1, 1, 2]);
    expect(await send(3)).toEqual([0, 3]);
    expect(await send(2)).toEqual([0, 2]);
    expect(await send(1)).toEqual([0, 1]);
    expect(await send(1)).toEqual([1, 1]);
    expect(await send(2)).toEqual([1, 1, 1]);
    expect(await send(2)).toEqual([0, 2]);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("get each its own result", async () => {
    const commits = new GroupCommit<number, string>(
      (calls) => calls.map((call) => `result ${call}`),
      async () => {},
    );
    const results = Promise.all([1, 2, 3].map((call) => commits.submit(call)));
    await tick();
    expect(await results).toEqual(["result 1", "result 2", "result 3"]);
  });

  test("fail together where the commit fails, and the next one is made", async () => {
    let isBroken = true;
    const commits = new GroupCommit<number, number>(
      (calls) => {
        if (isBroken) throw new Error("disk full");
        return calls;
      },
      async () => {},
    );
    const results = Promise.allSettled([1, 2, 3].map((call) => commits.submit(call)));
    await tick();
    expect((await results).map((result) => result.status === "rejected" && String(result.reason))).toEqual([
      "Error: disk full",
      "Error: disk full",
      "Error: disk full",
    ]);
    isBroken = false;
    const next = commits.submit(4);
    await tick();
    expect(await next).toBe(4);
  });
});
