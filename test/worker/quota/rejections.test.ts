/** Design §5: refused calls and last use in the Quota Counter: exact, cheap, and honest about what may be missing. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import type { RefusedCall } from "../../../src/quota/protocol.ts";
import { REJECTED_KEYS_KEPT, REJECTION_WRITES, REJECTIONS_GATHERED_MS } from "../../../src/quota/call-notes.ts";
import { KEY_USE_WRITE_MS } from "../../../src/quota/key-use.ts";
import { amount } from "../../support/amount.ts";
import { countRows, lose, newCounter } from "../../support/counter.ts";
import type { TestCounter } from "../../support/counter.ts";

afterEach(() => {
  vi.useRealTimers();
});

/** So far ahead that the platform's own clock rings no alarm. */
const START = Date.UTC(2031, 2, 5, 12);
const MINUTE = 60_000;
const EMPTY: RefusedCall = {
  keyId: "key_1",
  code: "body_empty",
  detail: "The body is empty.",
  requestId: "req_1",
  signals: 1,
};

function at(ms: number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: START + ms });
}

async function listed(counter: TestCounter) {
  const all = await counter.stub.rejections(1_000);
  return all.map(({ code, calls, atLeast }) => [code, calls, atLeast]);
}

/** Rings the alarm when it is due, as often as it is until then. */
async function passTo(counter: TestCounter, ms: number): Promise<void> {
  for (;;) {
    const dueMs = await runInDurableObject(counter.stub, (_, { storage }) => storage.getAlarm());
    if (dueMs === null || dueMs > START + ms) return at(ms);
    vi.setSystemTime(Math.max(dueMs, Date.now()));
    await runDurableObjectAlarm(counter.stub);
  }
}

describe("a refusal", () => {
  test("that comes alone is one row, written at once: it is there after a crash, and exact", async () => {
    const counter = await newCounter();
    expect(await countRows(counter, () => counter.stub.countRefused([single("secret_wrong")]))).toEqual({
      rows: 1,
      alarms: 0,
    });
    await abortAllDurableObjects();
    expect(await counter.stub.rejections(10)).toEqual([single("secret_wrong")]);
  });

  test("of a burst is counted exactly, also when the object sleeps after it", async () => {
    at(0);
    const counter = await newCounter();
    await runInDurableObject(counter.stub, (instance) => {
      for (let n = 0; n < 40; n++) instance.refused(EMPTY);
    });
    expect(await listed(counter)).toEqual([["body_empty", 40, false]]);
    await passTo(counter, 2 * REJECTIONS_GATHERED_MS);
    await evictDurableObject(counter.stub);
    expect(await listed(counter)).toEqual([["body_empty", 40, false]]);
  });

  test("of a burst that a crash cuts off is counted as far as it was written, and the list says at least", async () => {
    at(0);
    const counter = await newCounter();
    await runInDurableObject(counter.stub, (instance) => {
      for (let n = 0; n < 40; n++) instance.refused(EMPTY);
    });
    await abortAllDurableObjects();
    expect(await listed(counter)).toEqual([["body_empty", REJECTION_WRITES.burst + 1, true]]);
    await counter.stub.refused(EMPTY);
    expect(await listed(counter)).toEqual([["body_empty", REJECTION_WRITES.burst + 2, true]]);
  });

  test("that cannot be written is written by the alarm", async () => {
    at(0);
    const counter = await newCounter();
    const repair = await counter.breakStatement("INSERT OR REPLACE INTO rejections");
    await counter.stub.countRefused([single("secret_wrong")]);
    const dueMs = await runInDurableObject(counter.stub, (_, { storage }) => storage.getAlarm());
    expect(dueMs).toBe(START + SAFETY_ALARM_MS);
    await repair();
    await passTo(counter, SAFETY_ALARM_MS);
    await abortAllDurableObjects();
    expect(await listed(counter)).toEqual([["unauthorized", 1, false]]);
  });

  test("of the key that was silent longest is forgotten first, when very many keys are refused", async () => {
    const counter = await newCounter();
    const first = Array.from({ length: REJECTED_KEYS_KEPT }, (_, nth) => `key_${nth}`);
    const refused = [...first, "key_0", "key_new"].map((keyId, nth) => ({
      ...single("secret_wrong"),
      keyId,
      requestId: `req_${nth}`,
    }));
    await counter.stub.countRefused(refused);
    const days = async (keyId: string) => (await counter.stub.keyCalls(keyId)).refused.calls;
    expect(await days("key_0")).not.toBe("");
    expect(await days("key_1")).toBe("");
    expect(await days("key_2")).not.toBe("");
  });

  test("of a flood costs a few rows a minute, whatever comes, and pushes out nothing that happened once", async () => {
    at(0);
    const counter = await newCounter({ signalLimit: 0 });
    await counter.sendTo(lose);
    await counter.stub.refused({ ...EMPTY, code: "event_missing" });
    const minutes: number[] = [];
    const lasts = amount(2, 5);
    for (let minute = 0; minute < lasts; minute++) {
      const { rows, alarms } = await countRows(counter, async () => {
        for (let second = 0; second < 60; second++) {
          await passTo(counter, minute * MINUTE + second * 1_000);
          await runInDurableObject(counter.stub, async (instance) => {
            for (let n = 0; n < 5; n++) instance.refused({ ...EMPTY, requestId: `req_${n}` });
          });
          await counter.counted(2);
        }
      });
      minutes.push(rows + alarms);
    }
    expect(minutes[0]).toBeLessThanOrEqual(30);
    for (const later of minutes.slice(1)) expect(later).toBeLessThanOrEqual(8);
    expect((await listed(counter)).sort()).toEqual([
      ["body_empty", 300 * lasts, false],
      ["event_missing", 1, false],
      ["extra_room_exceeded", 60 * lasts, false],
    ]);
    expect(await counter.stub.usage()).toMatchObject({ rejected: 120 * lasts });
  });

  test("for the quota is in the usage within a minute, also after a crash, and is never taken back", async () => {
    at(0);
    const counter = await newCounter({ signalLimit: 1 });
    await counter.sendTo(lose);
    await counter.counted(2);
    await counter.counted(3);
    await passTo(counter, MINUTE);
    await abortAllDurableObjects();
    expect(await counter.stub.usage()).toMatchObject({ accepted: 1, held: 1, rejected: 3 });
  });

  test("for the quota says what its sender was told", async () => {
    const counter = await newCounter({ signalLimit: 0 });
    await counter.counted(1);
    const detail = expect.stringContaining("signal limit and the extra room");
    expect(await counter.stub.rejections(10)).toMatchObject([{ code: "extra_room_exceeded", detail }]);
  });
});

describe("calls that an isolate has summed up", () => {
  test("are added to their entry, and are no use of the key", async () => {
    const counter = await newCounter();
    const sum = { ...single("key_deactivated"), calls: 7, signals: 7 };
    await counter.stub.countRefused([sum, { ...sum, calls: 5, signals: 5, atLeast: true }]);
    expect(await counter.stub.rejections(10)).toEqual([{ ...sum, calls: 12, signals: 12, atLeast: true }]);
    expect(await counter.stub.lastUsed()).toEqual({});
  });
});

describe("a key's last use", () => {
  test("is written with a commit, once a minute at most, and never by itself", async () => {
    at(0);
    const counter = await newCounter();
    await counter.sendTo(lose);
    const written = () =>
      runInDurableObject(counter.stub, (_, { storage }) =>
        storage.sql
          .exec<{ at: number }>("SELECT used_ms AS at FROM key_use")
          .toArray()
          .map(({ at: ms }) => ms - START),
      );
    await counter.counted(1);
    expect(await written()).toEqual([0]);
    for (const ms of [1_000, KEY_USE_WRITE_MS - 1]) {
      at(ms);
      await counter.counted(1);
    }
    expect(await written()).toEqual([0]);
    expect(await counter.stub.lastUsed()).toEqual({ key_1: START + KEY_USE_WRITE_MS - 1 });
    at(KEY_USE_WRITE_MS);
    await counter.counted(1);
    expect(await written()).toEqual([KEY_USE_WRITE_MS]);
    await abortAllDurableObjects();
    expect(await counter.stub.lastUsed()).toEqual({ key_1: START + KEY_USE_WRITE_MS });
  });
});

function single(cause: "secret_wrong" | "key_deactivated") {
  const told = { code: "unauthorized", cause, detail: "The API key is not valid.", requestId: "req_1" } as const;
  return { keyId: "key_1", ...told, calls: 1, signals: 1, firstAtMs: START, lastAtMs: START, atLeast: false };
}
