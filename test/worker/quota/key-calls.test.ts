/** How many calls of each key were accepted and refused on each day: what is counted, what it costs, what a crash takes. */
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { dayOf, latestDays } from "../../../src/domain/quota/day-counts.ts";
import { SAFETY_ALARM_MS } from "../../../src/limits.ts";
import { KEY_USE_WRITE_MS } from "../../../src/quota/key-use.ts";
import type { RefusedCall } from "../../../src/quota/protocol.ts";
import { admitCall, countRows, lose, newCounter } from "../../support/counter.ts";
import type { TestCounter } from "../../support/counter.ts";
import { newMembers } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";

const START = Date.UTC(2031, 2, 5, 12);
const DAY = 86_400_000;

function at(ms: number): void {
  vi.useFakeTimers({ toFake: ["Date"], now: START + ms });
}

afterEach(() => {
  vi.useRealTimers();
});

async function counterAtStart(signalLimit = 1_000): Promise<TestCounter> {
  at(0);
  const counter = await newCounter({ signalLimit });
  await counter.sendTo(lose);
  return counter;
}

/** The last three days, the oldest first. */
async function daysOf(counter: TestCounter, keyId = "key_1") {
  const { accepted, refused } = await counter.stub.keyCalls(keyId);
  const three = (days: string) => latestDays(days, dayOf(Date.now()), 3);
  const lost = { accepted: three(accepted.lost), refused: three(refused.lost) };
  return { accepted: three(accepted.calls), refused: three(refused.calls), lost };
}

const refusal = (keyId = "key_1"): RefusedCall => {
  return { keyId, code: "body_not_json", detail: "No JSON.", requestId: crypto.randomUUID(), signals: 1 };
};
const NONE = { accepted: [0, 0, 0], refused: [0, 0, 0] };

async function writtenRows(counter: TestCounter): Promise<number> {
  return runInDurableObject(
    counter.stub,
    (_, { storage: { sql } }) =>
      sql.exec<{ count: number }>("SELECT count(*) AS count FROM key_use WHERE calls <> ''").one().count,
  );
}

describe("calls by day", () => {
  test("are counted for each key, those refused in part on both sides, whatever number of signals they carry", async () => {
    const counter = await counterAtStart(10);
    await counter.admit(3);
    at(DAY);
    await counter.admit(2);
    await counter.admit(1, { keyId: "key_2" });
    await counter.admit(1, { invalid: [{ code: "event_missing", detail: "No event.", signals: 4 }] });
    await counter.stub.refused(refusal());
    // Ten more fit, the rest does not; and then nothing.
    await counter.admit(20);
    await counter.admit(5);
    expect(await daysOf(counter)).toEqual({ accepted: [0, 1, 3], refused: [0, 0, 4], lost: NONE });
    expect(await daysOf(counter, "key_2")).toEqual({ accepted: [0, 0, 1], refused: [0, 0, 0], lost: NONE });
    expect(await daysOf(counter, "key_3")).toEqual({ accepted: [0, 0, 0], refused: [0, 0, 0], lost: NONE });
  });

  test("of a call that is refused in part for several reasons, or slice by slice, is one refused call", async () => {
    const counter = await counterAtStart(2);
    const invalid = (["event_missing", "email_invalid"] as const).map((code) => ({ code, detail: "", signals: 1 }));
    const [first, second] = ["req_a", "req_b"];
    // Two signals are accepted, two are held and one is refused; then the slices of another call come in between.
    await counter.admit(5, { requestId: first, invalid });
    await counter.admit(1, { requestId: second });
    await counter.admit(1, { requestId: first, firstSlice: false });
    await counter.admit(1, { requestId: second, firstSlice: false });
    expect((await daysOf(counter)).refused).toEqual([0, 0, 2]);
    const { rejections } = await counter.stub.keyCalls("key_1");
    const signalsOf = rejections.map(({ code, signals }) => [code, signals]).sort();
    expect(signalsOf).toEqual([
      ["email_invalid", 1],
      ["event_missing", 1],
      ["extra_room_exceeded", 4],
    ]);
  });

  test("of a body in several slices is one", async () => {
    const counter = await counterAtStart();
    for (const firstSlice of [true, false, false]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await counter.admit(2, { firstSlice });
    }
    expect((await daysOf(counter)).accepted).toEqual([0, 0, 1]);
  });

  test("cost no row: the key's own is written once a minute, with the counts as they are then", async () => {
    const counter = await counterAtStart();
    await counter.admit(1);
    const minute = await countRows(counter, async () => {
      for (let second = 1; second <= 59; second++) {
        at(second * 1_000);
        await counter.stub.admit(admitCall(1));
      }
    });
    // One of the outbox for each, and nothing else.
    expect(minute).toEqual({ rows: 59, alarms: 0 });
    at(KEY_USE_WRITE_MS);
    expect(await countRows(counter, () => counter.stub.admit(admitCall(1)))).toEqual({ rows: 2, alarms: 0 });
    expect((await daysOf(counter)).accepted).toEqual([0, 0, 61]);
  });

  test("are all there after an object that was let go of once it had nothing to do", async () => {
    const counter = await counterAtStart();
    await counter.admit(1);
    at(1_000);
    await counter.admit(1);
    at(KEY_USE_WRITE_MS - 1_000);
    // The first alarm comes sooner than the row may be written again.
    await runDurableObjectAlarm(counter.stub);
    await counter.sendTo(lose);
    await counter.admit(1);
    at(2 * SAFETY_ALARM_MS);
    await runDurableObjectAlarm(counter.stub);
    await evictDurableObject(counter.stub);
    expect(await daysOf(counter)).toEqual({ accepted: [0, 0, 3], refused: [0, 0, 0], lost: NONE });
  });

  test("are at least so many after a crash that took some, on the days that it may have been, of whom it may have been", async () => {
    const counter = await counterAtStart();
    await counter.admit(1, { keyId: "key_old" });
    at(DAY / 2 - 30_000);
    await counter.admit(1);
    at(DAY / 2 - 10_000);
    await counter.admit(5);
    await abortAllDurableObjects();
    at(DAY / 2);
    const lost = { accepted: [0, 1, 1], refused: [0, 0, 0] };
    expect(await daysOf(counter)).toEqual({ accepted: [0, 1, 0], refused: [0, 0, 0], lost });
    expect((await daysOf(counter, "key_old")).lost).toEqual(NONE);
    expect(await counter.stub.books()).toMatchObject({ admitted: 7 });
    // A loss is told once: what is written now says that it was.
    await counter.sendTo(lose);
    await counter.admit(1);
    expect(await writtenRows(counter)).toBe(2);
    await abortAllDurableObjects();
    at(DAY + 1);
    expect(await daysOf(counter)).toEqual({ accepted: [0, 1, 1], refused: [0, 0, 0], lost });
  });

  test("of refused calls are in the row that lists them, and are at least so many where that was not written", async () => {
    const counter = await counterAtStart();
    await counter.stub.refused(refusal());
    await counter.stub.refused(refusal());
    await abortAllDurableObjects();
    expect(await daysOf(counter)).toMatchObject({ refused: [0, 0, 2], lost: NONE });
    for (let n = 0; n < 30; n++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await counter.stub.refused(refusal());
    }
    expect((await daysOf(counter)).refused).toEqual([0, 0, 32]);
    await abortAllDurableObjects();
    const after = await daysOf(counter);
    expect(after.lost).toEqual({ accepted: [0, 0, 0], refused: [0, 0, 1] });
    expect(after.refused[2]).toBeLessThan(32);
    expect(after.refused[2]).toBe((await counter.stub.rejections(10))[0]?.calls);
  });
});

describe("the key's page", () => {
  test("shows calls by day as a chart that says in words what it shows, and as a table", async () => {
    const { workspace, home, owner } = await newMembers();
    const path = `${home}/settings/api-keys/${workspace.key.id}`;
    expect(textOf(await owner.see(path))).toContain("Calls None in the last 30 days.");
    for (let n = 0; n < 3; n++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await workspace.send({ event: "x", email: "a@example.com" });
    }
    await workspace.send("{ nonsense");
    const html = await owner.see(path);
    const labels = readHtml(html)
      .all("svg")
      .map((chart) => chart.attribute("aria-label"));
    expect(labels).toContain("3 calls accepted and 1 refused in 30 days. Most on one day: 4.");
    const text = textOf(html);
    expect(text).toContain("3 calls accepted and 1 refused in 30 days.");
    const today = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeZone: "UTC" }).format(Date.now());
    expect(text).toContain(`Day Accepted Refused ${today} 3 1`);
    expect(text).not.toContain("At least");
    expect(text).not.toContain("started anew");
  });

  test("says at least, and on which day calls may be missing", async () => {
    const { workspace, home, owner } = await newMembers();
    await workspace.send({ event: "x" });
    await workspace.settled();
    await runInDurableObject(workspace.counter, (_, { storage: { sql } }) => {
      sql.exec("UPDATE key_use SET admitted = 0");
    });
    await evictDurableObject(workspace.counter);
    const text = textOf(await owner.see(`${home}/settings/api-keys/${workspace.key.id}`));
    expect(text).toContain("At least 1 call accepted and 0 refused in 30 days.");
    expect(text).toMatch(/The service was started anew on .*; calls of up to a minute before are not counted there/);
    expect(text).toMatch(/Day Accepted Refused [^,]*, \d{4} at least 1 0/);
  });
});
