/**
 * Calls that are never answered: their caller gets an answer after a time limit, and the work is retried. A clock
 * that jumps to each time limit makes the tests quick.
 */
import {
  createExecutionContext,
  runDurableObjectAlarm,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { KEY_CACHE_MS, KEY_LOOKUP_MS } from "../../../src/ingest/authenticate.ts";
import { CALL_TIMEOUT_MS } from "../../../src/limits.ts";
import { deliver } from "../../../src/notifications/delivery-consumer.ts";
import { exportFile } from "../../../src/use-cases/export-file.ts";
import { HEALTH_ANSWER_MS } from "../../../src/use-cases/read-health.ts";
import { ringUntilQuiet } from "../../support/cold.ts";
import { consumeMessages, messageOf } from "../../support/deliver.ts";
import { intercept } from "../../support/intercept.ts";
import { expectLogged } from "../../support/logged.ts";
import { SeededFaults } from "../../support/seeded-faults.ts";
import { until } from "../../support/until.ts";
import { WaitingClock } from "../../support/waiting-clock.ts";
import { call, newWorkspace, type Problem, type TestWorkspace } from "../../support/workspace.ts";

const bindings = { ...env };
const clock = new WaitingClock(100);
let faults: SeededFaults;
let workspace: TestWorkspace;

beforeEach(async () => {
  workspace = await newWorkspace();
  // Far ahead, so that the platform's real clock rings no alarm.
  clock.begin(Date.now() + 24 * 3_600_000);
  expectLogged();
  faults = new SeededFaults(clock);
});

afterEach(() => {
  clock.end();
  vi.restoreAllMocks();
  Object.assign(env, bindings);
});

/** The outcome while these calls, such as `DB.run`, are never answered, with the elapsed time by the clock. */
async function whileNever<T>(never: RegExp, act: () => Promise<T>): Promise<{ result: T; tookMs: number }> {
  const startedMs = Date.now();
  faults.ends = (name) => (never.test(name) ? "is never answered" : null);
  faults.begin(1, 0);
  try {
    // Calls of an object are real too: wait for them as for D1, even if another call hangs.
    const result = await clock.watch(act(), () => (faults.underWay + faults.calling > 0 ? null : faults.moves));
    expect(faults.hung.length, "nothing was waited for").toBeGreaterThan(0);
    return { result, tookMs: Date.now() - startedMs };
  } finally {
    faults.end();
  }
}

async function expectUnavailable(response: Response): Promise<void> {
  expect(response.status).toBe(503);
  expect(response.headers.get("retry-after")).toBe("5");
  expect((await response.json<Problem>()).code).toBe("unavailable");
}

const VISIT = { email: "a@example.com", event: "Visit" };

describe("the sender gets a 503 with Retry-After", () => {
  test("when the Quota Counter does not answer, and no acknowledged signal is lost", async () => {
    const { result, tookMs } = await whileNever(/COUNTER\.admit/, () => workspace.send(VISIT));
    await expectUnavailable(result);
    expect(tookMs).toBe(CALL_TIMEOUT_MS);
    expect((await workspace.send(VISIT)).status).toBe(202);
    expect(await workspace.settled()).toMatchObject({ processed: 1, balanced: true });
  });

  test("when the Quota Counter cannot record a rejected call", async () => {
    const { result, tookMs } = await whileNever(/COUNTER\.rejected/, () => workspace.send("{ not json"));
    await expectUnavailable(result);
    expect(tookMs).toBe(CALL_TIMEOUT_MS);
  });

  test("when D1 does not answer for an unknown key; for a recently known key one call in ten seconds waits", async () => {
    const { result, tookMs } = await whileNever(/DB\.run/, () => workspace.send(VISIT));
    await expectUnavailable(result);
    expect(tookMs).toBe(CALL_TIMEOUT_MS);
    expect((await workspace.send(VISIT)).status).toBe(202);
    clock.pass(KEY_CACHE_MS);
    const timed = async (): Promise<[number, number]> => {
      const startedMs = Date.now();
      return [(await workspace.send(VISIT)).status, Date.now() - startedMs];
    };
    const atOnce = [202, 0];
    const waits = [202, KEY_LOOKUP_MS];
    for (let round = 0; round < 2; round++) {
      const later = await whileNever(/DB\.run/, () => Promise.all([timed(), timed(), timed()]));
      // The order of the three calls is not specified.
      expect(later.result.toSorted(([, a], [, b]) => b - a)).toEqual([waits, atOnce, atOnce]);
      clock.pass(CALL_TIMEOUT_MS);
    }
  });

  test("but not when the rate limit of failures does not answer: a failed caller still gets a 401", async () => {
    const secret = await workspace.newKey({ secret: true });
    const { result } = await whileNever(/AUTH_FAILURES/, () => workspace.send(VISIT, { key: secret.key }));
    expect(result.status).toBe(401);
  });
});

describe("a message", () => {
  test.each([
    ["D1 does not answer", /^DB\./, "signals"],
    ["the Signal Store does not answer", /STORE\.record/, "signals"],
    ["the Quota Counter does not answer", /COUNTER\.settle/, "signals"],
    ["its dead letter cannot be recorded", /STORE\.record/, "signals-dlq"],
  ])("is retried and recorded once if %s", async (_, never, queue) => {
    const body = messageOf(workspace.id, [{ id: "sig_1", payload: VISIT }]);
    const { result } = await whileNever(never, () => consumeMessages([body], { queue }));
    expect(result.retryMessages).toHaveLength(1);
    expect((await consumeMessages([body], { queue, attempts: 2 })).explicitAcks).toHaveLength(1);
    const recorded = await workspace.store.totals();
    expect(recorded).toMatchObject(queue === "signals" ? { processed: 1 } : { deadLettered: 1 });
  });

  test("is not retried if linking does not answer, because the store repeats it", async () => {
    const body = await identifyToLink();
    const { result } = await whileNever(/STORE\.link/, () => consumeMessages([body]));
    expect(result.explicitAcks).toHaveLength(1);
    await ringUntilQuiet(workspace.id);
    expect(await scoreOfVisitor()).toBe(5);
  });
});

describe("work after an answer", () => {
  test("ends at a time limit if the Quota Counter does not take reports of rejected calls, which are lost", async () => {
    const secret = await workspace.newKey({ secret: true });
    const logged = expectLogged("rejected_calls_lost");
    await whileNever(/COUNTER\.countRejected/, async () => {
      expect((await workspace.send(VISIT, { key: secret.key })).status).toBe(401);
      for (let tries = 0; tries < 200 && logged().length === 0; tries++) await clock.really(25);
    });
    expect(logged()).not.toEqual([]);
  });

  test.each(["take", "report"])(
    "ends at a time limit if Destinations does not answer `%s`; the delivery comes again",
    async (name) => {
      const parcel = {
        destinationId: "dst_1",
        type: "webhook",
        target: "http://192.0.2.1/",
        secrets: [],
        notification: {},
      };
      const logged = expectLogged("delivery_lost");
      const answer = (asked: string) => (asked === name ? (clock.hung(), new Promise<never>(() => {})) : parcel);
      const getByName = () => ({ take: async () => answer("take"), report: async () => answer("report") });
      const message = {
        body: JSON.stringify({ workspaceId: "ws_1", destinationId: "dst_1", id: "dlv_1", attempt: 1 }),
      };
      const context = createExecutionContext();
      const delivering = { ...env, DESTINATIONS: { getByName } } as unknown as Env;
      deliver({ messages: [message] } as unknown as MessageBatch<string>, delivering, context);
      await clock.watch(waitOnExecutionContext(context), () => 0);
      expect(logged()).not.toEqual([]);
    },
  );
});

describe("the alarm of Destinations", () => {
  test("ends if the keys for key notices cannot be read", async () => {
    const destination = {
      name: "CRM",
      type: "webhook",
      target: "https://receiver.example/",
      notifications: ["key.expiring"],
    };
    await workspace.operator("POST", "/destinations", destination);
    const object = env.DESTINATIONS.getByName(workspace.id);
    // The first check is due at once. No other starts before it ends; if it fails, because two hours passed, the next one is postponed.
    await until(async () => {
      await runDurableObjectAlarm(object);
      const query = "SELECT 1 FROM settings WHERE name = 'chore_ms'";
      expect(await runInDurableObject(object, (_, { storage: { sql } }) => sql.exec(query).toArray())).toHaveLength(1);
    });
    clock.pass(7_200_000);
    const { tookMs } = await whileNever(/^DB\./, () => runInDurableObject(object, (instance) => instance.alarm()));
    expect(tookMs).toBeLessThanOrEqual(2 * CALL_TIMEOUT_MS);
  });
});

describe("the Signal Store", () => {
  test("links again after the mapping rules did not arrive: an endless call does not block later ones", async () => {
    const body = await identifyToLink();
    faults.ends = (name) => (name.endsWith("STORE.link") ? "fails" : null);
    faults.begin(1, 0);
    await consumeMessages([body]);
    faults.end();
    const { tookMs } = await whileNever(/^DB\./, () => workspace.store.link());
    expect(tookMs).toBe(CALL_TIMEOUT_MS);
    expect(await scoreOfVisitor()).toBe(0);
    await workspace.store.link();
    expect(await scoreOfVisitor()).toBe(5);
  });
});

describe("a manager of a workspace", () => {
  test.each([
    ["workspaces/{id}/books", "D1", /^DB\./],
    ["workspaces/{id}/books", "the Quota Counter", /^QUOTA_COUNTER\./],
    ["workspaces/{id}/books", "the Signal Store", /^SIGNAL_STORE\./],
    ["health", "D1", /^DB\./],
    ["metrics", "D1", /^DB\./],
  ])("gets an answer from %s in half a minute if %s does not answer", async (path, _, never) => {
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
    const url = `/operator/${path.replace("{id}", workspace.id)}`;
    const { result, tookMs } = await whileNever(never, () => call(url, { headers }));
    await expectUnavailable(result);
    expect(tookMs).toBe(30_000);
  });

  test("gets the value of a new key that D1 stores late, but within a minute", async () => {
    const DB = intercept(env.DB, async ({ method, make }) => {
      if (method === "batch") await new Promise((resolve) => setTimeout(resolve, 50_000));
      return make();
    });
    Object.assign(env, { DB });
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}` };
    const request = { method: "POST", headers, body: JSON.stringify({ name: "CRM" }) };
    const made = await clock.watch(call(`/operator/workspaces/${workspace.id}/keys`, request), () => 0);
    expect(made.status).toBe(201);
    const { key } = await made.json<{ key: string }>();
    expect((await workspace.send(VISIT, { key })).status).toBe(202);
  });

  test.each([
    ["Quota Counter", /^QUOTA_COUNTER\./],
    ["Signal Store", /^SIGNAL_STORE\./],
  ])("learns within five seconds from a workspace's health that the %s does not answer", async (object, never) => {
    const { result, tookMs } = await whileNever(never, () => workspace.operator("GET", "/health"));
    const says = expect.stringContaining(`${object} (Error: no answer within 5000 ms)`);
    expect(result).toEqual({ status: "stuck", alarms: [{ alarm: "unreachable", status: "stuck", says }] });
    expect(tookMs).toBe(HEALTH_ANSWER_MS);
  });

  test("does not wait forever for the rest of an export: the file breaks off", async () => {
    const pages = [Promise.resolve({ text: "one\n", next: "two" }), new Promise<never>(() => {})];
    const getByName = () => ({ exportPart: () => (clock.hung(), pages.shift()) });
    const exporting = { ...env, SIGNAL_STORE: { getByName } } as unknown as Env;
    const wanted = { records: "people", format: "csv" } as const;
    const file = await exportFile(workspace.context({ env: exporting }), "slug", wanted);
    await expect(clock.watch(new Response(file?.body).text(), () => 0)).rejects.toThrow("no answer within");
  });
});

/** A message of a person who becomes known; only linking finds their earlier signal. */
async function identifyToLink(): Promise<Uint8Array> {
  const rule = { name: "r", event: "Visit", conditions: [], scoring_signal: "s", points: 5 };
  await workspace.operator("POST", "/rules", rule);
  const before = { type: "track", messageId: "1", anonymousId: "visitor-1", event: "Visit" };
  await consumeMessages([messageOf(workspace.id, [{ id: "sig_1", payload: before }])]);
  await workspace.operator("POST", "/rules", { ...rule, name: "another", event: "Other" });
  const known = { type: "identify", messageId: "2", anonymousId: "visitor-1", traits: { email: "a@example.com" } };
  return messageOf(workspace.id, [{ id: "sig_2", payload: known, at: Date.now() + 60_000 }]);
}

async function scoreOfVisitor(): Promise<number | undefined> {
  const { items } = await workspace.operator<{ items: { score: number }[] }>("GET", "/people");
  return items[0]?.score;
}
