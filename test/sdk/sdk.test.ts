/** Spec §4.2, §6: unmodified SDKs of two CDPs post to the built service over HTTP, and every event is stored. */
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BenchRule } from "../bench/rules.ts";
import { VENDORS } from "./support/senders.ts";
import { RelayedService, type Workspace } from "./support/relayed-service.ts";

let service: RelayedService;

beforeAll(async () => {
  service = await RelayedService.start();
});

afterAll(() => service?.stop());

interface Listed<T> {
  items: T[];
}
interface Signal {
  id: string;
  event: string;
  kind: string;
  source: string;
  status: string;
}
interface Person {
  email: string;
  name: string | null;
  company: string | null;
  title: string | null;
  score: number;
  identities: { kind: string; value: string }[];
  scoring_signals: { scoring_signal: string; points: number }[];
}

const ANONYMOUS = { anonymousId: "507f191e810c19729de860ea" };
const USER = { userId: "97980cfea0067" };
const TRAITS = { email: "Peter@Example.com", name: "Peter Gibbons", company: { name: "Initech" }, title: "Engineer" };

const RULES: BenchRule[] = [
  {
    name: "Demos of the growth plan",
    event: "Demo Requested",
    match: "all",
    conditions: [{ path: "properties.plan.name", operator: "equals", value: "growth" }],
    scoring_signal: "Wants a demo",
    points: 25,
  },
  {
    name: "Prices",
    event: "Page Viewed",
    match: "all",
    conditions: [
      { path: "properties.name", operator: "equals", value: "Pricing" },
      { path: "properties.url", operator: "contains", value: "/pricing" },
    ],
    scoring_signal: "Read the prices",
    points: 10,
  },
];

const demoRequest = { event: "Demo Requested", properties: { plan: { name: "growth" } } };
const prices = { name: "Pricing", properties: { url: "https://example.com/pricing" } };

/** Each event came once and each call got 202, so that the SDK resent nothing. */
function expectOneDelivery(workspace: Workspace, events: number): void {
  const calls = workspace.calls();
  expect(calls.map(({ status }) => status)).toEqual(calls.map(() => 202));
  const sent = calls.flatMap(({ messageIds }) => messageIds);
  expect(sent).toHaveLength(events);
  expect(new Set(sent).size).toBe(events);
}

async function signals(workspace: Workspace): Promise<Signal[]> {
  return (await workspace.get<Listed<Signal>>("/signals")).items;
}

async function people(workspace: Workspace): Promise<Person[]> {
  return (await workspace.get<Listed<Person>>("/people")).items;
}

describe.each(VENDORS)("§4.2, §6 $source", (vendor) => {
  test("each type of call is answered with 202 and delivered at the first attempt, and its source is detected", async () => {
    const workspace = await service.newWorkspace();
    const sender = workspace.newSender(vendor);
    sender.call("identify", { ...ANONYMOUS, ...USER, traits: TRAITS });
    sender.call("track", { ...ANONYMOUS, ...demoRequest });
    sender.call("page", { ...ANONYMOUS, ...prices });
    sender.call("screen", { ...USER, name: "Settings" });
    sender.call("group", { ...USER, groupId: "initech", traits: { plan: "growth" } });
    sender.call("alias", { ...USER, previousId: "old-id" });
    await sender.flush();

    expect(sender.errors).toEqual([]);
    expect(sender.delivered()).toBe(6);
    expectOneDelivery(workspace, 6);
    await workspace.settled(6);
    const stored = await signals(workspace);
    expect(stored.map(({ event }) => event).toSorted()).toEqual(
      ["identify", "Demo Requested", "Page Viewed", "screen", "group", "alias"].toSorted(),
    );
    expect(new Set(stored.map(({ source }) => source))).toEqual(new Set([vendor.source]));
  });

  test(`requests have the SDK's documented headers and fields: ${Object.values(vendor.wire).join(", ")}`, async () => {
    const workspace = await service.newWorkspace();
    const sender = workspace.newSender(vendor);
    // Characters that a form decoder or a wrong charset would damage.
    const properties = { text: "100% + ü & 漢字 = 🎉" };
    sender.call("track", { ...USER, event: "Typed", properties });
    await sender.flush();
    const [call] = workspace.calls();
    expect(call?.headers["content-type"]).toBe(vendor.wire["content-type"]);
    expect(call?.headers["content-encoding"]).toBe(vendor.wire["content-encoding"]);
    await workspace.settled(1);
    const [stored] = await signals(workspace);
    expect(await workspace.get(`/signals/${stored?.id}`)).toMatchObject({ event: "Typed", payload: { properties } });
  });

  test("an identify creates the person and links the earlier and later signals of the visitor and the user", async () => {
    const workspace = await service.newWorkspace(RULES);
    const sender = workspace.newSender(vendor);
    sender.call("track", { ...ANONYMOUS, ...demoRequest });
    sender.call("page", { ...ANONYMOUS, ...prices });
    sender.call("track", { ...USER, event: "Logged In" });
    await sender.flush();
    await workspace.settled(3);
    expect(await people(workspace)).toEqual([]);
    expect((await signals(workspace)).map(({ status }) => status)).toEqual(["anonymous", "anonymous", "anonymous"]);

    sender.call("identify", { ...ANONYMOUS, ...USER, traits: TRAITS });
    await sender.flush();
    await workspace.settled(4);
    // Known by the user id only.
    sender.call("track", { ...USER, event: "Demo Requested", properties: { plan: { name: "growth" }, again: true } });
    await sender.flush();
    await workspace.settled(5);

    expectOneDelivery(workspace, 5);
    const [person, ...rest] = await people(workspace);
    expect(rest).toEqual([]);
    expect(person).toMatchObject({
      email: "peter@example.com",
      name: "Peter Gibbons",
      company: "Initech",
      title: "Engineer",
      score: 60,
    });
    expect(person?.identities.map(({ kind, value }) => `${kind} ${value}`).toSorted()).toEqual([
      `anonymous_id ${ANONYMOUS.anonymousId}`,
      `user_id ${USER.userId}`,
    ]);
    expect(person?.scoring_signals.map(({ scoring_signal }) => scoring_signal).toSorted()).toEqual([
      "Read the prices",
      "Wants a demo",
      "Wants a demo",
    ]);
    expect(new Set((await signals(workspace)).map(({ status }) => status))).toEqual(new Set(["processed"]));
  });

  test("a rejected event is lost alone, not the batch around it", async () => {
    const workspace = await service.newWorkspace();
    const sender = workspace.newSender(vendor);
    // RudderStack's SDK sends its first event at once.
    sender.call("track", { ...USER, event: "First" });
    await sender.flush();
    sender.call("track", { ...USER, event: "Before" });
    sender.call("track", { ...USER, event: "x".repeat(256) });
    sender.call("track", { ...USER, event: "After" });
    await sender.flush();

    expect(sender.errors).toEqual([]);
    expectOneDelivery(workspace, 4);
    expect(workspace.calls().at(-1)?.answer).toMatchObject({
      accepted: 2,
      rejected: 1,
      results: [{ status: "accepted" }, { status: "rejected", code: "event_invalid" }, { status: "accepted" }],
    });
    await workspace.settled(3);
    expect((await signals(workspace)).map(({ event }) => event).toSorted()).toEqual(["After", "Before", "First"]);
  });

  test("the SDK reports a deactivated key to the application once and does not retry", async () => {
    const workspace = await service.newWorkspace();
    const sender = workspace.newSender(vendor);
    sender.call("track", { ...USER, event: "In time" });
    await sender.flush();
    await workspace.deactivateKey();
    sender.call("track", { ...USER, event: "Too late" });
    const startedAtMs = Date.now();
    await sender.flush();

    expect(Date.now() - startedAtMs).toBeLessThan(20_000);
    expect(sender.errors).toHaveLength(1);
    expect(sender.delivered()).toBe(1);
    expect(workspace.calls().map(({ status }) => status)).toEqual([202, 401]);
    await workspace.settled(1);
  });
});

describe("§4.2 a batch in the SDKs' format with one bad event", () => {
  const BATCH = {
    batch: [
      { type: "track", messageId: "m-1", userId: "u-1", event: "Before" },
      { type: "track", messageId: "m-2", userId: "u-1", event: "" },
      { type: "track", messageId: "m-3", userId: "u-1", event: "After" },
    ],
    sentAt: "2026-02-23T22:28:55.111Z",
  };

  test.each([
    ["plain JSON", { "content-type": "application/json" }, Buffer.from(JSON.stringify(BATCH))],
    [
      "gzip, labelled as a form",
      { "content-type": "application/x-www-form-urlencoded", "content-encoding": "gzip" },
      gzipSync(JSON.stringify(BATCH)),
    ],
  ])("loses that event alone: %s", async (_, headers, body) => {
    const workspace = await service.newWorkspace();
    const response = await fetch(workspace.url, { method: "POST", headers, body });
    expect(response.status).toBe(202);
    expect(await response.json()).toMatchObject({
      status: "partial",
      accepted: 2,
      rejected: 1,
      results: [{ status: "accepted" }, { status: "rejected", code: "event_missing" }, { status: "accepted" }],
    });
    await workspace.settled(2);
    expect((await signals(workspace)).map(({ event }) => event).toSorted()).toEqual(["After", "Before"]);
  });
});

describe("§7, §8.7 429", () => {
  let slow: RelayedService;

  beforeAll(async () => {
    slow = await RelayedService.start({ REQUEST_RATE_PER_SECOND: "0.4", REQUEST_BURST: "1" });
  });

  afterAll(() => slow?.stop());

  test.each(VENDORS)("$source waits as long as Retry-After says, and every event arrives", async (vendor) => {
    const workspace = await slow.newWorkspace();
    const sender = workspace.newSender(vendor);
    sender.call("track", { ...USER, event: "First" });
    await sender.flush();
    sender.call("track", { ...USER, event: "Second" });
    await sender.flush();

    const [first, rejected, second] = workspace.calls();
    expect(workspace.calls().map(({ status }) => status)).toEqual([202, 429, 202]);
    expect(rejected?.messageIds).toEqual(second?.messageIds);
    expect(first?.messageIds).not.toEqual(second?.messageIds);
    const retryAfterMs = (rejected?.retryAfterS ?? 0) * 1_000;
    expect(retryAfterMs).toBeGreaterThanOrEqual(1_000);
    const waitedMs = (second?.receivedAtMs ?? 0) - (rejected?.answeredAtMs ?? 0);
    // Timers may fire a little early.
    expect(waitedMs).toBeGreaterThan(retryAfterMs - 50);
    expect(sender.errors).toEqual([]);
    expect(sender.delivered()).toBe(2);
    await workspace.settled(2);
    expect((await signals(workspace)).map(({ event }) => event).toSorted()).toEqual(["First", "Second"]);
  });
});
