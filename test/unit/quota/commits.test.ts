/** Design §7: which calls share a commit, and how long a call waits for it. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { COMMIT_INTERVAL_MS, SharedCommits } from "../../../src/quota/incoming-calls.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

class Senders {
  /** Number of calls of each commit. */
  readonly sizes: number[] = [];
  readonly waitsMs: number[] = [];
  readonly #commits = new SharedCommits<number, number>((calls) => {
    this.sizes.push(calls.length);
    return calls;
  });

  async send(): Promise<void> {
    const sentMs = Date.now();
    await this.#commits.submit(this.waitsMs.length);
    this.waitsMs.push(Date.now() - sentMs);
  }

  /** Sends calls at random moments. @returns the mean number of calls per commit. */
  async sendAtRandom(perSecond: number, seconds: number): Promise<number> {
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
    return calls / this.sizes.length;
  }
}

describe("a shared commit", () => {
  test("is made at once for a call that comes alone", async () => {
    const senders = new Senders();
    for (let n = 0; n < 50; n++) {
      await senders.send();
      await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    }
    expect(senders.sizes).toEqual(Array.from({ length: 50 }, () => 1));
    expect(Math.max(...senders.waitsMs)).toBe(0);
  });

  test("includes calls that arrive within the interval after the previous commit", async () => {
    const senders = new Senders();
    for (let n = 0; n < 40; n++) void senders.send();
    expect(senders.sizes).toEqual([1]);
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS - 1);
    void senders.send();
    await vi.advanceTimersByTimeAsync(1);
    expect(senders.sizes).toEqual([1, 40]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(senders.sizes).toEqual([1, 40]);
  });

  test("includes more than two of 300 calls a second, and delays none beyond the interval", async () => {
    const senders = new Senders();
    expect(await senders.sendAtRandom(300, 10)).toBeGreaterThan(2.2);
    expect(Math.max(...senders.waitsMs)).toBeLessThanOrEqual(COMMIT_INTERVAL_MS);
  });

  test("is made at once after the clock was set back", async () => {
    const senders = new Senders();
    await senders.send();
    vi.setSystemTime(Date.now() - 60_000);
    void senders.send();
    expect(senders.sizes).toEqual([1, 1]);
  });

  test("returns each call its result", async () => {
    const commits = new SharedCommits<number, string>((calls) => calls.map((call) => `result ${call}`));
    const results = Promise.all([1, 2, 3].map((call) => commits.submit(call)));
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    expect(await results).toEqual(["result 1", "result 2", "result 3"]);
  });

  test("that fails rejects its calls, and the next commit succeeds", async () => {
    let isBroken = true;
    const commits = new SharedCommits<number, number>((calls) => {
      if (isBroken) throw new Error("disk full");
      return calls;
    });
    const results = Promise.allSettled([1, 2, 3].map((call) => commits.submit(call)));
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    expect((await results).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    isBroken = false;
    const next = commits.submit(4);
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    expect(await next).toBe(4);
  });
});
