/** Calls of each key by day, and rejected calls by reason: display, losses in a crash, cost. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { dayOf } from "../../../src/domain/duration.ts";
import { DAYS_COUNTED, REJECTION_KEPT_DAYS, SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { CALL_KEYS_KEPT } from "../../../src/quota/keys.ts";
import type { RejectedCall } from "../../../src/quota/protocol.ts";
import { WATCH_MS } from "../../../src/platform/alarm.ts";
import { amount } from "../../support/amount.ts";
import { stopClock } from "../../support/clock.ts";
import { admitCall, countRows, lose, newCounter, type TestCounter } from "../../support/counter.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { expectLogged } from "../../support/logged.ts";
import { newMembers } from "../../support/members.ts";

/** Far ahead, so that the platform's real clock rings no alarm. */
const START = Date.UTC(2031, 2, 5, 12);
const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** All counts are written by then. */
const QUIET_MS = 3 * WATCH_MS;

const at = (ms: number): void => stopClock(START + ms);

async function counterAtStart(signalLimit = 1_000_000): Promise<TestCounter> {
  at(0);
  const counter = await newCounter({ signalLimit });
  await counter.sendTo(lose);
  return counter;
}

/** The alarm rings whenever it is due. */
async function pass(counter: TestCounter, ms: number): Promise<void> {
  const endMs = Date.now() + ms;
  for (;;) {
    const dueMs = await counter.alarmMs();
    if (dueMs === null || dueMs > endMs) break;
    vi.setSystemTime(Math.max(dueMs, Date.now()));
    await runDurableObjectAlarm(counter.stub);
  }
  vi.setSystemTime(endMs);
}

async function crash(counter: TestCounter): Promise<void> {
  await abortAllDurableObjects();
  await counter.sendTo(lose);
}

const rejection = (keyId = "key_1", code: RejectedCall["code"] = "body_not_json"): RejectedCall => {
  return { keyId, code, detail: "Not valid.", requestId: `req_${crypto.randomUUID()}`, signals: 1 };
};

/** Rejected calls that an isolate has summed up. */
function summed(keyId: string, calls: number, code: RejectedCall["code"] = "unauthorized") {
  const when = { firstAtMs: Date.now(), lastAtMs: Date.now() };
  return { ...rejection(keyId, code), cause: null, calls, signals: calls, ...when };
}

describe("call statistics", () => {
  const KEYS = ["key_1", "key_2"] as const;

  const key = fc.constantFrom(...KEYS);
  const code = fc.constantFrom("body_empty" as const, "event_missing" as const);
  const anyStep = fc.oneof(
    fc.record({ do: fc.constant("accept" as const), key, signals: fc.integer({ min: 1, max: 3 }) }),
    fc.record({ do: fc.constant("accept in part" as const), key }),
    fc.record({ do: fc.constant("reject" as const), key, code }),
    fc.record({ do: fc.constant("reject without the secret" as const), key, calls: fc.integer({ min: 1, max: 9 }) }),
    fc.record({
      do: fc.constant("load" as const),
      key,
      seconds: fc.integer({ min: 30, max: 150 }),
      clockBackMs: fc.constantFrom(0, HOUR),
      crashes: fc.boolean(),
    }),
    fc.record({
      do: fc.constant("pass" as const),
      ms: fc.constantFrom(SECOND, WATCH_MS, 30 * SECOND, MINUTE, HOUR, DAY),
    }),
    fc.record({ do: fc.constant("set the clock back" as const), key, ms: fc.constantFrom(30 * SECOND, HOUR, DAY) }),
    fc.record({ do: fc.constant("sleep" as const) }),
    fc.record({ do: fc.constant("crash" as const) }),
  );

  type Step = ReturnType<(typeof anyStep)["generate"]>["value"];

  /** Everything that users see of calls. */
  class Seen {
    readonly days: Record<string, Record<number, { accepted: number; rejected: number }>> = { key_1: {}, key_2: {} };
    readonly usedMs: Record<string, number> = {};
    readonly acceptedMs: Record<string, number> = {};
    readonly reasons: Record<string, number> = {};

    accepted(keyId: string): void {
      this.#day(keyId).accepted++;
      this.acceptedMs[keyId] = Math.max(this.acceptedMs[keyId] ?? 0, Date.now());
      this.used(keyId);
    }

    rejected(keyId: string, codes: readonly string[], calls: number): void {
      this.#day(keyId).rejected += calls;
      for (const name of codes) this.reasons[`${keyId} ${name}`] = (this.reasons[`${keyId} ${name}`] ?? 0) + calls;
    }

    used(keyId: string): void {
      this.usedMs[keyId] = Math.max(this.usedMs[keyId] ?? 0, Date.now());
    }

    #day(keyId: string): { accepted: number; rejected: number } {
      return ((this.days[keyId] ??= {})[dayOf(Date.now())] ??= { accepted: 0, rejected: 0 });
    }
  }

  async function see(counter: TestCounter): Promise<Seen> {
    const seen = new Seen();
    Object.assign(seen.usedMs, await counter.stub.lastUsed());
    for (const keyId of KEYS) {
      const { days, usedMs, acceptedMs } = await counter.stub.keyCalls(keyId);
      seen.days[keyId] = days;
      expect(usedMs).toBe(seen.usedMs[keyId] ?? null);
      if (acceptedMs !== null) seen.acceptedMs[keyId] = acceptedMs;
    }
    for (const { keyId, code: name, calls } of await counter.stub.rejections(200)) {
      seen.reasons[`${keyId} ${name}`] = (seen.reasons[`${keyId} ${name}`] ?? 0) + calls;
    }
    return seen;
  }

  class History {
    readonly #counter: TestCounter;
    #seen = new Seen();
    #admitted = 0;
    /** The display after each call, with its age. */
    #past: { seen: Seen; agoMs: number }[] = [{ seen: new Seen(), agoMs: 0 }];

    constructor(counter: TestCounter) {
      this.#counter = counter;
    }

    async run(step: Step): Promise<void> {
      switch (step.do) {
        case "accept":
          return this.#accept(step.key, step.signals);
        case "accept in part":
          await this.#counter.admit(1, {
            keyId: step.key,
            invalid: (["event_missing", "body_empty"] as const).map((name) => ({ code: name, detail: "", signals: 1 })),
          });
          this.#admitted++;
          this.#seen.accepted(step.key);
          this.#seen.rejected(step.key, ["event_missing", "body_empty"], 1);
          return this.#happened();
        case "reject":
          await this.#counter.stub.rejected(rejection(step.key, step.code));
          this.#seen.used(step.key);
          this.#seen.rejected(step.key, [step.code], 1);
          return this.#happened();
        case "reject without the secret":
          await this.#counter.stub.countRejected([summed(step.key, step.calls)]);
          this.#seen.rejected(step.key, ["unauthorized"], step.calls);
          return this.#happened();
        case "load":
          for (let second = 0; second < step.seconds; second += 3) {
            if (second === 9) vi.setSystemTime(Date.now() - step.clockBackMs);
            await this.#accept(step.key, 1);
            await this.#pass(3 * SECOND);
          }
          return step.crashes ? this.#crash() : undefined;
        case "pass":
          return this.#pass(step.ms);
        case "set the clock back":
          vi.setSystemTime(Date.now() - step.ms);
          // The alarm was set by the later clock; the next call sets it again.
          return this.#accept(step.key, 1);
        case "sleep":
          await this.#pass(QUIET_MS);
          await evictDurableObject(this.#counter.stub);
          await this.#counter.sendTo(lose);
          return;
        case "crash":
          return this.#crash();
      }
    }

    get expected(): { seen: Seen; admitted: number } {
      return { seen: this.#seen, admitted: this.#admitted };
    }

    async seen(): Promise<{ seen: Seen; admitted: number }> {
      const { admitted } = await this.#counter.stub.books();
      return { seen: await see(this.#counter), admitted };
    }

    async #accept(keyId: string, signals: number): Promise<void> {
      await this.#counter.counted(signals, { keyId });
      this.#admitted += signals;
      this.#seen.accepted(keyId);
      this.#happened();
    }

    async #pass(ms: number): Promise<void> {
      await pass(this.#counter, ms);
      for (const past of this.#past) past.agoMs += ms;
    }

    #happened(): void {
      this.#past.push({ seen: structuredClone(this.#seen), agoMs: 0 });
    }

    /** The rest equals the display at a moment of the last minute. */
    async #crash(): Promise<void> {
      await crash(this.#counter);
      const left = await see(this.#counter);
      const written = this.#past.findLastIndex(
        ({ seen }) => JSON.stringify(sorted(seen)) === JSON.stringify(sorted(left)),
      );
      expect(written, `what is left, ${JSON.stringify(left)}, was never to be seen`).not.toBe(-1);
      const firstLost = this.#past[written + 1];
      if (firstLost !== undefined) expect(firstLost.agoMs).toBeLessThanOrEqual(SAFETY_ALARM_MS + WATCH_MS);
      this.#seen = Object.assign(new Seen(), structuredClone(left));
      this.#past = [{ seen: left, agoMs: 0 }];
    }
  }

  function sorted(value: unknown): unknown {
    if (typeof value !== "object" || value === null) return value;
    return Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]);
  }

  test(
    "are exact after any history of calls, restarts and clock changes, except for the minute before a crash",
    { timeout: amount(60_000, 600_000) },
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyStep, { minLength: 5, maxLength: 14, size: "max" }), async (steps) => {
          const history = new History(await counterAtStart());
          for (const step of steps) {
            await history.run(step);
            expect(await history.seen()).toEqual(history.expected);
          }
        }),
        { numRuns: amount(10, 150) },
      );
    },
  );
});

describe("calls of a key by day", () => {
  async function today(counter: TestCounter, keyId = "key_1") {
    return (await counter.stub.keyCalls(keyId)).days[dayOf(Date.now())];
  }

  test("counts a call once, accepted or partly rejected, with several reasons", async () => {
    const counter = await counterAtStart(2);
    const invalid = (["event_missing", "email_invalid"] as const).map((code) => ({ code, detail: "", signals: 1 }));
    const [first, second] = ["req_a", "req_b"];
    // Two signals are accepted, two held and one rejected.
    await counter.admit(5, { requestId: first, invalid });
    await counter.admit(1, { requestId: second });
    expect(await today(counter)).toEqual({ accepted: 1, rejected: 2 });
    const { rejections } = await counter.stub.keyCalls("key_1");
    const signalsOf = rejections.map(({ code, signals }) => [code, signals]).sort();
    expect(signalsOf).toEqual([
      ["email_invalid", 1],
      ["event_missing", 1],
      ["extra_room_exceeded", 2],
    ]);
    await counter.configure({ signalLimit: 100 });
    await counter.admit(2, { keyId: "key_2" });
    expect(await today(counter, "key_2")).toEqual({ accepted: 1, rejected: 0 });
  });

  test("lists the rejections of this key only", async () => {
    const counter = await counterAtStart();
    await counter.stub.rejected(rejection("key_1", "body_not_json"));
    await counter.stub.rejected(rejection("key_2", "event_missing"));
    const { rejections } = await counter.stub.keyCalls("key_2");
    expect(rejections.map(({ code }) => code)).toEqual(["event_missing"]);
  });

  test("writes a few calls before the idle object is evicted", async () => {
    const counter = await counterAtStart();
    for (let n = 0; n < 4; n++) {
      await counter.admit(1);
      await pass(counter, 2 * SECOND);
    }
    // The last call came 2 s ago, and the platform evicts an object after 10 idle seconds.
    await pass(counter, 7_900);
    await evictDurableObject(counter.stub);
    expect(await today(counter)).toEqual({ accepted: 4, rejected: 0 });
  });

  test("drops days older than a month and keeps the last use", async () => {
    const counter = await counterAtStart();
    await counter.admit(1);
    await pass(counter, MINUTE);
    at(DAYS_COUNTED * DAY);
    // An isolate reports calls after a minute. They count on the day of the last one.
    await counter.stub.countRejected([{ ...summed("key_1", 1), firstAtMs: Date.now() - DAY }]);
    await pass(counter, MINUTE);
    await crash(counter);
    const calls = await counter.stub.keyCalls("key_1");
    expect(calls).toMatchObject({ usedMs: START, acceptedMs: START });
    expect(calls.days).toEqual({ [dayOf(Date.now())]: { accepted: 0, rejected: 1 } });
  });

  test("drops the keys with the oldest calls and uses above the limit", async () => {
    const counter = await counterAtStart();
    await counter.stub.countRejected([summed("key_old", 1)]);
    await counter.admit(1, { keyId: "key_busy" });
    await pass(counter, DAY);
    await counter.admit(1, { keyId: "key_used" });
    const keys = ["key_busy", ...Array.from({ length: CALL_KEYS_KEPT - 1 }, (_, nth) => `key_${nth}`)];
    await counter.stub.countRejected(keys.map((keyId) => summed(keyId, 1)));
    await pass(counter, QUIET_MS);
    expect((await counter.stub.keyCalls("key_old")).days).toEqual({});
    expect(await today(counter, "key_busy")).toEqual({ accepted: 0, rejected: 1 });
    expect(await today(counter, "key_used")).toEqual({ accepted: 1, rejected: 0 });
    const rows = await runInDurableObject(counter.stub, (_, { storage: { sql } }) =>
      sql
        .exec<{ keys: number; rejections: number }>(
          "SELECT count(DISTINCT key_id) AS keys, (SELECT count(*) FROM rejections) AS rejections FROM calls",
        )
        .one(),
    );
    expect(rows).toEqual({ keys: CALL_KEYS_KEPT, rejections: 200 });
  });
});

describe("rejected calls", () => {
  test("list the quota's rejections with the sender's error text, still after a minute and a crash", async () => {
    const counter = await counterAtStart(1);
    await counter.counted(2);
    await counter.counted(3);
    const detail = expect.stringContaining("signal limit and the extra room");
    expect(await counter.stub.rejections(10)).toMatchObject([
      { code: "extra_room_exceeded", detail, calls: 1, signals: 3 },
    ]);
    await pass(counter, MINUTE);
    await crash(counter);
    expect(await counter.stub.usage()).toMatchObject({ accepted: 1, held: 1, rejected: 3 });
  });

  test("beyond the request rate count all signals of the body, also those that are not valid", async () => {
    const counter = await counterAtStart(1_000);
    const requests = 1_000;
    const invalid = [{ code: "event_missing", detail: "", signals: 3 }] as const;
    await counter.stub.admit(admitCall(1, { requests }));
    await counter.stub.admit(admitCall(2, { requests, invalid: [...invalid] }));
    await counter.stub.admit(admitCall(0, { requests, invalid: [...invalid] }));
    expect(await counter.stub.rejections(10)).toMatchObject([{ code: "rate_limited", calls: 2, signals: 8 }]);
  });

  test("of one moment are listed with the latest first, and leave storage when they are too old to be listed", async () => {
    const counter = await counterAtStart();
    const codes = ["body_not_json", "event_missing", "body_empty"] as const;
    for (const code of codes) await counter.stub.rejected(rejection("key_1", code));
    expect((await counter.stub.rejections(10)).map(({ code }) => code)).toEqual(codes.toReversed());
    const stored = () =>
      runInDurableObject(counter.stub, (_, { storage: { sql } }) => sql.exec("SELECT code FROM rejections").toArray());
    await pass(counter, MINUTE);
    expect(await stored()).toHaveLength(codes.length);
    vi.setSystemTime(Date.now() + REJECTION_KEPT_DAYS * DAY);
    await counter.admit(1);
    await pass(counter, QUIET_MS);
    expect(await stored()).toEqual([]);
  });

  test("stay in memory after a failed write and are written by the next alarm", async () => {
    expectLogged("alarm_failed");
    const counter = await counterAtStart();
    const repair = await counter.breakStatement("INSERT OR REPLACE INTO rejections");
    await counter.stub.rejected(rejection());
    await pass(counter, WATCH_MS);
    await repair();
    expect(await counter.stub.keyCalls("key_1")).toMatchObject({ usedMs: START, rejections: [{ calls: 1 }] });
    await pass(counter, MINUTE);
    await crash(counter);
    const calls = await counter.stub.keyCalls("key_1");
    expect(calls).toMatchObject({ usedMs: START, rejections: [{ calls: 1 }] });
    expect(calls.days).toEqual({ [dayOf(START)]: { accepted: 0, rejected: 1 } });
  });

  test("cost a few rows a minute in a flood, and evict no single rejection", async () => {
    const counter = await counterAtStart(0);
    await counter.stub.rejected(rejection("key_1", "event_missing"));
    const minutes = amount(2, 5);
    const { rows, alarms } = await countRows(counter, async () => {
      for (let second = 0; second < 60 * minutes; second++) {
        await runInDurableObject(counter.stub, (instance) => {
          for (let n = 0; n < 5; n++) instance.rejected(rejection());
        });
        await counter.counted(2);
        await pass(counter, SECOND);
      }
    });
    // A minute: the alarm every 8 s; two reasons, the key and the ledger.
    expect((rows + alarms) / minutes).toBeLessThanOrEqual(14);
    const listed = (await counter.stub.rejections(10)).map(({ code, calls }) => [code, calls]);
    expect(listed.sort()).toEqual([
      ["body_not_json", 300 * minutes],
      ["event_missing", 1],
      ["extra_room_exceeded", 60 * minutes],
    ]);
    expect(await counter.stub.usage()).toMatchObject({ rejected: 120 * minutes });
  });
});

describe("the key's page", () => {
  test("shows calls by day as a chart with a text alternative, and as a table", async () => {
    const { workspace, home, owner } = await newMembers();
    const path = `${home}/settings/api-keys/${workspace.key.id}`;
    expect(textOf(await owner.see(path))).toContain("Calls No calls in the last 30 days.");
    for (let n = 0; n < 3; n++) await workspace.send({ event: "x", email: "a@example.com" });
    await workspace.send("{ nonsense");
    const html = await owner.see(path);
    const labels = readHtml(html)
      .all("svg")
      .map((chart) => chart.attribute("aria-label"));
    expect(labels).toContain("3 calls accepted and 1 rejected in 30 days");
    const text = textOf(html);
    expect(text).toContain("3 calls accepted and 1 rejected in 30 days.");
    const day = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeZone: "UTC" }).format(Date.now());
    expect(text).toContain(`Day Accepted Rejected ${day} 3 1`);
  });
});
