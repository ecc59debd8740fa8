/** The watch over all workspaces: objects report a new alarm, and what has changed is posted to the operator. */
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { SignalStore } from "../../../src/store/signal-store.ts";
import { watchHealth } from "../../../src/use-cases/watch-health.ts";
import { DestinationHarness, listen, Receiver, crossed } from "../../support/destination-harness.ts";
import { forgetAllBut } from "../../support/hostile/world.ts";
import { expectLogged } from "../../support/logged.ts";
import { leaveDeadLetter, leaveWaiting } from "../../support/unhealthy.ts";
import { until } from "../../support/until.ts";
import { newWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.UTC(2031, 4, 5, 12, 10);
const ALARM_SECRET = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;

// The queue does not take what waits.
expectLogged("drain_failed");

interface Post {
  type: string;
  timestamp: string;
  data: { text: string; workspaces?: unknown[]; open?: unknown[] };
}

let receiver: Receiver;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: START });
  receiver = new Receiver();
  listen(receiver);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A workspace that the watch finds alone. */
async function newAlone(): Promise<TestWorkspace> {
  const workspace = await newWorkspace();
  await forgetAllBut(workspace);
  return workspace;
}

const watch = (bindings: object = {}) =>
  watchHealth({ ...env, ALARM_URL: receiver.url, ALARM_SECRET, ...bindings } as unknown as Env, Date.now());

/** What the watch posts now. */
async function posts(): Promise<Post[]> {
  receiver.received.length = 0;
  await watch();
  return receiver.received.map(({ body }) => body as unknown as Post);
}

async function replayAll(workspace: TestWorkspace): Promise<void> {
  await runInDurableObject(workspace.store, (_, { storage }) => void storage.sql.exec("DROP TRIGGER reject"));
  await workspace.operator("POST", "/dead-letters/replay", {});
  expect(await workspace.settled()).toMatchObject({ dead_lettered: 0 });
}

const ring = (workspace: TestWorkspace, object: "store" | "counter") => runDurableObjectAlarm(workspace[object]);

describe("the watch over all workspaces", () => {
  test("posts a new alarm once, signed, with its remedy; then that it is gone", async () => {
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    const [post, ...others] = await posts();
    expect(others).toEqual([]);
    expect(receiver.verify(ALARM_SECRET)).toEqual(post);
    expect(post).toMatchObject({
      type: "alarms.changed",
      data: {
        text: expect.stringMatching(/^w-.*: ok → late\n• dead_letters: 1 signal could not be processed/),
        workspaces: [
          {
            workspace_id: workspace.id,
            status_before: "ok",
            status: "late",
            new: [{ alarm: "dead_letters", status: "late", help: "docs/operate.md#dead_letters" }],
            gone: [],
          },
        ],
      },
    });
    expect(await posts()).toEqual([]);

    vi.setSystemTime(START + 25 * HOUR);
    const since = new Date(START).toISOString();
    expect(await posts()).toMatchObject([
      {
        data: {
          workspaces: [{ status_before: "late", status: "ok", new: [], gone: [{ alarm: "dead_letters", since }] }],
        },
      },
    ]);
    expect(await posts()).toEqual([]);
  });

  test("learns from the Quota Counter that signals wait, and posts when it becomes worse", async () => {
    const workspace = await newAlone();
    await leaveWaiting(workspace);
    vi.setSystemTime(START + 15 * MINUTE);
    await ring(workspace, "counter");
    expect(await posts()).toMatchObject([
      { data: { workspaces: [{ status: "late", new: [{ alarm: "signals_late" }] }] } },
    ]);
    vi.setSystemTime(START + 60 * MINUTE);
    expect(await posts()).toMatchObject([
      {
        data: {
          workspaces: [
            {
              status_before: "late",
              status: "stuck",
              new: [{ alarm: "signals_stuck" }],
              gone: [{ alarm: "signals_late" }],
            },
          ],
        },
      },
    ]);
  });

  test("does not say that an alarm is gone while the objects do not answer", async () => {
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    await posts();
    const health = vi.spyOn(SignalStore.prototype, "health").mockImplementation(() => {
      throw new Error("away");
    });
    const changed = (change: object) => [{ data: { workspaces: [change] } }];
    expect(await posts()).toMatchObject(changed({ status: "stuck", new: [{ alarm: "unreachable" }], gone: [] }));
    health.mockRestore();
    expect(await posts()).toMatchObject(changed({ status: "late", new: [], gone: [{ alarm: "unreachable" }] }));
    vi.setSystemTime(START + 25 * HOUR);
    expect(await posts()).toMatchObject(changed({ status: "ok", new: [], gone: [{ alarm: "dead_letters" }] }));
  });

  test.each([
    ["a day later", async () => void vi.setSystemTime(START + 25 * HOUR)],
    ["after a replay", replayAll],
  ])("posts a new dead letter %s again, although no alarm of the store came in between", async (_, pass) => {
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    await posts();
    await pass(workspace);
    expect(await posts()).toMatchObject([{ data: { workspaces: [{ gone: [{ alarm: "dead_letters" }] }] } }]);
    await leaveDeadLetter(workspace, "b@example.com");
    await ring(workspace, "store");
    expect(await posts()).toMatchObject([{ data: { workspaces: [{ new: [{ alarm: "dead_letters" }] }] } }]);
  });

  test("leaves nothing of a workspace that ends while it posts", async () => {
    const workspace = await newAlone();
    const { slug } = await workspace.operator<{ slug: string }>("GET", "");
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    receiver.answer = async () => {
      await workspace.operator("DELETE", "", { slug });
      return new Response("thanks");
    };
    expect(await posts()).toHaveLength(1);
    expect((await env.DB.prepare("SELECT * FROM open_alarms").all()).results).toEqual([]);
    // Of a report that came too late, too.
    await env.DB.prepare("INSERT INTO health_reports VALUES (?, ?)").bind(workspace.id, new Date().toISOString()).run();
    expect(await posts()).toEqual([]);
  });

  test("learns from Destinations that a receiver fails, and fails again", async () => {
    const harness = await DestinationHarness.make();
    await forgetAllBut(harness.workspace);
    const broken = new Receiver();
    broken.answer = () => new Response("no such hook", { status: 410 });
    listen(receiver, broken);
    const { id } = await harness.create(broken);
    await harness.raise(crossed());
    await until(async () => expect(await harness.destination(id)).toMatchObject({ disabled_reason: "gone" }));
    vi.setSystemTime(START + HOUR);
    await runDurableObjectAlarm(harness.object);
    const changed = (change: object) => [{ data: { workspaces: [change] } }];
    expect(await posts()).toMatchObject(changed({ new: [{ alarm: "destination_off" }] }));
    await harness.workspace.operator("POST", `/destinations/${id}/resume`);
    expect(await posts()).toMatchObject(changed({ gone: [{ alarm: "destination_off" }] }));
    // It is switched off again before the next alarm of the object.
    await harness.raise(crossed());
    await until(async () => expect(await harness.destination(id)).toMatchObject({ disabled_reason: "gone" }));
    await runDurableObjectAlarm(harness.object);
    expect(await posts()).toMatchObject(changed({ new: [{ alarm: "destination_off" }] }));
  });

  test("repeats what the address did not accept", async () => {
    expectLogged("watch_failed");
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    receiver.answer = () => new Response("down", { status: 503 });
    expect(await posts()).toHaveLength(1);
    receiver.answer = () => new Response("thanks");
    expect(await posts()).toMatchObject([{ type: "alarms.changed" }]);
    expect(await posts()).toEqual([]);
  });

  test("blames no database for an address that does not answer at a full hour", async () => {
    expectLogged("watch_failed");
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    vi.setSystemTime(START + 50 * MINUTE);
    receiver.answer = (nth) => new Response("", { status: nth === 1 ? 503 : 200 });
    expect(await posts()).toMatchObject([{ type: "alarms.changed" }]);
  });

  test("keeps a report that came while it asked", async () => {
    const workspace = await newAlone();
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    receiver.answer = async () => {
      const later = new Date(Date.now() + 1).toISOString();
      await env.DB.prepare("UPDATE health_reports SET reported_at = ?").bind(later).run();
      return new Response("thanks");
    };
    expect(await posts()).toHaveLength(1);
    expect((await env.DB.prepare("SELECT * FROM health_reports").all()).results).toHaveLength(1);
  });

  test("an object reports an alarm once, again after a failure, and a new one beside it", async () => {
    const failed = expectLogged("health_report_failed");
    const workspace = await newAlone();
    await leaveWaiting(workspace);
    const reports = async (): Promise<number> => {
      vi.setSystemTime(Date.now() + 15 * MINUTE);
      await ring(workspace, "counter");
      const { results } = await env.DB.prepare("SELECT * FROM health_reports").all();
      await env.DB.exec("DELETE FROM health_reports");
      return results.length;
    };
    await env.DB.exec("ALTER TABLE health_reports RENAME TO gone");
    vi.setSystemTime(Date.now() + 15 * MINUTE);
    await ring(workspace, "counter");
    await env.DB.exec("ALTER TABLE gone RENAME TO health_reports");
    expect(failed()).toHaveLength(1);
    expect([await reports(), await reports(), await reports(), await reports()]).toEqual([1, 0, 1, 0]);
  });

  test("once a day says that it runs, with the open alarms", async () => {
    const workspace = await newAlone();
    vi.setSystemTime(Date.UTC(2031, 4, 5, 8, 0, 2));
    expect(await posts()).toMatchObject([
      { type: "alarms.heartbeat", data: { text: "The watch runs. All is well.", open: [] } },
    ]);
    await leaveDeadLetter(workspace);
    await ring(workspace, "store");
    vi.setSystemTime(Date.UTC(2031, 4, 5, 8, 4));
    const [, beat] = await posts();
    expect(beat).toMatchObject({ type: "alarms.heartbeat", data: { open: [{ alarms: ["dead_letters"] }] } });
    vi.setSystemTime(Date.UTC(2031, 4, 5, 8, 5));
    expect(await posts()).toEqual([]);
  });

  test("without D1 says so once an hour", async () => {
    expectLogged("watch_failed");
    const broken = {
      withSession: () => ({ prepare: () => expect.unreachable(), batch: () => Promise.reject(new Error("away")) }),
    };
    const said: string[] = [];
    for (const minute of [0, 5, 55, 60]) {
      vi.setSystemTime(Date.UTC(2031, 4, 5, 12, minute));
      receiver.received.length = 0;
      await watch({ DB: broken });
      said.push(...receiver.received.map(({ body }) => `${minute} ${body.type}`));
    }
    expect(said).toEqual(["0 alarms.unknown", "60 alarms.unknown"]);
  });

  test("writes a text for a Slack channel, without a signature", async () => {
    const slack = new Receiver("hooks.slack.com", "/services/T0/B0/x");
    listen(slack);
    vi.setSystemTime(Date.UTC(2031, 4, 5, 8));
    await watch({ ALARM_URL: slack.url });
    expect(slack.received.map(({ body }) => body)).toEqual([{ text: expect.stringContaining("The watch runs.") }]);
    expect(slack.received[0]?.headers.get("webhook-signature")).toBeNull();
  });

  test("without an address asks for nothing", async () => {
    const unused = { withSession: () => expect.unreachable() };
    await watch({ ALARM_URL: "", DB: unused });
    expect(receiver.received).toEqual([]);
  });
});
