/**
 * A workspace that receives signals, queries and changes while its bindings fail by a seed. Then all faults end, and
 * it runs until no work is left. The calls and their answers determine the expected end state.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { RESEND_AFTER_MS } from "../../src/quota/drain.ts";
import { linesOf } from "./adds-up.ts";
import { ring, ringUntilQuiet } from "./cold.ts";
import { deliverByHand, QueueByHand, type WaitingMessage } from "./deliver.ts";
import { expectToAddUp, readStore } from "./read-store.ts";
import { restart } from "./restart.ts";
import { SeededFaults } from "./seeded-faults.ts";
import type { WaitingClock } from "./waiting-clock.ts";
import { call, newWorkspace, type BatchAnswer, type TestKey, type TestWorkspace } from "./workspace.ts";

const PEOPLE = 20;
const POINTS = 3;
/** Attempts before the queue gives up a message, as in wrangler.toml. */
const QUEUE_ATTEMPTS = 9;
/** Maximum time to an answer, by the test clock, which stands still while something happens. */
const ANSWER_BOUND_MS = 60_000;
/** Real time in which a call must be answered. A longer wait means that it has no time limit. */
const REAL_BOUND_MS = 15_000;
const HOUR = 3_600_000;
const ACCOUNTS = {
  endpoint_type: "product_org",
  payload_template: [{ target: "external_id", path: "id", type: "string" }],
};

interface Sent {
  n: number;
  kind: "track" | "identify" | "account";
  person: number;
  names: "email" | "anonymous" | "both";
  /** Whether a repetition is recognized by an id, however much later. */
  hasId: boolean;
}

interface Call {
  path: string;
  key: TestKey;
  sent: Sent[];
  body: unknown;
  attempts: number;
}

interface Keys {
  second: TestKey;
  accounts: TestKey;
}

const emailOf = (person: number): string => `p${person}@example.com`;

export class FaultyLife {
  readonly workspace: TestWorkspace;
  readonly faults: SeededFaults;
  /** The plan's signal limit. */
  readonly limit: number;
  /** Signals answered with 202, by id. */
  readonly acknowledged = new Map<string, { sent: Sent; verdict: "accepted" | "held" }>();
  /** Number of calls by status. */
  readonly answers = new Map<number, number>();
  hasOverages = false;
  readonly #keys: Keys;
  readonly #clock: WaitingClock;
  readonly #queue: WaitingMessage[];
  /** Messages that the queue has given up. */
  readonly #givenUp: WaitingMessage[] = [];
  /** Calls that were answered with 503, to be repeated. */
  readonly #again: Call[] = [];
  #isDeactivated = false;
  readonly #all: Sent[] = [];

  private constructor(
    given: { workspace: TestWorkspace; keys: Keys; limit: number; clock: WaitingClock },
    queue: QueueByHand,
    faults: SeededFaults,
  ) {
    this.workspace = given.workspace;
    this.limit = given.limit;
    this.#keys = given.keys;
    this.#clock = given.clock;
    this.#queue = queue.waiting;
    this.faults = faults;
  }

  /** Creates a workspace with some rules; nothing fails yet. */
  static async make(clock: WaitingClock, limit: number): Promise<FaultyLife> {
    const queue = new QueueByHand();
    const faults = new SeededFaults(clock, queue);
    faults.end();
    const workspace = await newWorkspace({ signalLimit: limit });
    const rule = { name: "seen", event: "seen *", conditions: [], scoring_signal: "seen", points: POINTS };
    await workspace.operator("POST", "/rules", rule);
    const keys = { second: await workspace.newKey(), accounts: await workspace.newKey(ACCOUNTS) };
    return new FaultyLife({ workspace, keys, limit, clock }, queue, faults);
  }

  /** Makes a number of calls while a share of all calls behind them fails. */
  async suffer(seed: number, rate: number, calls: number): Promise<void> {
    this.faults.begin(seed, rate);
    try {
      await this.#clock.watch(this.#sufferCalls(calls), () => (this.faults.underWay > 0 ? null : this.faults.moves));
    } finally {
      this.faults.end();
    }
  }

  async #sufferCalls(calls: number): Promise<void> {
    for (let made = 0; made < calls;) {
      const together = Math.min(calls - made, 1 + this.#pick("together", 6));
      made += together;
      await Promise.all(Array.from({ length: together }, () => this.#callSomething()));
      this.#clock.pass(1 + this.#pick("between", 2_000));
      await this.#somethingElse();
    }
  }

  /** Ends all faults and runs until every message has arrived and no work is left. */
  async recover(): Promise<void> {
    this.#clock.forgetHung();
    for (let turn = 0; turn < 30; turn++) {
      this.#clock.pass(RESEND_AFTER_MS);
      await runInDurableObject(this.workspace.counter, (instance) => instance.alarm());
      while (this.#queue.length > 0) await this.#deliver(this.#queue.splice(0, 20), "signals");
      while (this.#givenUp.length > 0) await this.#deliver(this.#givenUp.splice(0, 20), "signals-dlq");
      if ((await this.workspace.counter.books()).unsettled > 0) continue;
      await ringUntilQuiet(this.workspace.id);
      return;
    }
    throw new Error("not everything has arrived although nothing fails any more");
  }

  /** Stops both objects, so that none of their timers goes on. */
  async stop(): Promise<void> {
    await restart(this.#counter);
    await restart(this.#store);
  }

  /** All signals sent with an event, with any answer. */
  tracked(): Sent[] {
    return this.#all.filter(({ kind }) => kind === "track");
  }

  get #counter() {
    return this.faults.real.QUOTA_COUNTER.getByName(this.workspace.id);
  }

  get #store() {
    return this.faults.real.SIGNAL_STORE.getByName(this.workspace.id);
  }

  #pick(name: string, from: number): number {
    return Math.floor(this.faults.draw(name) * from);
  }

  async #callSomething(): Promise<void> {
    const draw = this.#pick("call", 100);
    const again = this.#again[0];
    if (again !== undefined && draw < 25) {
      this.#again.shift();
      return this.#send(again);
    }
    if (draw < 60) return this.#send(this.#callOf(this.#signals(1)));
    if (draw < 76) return this.#send(this.#callOf(this.#signals(2 + this.#pick("several", 7))));
    if (draw < 82) return this.#sendAccount();
    if (draw < 86) return this.#rejected("{ not json", this.workspace.key.key, [400, 401]);
    if (draw < 89) return this.#rejected({ event: "x" }, this.#keys.accounts.key, [403]);
    if (draw < 92) return this.#rejected({ event: "x" }, `${this.workspace.key.key.slice(0, -8)}12abCDEF`, [401, 429]);
    if (draw < 96) return this.#ask();
    return this.#change();
  }

  #signals(count: number): Sent[] {
    const hasId = this.#pick("id", 4) > 0;
    return Array.from({ length: count }, () => {
      const sent: Sent = {
        n: this.#all.length,
        kind: this.#pick("kind", 8) === 0 ? "identify" : "track",
        person: this.#pick("person", PEOPLE),
        names: (["email", "anonymous", "both"] as const)[this.#pick("names", 3)] ?? "both",
        hasId,
      };
      this.#all.push(sent);
      return sent;
    });
  }

  #callOf(sent: Sent[]): Call {
    const bodies = sent.map(bodyOf);
    const key = this.#pick("key", 3) === 0 ? this.#keys.second : this.workspace.key;
    const path = sent.length === 1 ? "/api/signal-staging/webhook/{key}" : "/api/signal-staging/webhook/{key}/batch";
    return { path, key, sent, body: sent.length === 1 ? bodies[0] : bodies, attempts: 0 };
  }

  async #send(made: Call): Promise<void> {
    const wasDeactivated = this.#isDeactivated && made.key === this.#keys.second;
    const response = await this.#answered(() => this.workspace.send(made.body, { path: made.path, key: made.key.key }));
    const text = await response.text();
    const expected = made.key === this.#keys.second ? [202, 401, 429, 503] : [202, 429, 503];
    expect(expected, text).toContain(response.status);
    // A deactivated key stays deactivated despite any fault (§3.1).
    if (wasDeactivated) expect([401, 503], text).toContain(response.status);
    if (response.status === 202) this.#acknowledge(made, text);
    if (response.status === 503 && made.attempts++ < 4) this.#again.push(made);
  }

  #acknowledge({ sent }: Call, text: string): void {
    const answered = JSON.parse(text) as { status: "accepted" | "held"; id: string } | BatchAnswer;
    const items = "results" in answered ? answered.results : [{ index: 0, ...answered }];
    for (const { index, status, id } of items) {
      const acknowledged = sent[index];
      if (status === "rejected" || id === undefined || acknowledged === undefined) continue;
      expect(this.acknowledged.has(id)).toBe(false);
      this.acknowledged.set(id, { sent: acknowledged, verdict: status });
    }
  }

  #sendAccount(): Promise<void> {
    const n = this.#all.length;
    const sent: Sent = { n, kind: "account", person: 0, names: "both", hasId: false };
    this.#all.push(sent);
    const body = { id: `account ${n % 3}`, n };
    const path = "/api/product-orgs/webhook/{key}";
    return this.#send({ path, key: this.#keys.accounts, sent: [sent], body, attempts: 0 });
  }

  async #rejected(body: unknown, key: string, statuses: number[]): Promise<void> {
    const response = await this.#answered(() => this.workspace.send(body, { key }));
    expect([...statuses, 503], await response.text()).toContain(response.status);
  }

  async #ask(): Promise<void> {
    const paths = ["/books", "/usage", "/signals", "/people", "/events", "/dead-letters", "/rejections"];
    expect([200, 503]).toContain((await this.#operator("GET", paths[this.#pick("ask", paths.length)] ?? "")).status);
  }

  async #change(): Promise<void> {
    const draw = this.#pick("change", 6);
    if (draw === 0) {
      const path = `/keys/${this.#keys.second.id}/deactivate`;
      if ((await this.#operator("POST", path)).status === 200) this.#isDeactivated = true;
    } else if (draw === 1) {
      // The change may take effect as soon as it is requested, even if the answer fails.
      this.hasOverages = true;
      await this.#operator("PATCH", "", { overages: true });
    } else if (draw === 2) await this.#operator("POST", "/dead-letters/replay", {});
    else await this.#operator("POST", "/held/release");
  }

  async #operator(method: string, path: string, body?: unknown): Promise<Response> {
    const response = await this.#answered(() =>
      call(`/operator/workspaces/${this.workspace.id}${path}`, {
        method,
        headers: { authorization: `Bearer ${env.OPERATOR_TOKEN}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
    await response.body?.cancel();
    expect([200, 503], `${method} ${path}`).toContain(response.status);
    return response;
  }

  /** Every caller gets an answer within the time limit, and a rejected one a Retry-After. */
  async #answered(make: () => Promise<Response>): Promise<Response> {
    const startedMs = Date.now();
    const response = await this.#inTime(make(), "a call");
    this.answers.set(response.status, (this.answers.get(response.status) ?? 0) + 1);
    expect(Date.now() - startedMs, `a call took long, waiting for ${this.faults.hung.at(-1)}`).toBeLessThanOrEqual(
      ANSWER_BOUND_MS,
    );
    if (response.status === 503 || response.status === 429) {
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    }
    return response;
  }

  async #inTime<T>(work: Promise<T>, description: string): Promise<T> {
    const late = this.#clock.really(REAL_BOUND_MS).then(() => {
      throw new Error(
        `${description} is never done; the last that did not answer: ${this.faults.hung.slice(-5).join(", ")}`,
      );
    });
    return Promise.race([work, late]);
  }

  /** Events between the calls: messages arrive, alarms ring, objects restart, hours pass. */
  async #somethingElse(): Promise<void> {
    const draw = this.#pick("else", 100);
    if (draw < 50 && this.#queue.length > 0) {
      const from = this.#pick("from", this.#queue.length);
      const messages = this.#queue.splice(from, 1 + this.#pick("most", 10));
      // The queue may deliver a message more than once.
      if (this.#pick("twice", 8) === 0) this.#queue.push(...messages.map((message) => ({ ...message })));
      return this.#deliver(messages, "signals");
    }
    if (draw < 54 && this.#givenUp.length > 0) return this.#deliver(this.#givenUp.splice(0, 5), "signals-dlq");
    if (draw < 56) return void this.#givenUp.push(...this.#queue.splice(0, 1));
    if (draw < 70)
      return this.#inTime(
        runInDurableObject(this.#counter, (instance) => instance.alarm()),
        "the counter's alarm",
      );
    if (draw < 82) return this.#inTime(ring(this.workspace.id), "the store's alarm");
    if (draw < 84) return restart(this.#counter);
    if (draw < 86) return restart(this.#store);
    if (draw < 88) return this.#clock.pass(HOUR);
    if (draw < 90) return this.#clock.pass(25 * HOUR);
    if (draw < 91) this.#queue.length = 0;
  }

  async #deliver(messages: WaitingMessage[], queue: string): Promise<void> {
    for (const message of await this.#inTime(deliverByHand(messages, queue), "a batch of messages")) {
      const isGivenUp = message.attempts > QUEUE_ATTEMPTS || queue !== "signals";
      (isGivenUp ? this.#givenUp : this.#queue).push(message);
    }
  }
}

function bodyOf({ n, kind, person, names, hasId }: Sent): unknown {
  return {
    type: kind,
    n,
    ...(hasId ? { messageId: `message ${n}` } : {}),
    ...(kind === "track" ? { event: `seen ${n}` } : {}),
    ...(names === "anonymous" && kind === "track"
      ? {}
      : { email: emailOf(person), traits: { email: emailOf(person) } }),
    ...(names === "email" && kind === "track" ? {} : { anonymousId: `visitor ${person}` }),
  };
}

interface Place {
  id: string;
  event: string | null;
  /** The status of a line, or `dead`. */
  status: string;
  isOwned: boolean;
}

const IS_A_PLACE = new Set(["processed", "anonymous", "duplicate", "held", "purged", "dead"]);

/** Checks the guarantees for every signal against the stored data and the answers. Call it when no work is in progress. */
export async function expectAsPromised(life: FaultyLife): Promise<void> {
  const { workspace, acknowledged, limit } = life;
  const places = await readPlaces(workspace.id);

  // Each counted signal is in exactly one place, including each signal answered with 202.
  const ids = new Set(places.map(({ id }) => id));
  expect(places.length).toBe(ids.size);
  const lost = [...acknowledged.keys()].filter((id) => !ids.has(id));
  expect(lost).toEqual([]);

  const books = await workspace.books();
  const statuses = Map.groupBy(places, ({ status }) => status);
  const count = (status: string): number => statuses.get(status)?.length ?? 0;
  expect(books).toEqual({
    ...books,
    accepted: places.length,
    processed: count("processed") + count("anonymous"),
    duplicates: count("duplicate"),
    held: count("held"),
    purged: count("purged"),
    dead_lettered: count("dead"),
    in_flight: 0,
    balanced: true,
  });
  const usage = await workspace.counter.usage();
  const { accepted = 0, held = 0, history = [] } = usage ?? {};
  if (history.length === 0) expect(accepted + held).toBe(places.length);
  if (history.length === 0 && !life.hasOverages) expect(accepted).toBe(Math.min(limit, places.length));

  await expectEachOnce(life, places);
  await expectToAddUp(workspace.id);
}

async function readPlaces(workspaceId: string): Promise<Place[]> {
  return readStore(workspaceId, (state) => {
    const dead = state.sql
      .exec<{ id: string; status: string; payload: string | null }>("SELECT id, status, payload FROM dead_letters")
      .toArray()
      .map(({ id, status, payload }) => {
        const { event = null } = JSON.parse(payload ?? "{}") as { event?: string };
        return { id, status, event, isOwned: false };
      });
    const lines = [...linesOf(state.signals), ...linesOf(state.held)].map(({ facts }) => ({
      id: facts.admission.id,
      event: facts.event,
      status: facts.status,
      isOwned: facts.person !== null,
    }));
    return [...lines, ...dead].filter(({ status }) => IS_A_PLACE.has(status));
  });
}

/** However often it was sent, delivered or counted, each signal has taken effect once and for its person. */
async function expectEachOnce(life: FaultyLife, places: readonly Place[]): Promise<void> {
  const byEvent = Map.groupBy(places, ({ event }) => event);
  const statusOf = new Map(places.map(({ id, status }) => [id, status]));
  const known = new Set<number>();
  const tracked = new Map<string, Sent>(life.tracked().map((sent) => [`seen ${sent.n}`, sent]));
  for (const [id, { sent }] of life.acknowledged) {
    const status = statusOf.get(id);
    if (sent.kind === "identify" && (status === "processed" || status === "duplicate")) known.add(sent.person);
  }
  for (const [event, copies] of byEvent) {
    if (event === null || !event.startsWith("seen ")) continue;
    const originals = copies.filter(({ status }) => status === "processed" || status === "anonymous");
    const sent = tracked.get(event);
    if (sent?.hasId === true) expect(originals.length, event).toBeLessThanOrEqual(1);
    const isElsewhere = copies.some(({ status }) => status === "held" || status === "purged" || status === "dead");
    if (!isElsewhere) expect(originals.length, event).toBeGreaterThan(0);
    if (sent !== undefined && known.has(sent.person)) {
      for (const original of originals) expect([event, original.isOwned]).toEqual([event, true]);
    }
  }
  const { items } = await life.workspace.operator<{ items: { email: string; score: number }[] }>("GET", "/people");
  for (const { email, score } of items) {
    const trackedByPerson = life.tracked().filter(({ person }) => emailOf(person) === email);
    const owned = trackedByPerson
      .flatMap(({ n }) => byEvent.get(`seen ${n}`) ?? [])
      .filter((signal) => signal.isOwned && signal.status === "processed");
    expect([email, score]).toEqual([email, POINTS * owned.length]);
  }
}
