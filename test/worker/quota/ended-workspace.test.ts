/** The Quota Counter of an ended workspace: what each method answers. A new method without a row fails. */
import { runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { QuotaCounter } from "../../../src/quota/quota-counter.ts";
import { DAY_MS } from "../../../src/domain/duration.ts";
import { stopClock } from "../../support/clock.ts";
import { admitCall } from "../../support/counter.ts";
import { textOfTables } from "../../support/everything.ts";
import { restart } from "../../support/restart.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const GONE = { outcome: "gone" };
const NOTHING_RESENT = { sent: 0, through: 0, next: "end" };
const BATCH = { job: "job_1", batch: 1, through: 1, sent: 0, signals: [{ id: "sig_1" }] };
const TERMS = { signalLimit: 1_000, paid: true, overages: false, anchorMs: 0, configVersion: 2 };
const CALL = { keyId: "key_1", code: "batch_empty", detail: "d", requestId: "req_1" };
const CALLS = { cause: null, calls: 1, signals: 1, firstAtMs: 1, lastAtMs: 1 };
const LINE = { table: "deactivated_keys", row: { key_id: "key_1", at_ms: 1 } };

type Methods = Record<string, (...given: readonly unknown[]) => unknown>;

/** The note of the end, and the version of the tables. */
const UNCHANGED = { kept: ["ended", "tables"], tables: "" };

/** Arguments that would change a workspace, the answer, and the alarm; default: none. */
const METHODS: Record<string, [given: unknown[], answer: unknown, alarmMs?: unknown]> = {
  configVersion: [[], 0],
  configure: [[[TERMS]], undefined],
  wantNotifications: [[{ notifications: ["processing.late"], version: 1 }], undefined],
  deactivate: [["key_1"], undefined],
  endKey: [["key_1", 1], null],
  keepKey: [["key_1", 1, 2], undefined],
  stateOfKey: [["key_1", true], GONE],
  deactivateAll: [[["key_1"]], { added: 0, keys: [] }],
  admit: [[admitCall(1)], GONE],
  rejected: [[{ ...CALL, signals: 1 }], GONE],
  countRejected: [[[{ ...CALL, ...CALLS }]], undefined],
  settle: [[[1], true], undefined],
  storeFull: [[], undefined],
  release: [[BATCH, { periodEndMs: 0, overages: false, most: null }], NOTHING_RESENT],
  replay: [[BATCH], NOTHING_RESENT],
  setClosed: [["importing"], undefined],
  exportRows: [[null], { lines: [], next: null }],
  importRows: [[[LINE]], "Error: no import is under way"],
  finishImport: [[], undefined],
  isClosed: [[], false],
  usage: [[], null],
  usageByDay: [[], null],
  overview: [[], null],
  lastUsed: [[], {}],
  publicKeys: [[], {}],
  keyCalls: [["key_1"], { usedMs: null, acceptedMs: null, days: {}, rejections: [], browser: null }],
  rejections: [[10], []],
  books: [[], { admitted: 0, unsettled: 0 }],
  backlog: [[], expect.objectContaining({ storeFull: false, admitted: 0, unsettledSignals: 0, oldestAtMs: null })],
  inFlight: [["sig_1"], null],
  alarm: [[], undefined],
  // The last one, because its alarm stays.
  end: [[{ requestedAtMs: 1, actor: "another" }], undefined, expect.any(Number)],
};

async function endWorkspace(workspace: TestWorkspace): Promise<void> {
  const { slug } = await workspace.operator<{ slug: string }>("GET", "");
  await workspace.operator("DELETE", "", { slug });
}

test("every method of an ended workspace has its answer and stores nothing", async () => {
  const workspace = await newWorkspace();
  await endWorkspace(workspace);
  await restart(workspace.counter);
  const properties = Object.entries(Object.getOwnPropertyDescriptors(QuotaCounter.prototype));
  const methods = properties.filter(([name, { value }]) => name !== "constructor" && value !== undefined);
  expect(Object.keys(METHODS).sort()).toEqual(methods.map(([name]) => name).sort());
  for (const [name, [given, answer, alarmMs = null]] of Object.entries(METHODS)) {
    // oxlint-disable-next-line no-await-in-loop
    const found = await runInDurableObject(workspace.counter, async (counter, { storage }) => {
      const call = async (): Promise<unknown> => (counter as unknown as Methods)[name]?.(...given);
      const answered = await call().catch(String);
      const kept = [...storage.kv.list()].map(([key]) => key);
      return { answered, kept, tables: textOfTables(storage.sql), alarmMs: await storage.getAlarm() };
    });
    expect.soft({ name, ...found }).toEqual({ name, answered: answer, alarmMs, ...UNCHANGED });
  }
});

test("a read of an ended workspace whose counter is still in memory stores nothing, also after a day and a period", async () => {
  const workspace = await newWorkspace();
  await workspace.send({ event: "E" });
  await workspace.settled();
  await endWorkspace(workspace);
  for (const days of [0, 1, 32]) {
    stopClock(Date.now() + days * DAY_MS);
    for (const name of ["usage", "usageByDay", "overview", "books", "backlog", "exportRows"]) {
      const [given, answer] = METHODS[name] ?? [];
      // oxlint-disable-next-line no-await-in-loop
      const found = await runInDurableObject(workspace.counter, (counter, { storage }) => {
        const answered = (counter as unknown as Methods)[name]?.(...(given ?? []));
        return { answered, tables: textOfTables(storage.sql) };
      });
      expect.soft({ name, days, ...found }).toEqual({ name, days, answered: answer, tables: "" });
    }
  }
});

test("a workspace that ends during its import takes no more rows of it, and sets no alarm for it", async () => {
  const workspace = await newWorkspace();
  await workspace.counter.setClosed("importing");
  await endWorkspace(workspace);
  const found = await runInDurableObject(workspace.counter, async (counter, { storage }) => {
    await storage.deleteAlarm();
    await counter.alarm();
    expect(() => counter.importRows([LINE])).toThrow("no import is under way");
    return { tables: textOfTables(storage.sql), alarmMs: await storage.getAlarm() };
  });
  expect(found).toEqual({ tables: "", alarmMs: null });
});

test("a closed workspace counts and records no call", async () => {
  const { counter } = await newWorkspace();
  await counter.setClosed("moving");
  const rejected = { keyId: "key_1", code: "body_empty", detail: "", requestId: "req_1", signals: 1 } as const;
  const answers = [counter.admit(admitCall(1)), counter.rejected(rejected), counter.stateOfKey("key_1", false)];
  expect(await Promise.all<unknown>(answers)).toEqual(answers.map(() => ({ outcome: "closed" })));
  expect(await counter.rejections(10)).toEqual([]);
});

test("a call that waits for its commit while the workspace ends is not counted", async () => {
  const workspace = await newWorkspace();
  const answer = await runInDurableObject(workspace.counter, async (counter) => {
    // The first one is committed at once, the next one after it.
    const calls = [counter.admit(admitCall(1)), counter.admit(admitCall(1))];
    await counter.end({ requestedAtMs: Date.now(), actor: "operator" });
    return calls[1];
  });
  expect(answer).toEqual(GONE);
});
