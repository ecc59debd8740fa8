/** Histories of restores: every signal answered with 202 ends recorded once or counted as lost (docs/operate.md). */
import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import * as fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { TestCounter } from "../../support/counter.ts";
import { consumeMessages } from "../../support/deliver.ts";
import { assertForSoLong } from "../../support/for-so-long.ts";
import { SeededFaults } from "../../support/seeded-faults.ts";
import { amount } from "../../support/amount.ts";
import { until } from "../../support/until.ts";
import { call, newPlan, newWorkspace } from "../../support/workspace.ts";
import type { UsageAnswer } from "../../../src/dev/operator-client.ts";
import type { BatchAnswer, TestWorkspace } from "../../support/workspace.ts";

const START = Date.UTC(2031, 0, 10, 12);
const MINUTE_MS = 60_000;
/** The platform can restore any moment of the last 30 days. */
const RESTORABLE_MS = 30 * 24 * 60 * MINUTE_MS;
const RUNS = amount(6, 150);
const LIMIT_MS = amount(20_000, 90_000);

afterEach(() => vi.useRealTimers());

const anyStep = fc.oneof(
  { weight: 6, arbitrary: fc.record({ send: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 4, arbitrary: fc.record({ deliver: fc.nat(), times: fc.integer({ min: 1, max: 2 }) }) },
  { weight: 1, arbitrary: fc.constant({ lose: true }) },
  { weight: 1, arbitrary: fc.constant({ restart: true }) },
  { weight: 1, arbitrary: fc.constant({ clockBack: true }) },
  { weight: 1, arbitrary: fc.constant({ deletePerson: true }) },
  { weight: 1, arbitrary: fc.constant({ release: true }) },
  { weight: 1, arbitrary: fc.constant({ replay: true }) },
  { weight: 1, arbitrary: fc.constant({ weeksLater: true }) },
  {
    weight: 2,
    arbitrary: fc.record({ restore: fc.nat(), interruptAt: fc.option(fc.nat(40)), between: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ undo: fc.nat(), interruptAt: fc.option(fc.nat(40)), between: fc.boolean() }) },
);

type Step = typeof anyStep extends fc.Arbitrary<infer One> ? One : never;

/** A signal of the history; each has its own email. */
interface Sent {
  id: string;
  email: string;
}

/** A moment to restore to. */
interface Moment {
  atMs: number;
  alive: ReadonlySet<Sent>;
}

class History {
  readonly workspace: TestWorkspace;
  readonly #counter: TestCounter;
  /** Messages in the queue. */
  #queue: Uint8Array[] = [];
  #number = 0;
  /** All signals answered with 202, and those of them that no restore has lost. */
  readonly #sent: Sent[] = [];
  #alive = new Set<Sent>();
  readonly #moments: Moment[] = [];
  /** The moment before each restore, by the restore's id. */
  readonly #before = new Map<string, Moment>();
  readonly #deleted = new Map<string, Sent>();

  private constructor(workspace: TestWorkspace) {
    this.workspace = workspace;
    this.#counter = new TestCounter(workspace.id);
  }

  static async begin(): Promise<History> {
    vi.useFakeTimers({ toFake: ["Date"], now: START });
    const history = new History(await newWorkspace({ plan: await newPlan(12) }));
    await history.#useQueue();
    await history.#note();
    return history;
  }

  async play(step: Step): Promise<void> {
    if ("send" in step) await this.#send(step.send);
    else if ("deliver" in step) await this.#deliver(step.deliver, step.times);
    else if ("lose" in step) this.#queue.shift();
    else if ("restart" in step) await this.#restart();
    else if ("clockBack" in step) vi.setSystemTime(Date.now() - 2 * MINUTE_MS);
    else if ("deletePerson" in step) await this.#deletePerson();
    else if ("release" in step) await this.#release();
    else if ("replay" in step) await this.workspace.operator("POST", "/dead-letters/replay", {});
    else if ("weeksLater" in step) await this.#weeksLater();
    else await this.#restore(step);
    vi.setSystemTime(Date.now() + MINUTE_MS);
    await this.#note();
  }

  /** Delivers everything that waits, then compares the recorded with the sent signals. */
  async check(): Promise<void> {
    await this.#drain();
    const books = await this.workspace.books();
    expect(books).toMatchObject({ accepted: this.#sent.length, balanced: true, in_flight: 0 });
    expect(books["lost"]).toBe(this.#sent.length - this.#alive.size);
    const usage = await this.workspace.operator<UsageAnswer & { history: UsageAnswer[] }>("GET", "/usage");
    for (const { period_start: start } of [usage, ...usage.history]) {
      // oxlint-disable-next-line no-await-in-loop
      const ofPeriod = await this.workspace.operator("GET", `/books?period=${start}`);
      expect(ofPeriod).toMatchObject({ balanced: true, in_flight: 0 });
    }
    const recorded: string[] = [];
    for (const { id } of this.#sent) {
      // oxlint-disable-next-line no-await-in-loop
      const answer = await this.#ask(`/signals/${id}`);
      if (answer.status === 200) recorded.push(id);
    }
    expect(recorded).toEqual(this.#sent.filter((sent) => this.#alive.has(sent)).map(({ id }) => id));
    const people = await this.workspace.operator<{ items: { email: string }[] }>("GET", "/people?limit=200");
    const emails = people.items.map(({ email }) => email);
    expect(emails.filter((email) => this.#deleted.has(email))).toEqual([]);
    expect(new Set(emails).size).toBe(emails.length);
    // New signals are accepted and recorded.
    await this.#send(1);
    await this.#drain();
    expect(await this.workspace.books()).toMatchObject({ balanced: true, in_flight: 0 });
    expect((await this.#ask(`/signals/${this.#sent.at(-1)?.id}`)).status).toBe(200);
  }

  async #send(count: number): Promise<void> {
    const signals = Array.from({ length: count }, () => ({ event: "E", email: `p${++this.#number}@example.com` }));
    const response = await this.workspace.send(signals, { path: "/api/signal-staging/webhook/{key}/batch" });
    const { results } = await response.json<BatchAnswer>();
    for (const [index, { id }] of results.entries()) {
      if (id === undefined) continue;
      const sent = { id, email: signals[index]?.email ?? "" };
      this.#sent.push(sent);
      this.#alive.add(sent);
    }
  }

  async #deliver(which: number, times: number): Promise<void> {
    if (this.#queue.length === 0) return;
    const at = which % this.#queue.length;
    const [body = new Uint8Array()] = this.#queue.splice(at, 1);
    // A message may be repeated much later.
    if (times > 1) this.#queue.push(body);
    // The queue sometimes gives up a message.
    const queue = which % 7 === 0 ? "signals-dlq" : "signals";
    const { retryMessages } = await consumeMessages([body], { queue });
    if (retryMessages.length > 0) this.#queue.push(body);
  }

  async #restart(): Promise<void> {
    await abortAllDurableObjects();
    await this.#useQueue();
  }

  async #weeksLater(): Promise<void> {
    // A deletion is remembered for 30 days; signals of the person in transit arrive earlier.
    if (this.#deleted.size > 0) await this.#drain();
    vi.setSystemTime(Date.now() + 20 * 24 * 60 * MINUTE_MS);
  }

  async #deletePerson(): Promise<void> {
    const sent = [...this.#alive].find(({ email }) => !this.#deleted.has(email));
    if (sent === undefined) return;
    this.#deleted.set(sent.email, sent);
    await this.workspace.operator("DELETE", `/people/${sent.email}`);
  }

  async #release(): Promise<void> {
    await this.workspace.operator("PATCH", "", { overages: true });
    await this.workspace.operator("POST", "/held/release");
  }

  async #restore(
    step: { interruptAt: number | null; between: boolean } & ({ restore: number } | { undo: number }),
  ): Promise<void> {
    const ids = [...this.#before].filter(([, { atMs }]) => isRestorable(atMs)).map(([id]) => id);
    const undone = "undo" in step ? ids[step.undo % Math.max(1, ids.length)] : undefined;
    if ("undo" in step && undone === undefined) return;
    const moments = this.#moments.filter((each, index) => isRestorable(each.atMs) && this.#isLastAt(each, index));
    const moment = "restore" in step ? moments[step.restore % moments.length] : this.#before.get(undone ?? "");
    if (moment === undefined) return;
    const body =
      "restore" in step
        ? { at: new Date(moment.atMs).toISOString(), force: true }
        : { undo: undone ?? "", force: true };
    const first =
      step.interruptAt === null ? null : await this.#interrupted(body, step.interruptAt, moment, step.between);
    if (first === "done") return;
    const before = first?.before ?? { atMs: Date.now(), alive: new Set(this.#alive) };
    const { id } = await this.workspace.operator<{ id: string }>("POST", "/restore", body);
    await this.#useQueue();
    this.#before.set(id, before);
    if (first?.isCounterRestored !== true) this.#alive = new Set(moment.alive);
  }

  /** Whether the backup of that time belongs to this moment: the clock may have gone back since. */
  #isLastAt({ atMs }: Moment, index: number): boolean {
    return this.#moments.slice(index + 1).every((later) => later.atMs > atMs + 1_000);
  }

  /**
   * The n-th call of the restore fails; with `between`, other steps run before it is repeated. Returns the progress;
   * null: nothing was changed.
   */
  async #interrupted(
    body: object,
    at: number,
    moment: Moment,
    between: boolean,
  ): Promise<{ before: Moment; isCounterRestored: boolean } | "done" | null> {
    const faults = new SeededFaults({ hung: () => undefined });
    let calls = 0;
    faults.ends = () => (calls++ === at ? "fails" : null);
    faults.begin(1, 0);
    const before = { atMs: Date.now(), alive: new Set(this.#alive) };
    try {
      const answer = await this.#ask("/restore", { method: "POST", body: JSON.stringify(body) });
      if (answer.ok) {
        this.#before.set((await answer.json<{ id: string }>()).id, before);
        this.#alive = new Set(moment.alive);
        return "done";
      }
    } finally {
      faults.end();
      await this.#useQueue();
    }
    const begun = await env.DB.prepare("SELECT id FROM restores WHERE workspace_id = ? AND state = 'restoring'")
      .bind(this.workspace.id)
      .first<{ id: string }>();
    const isCounterRestored = begun !== null && !(await this.workspace.counter.awaitsRestore(begun.id));
    if (isCounterRestored) this.#alive = new Set(moment.alive);
    if (between) await this.#goOn();
    return begun !== null ? { before, isCounterRestored } : null;
  }

  async #goOn(): Promise<void> {
    vi.setSystemTime(Date.now() + 5 * MINUTE_MS);
    for (let n = 0; n < 3; n++) {
      // oxlint-disable-next-line no-await-in-loop
      await this.#send(1);
      // oxlint-disable-next-line no-await-in-loop
      await this.#deliver(n, 2);
    }
  }

  #ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "content-type": "application/json" };
    return call(`/operator/workspaces/${this.workspace.id}${path}`, { ...init, headers });
  }

  /** The counter's messages go into this history's queue, also after a restart. */
  async #useQueue(): Promise<void> {
    await this.#counter.sendTo(async (messages) => void this.#queue.push(...messages.map(({ body }) => body)));
  }

  async #drain(): Promise<void> {
    await until(async () => {
      await this.#restart();
      await runInDurableObject(this.#counter.stub, (instance) => instance.alarm());
      for (const body of this.#queue.splice(0)) await consumeMessages([body]);
      expect(await this.workspace.counter.books()).toMatchObject({ unsettled: 0 });
    });
  }

  /** A moment that a restore may use. */
  async #note(): Promise<void> {
    for (const stub of [this.workspace.counter, this.workspace.store, env.DESTINATIONS.getByName(this.workspace.id)]) {
      // oxlint-disable-next-line no-await-in-loop
      await runInDurableObject(stub as DurableObjectStub, (_, { storage }) => storage.getCurrentBookmark());
    }
    this.#moments.push({ atMs: Date.now(), alive: new Set(this.#alive) });
  }
}

function isRestorable(atMs: number): boolean {
  return Date.now() - atMs < RESTORABLE_MS;
}

// oxlint-disable-next-line vitest/expect-expect -- they stand in the history
test("under any sequence of restores, undos and interruptions each signal is recorded once or counted as lost", async () => {
  await assertForSoLong(
    fc.asyncProperty(fc.array(anyStep, { minLength: 4, maxLength: 18 }), async (steps) => {
      const history = await History.begin();
      try {
        for (const step of steps) await history.play(step);
        await history.check();
      } finally {
        vi.useRealTimers();
      }
    }),
    { numRuns: RUNS, limitMs: LIMIT_MS, part: 1 },
  );
}, 240_000);
