/**
 * Reports the demo's result: scores, books, and the notifications that a local receiver got and verified with the
 * Standard Webhooks library.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import type {
  BooksAnswer,
  EventGroupAnswer,
  OperatorClient,
  PersonAnswer,
  RejectionAnswer,
  UsageAnswer,
} from "../operator-client.ts";
import { bold, cut, mark, table } from "../terminal.ts";
import type { DemoSent } from "./send.ts";

/** A score that only the most interested people reach. */
const THRESHOLD = 50;
const WAIT_MS = 15_000;
const POLL_MS = 50;

interface Crossing {
  id: string;
  time: string;
  data: { email: string; threshold: number; score_before: number; score: number };
}

export interface DemoReceiver extends AsyncDisposable {
  /** Crossings by notification id, because a notification may be delivered twice. */
  crossings: Map<string, Crossing>;
  /** Number of calls with a missing or wrong signature. */
  refused: number;
}

/**
 * Creates a destination that is notified when a score crosses the threshold.
 *
 * @param home the workspace's path below `/operator/`.
 */
export async function startReceiver(operator: OperatorClient, home: string): Promise<DemoReceiver> {
  let webhook: Webhook | undefined;
  const server = createServer();
  const receiver: DemoReceiver = {
    crossings: new Map(),
    refused: 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await textOf(request);
    try {
      const event = webhook?.verify(text, headersOf(request)) as Crossing;
      receiver.crossings.set(event.id, event);
      response.writeHead(204).end();
    } catch {
      receiver.refused++;
      response.writeHead(401).end();
    }
  };
  server.on("request", (request, response) => void take(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/crossings`;
  const fields = { name: "Sales", type: "webhook", target, events: ["person.score_crossed"] };
  const { secret } = await operator.post<{ secret: string }>(`${home}/destinations`, fields);
  webhook = new Webhook(secret);
  await operator.call("PUT", `${home}/thresholds`, { thresholds: [THRESHOLD] });
  return receiver;
}

/** Prints who crossed the threshold according to the receiver. @returns whether that matches the scores. */
export async function reportCrossings(
  operator: OperatorClient,
  home: string,
  receiver: DemoReceiver,
): Promise<boolean> {
  const people = await operator.list<PersonAnswer>(`${home}/people`);
  const expected = people.filter(({ score }) => score >= THRESHOLD).map(({ email }) => email);
  for (const untilMs = Date.now() + WAIT_MS; Date.now() < untilMs; await sleep(POLL_MS)) {
    if (receiver.crossings.size >= expected.length) break;
  }
  const crossings = [...receiver.crossings.values()].sort((a, b) => a.time.localeCompare(b.time));
  console.log(`\n${bold(`What a receiver of the workspace's events was told: who has crossed ${THRESHOLD}`)}`);
  const rows = crossings.map(({ time, data }) => [data.email, data.score_before, data.score, time]);
  console.log(table(["email", "score before", "score", "when"], rows));
  const emails = crossings.map(({ data }) => data.email);
  const isExpected = emails.length === expected.length && expected.every((email) => emails.includes(email));
  const good = isExpected && expected.length > 0 && receiver.refused === 0;
  console.log(
    `  ${mark(good)} the first: ${emails[0] ?? "nobody"}; each once, and signed so that the library verifies it`,
  );
  return good;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

export interface DemoOutcome extends DemoSent {
  /** Books at the end; null if some signals were not processed in time. */
  settled: BooksAnswer | null;
  signalLimit: number;
  startedMs: number;
}

export async function report(operator: OperatorClient, home: string, outcome: DemoOutcome): Promise<boolean> {
  const people = await operator.list<PersonAnswer>(`${home}/people`);
  const groups = await operator.list<EventGroupAnswer>(`${home}/events`);
  const usage = await operator.get<UsageAnswer>(`${home}/usage`);
  const { items: rejections } = await operator.get<{ items: RejectionAnswer[] }>(`${home}/rejections`);
  const books = await operator.get<BooksAnswer>(`${home}/books`);

  section("People and their scores");
  people.sort((a, b) => b.score - a.score || a.email.localeCompare(b.email));
  console.log(
    table(
      ["email", "name", "company", "score", "made of"],
      people.map((person) => [
        person.email,
        person.name ?? "",
        person.company ?? "",
        person.score,
        madeOf(person.scoring_signals),
      ]),
    ),
  );
  section("Signal queue");
  console.log(
    table(
      ["event", "source", "count", "anonymous", "held"],
      groups.map(({ event, source, count, anonymous, held }) => [event, source, count, anonymous, held]),
    ),
  );
  section("Refused calls, as an admin sees them");
  console.log(
    table(
      ["key", "status", "code", "calls", "detail"],
      rejections.map(({ key_name, status, code, calls, detail }) => [
        key_name ?? "",
        status,
        code,
        calls,
        cut(detail, 60),
      ]),
    ),
  );
  section("Usage of the billing period");
  const { signal_limit, accepted, held, rejected } = usage;
  console.log(
    table(
      ["signal limit", "accepted", "held", "rejected", "ends"],
      [[signal_limit, accepted, held, rejected, usage.period_end]],
    ),
  );
  section("Books");
  console.log(
    table(Object.keys(books), [
      Object.values(books).map((value) => (value === true ? "yes" : value === false ? "no" : value)),
    ]),
  );
  return check(outcome, { people, usage, books });
}

function check(
  outcome: DemoOutcome,
  found: { people: PersonAnswer[]; usage: UsageAnswer; books: BooksAnswer },
): boolean {
  const { people, usage, books } = found;
  const kept = outcome.accepted + outcome.held;
  const placed = books.processed + books.duplicates + books.held + books.purged + books.dead_lettered + books.in_flight;
  const wrongScores = people.filter(({ email, score }) => score !== (outcome.scores.get(email) ?? 0));
  const known = new Set(people.map(({ email }) => email));
  const missing = [...outcome.scores.keys()].filter((email) => !known.has(email));

  section("Is that what was sent?");
  const checks: [string, boolean][] = [
    ["every answer was the expected one", outcome.asExpected],
    ["all signals were processed in time", outcome.settled !== null],
    [
      `the books balance: ${books.accepted} accepted, ${placed} in exactly one place`,
      books.balanced && placed === books.accepted,
    ],
    [`accepted: ${kept} by the answers, ${books.accepted} by the books`, kept === books.accepted],
    [`duplicates: ${outcome.duplicates} sent, ${books.duplicates} found`, outcome.duplicates === books.duplicates],
    [`held: ${outcome.held} by the answers, ${books.held} by the books`, outcome.held === books.held],
    ["no dead letters, nothing purged", books.dead_lettered === 0 && books.purged === 0],
    [
      `usage: ${usage.accepted} accepted of ${outcome.signalLimit}, ${usage.held} held`,
      usage.accepted === outcome.signalLimit && usage.held === outcome.held,
    ],
    [
      `scores of ${people.length} people: ${[...wrongScores.map(({ email }) => email), ...missing].join(", ") || "as expected"}`,
      wrongScores.length === 0 && missing.length === 0,
    ],
  ];
  for (const [text, good] of checks) console.log(`  ${mark(good)} ${text}`);
  const good = checks.every(([, holds]) => holds);
  const seconds = ((Date.now() - outcome.startedMs) / 1_000).toFixed(1);
  console.log(
    `\n${kept} signals in ${outcome.calls} calls, ${seconds} s. ${good ? "All is as expected." : "SOMETHING IS WRONG."}`,
  );
  return good;
}

function section(title: string): void {
  console.log(`\n${bold(title)}`);
}

/** Composition of a score, such as `demo_requested, pricing_viewed ×3`. */
function madeOf(scoringSignals: PersonAnswer["scoring_signals"]): string {
  const byName = Map.groupBy(scoringSignals, (scored) => scored.scoring_signal);
  return [...byName].map(([name, { length }]) => (length === 1 ? name : `${name} ×${length}`)).join(", ");
}
