/**
 * Histories of deliveries: notifications; attempts that succeed, fail or are never reported; lost and repeated
 * messages; restarts, pauses, new targets, deletions. The test acts as the queue and its consumer, so that it
 * controls the order.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Notification } from "../../../src/domain/notifications/notification.ts";
import type { DueDelivery, Parcel } from "../../../src/notifications/destination-calls.ts";
import { TAKEN_MS } from "../../../src/notifications/dispatch.ts";
import { assertForSoLong } from "../../support/for-so-long.ts";
import { HOUR, MINUTE, DestinationHarness, crossed, scored, stopClock } from "../../support/destination-harness.ts";

const PEOPLE = ["ann@example.com", "bob@example.com", "cy@example.com"];
const TARGETS = ["https://one.example.com/in", "https://two.example.com/in"];

/** A queue message that the consumer has taken, until its report. */
interface Attempt {
  due: DueDelivery;
  parcel: Parcel;
  isOk: boolean;
  atMs: number;
}

class History {
  readonly harness: DestinationHarness;
  readonly destinations: string[] = [];
  queue: DueDelivery[] = [];
  /** Attempts without a report. */
  unreported: Attempt[] = [];
  readonly bodies = new Map<string, string>();
  /** Notification ids under which a destination received a signal, by destination and signal. */
  readonly idsOfSignals = new Map<string, Set<string>>();
  /** Expected deliveries, by destination and signal or notification. */
  readonly expected = new Map<string, string>();
  readonly arrived = new Set<string>();
  readonly delivered = new Set<string>();
  readonly deleted = new Set<string>();
  readonly active = new Set<string>();
  answersOk = true;

  constructor(harness: DestinationHarness) {
    this.harness = harness;
    vi.spyOn(env.DELIVERIES, "sendBatch").mockImplementation(async (messages) => {
      const all = [...messages].map(({ body }) => JSON.parse(body as string) as DueDelivery);
      this.queue.push(...all.filter(({ workspaceId }) => workspaceId === harness.workspace.id));
      return undefined as never;
    });
  }

  async begin(): Promise<void> {
    for (const target of TARGETS) {
      const { id } = await this.harness.create(target, { notifications: ["person.scored", "person.score_crossed"] });
      this.destinations.push(id);
      this.active.add(id);
    }
  }

  /** After a deletion the same email is a new person. */
  emailNow(email: string): string {
    return this.deleted.has(email) ? `new-${email.replace("@", "+")}@example.org` : email;
  }

  async raise(...notifications: Notification[]): Promise<void> {
    await this.harness.raise(...notifications);
    for (const destination of this.active) {
      for (const notification of notifications) {
        for (const [name, email] of namesOf(notification)) this.expected.set(`${destination} ${name}`, email);
      }
    }
  }

  /** The consumer takes a message and posts the delivery. */
  async take(index: number): Promise<void> {
    const [due] = this.queue.splice(index % Math.max(1, this.queue.length), 1);
    if (due === undefined) return;
    const before = await this.harness.object.delivery(due.destinationId, due.id);
    const parcel = await this.harness.object.take(due);
    if (parcel === null) return;
    expect(before?.delivery.dueAtMs, "no attempt comes before its time").toBeLessThanOrEqual(Date.now());
    this.#checkAttempt(due, structuredClone(parcel));
    this.unreported.push({ due, parcel, isOk: this.answersOk, atMs: Date.now() });
  }

  #checkAttempt(due: DueDelivery, { notification }: Parcel): void {
    const key = `${due.destinationId} ${notification.id}`;
    const overlapping = this.unreported.filter(
      (taken) => taken.due.id === due.id && Date.now() - taken.atMs < TAKEN_MS && taken.due.attempt === due.attempt,
    );
    expect(overlapping, "no attempt overlaps another").toEqual([]);
    expect(this.delivered.has(due.id), "a successful delivery is not sent again").toBe(false);
    const body = JSON.stringify(notification);
    for (const email of this.deleted) expect(body).not.toContain(email);
    const before = this.bodies.get(key);
    if (before !== undefined && this.deleted.size === 0) expect(body, "each attempt sends the same body").toBe(before);
    this.bodies.set(key, body);
    for (const [name] of namesOf(notification as Notification)) {
      const ids = this.idsOfSignals.get(`${due.destinationId} ${name}`) ?? new Set();
      this.idsOfSignals.set(`${due.destinationId} ${name}`, ids.add(notification.id));
      expect(ids.size, "a signal is sent under one id").toBe(1);
    }
  }

  async report(index: number): Promise<void> {
    const [attempt] = this.unreported.splice(index % Math.max(1, this.unreported.length), 1);
    if (attempt === undefined) return;
    const { due, parcel, isOk, atMs } = attempt;
    for (const [name] of isOk ? namesOf(parcel.notification as Notification) : []) {
      this.arrived.add(`${due.destinationId} ${name}`);
    }
    const answer = `thank you, ${JSON.stringify(parcel.notification.data)}`;
    const error = isOk ? null : "It answered 500.";
    const result = { atMs, tookMs: 1, status: isOk ? 200 : 500, error, answer, retryAfterMs: null };
    await this.harness.object.report(due, result);
    const detail = await this.harness.object.delivery(due.destinationId, due.id);
    if (isOk) this.delivered.add(due.id);
    if (detail?.delivery.state !== "failed") return;
    for (const [name] of namesOf(parcel.notification as Notification))
      this.expected.delete(`${due.destinationId} ${name}`);
  }

  async deliverAgain(index: number): Promise<void> {
    const id = this.destinations[index % 2] ?? "";
    const page = await this.harness.object.listDeliveries(id, { cursor: null, limit: 50 });
    const item = page?.items[index % Math.max(1, page.items.length)];
    if (item === undefined) return;
    const again = await this.harness.object.deliverAgain(id, item.id);
    if (again.ok) this.delivered.delete(item.id);
  }

  async resendDeliveries(index: number): Promise<void> {
    await this.harness.object.resendDeliveries(this.destinations[index % 2] ?? "", 0);
  }

  async pauseOrResume(index: number): Promise<void> {
    const id = this.destinations[index % 2] ?? "";
    const state = this.active.delete(id) ? "pause" : "resume";
    if (state === "resume") this.active.add(id);
    await this.harness.object[state](id);
  }

  async changeTarget(index: number): Promise<void> {
    const change = { target: `${TARGETS[0]}/${index}`, pagesUrl: "https://signals.example/w/notified" };
    await this.harness.object.update(this.destinations[index % 2] ?? "", change);
  }

  async restart(): Promise<void> {
    // Only a running object can be evicted.
    await runInDurableObject(this.harness.object, () => undefined);
    await evictDurableObject(this.harness.object);
  }

  async deletePerson(index: number): Promise<void> {
    const email = PEOPLE[index % PEOPLE.length] ?? "";
    await this.harness.object.deletePerson(email, Date.now());
    this.deleted.add(email);
    await this.#expectNothingOfDeleted();
    vi.setSystemTime(Date.now() + 1);
  }

  async #expectNothingOfDeleted(): Promise<void> {
    const stored = await runInDurableObject(this.harness.object, (_, { storage: { sql } }) => {
      const tables = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray();
      const ours = tables.filter(({ name }) => !name.startsWith("_cf_"));
      return JSON.stringify(ours.map(({ name }) => sql.exec(`SELECT * FROM "${name}"`).toArray()));
    });
    for (const email of this.deleted) expect(stored, "nothing of a deleted person is stored").not.toContain(email);
  }

  /** No further faults, until nothing waits. */
  async end(): Promise<void> {
    this.answersOk = true;
    for (const id of this.destinations) if (!this.active.has(id)) await this.harness.object.resume(id);
    for (let round = 0; round < 200; round++) {
      while (this.queue.length + this.unreported.length > 0) {
        await this.take(0);
        await this.report(0);
      }
      const waiting = (await this.harness.object.list()).map((destination) => destination.waiting);
      if (waiting.every((count) => count === 0)) break;
      await this.harness.pass(round < 100 ? 5_000 : HOUR);
    }
    for (const destination of await this.harness.object.list())
      expect(destination).toMatchObject({ waiting: 0, dropped: 0 });
    const missing = [...this.expected].filter(([name, email]) => !this.arrived.has(name) && !this.deleted.has(email));
    expect(missing, "what was raised has arrived").toEqual([]);
    await this.#expectNothingOfDeleted();
  }
}

/** The signals or notification that a receiver must get, each with its person. */
function namesOf(notification: Notification): [string, string][] {
  if (notification.type === "person.scored")
    return notification.data.scoring_signals.map((signal) => [signal.signal_id, signal.email]);
  return notification.type === "person.score_crossed" ? [[notification.id, notification.data.email]] : [];
}

const stepValues = fc.record({
  index: fc.nat(20),
  emails: fc.array(fc.constantFrom(...PEOPLE), { minLength: 1, maxLength: 4 }),
  ms: fc.constantFrom(1_000, 6_000, MINUTE, 6 * MINUTE, 3 * HOUR),
  isOk: fc.boolean(),
});
type StepValues = typeof stepValues extends fc.Arbitrary<infer T> ? T : never;

/** The steps of a history, each with its weight. */
const STEPS: Record<string, [weight: number, run: (history: History, values: StepValues) => unknown]> = {
  scored: [6, (history, { emails }) => history.raise(scored(...emails.map((email) => history.emailNow(email))))],
  crossed: [3, (history, { emails: [email = ""] }) => history.raise(crossed(history.emailNow(email)))],
  take: [10, (history, { index }) => history.take(index)],
  report: [9, (history, { index }) => history.report(index)],
  "consumer dies": [1, ({ unreported }, { index }) => unreported.splice(index % Math.max(1, unreported.length), 1)],
  "message lost": [2, ({ queue }, { index }) => queue.splice(index % Math.max(1, queue.length), 1)],
  "message twice": [2, ({ queue }, { index }) => queue.push(...queue.slice(index, index + 1))],
  pass: [5, (history, { ms }) => history.harness.pass(ms)],
  answers: [2, (history, { isOk }) => (history.answersOk = isOk)],
  restart: [1, (history) => history.restart()],
  "pause or resume": [1, (history, { index }) => history.pauseOrResume(index)],
  "change target": [1, (history, { index }) => history.changeTarget(index)],
  "deliver again": [1, (history, { index }) => history.deliverAgain(index)],
  "deliver failed again": [1, (history, { index }) => history.resendDeliveries(index)],
  delete: [1, (history, { index }) => history.deletePerson(index)],
};
const step = fc.record({
  name: fc.oneof(...Object.entries(STEPS).map(([name, [weight]]) => ({ weight, arbitrary: fc.constant(name) }))),
  values: stepValues,
});

beforeEach(stopClock);
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

// oxlint-disable-next-line vitest/expect-expect -- the history expects
test("under any faults each notification keeps one id, repeats only after a lost report, and contains nothing of a deleted person", async () => {
  await assertForSoLong(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 80 }), async (steps) => {
      const history = new History(await DestinationHarness.make());
      await history.begin();
      for (const { name, values } of steps) await STEPS[name]?.[1](history, values);
      await history.end();
    }),
    { numRuns: 150, limitMs: 60_000 },
  );
}, 120_000);
