/** The Live page: signals and refused calls as they arrive, for members only, and never at the cost of either. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { LiveMessage } from "../../../src/platform/live-message.ts";
import { LIVE_SOCKET_MS } from "../../../src/limits.ts";
import { LIVE_MAX_WATCHERS, LIVE_ROWS_PER_SECOND, LIVE_MAX_OF_ONE_WATCHER } from "../../../src/platform/watchers.ts";
import type { Rejection } from "../../../src/domain/keys/rejection.ts";
import { People } from "../../../src/store/people/people.ts";
import type { LiveSignal } from "../../../src/store/protocol/recorded-signals.ts";
import { consumeMessages, deliver, messageOf } from "../../support/deliver.ts";
import { newMembers, type Members } from "../../support/members.ts";
import { readHtml, textOf } from "../../support/html.ts";
import { Browser } from "../../support/pages.ts";
import { until } from "../../support/until.ts";
import { call, type NewWorkspace, type TestWorkspace } from "../../support/workspace.ts";

const ORIGIN = "https://signals.example";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** The people of a new workspace, and the path of its Live page. */
async function atLive(options: NewWorkspace = {}) {
  const members = await newMembers(options);
  return { ...members, path: `${members.home}/live` };
}

/** Opens the WebSocket as the page's script does. */
async function open(browser: Browser, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return call(path, {
    headers: { cookie: await browser.cookie(), upgrade: "websocket", origin: ORIGIN, ...headers },
    redirect: "manual",
  });
}

class Watcher<Row> {
  readonly messages: LiveMessage<Row>[] = [];
  readonly others: unknown[] = [];
  readonly socket: WebSocket;
  closed: number | null = null;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.accept();
    socket.addEventListener("message", ({ data }) => {
      if (data === "pong") this.others.push(data);
      else this.messages.push(JSON.parse(String(data)) as LiveMessage<Row>);
    });
    socket.addEventListener("close", ({ code }) => {
      this.closed = code;
    });
  }

  get rows(): Row[] {
    return this.messages.flatMap(({ rows }) => rows);
  }

  get more(): number {
    return this.messages.reduce((sum, { more }) => sum + more, 0);
  }
}

async function watch<Row>({ member, home }: Members, what: string): Promise<Watcher<Row>> {
  const { status, webSocket } = await open(member, `${home}/live/${what}`);
  if (webSocket === null) throw new Error(`${what}: ${status}`);
  return new Watcher<Row>(webSocket);
}

const watchSignals = (members: Members) => watch<LiveSignal>(members, "signals");
const watchRejections = (members: Members) => watch<Rejection>(members, "rejections");

const signal = (n: number) => ({ event: "Signed Up", email: `p${n}@example.com`, properties: { n } });

describe("while somebody watches", () => {
  test("each signal arrives once it is recorded, with its status and why", async () => {
    const members = await atLive({ signalLimit: 2 });
    const { workspace } = members;
    await workspace.operator("POST", "/rules", {
      name: "up",
      event: "Signed Up",
      scoring_signal: "up",
      points: 7,
    });
    const watcher = await watchSignals(members);
    await workspace.send(signal(1));
    await workspace.send(signal(1));
    await workspace.send(signal(3));
    await until(() => expect(watcher.rows).toHaveLength(3));
    const [first, second, third] = watcher.rows;
    expect(first).toMatchObject({ status: "processed", event: "Signed Up", email: "p1@example.com", points: 7 });
    expect(second).toMatchObject({ status: "duplicate", duplicateOf: first?.id });
    expect(third).toMatchObject({ status: "held", email: "p3@example.com", points: 0 });
    expect(watcher.more).toBe(0);
  });

  test("each refused call arrives with its reason", async () => {
    const members = await atLive();
    const watcher = await watchRejections(members);
    const refused = await members.workspace.send({ event: "" });
    await until(() => expect(watcher.rows).toHaveLength(1));
    expect(watcher.rows[0]).toMatchObject({
      code: "event_missing",
      keyId: members.workspace.key.id,
      requestId: refused.headers.get("x-request-id"),
    });
  });

  test("no more than so many rows come in a second; the rest is counted, and nothing is lost of the count", async () => {
    const members = await atLive();
    const watcher = await watchSignals(members);
    const sent = 300;
    await members.workspace.send(Array.from({ length: sent }, (_, n) => signal(n)));
    await members.workspace.settled();
    await until(() => expect(watcher.rows.length + watcher.more).toBe(sent));
    for (const { rows } of watcher.messages) expect(rows.length).toBeLessThanOrEqual(LIVE_ROWS_PER_SECOND);
    expect(watcher.rows.length).toBeGreaterThan(0);
  });

  test("a signal that is delivered again is not news", async () => {
    const members = await atLive();
    const { id } = members.workspace;
    await deliver(id, [{ id: "sig_1", payload: signal(1) }]);
    const watcher = await watchSignals(members);
    await deliver(id, [{ id: "sig_1", payload: signal(1) }]);
    await deliver(id, [{ id: "sig_2", payload: signal(2), ordinal: 2 }]);
    await until(() => expect(watcher.rows.map(({ email }) => email)).toEqual(["p2@example.com"]));
  });

  test("the view goes on after the object has slept", async () => {
    const members = await atLive();
    const watcher = await watchRejections(members);
    await evictDurableObject(members.workspace.counter);
    await members.workspace.send({ event: "" });
    await until(() => expect(watcher.rows).toHaveLength(1));
  });

  test("who watches a store that ends as a signal cannot be recorded is told so, and may watch again", async () => {
    const members = await atLive();
    const { workspace } = members;
    const watcher = await watchSignals(members);
    await runInDurableObject(workspace.store, (_, { storage }) => {
      storage.sql.exec("CREATE TRIGGER refuse BEFORE INSERT ON people BEGIN SELECT raise(ABORT, 'broken'); END");
    });
    const bodies = [messageOf(workspace.id, [{ id: "sig_1", payload: signal(1) }])];
    await consumeMessages(bodies);
    await until(() => expect(watcher.closed).toBe(1006));
    const again = await watchSignals(members);
    await consumeMessages(bodies, { attempts: 2 });
    await until(() => expect(again.rows).toMatchObject([{ id: "sig_1", status: "dead" }]));
    expect(watcher.messages).toEqual([]);
  });

  test("a ping is answered, anything else ends the connection", async () => {
    const watcher = await watchSignals(await atLive());
    watcher.socket.send("ping");
    await until(() => expect(watcher.others).toEqual(["pong"]));
    watcher.socket.send("let me in");
    await until(() => expect(watcher.closed).toBe(1008));
  });
});

describe("who may watch", () => {
  test("who is removed, or signs out, hears nothing more, at once; others go on", async () => {
    const members = await atLive();
    const { workspace, path, owner, member } = members;
    const [signals, rejections] = [await watchSignals(members), await watchRejections(members)];
    const { webSocket } = await open(owner, `${path}/rejections`);
    if (webSocket === null) throw new Error("no connection");
    const other = new Watcher<Rejection>(webSocket);

    await member.post("/sign-out");
    await until(() => expect([signals.closed, rejections.closed]).toEqual([4000, 4000]));
    const again = await watchSignals({ ...members, member: new Browser(member.email) });
    const gone = await owner.post(path.replace("live", "settings/members/remove"), { email: member.email });
    expect(gone.status).toBe(303);
    await until(() => expect(again.closed).toBe(4000));

    await workspace.send({ event: "" });
    await until(() => expect(other.rows).toHaveLength(1));
    expect([other.closed, rejections.rows]).toEqual([null, []]);
  });

  test("a connection ends after its time, before anything more is told, so that membership is asked anew", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2031, 2, 1) });
    const members = await atLive();
    const { workspace, path, member } = members;
    const watcher = await watchRejections(members);
    // Behind everybody's back: a removal ends it at once.
    await env.DB.prepare("delete from members where email = ?").bind(member.email).run();
    expect((await open(member, `${path}/rejections`)).status).toBe(404);
    vi.setSystemTime(Date.UTC(2031, 2, 1) + LIVE_SOCKET_MS);
    await workspace.send({ event: "" });
    await until(() => expect(watcher.closed).toBe(4000));
    expect(watcher.messages).toEqual([]);
  });

  test("neither another site's page nor a stranger, another workspace's member or somebody who is not signed in may", async () => {
    const { path, owner, stranger } = await atLive();
    const other = await atLive();
    for (const what of ["signals", "rejections"]) {
      const to = `${path}/${what}`;
      expect((await open(owner, to, { origin: "https://evil.example" })).status).toBe(403);
      expect((await open(owner, to, { origin: "null" })).status).toBe(403);
      expect((await open(stranger, to)).status).toBe(404);
      expect((await open(other.owner, to)).status).toBe(404);
      expect(
        (await call(to, { headers: { upgrade: "websocket", origin: ORIGIN }, redirect: "manual" })).status,
      ).not.toBe(101);
      expect((await open(owner, to, { upgrade: "" })).status).toBe(426);
      expect((await open(owner, to)).status).toBe(101);
    }
    const noOrigin = { cookie: await owner.cookie(), upgrade: "websocket" };
    expect((await call(`${path}/signals`, { headers: noOrigin })).status).toBe(403);
  });

  test("nobody hears of another workspace", async () => {
    const [one, other] = [await atLive(), await atLive()];
    const [watching, elsewhere] = [await watchRejections(one), await watchRejections(other)];
    await other.workspace.send({ event: "" });
    await until(() => expect(elsewhere.rows).toHaveLength(1));
    expect(watching.messages).toEqual([]);
  });

  test("only so many may at a time; one who leaves makes room", async () => {
    const members = await atLive();
    const watchers: Watcher<Rejection>[] = [];
    while (watchers.length < LIVE_MAX_WATCHERS) {
      const email = `watcher-${watchers.length}-${members.slug}@example.com`;
      await members.workspace.operator("POST", "/members", { email, role: "member" });
      const member = new Browser(email);
      const theirs = Math.min(LIVE_MAX_OF_ONE_WATCHER, LIVE_MAX_WATCHERS - watchers.length);
      watchers.push(
        ...(await Promise.all(Array.from({ length: theirs }, () => watchRejections({ ...members, member })))),
      );
    }
    expect((await open(members.owner, `${members.path}/rejections`)).status).toBe(503);
    watchers[0]?.socket.close();
    await until(async () => {
      expect((await open(members.owner, `${members.path}/rejections`)).status).toBe(101);
    });
  });

  test("one person may have only so many views, so that nobody locks out the others; one tab that is closed makes room", async () => {
    const members = await atLive();
    const all = await Promise.all(
      Array.from({ length: LIVE_MAX_WATCHERS }, () => open(members.member, `${members.path}/rejections`)),
    );
    const sockets = all.flatMap(({ webSocket }) => (webSocket === null ? [] : [webSocket]));
    expect(sockets).toHaveLength(LIVE_MAX_OF_ONE_WATCHER);
    expect(all.filter(({ status }) => status === 429)).toHaveLength(LIVE_MAX_WATCHERS - LIVE_MAX_OF_ONE_WATCHER);
    expect((await open(members.owner, `${members.path}/rejections`)).status).toBe(101);
    const [first] = sockets;
    first?.accept();
    first?.close();
    await until(async () => {
      expect((await open(members.member, `${members.path}/rejections`)).status).toBe(101);
    });
  });
});

describe("what is watched is not disturbed", () => {
  /** What the store is asked from now on. */
  const statementsOf = async (workspace: TestWorkspace) => {
    const queries: string[] = [];
    await runInDurableObject(workspace.store, (_, { storage }) => {
      const exec = storage.sql.exec.bind(storage.sql);
      storage.sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
        queries.push(query);
        return exec(query, ...bindings);
      }) as typeof storage.sql.exec;
    });
    return queries;
  };

  test("nothing is made for a live view with nobody watching, nor after the last one has left; and nothing is read for it at all", async () => {
    const members = await atLive();
    const { workspace } = members;
    const emailOf = vi.spyOn(People.prototype, "emailOf");
    const queries = await statementsOf(workspace);
    await workspace.send(signal(1));
    await workspace.settled();
    expect(emailOf).not.toHaveBeenCalled();
    const unwatched = new Set(queries.splice(0));
    const watcher = await watchSignals(members);
    await workspace.send(signal(2));
    await workspace.settled();
    expect(emailOf).toHaveBeenCalledTimes(1);
    expect(queries.filter((query) => query.startsWith("SELECT") && !unwatched.has(query))).toEqual([]);
    watcher.socket.close();
    await until(() => expect(watcher.closed).not.toBeNull());
    await workspace.send(signal(3));
    await workspace.settled();
    expect(emailOf).toHaveBeenCalledTimes(1);
  });

  test("a live view that fails, and sockets that are gone, keep no signal from being recorded", async () => {
    const members = await atLive();
    const { workspace } = members;
    await watchSignals(members);
    const emailOf = vi.spyOn(People.prototype, "emailOf").mockImplementation(() => {
      throw new Error("broken");
    });
    await workspace.send(signal(1));
    expect(await workspace.settled()).toMatchObject({ processed: 1, balanced: true });
    expect(emailOf).toHaveBeenCalled();
  });
});

describe("the live page", () => {
  test("begins with the latest signals and refused calls, newest first, and narrows them down without a script", async () => {
    const { workspace, path, owner, member } = await atLive();
    await workspace.send({ ...signal(1), source: "web" });
    await workspace.settled();
    await workspace.send("{ nonsense");
    const rows = async (query = "") => (await owner.read(path + query)).all("tr[data-key]").map(({ text }) => text);
    const all = await rows();
    expect(all).toHaveLength(2);
    expect(all[0]).toMatch(/^just now Rejected Not JSON test key Not valid JSON/);
    expect(all[1]).toMatch(/^just now Processed Signed Up p1@example.com web/);
    expect(await rows("?status=rejected&text=")).toEqual([all[0]]);
    expect(await rows("?status=&text=P1%40EXAMPLE")).toEqual([all[1]]);
    expect(await rows("?status=held")).toEqual([]);
    // Spec §1: others see no keys.
    expect(await member.see(path)).not.toContain("test key");
    expect((await member.read(path)).link(/^Refresh/).target).toMatch(/\/live\?/);
    expect((await member.get(path)).headers.get("cache-control")).toBe("no-store");
  });

  test("says what to do when nothing has arrived", async () => {
    const { path, owner } = await atLive();
    const html = await owner.see(path);
    expect(textOf(html)).toContain("Nothing has arrived yet");
    expect(readHtml(html).one("main").targets).toContain(path.replace(/live$/, "connect"));
  });

  test("hostile events, sources and key names are text", async () => {
    const { workspace, path, owner } = await atLive();
    const evil = `"><script>alert(1)</script>`;
    const key = await workspace.newKey({ name: evil });
    await workspace.send({ event: evil, source: evil, properties: { [evil]: evil } });
    await workspace.send({ event: "", source: evil }, { key: key.key });
    await workspace.settled();
    for (const query of ["", `?text=${encodeURIComponent(evil)}`]) {
      expect((await owner.read(path + query)).inlineScripts).toHaveLength(0);
    }
    expect((await owner.read(path)).text).toContain("<script>alert(1)</script>");
  });

  test("is not there for a stranger", async () => {
    const { path, stranger } = await atLive();
    expect((await stranger.get(path)).status).toBe(404);
  });
});
