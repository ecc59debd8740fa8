/**
 * Design §1.2 for hours: one or two dependencies fail or never answer. Senders always get a 202 or a Retry-After.
 * After the outage everything continues by the alarms that are set.
 */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { coldState, ring } from "../support/cold.ts";
import { HOUR, MINUTE, OutageRun, type Outage } from "../support/outage.ts";
import { expectToAddUp } from "../support/read-store.ts";
import { WaitingClock } from "../support/waiting-clock.ts";
import { expectLogged } from "../support/logged.ts";

// Bindings are away for hours.
expectLogged();

/** So far ahead that the platform rings none of the alarms. */
const AHEAD_MS = 24 * HOUR;
const OUTAGE_HOURS = 3;
/** Additional space of the outbox. */
const OUTBOX_BYTES = 500_000;
/** Time after an outage in which all signals arrive: dead letters of the queue are resent every 15 minutes. */
const RECOVERY_MS = 20 * MINUTE;

/** Time limit of a test: hours pass in seconds, or longer on a busy machine. */
const LIMIT_MS = 180_000;

const bindings = { ...env, OUTBOX_MAX_BYTES: undefined, STORE_MAX_BYTES: undefined };
const clock = new WaitingClock();
let run: OutageRun;

beforeEach(async () => {
  clock.begin(Date.now() + AHEAD_MS);
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  run = await OutageRun.make(clock);
});

afterEach(() => {
  run.faults.end();
  clock.end();
  vi.restoreAllMocks();
  Object.assign(env, bindings);
});

const QUEUE_FAILS = [/^SIGNALS\./, "fails"] as const;
const QUEUE_HANGS = [/^SIGNALS\./, "is never answered"] as const;
const QUEUE_LIES = [/^SIGNALS\./, "fails after success"] as const;
const R2_HANGS = [/^COLD/, "is never answered"] as const;
const STORE_FAILS = [/STORE\.(record|link)/, "fails"] as const;
const STORE_HANGS = [/STORE\.(record|link)/, "is never answered"] as const;
const SETTLE_FAILS = [/COUNTER\.settle/, "fails"] as const;

const OUTAGES: [string, Outage][] = [
  ["the queue fails", [QUEUE_FAILS]],
  ["the queue does not answer", [QUEUE_HANGS]],
  ["the queue takes everything and says that it has failed", [QUEUE_LIES]],
  ["R2 does not answer", [R2_HANGS]],
  ["the Signal Store fails", [STORE_FAILS]],
  ["the Signal Store does not answer", [STORE_HANGS]],
  ["nothing can be settled", [SETTLE_FAILS]],
  ["neither the queue nor R2 answers", [QUEUE_HANGS, R2_HANGS]],
  ["the queue says that it fails, and the Signal Store does not answer", [QUEUE_LIES, STORE_HANGS]],
  ["nothing can be settled, and R2 does not answer", [SETTLE_FAILS, R2_HANGS]],
];

const visitor = (name: string) => ({ anonymousId: `visitor ${name}` });
const known = (name: string) => ({ type: "identify", ...visitor(name), traits: { email: `${name}@example.com` } });

/** This time passes after the sent signals were sealed, because only sealed ones move to R2. */
async function sealed(ms: number): Promise<void> {
  await run.pass(MINUTE);
  await ring(run.workspace.id, { setNext: true });
  await run.pass(ms);
}

describe(`for ${OUTAGE_HOURS} hours`, () => {
  test.each(OUTAGES)(
    "%s: every signal is acknowledged, and all are processed, linked and counted once within 20 minutes after it",
    async (_, outage) => {
      // The first visitor's payload is in R2 at the beginning; the second one's is due to move during the outage.
      await run.send(visitor("first"));
      await sealed(26 * HOUR);
      await run.send(visitor("second"));
      await sealed(22 * HOUR);
      expect((await coldState(run.workspace.id)).cold).toHaveLength(1);

      run.begin(outage);
      await run.send(known("first"));
      for (let half = 0; half < 2 * OUTAGE_HOURS; half++) {
        await run.send({ email: `p${half % 3}@example.com`, n: half });
        await run.pass(30 * MINUTE);
      }
      await run.send(known("second"));
      expect(run.rejected).toEqual([]);
      expect(run.faults.hung.length > 0 || outage.every(([, how]) => how !== "is never answered")).toBe(true);

      run.end();
      await run.pass(RECOVERY_MS);
      await expectAllProcessed();
      const { items } = await run.workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
      const scores = items.map(({ email, score }) => `${email} ${score}`).toSorted();
      expect(scores).toEqual([
        "first@example.com 1",
        ...[0, 1, 2].map((n) => `p${n}@example.com ${(2 * OUTAGE_HOURS) / 3}`),
        "second@example.com 1",
      ]);
      expect((await coldState(run.workspace.id)).cold.length).toBeGreaterThan(1);
    },
    LIMIT_MS,
  );
});

describe("while D1 does not answer for hours", () => {
  test(
    "senders get a Retry-After once their key leaves the cache; acknowledged signals are processed afterwards",
    async () => {
      await run.send({ email: "a@example.com" });
      run.begin([[/^DB\./, "is never answered"]]);
      const statuses: number[] = [];
      for (let minute = 0; minute < OUTAGE_HOURS * 60; minute += 3) {
        statuses.push(await run.send({ email: "a@example.com" }));
        await run.pass(3 * MINUTE);
      }
      const last = statuses.lastIndexOf(202);
      expect(statuses).toEqual(statuses.map((_, index) => (index <= last ? 202 : 503)));
      expect(last).toBeGreaterThanOrEqual(2);
      expect(run.rejected.every((seconds) => seconds > 0)).toBe(true);

      run.end();
      await run.pass(RECOVERY_MS);
      await expectAllProcessed();
      expect(await run.send({ email: "a@example.com" })).toBe(202);
    },
    LIMIT_MS,
  );
});

describe("while the outbox is full of waiting signals", () => {
  test.each([
    ["the queue fails", QUEUE_FAILS],
    ["the queue does not answer", QUEUE_HANGS],
    ["the Signal Store does not answer", STORE_HANGS],
  ] as const)(
    "since %s for hours: new calls get a Retry-After before that, and all drains after it",
    async (_, outage) => {
      await run.send(large());
      await run.pass(MINUTE);
      await limitOutbox(OUTBOX_BYTES);
      run.begin([outage]);
      await sendUntilRejected();
      const { outboxBytes, outboxMaxBytes } = await run.backlog;
      expect(outboxBytes).toBeLessThan(outboxMaxBytes + 50_000);
      for (let hour = 0; hour < OUTAGE_HOURS; hour++) {
        await run.pass(HOUR);
        expect(await run.send(large())).toBe(503);
      }
      expect((await run.backlog).outboxBytes).toBeLessThan(outboxMaxBytes + 50_000);
      expect(run.rejected.every((seconds) => seconds > 0)).toBe(true);
      expect(await run.workspace.books()).toMatchObject({ accepted: run.acknowledged.length, balanced: true });

      run.end();
      await run.pass(RECOVERY_MS);
      await expectAllProcessed();
      expect(await run.send(large())).toBe(202);
    },
    LIMIT_MS,
  );

  test(
    "because the Signal Store has been full for hours while R2 rejects writes: once R2 recovers there is room, and the outbox drains",
    async () => {
      for (let n = 0; n < 30; n++) await run.send(large());
      await sealed(MINUTE);
      run.begin([R2_HANGS]);
      const { bytes } = await run.workspace.store.health();
      Object.assign(env, { STORE_MAX_BYTES: String(bytes + 80_000) });
      await limitOutbox(OUTBOX_BYTES);
      await sendUntilRejected();
      expect(await run.backlog).toMatchObject({ storeFull: true });
      for (let hour = 0; hour < OUTAGE_HOURS; hour++) {
        await run.pass(HOUR);
        expect(await run.send(large())).toBe(503);
      }
      expect(run.rejected.every((seconds) => seconds > 0)).toBe(true);
      expect(await run.workspace.books()).toMatchObject({ accepted: run.acknowledged.length, balanced: true });
      expect(await run.workspace.operator("GET", "/health")).toMatchObject({ status: "stuck" });

      run.end();
      await run.pass(RECOVERY_MS);
      await expectAllProcessed();
      expect((await coldState(run.workspace.id)).cold).not.toEqual([]);
      expect(await run.send(large())).toBe(202);
    },
    LIMIT_MS,
  );
});

/** About 20 KB of incompressible text. */
function large(): object {
  const text = Buffer.from(crypto.getRandomValues(new Uint8Array(15_000))).toString("base64");
  return { email: "a@example.com", text };
}

/** From this many additional bytes on the outbox accepts no new calls. */
async function limitOutbox(more: number): Promise<void> {
  Object.assign(env, { OUTBOX_MAX_BYTES: String((await run.backlog).outboxBytes + more) });
}

async function sendUntilRejected(): Promise<void> {
  for (let sent = 0; sent < 200; sent++) {
    if ((await run.send(large())) === 503) return;
    await run.pass(10_000);
  }
  throw new Error("nothing is rejected");
}

async function expectAllProcessed(): Promise<void> {
  const { acknowledged, workspace } = run;
  expect(await workspace.books()).toMatchObject({
    accepted: acknowledged.length,
    processed: acknowledged.length,
    in_flight: 0,
    balanced: true,
  });
  expect((await run.backlog).unsettledSignals).toBe(0);
  const traces = acknowledged.map((id) => workspace.operator<{ status: string }>("GET", `/signals/${id}`));
  expect(new Set((await Promise.all(traces)).map(({ status }) => status))).toEqual(new Set(["processed"]));
  expect(await workspace.operator("GET", "/health")).toMatchObject({ status: "ok", alarms: [] });
  await expectToAddUp(workspace.id);
}
