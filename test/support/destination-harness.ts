/** A workspace with destinations, notifications to raise, and a clock that the test moves. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, expect, vi } from "vitest";
import type { NotificationOf, Notification } from "../../src/domain/notifications/notification.ts";
import type { DueDelivery } from "../../src/notifications/destination-calls.ts";
import { newId } from "../../src/platform/ids.ts";
import { until } from "./until.ts";
import { newWorkspace, type TestWorkspace } from "./workspace.ts";

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

interface DeliveryAnswer {
  id: string;
  notification_id: string;
  type: string;
  state: string;
  end_reason: string | null;
  created_at: string;
  due_at: string | null;
  attempts: { status: number | null; error: string | null; answer: string | null }[];
}

interface DestinationAnswer {
  id: string;
  name: string;
  type: string;
  target: string;
  headers: { name: string }[];
  notifications: string[];
  state: string;
  disabled_reason: string | null;
  failing_since: string | null;
  waiting: number;
  dropped: number;
  secret?: string;
}

export class DestinationHarness {
  readonly workspace: TestWorkspace;

  private constructor(workspace: TestWorkspace) {
    this.workspace = workspace;
  }

  static async make(): Promise<DestinationHarness> {
    return new DestinationHarness(await newWorkspace());
  }

  get object() {
    return env.DESTINATIONS.getByName(this.workspace.id);
  }

  create(target: Receiver | string, wanted: object = {}): Promise<DestinationAnswer> {
    const url = typeof target === "string" ? target : target.url;
    const body = { name: "CRM", type: "webhook", target: url, notifications: ["person.score_crossed"], ...wanted };
    return this.workspace.operator<DestinationAnswer>("POST", "/destinations", body);
  }

  destination(id: string): Promise<DestinationAnswer> {
    return this.workspace.operator<DestinationAnswer>("GET", `/destinations/${id}`);
  }

  /** Waits until the destination has these values. */
  async shows(id: string, values: Partial<DestinationAnswer>): Promise<void> {
    await until(async () => expect(await this.destination(id)).toMatchObject(values));
  }

  async deliveries(id: string): Promise<DeliveryAnswer[]> {
    const path = `/destinations/${id}/deliveries?limit=200`;
    return (await this.workspace.operator<{ items: DeliveryAnswer[] }>("GET", path)).items;
  }

  async raise(...notifications: Notification[]): Promise<void> {
    await this.object.raise(notifications);
  }

  /** Moves the clock and rings the object's alarm, as the platform would. */
  async pass(ms: number): Promise<void> {
    vi.setSystemTime(Date.now() + ms);
    await runDurableObjectAlarm(this.object);
  }

  /** Waits until a delivery has this many attempts, each reported. */
  async attempted(id: string, attempts: number): Promise<DeliveryAnswer> {
    return until(async () => {
      const delivery = (await this.deliveries(id)).findLast((found) => found.attempts.length >= attempts);
      if (delivery === undefined) throw new Error(`not ${attempts} attempts`);
      return delivery;
    });
  }
}

export function crossed(email = "jane@example.com", time = Date.now()): NotificationOf<"person.score_crossed"> {
  const data = { email, threshold: 50, score: 52, score_before: 40, signal_id: newId("sig") };
  return { id: newId("ntf", time), type: "person.score_crossed", time, data };
}

export function scored(...emails: string[]): NotificationOf<"person.scored"> {
  const scoring_signals = emails.map((email) => ({
    email,
    scoring_signal: "visit",
    points: 1,
    score: 1,
    rule_id: newId("rule"),
    signal_id: newId("sig"),
    event: "Visit",
    received_at: new Date().toISOString(),
  }));
  return { id: newId("ntf"), type: "person.scored", time: Date.now(), data: { scoring_signals } };
}

/** Loses every message to the deliveries' queue. @returns `sent`: the deliveries of the last batch. */
export function loseMessages() {
  const queue = vi.spyOn(env.DELIVERIES, "sendBatch").mockResolvedValue(undefined as never);
  const sent = () => [...(queue.mock.lastCall?.[0] ?? [])].map(({ body }) => JSON.parse(String(body)) as DueDelivery);
  return { queue, sent };
}

/**
 * Stops only the date; timers go on. The date is so far ahead that the platform rings no alarm except overdue ones.
 */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + DAY });
}

interface NewHarness {
  harness: DestinationHarness;
  receiver: Receiver;
}

/** Creates a workspace and a listening receiver for each test of a file. */
export function newHarnessInEachTest(begin: (made: NewHarness) => void): void {
  beforeEach(async () => {
    const made = { harness: await DestinationHarness.make(), receiver: new Receiver() };
    listen(made.receiver);
    begin(made);
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });
}

export interface ReceivedNotification {
  url: string;
  id: string;
  headers: Headers;
  text: string;
  body: { id: string; type: string; time: string; workspace: string; data: Record<string, unknown> };
  redirect: string;
}

/** Replaces the network for notifications: records the requests and returns chosen answers. */
export class Receiver {
  readonly url: string;
  readonly received: ReceivedNotification[] = [];
  answer: (nth: number) => Response | Promise<Response> = () => new Response("thanks");

  constructor(host = `hook-${crypto.randomUUID()}.example.com`, path = "/in") {
    this.url = `https://${host}${path}`;
  }

  ids(): string[] {
    return this.received.map(({ id }) => id);
  }

  verify(secret: string, { headers, text } = this.received.at(-1) ?? { headers: new Headers(), text: "" }): unknown {
    return new Webhook(secret).verify(text, Object.fromEntries(headers));
  }
}

let listening: readonly Receiver[] = [];

/** Replaces all receivers from now on. */
export function listen(...receivers: Receiver[]): void {
  listening = receivers;
}

// Stays active for all tests of the file, so that late deliveries of an earlier test never reach the network.
vi.stubGlobal("fetch", async (input: RequestInfo, init?: RequestInit) => {
  const request = new Request(input, init);
  const receiver = listening.find(({ url }) => request.url === url);
  if (receiver === undefined) throw new Error(`nobody listens at ${request.url}`);
  const text = await request.text();
  receiver.received.push({
    url: request.url,
    id: request.headers.get("webhook-id") ?? "",
    headers: request.headers,
    text,
    body: JSON.parse(text) as ReceivedNotification["body"],
    redirect: request.redirect,
  });
  return receiver.answer(receiver.received.length);
});
