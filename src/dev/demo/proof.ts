/**
 * `npm run demo -- --origin https://…`: proves the promises (design §1) at a running deployment, with the operator token in
 * OPERATOR_TOKEN. It uses a workspace of its own, which it ends, also after a failure. What stays is the plan `proof`, which no
 * workspace is offered. It sends about a thousand signals.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment } from "../deployment.ts";
import { CommandError, messageOf } from "../local-service.ts";
import {
  OperatorClient,
  untilProcessed,
  type BooksAnswer,
  type CreatedKeyAnswer,
  type WorkspaceAnswer,
} from "../operator-client.ts";
import { bold, mark, table } from "../terminal.ts";

const CONNECTIONS = 64;
const SIGNAL_LIMIT = 200;
/** Signals beyond the limit and the extra room. */
const BEYOND = 50;
const PEOPLE = 10;
/** A connection sends so often while the key is deactivated. */
const PACE_MS = 100;
const BEFORE_DEACTIVATION_MS = 1_500;
/** Calls of each connection afterwards: all together remain within the failed authentications of a network in a minute. */
const CALLS_AFTER = 2;
const COMPLETE_MS = 120_000;
const POLL_MS = 500;
const ATTEMPTS = 20;
const RETRY_MAX_S = 10;

interface SentCall {
  startedMs: number;
  ms: number;
  /** The signal's status, or the code of the error. */
  result: string;
  retryAfterS: number;
}

interface Receipt {
  complete: boolean;
}

/** Calls by what they did, for the latencies. */
type Latencies = Map<string, number[]>;

/** @throws CommandError if the deployment does not answer, or not to the token. */
export async function proveDeployment({ origin, token }: Deployment, signal: AbortSignal): Promise<boolean> {
  const operator = new OperatorClient(origin, token);
  const slug = `proof-${randomBytes(5).toString("hex")}`;
  console.log(bold(`Proving ${origin} with the workspace ${slug} …`));
  const workspace = await firstCalls(operator, slug);
  const proof = new Proof(origin, operator, workspace.id, signal);
  try {
    await proof.run();
  } finally {
    await proof.end(slug);
  }
  proof.printLatencies();
  return proof.isGood;
}

async function firstCalls(operator: OperatorClient, slug: string): Promise<WorkspaceAnswer> {
  try {
    const plan = { name: "Proof", signal_limit: SIGNAL_LIMIT, paid: true, offered_to: [] };
    await operator.call("PUT", "plans/proof", plan);
    return await operator.post<WorkspaceAnswer>("workspaces", { slug, name: "Proof", plan: "proof" });
  } catch (error) {
    throw new CommandError(
      `The deployment does not answer as expected. Check --origin and OPERATOR_TOKEN.\n${messageOf(error)}`,
    );
  }
}

class Proof {
  isGood = true;
  readonly #origin: string;
  readonly #operator: OperatorClient;
  readonly #home: string;
  readonly #signal: AbortSignal;
  readonly #latencies: Latencies = new Map();
  #key = "";
  #kept = 0;

  constructor(origin: string, operator: OperatorClient, workspaceId: string, signal: AbortSignal) {
    this.#origin = origin;
    this.#operator = operator;
    this.#home = `workspaces/${workspaceId}`;
    this.#signal = signal;
  }

  async run(): Promise<void> {
    const rule = { name: "Proof", event: "Proof", conditions: [], scoring_signal: "proof", points: 1 };
    await this.#operator.post(`${this.#home}/rules`, rule);
    await this.#limit();
    await this.#books();
    await this.#scores();
    this.#signal.throwIfAborted();
    await this.#deactivation();
    await this.#books();
    await this.#deletion();
  }

  async end(slug: string): Promise<void> {
    const startedMs = performance.now();
    await this.#operator.call("DELETE", this.#home, { slug });
    const { result } = await this.#send(this.#key, "end", 0, "calls after the end");
    const isComplete = await this.#completed(`${this.#home}/end`);
    this.#note("end of the workspace", performance.now() - startedMs);
    this.#check(isComplete && result === "unauthorized", `the workspace has ended, and its key got ${result}`);
  }

  printLatencies(): void {
    const rows = [...this.#latencies].map(([what, times]) => {
      const sorted = times.toSorted((a, b) => a - b);
      const at = (share: number): number => Math.round(sorted[Math.floor((sorted.length - 1) * share)] ?? 0);
      return [what, sorted.length, at(0.5), at(0.99), at(1)];
    });
    console.log(`\n${bold("Latencies in milliseconds, seen from here")}`);
    console.log(table(["", "calls", "p50", "p99", "max"], rows));
  }

  #check(isGood: boolean, text: string): void {
    this.isGood &&= isGood;
    console.log(`  ${mark(isGood)} ${text}`);
  }

  #note(what: string, ms: number): void {
    const times = this.#latencies.get(what) ?? [];
    this.#latencies.set(what, times);
    times.push(ms);
  }

  /** The limit, hold and reject are exact, whoever asks at the same time (spec §8). */
  async #limit(): Promise<void> {
    this.#key = (await this.#operator.post<CreatedKeyAnswer>(`${this.#home}/keys`, { name: "Proof" })).key;
    let next = 0;
    const results: Record<string, number> = {};
    await this.#fromEachConnection(async () => {
      while (next < 2 * SIGNAL_LIMIT + BEYOND) {
        // oxlint-disable-next-line no-await-in-loop -- a connection waits for each answer
        const { result } = await this.#sendUntilDecided(next++);
        results[result] = (results[result] ?? 0) + 1;
      }
    });
    const { accepted = 0, held = 0, extra_room_exceeded: rejected = 0 } = results;
    this.#kept = accepted + held;
    this.#check(
      accepted === SIGNAL_LIMIT && held === SIGNAL_LIMIT && rejected === BEYOND,
      `of ${2 * SIGNAL_LIMIT + BEYOND} signals from ${CONNECTIONS} connections at a limit of ${SIGNAL_LIMIT}: ${accepted} accepted, ${held} held, ` +
        `${rejected} rejected${Object.keys(results).length > 3 ? `, others: ${JSON.stringify(results)}` : ""}`,
    );
  }

  async #books(): Promise<void> {
    const startedMs = performance.now();
    await untilProcessed(this.#operator, this.#home);
    this.#note("until all are processed", performance.now() - startedMs);
    const books = await this.#operator.get<BooksAnswer>(`${this.#home}/books`);
    const { accepted, processed, duplicates, held, balanced } = books;
    const isRight = balanced && accepted === this.#kept && processed === this.#kept - held - duplicates;
    const text = `${accepted} answered with 202 = ${processed} processed + ${held} held + ${duplicates} duplicates`;
    this.#check(
      isRight,
      isRight ? `the books balance: ${text}` : `the books: ${JSON.stringify(books)}, ${this.#kept} sent`,
    );
  }

  async #scores(): Promise<void> {
    const people = await this.#operator.list<{ score: number }>(`${this.#home}/people`);
    const sum = people.reduce((total, { score }) => total + score, 0);
    const isRight = people.length === PEOPLE && sum === SIGNAL_LIMIT;
    this.#check(
      isRight,
      `${people.length} people have ${sum} points: one for each accepted signal, none for a held one`,
    );
  }

  /** After the answer, no call is accepted with the key (spec §5.3). */
  async #deactivation(): Promise<void> {
    await this.#operator.call("PATCH", this.#home, { overages: true });
    const key = await this.#operator.post<CreatedKeyAnswer>(`${this.#home}/keys`, { name: "To be deactivated" });
    const calls: SentCall[] = [];
    let returnedMs = Infinity;
    let next = 0;
    const sending = this.#fromEachConnection(async () => {
      for (let after = 0; after < CALLS_AFTER;) {
        if (performance.now() > returnedMs) after++;
        // oxlint-disable-next-line no-await-in-loop -- a connection waits for each answer
        calls.push(await this.#send(key.key, `deactivation-${next}`, next++));
        // oxlint-disable-next-line no-await-in-loop
        await sleep(PACE_MS);
      }
    });
    await sleep(BEFORE_DEACTIVATION_MS);
    const startedMs = performance.now();
    await this.#operator.post(`${this.#home}/keys/${key.id}/deactivate`);
    returnedMs = performance.now();
    await sending;
    this.#note("deactivation of a key", returnedMs - startedMs);
    const accepted = calls.filter(({ result }) => result === "accepted" || result === "held");
    const late = accepted.filter((call) => call.startedMs > returnedMs);
    const after = calls.filter((call) => call.startedMs > returnedMs).length;
    this.#kept += accepted.length;
    this.#check(
      accepted.length > 0 && after > 0 && late.length === 0,
      `a key was deactivated under load: ${accepted.length} calls accepted before, ${late.length} of ${after} afterwards`,
    );
  }

  async #deletion(): Promise<void> {
    const email = emailOf(0);
    const startedMs = performance.now();
    await this.#operator.call("DELETE", `${this.#home}/people/${email}`);
    const isComplete = await this.#completed(`${this.#home}/people/${email}/deletion`);
    this.#note("deletion of a person", performance.now() - startedMs);
    const people = await this.#operator.list<{ email: string }>(`${this.#home}/people`);
    const isGone = people.length === PEOPLE - 1 && people.every((person) => person.email !== email);
    this.#check(isComplete && isGone, "a person was deleted, and nobody else");
  }

  async #completed(address: string): Promise<boolean> {
    for (const untilMs = Date.now() + COMPLETE_MS; Date.now() < untilMs;) {
      // oxlint-disable-next-line no-await-in-loop -- polls
      if ((await this.#operator.get<Receipt>(address)).complete) return true;
      // oxlint-disable-next-line no-await-in-loop
      await sleep(POLL_MS);
    }
    return false;
  }

  async #fromEachConnection(act: () => Promise<void>): Promise<void> {
    await Promise.all(Array.from({ length: CONNECTIONS }, act));
  }

  /** Repeats what was not decided, as a sender does. */
  async #sendUntilDecided(nth: number): Promise<SentCall> {
    for (let attempt = 1; ; attempt++) {
      // oxlint-disable-next-line no-await-in-loop -- a retry
      const call = await this.#send(this.#key, `limit-${nth}`, nth);
      const isUndecided = call.result === "rate_limited" || call.result === "unavailable";
      if (!isUndecided || attempt === ATTEMPTS) return call;
      // oxlint-disable-next-line no-await-in-loop
      await sleep(Math.min(call.retryAfterS, RETRY_MAX_S) * 1_000);
    }
  }

  /** @param nth determines the person. */
  async #send(key: string, id: string, nth: number, what = "signals"): Promise<SentCall> {
    const startedMs = performance.now();
    const body = JSON.stringify({ id, event: "Proof", email: emailOf(nth % PEOPLE) });
    const response = await fetch(`${this.#origin}/api/signal-staging/webhook/${key}`, { method: "POST", body });
    const answer = (await response.json()) as { status?: string | number; code?: string };
    const ms = performance.now() - startedMs;
    this.#note(what, ms);
    const result = answer.code ?? String(answer.status);
    return { startedMs, ms, result, retryAfterS: Number(response.headers.get("retry-after") ?? 1) };
  }
}

function emailOf(number: number): string {
  return `person-${number}@example.com`;
}
