/** docs/inside.md: which calls share a commit, and how long a call waits for it. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { COMMIT_INTERVAL_MS, SHARE_MS, SharedCommits } from "../../../src/quota/incoming-calls.ts";

/** Time until a commit is durable. */
const DURABLE_MS = 1;

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
afterEach(() => void vi.useRealTimers());

class Senders {
  readonly sizes: number[] = [];
  readonly waitsMs: number[] = [];
  readonly #commits = new SharedCommits<number, number>(
    (calls) => {
      this.sizes.push(calls.length);
      return calls;
    },
    () => sleepFor(DURABLE_MS),
  );

  async send(): Promise<void> {
    const sentMs = Date.now();
    await this.#commits.submit(this.waitsMs.length);
    this.waitsMs.push(Date.now() - sentMs);
  }

  async sendAlone(): Promise<void> {
    await this.#commits.submitAlone(-1);
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

  /** Sends calls one after the other, each after the previous one is durable. */
  async sendInTurn(calls: number): Promise<void> {
    for (let n = 0; n < calls; n++) {
      await this.send();
      await vi.advanceTimersByTimeAsync(DURABLE_MS);
    }
  }
}

function sleepFor(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

describe("a shared commit", () => {
  test("does not delay a sender that waits for each answer", async () => {
    const senders = new Senders();
    await senders.sendInTurn(50);
    expect(senders.sizes).toEqual(Array.from({ length: 50 }, () => 1));
    expect(Math.max(...senders.waitsMs)).toBe(0);
  });

  test("includes calls that arrive within the interval after the previous commit, once calls have overlapped", async () => {
    const senders = new Senders();
    for (let n = 0; n < 40; n++) void senders.send();
    expect(senders.sizes).toEqual([1]);
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS - 1);
    void senders.send();
    await vi.advanceTimersByTimeAsync(1);
    expect(senders.sizes).toEqual([1, 40]);
    await vi.advanceTimersByTimeAsync(DURABLE_MS);
    void senders.send();
    expect(senders.sizes).toEqual([1, 40]);
    await vi.advanceTimersByTimeAsync(SHARE_MS);
    await senders.sendInTurn(3);
    expect(senders.sizes).toEqual([1, 40, 1, 1, 1, 1]);
  });

  test("includes more than two of 300 calls a second, and delays none beyond the interval", async () => {
    const senders = new Senders();
    expect(await senders.sendAtRandom(300, 10)).toBeGreaterThan(2.2);
    expect(Math.max(...senders.waitsMs)).toBeLessThanOrEqual(COMMIT_INTERVAL_MS);
  });

  test("leaves out a large call, which is committed at once and alone", async () => {
    const senders = new Senders();
    void senders.send();
    void senders.send();
    void senders.send();
    void senders.sendAlone();
    expect(senders.sizes).toEqual([1, 1]);
    void senders.sendAlone();
    expect(senders.sizes).toEqual([1, 1, 1]);
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    expect(senders.sizes).toEqual([1, 1, 1, 2]);
    expect(Math.max(...senders.waitsMs)).toBeLessThanOrEqual(COMMIT_INTERVAL_MS);
  });

  test("is made at once after the clock was set back", async () => {
    const senders = new Senders();
    void senders.send();
    void senders.send();
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    vi.setSystemTime(Date.now() - 60_000);
    void senders.send();
    expect(senders.sizes).toEqual([1, 1, 1]);
  });

  test("rejects its calls if it fails, and the next commit returns each call its result", async () => {
    let isBroken = true;
    const commits = new SharedCommits<number, string>(
      (calls) => {
        if (isBroken) throw new Error("disk full");
        return calls.map((call) => `result ${call}`);
      },
      () => sleepFor(DURABLE_MS),
    );
    const failed = await Promise.allSettled([1, 2, 3].map((call) => commits.submit(call)));
    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    isBroken = false;
    const results = Promise.all([1, 2, 3].map((call) => commits.submit(call)));
    await vi.advanceTimersByTimeAsync(COMMIT_INTERVAL_MS);
    expect(await results).toEqual(["result 1", "result 2", "result 3"]);
  });
});
