/**
 * Reports the demo's result: scores, books, and the notifications that a local receiver got and verified with the
 * Standard Webhooks library.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import type { BooksAnswer, OperatorClient, UsageAnswer } from "../operator-client.ts";
import { cut } from "../../domain/text.ts";
import { bold, mark, table } from "../terminal.ts";
import type { DemoSent } from "./senders.ts";

/** A score that only the most interested people reach. */
const THRESHOLD = 50;
/** A score that only accounts with active people reach. */
const ACCOUNT_THRESHOLD = 40;
const WAIT_MS = 15_000;
const POLL_MS = 50;

interface Person {
  email: string;
  name: string | null;
  company: string | null;
  score: number;
  next_lapse_at: string | null;
  scoring_signals: { scoring_signal: string; lapsed: boolean }[];
}

interface Account {
  external_id: string;
  name: string | null;
  plan: string | null;
  score: number;
  people: number;
}

interface Crossing {
  id: string;
  type: "person.score_crossed" | "account.score_crossed";
  time: string;
  data: { email?: string; external_id?: string; score_before: number; score: number };
}

interface DemoReceiver extends AsyncDisposable {
  /** Crossings by notification id, because a notification may be delivered twice. */
  crossings: Map<string, Crossing>;
  rejected: number;
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
    rejected: 0,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
    try {
      const notification = webhook?.verify(Buffer.concat(chunks).toString(), Object.fromEntries(headers)) as Crossing;
      receiver.crossings.set(notification.id, notification);
      response.writeHead(204).end();
    } catch {
      receiver.rejected++;
      response.writeHead(401).end();
    }
  };
  server.on("request", (request, response) => void receive(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/crossings`;
  const fields = {
    name: "Sales",
    type: "webhook",
    target,
    notifications: ["person.score_crossed", "account.score_crossed"],
  };
  const { secret } = await operator.post<{ secret: string }>(`${home}/destinations`, fields);
  webhook = new Webhook(secret);
  await operator.call("PUT", `${home}/thresholds`, {
    thresholds: [THRESHOLD],
    account_thresholds: [ACCOUNT_THRESHOLD],
  });
  return receiver;
}

/** Prints who crossed a threshold according to the receiver. @returns whether that matches the scores. */
async function reportCrossings(people: Person[], accounts: Account[], receiver: DemoReceiver): Promise<boolean> {
  const expected = [
    ...people.filter(({ score }) => score >= THRESHOLD).map(({ email }) => email),
    ...accounts.filter(({ score }) => score >= ACCOUNT_THRESHOLD).map(({ external_id: id }) => id),
  ];
  for (const untilMs = Date.now() + WAIT_MS; Date.now() < untilMs; await sleep(POLL_MS)) {
    if (receiver.crossings.size >= expected.length) break;
  }
  const crossings = [...receiver.crossings.values()].sort((a, b) => a.time.localeCompare(b.time));
  const rows = crossings.map(({ time, data }) => ({ ...data, who: data.email ?? data.external_id, time }));
  const title = `Notifications of people who crossed ${THRESHOLD} points, and accounts that crossed ${ACCOUNT_THRESHOLD}`;
  printTable(title, rows, ["who", "score_before", "score", "time"]);
  const names = rows.map(({ who }) => who ?? "");
  const isExpected = names.length === expected.length && expected.every((name) => names.includes(name));
  const good = isExpected && expected.length > 0 && receiver.rejected === 0;
  console.log(
    `  ${mark(good)} the first: ${names[0] ?? "nobody"}; each once, and signed so that the library verifies it`,
  );
  return good;
}

interface DemoOutcome extends DemoSent {
  signalLimit: number;
  startedMs: number;
}

/** Prints the state of the workspace. @returns whether all is as expected. */
export async function report(
  operator: OperatorClient,
  home: string,
  outcome: DemoOutcome,
  receiver: DemoReceiver,
): Promise<boolean> {
  const people = await operator.list<Person>(`${home}/people`);
  const groups = await operator.list<Row>(`${home}/events`);
  const usage = await operator.get<UsageAnswer>(`${home}/usage`);
  const { items: rejections } = await operator.get<{ items: Row[] }>(`${home}/rejections`);
  const books = await operator.get<BooksAnswer>(`${home}/books`);
  people.sort((a, b) => b.score - a.score || a.email.localeCompare(b.email));
  const scored = people.map((person) => ({ ...person, made_of: compositionOf(person) }));
  printTable("People and their scores", scored, ["email", "name", "company", "score", "next_lapse_at", "made_of"]);
  const { items: accounts } = await operator.get<{ items: Account[] }>(`${home}/accounts?order=score`);
  printTable("Accounts and the scores of their people", accounts, ["external_id", "name", "plan", "score", "people"]);
  printTable("Signal queue", groups, ["event", "source", "count", "anonymous", "held"]);
  const rejected = rejections.map((rejection) => ({ ...rejection, detail: cut(String(rejection["detail"]), 60) }));
  printTable("Rejected calls, as an admin sees them", rejected, ["key_name", "status", "code", "calls", "detail"]);
  printTable("Usage of the billing period", [usage], ["signal_limit", "accepted", "held", "rejected", "period_end"]);
  printTable("Books", [books], Object.keys(books));
  const good = printChecks(outcome, people, accounts, usage, books);
  return (await reportCrossings(people, accounts, receiver)) && good;
}

function printChecks(
  outcome: DemoOutcome,
  people: Person[],
  accounts: Account[],
  usage: UsageAnswer,
  books: BooksAnswer,
): boolean {
  const kept = outcome.accepted + outcome.held;
  const placed = books.processed + books.duplicates + books.held + books.purged + books.dead_lettered + books.in_flight;
  const wrongScores = people.filter(({ email, score }) => score !== (outcome.scores.get(email) ?? 0));
  const known = new Set(people.map(({ email }) => email));
  const missing = [...outcome.scores.keys()].filter((email) => !known.has(email));
  const wrong = [...wrongScores.map(({ email }) => email), ...missing];
  const checks: [string, boolean][] = [
    ["every answer was the expected one", outcome.asExpected],
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
      `${accounts[0]?.external_id} is the most active account, with ${accounts[0]?.score} points of ${accounts[0]?.people} people`,
      (accounts[0]?.score ?? 0) >= ACCOUNT_THRESHOLD,
    ],
    [
      "the points of three old signals have lapsed",
      people.flatMap((person) => person.scoring_signals).filter(({ lapsed }) => lapsed).length === 3,
    ],
    [`scores of ${people.length} people: ${wrong.join(", ") || "as expected"}`, wrong.length === 0],
  ];
  console.log(`\n${bold("Checks against the sent signals")}`);
  for (const [text, good] of checks) console.log(`  ${mark(good)} ${text}`);
  const good = checks.every(([, holds]) => holds);
  const seconds = ((Date.now() - outcome.startedMs) / 1_000).toFixed(1);
  console.log(
    `\n${kept} signals in ${outcome.calls} calls, ${seconds} s. ${good ? "All is as expected." : "SOMETHING IS NOT AS EXPECTED."}`,
  );
  return good;
}

type Row = Record<string, string | number | boolean | null>;

function printTable(title: string, items: readonly object[], columns: string[]): void {
  const cellOf = (value: Row[string] | undefined) => (typeof value === "number" ? value : String(value ?? ""));
  const rows = items.map((item) => columns.map((column) => cellOf((item as Row)[column])));
  console.log(`\n${bold(title)}\n${table(columns, rows)}`);
}

/** Composition of a score, such as `demo_requested, pricing_viewed ×3`, without lapsed points. */
function compositionOf({ scoring_signals: scoringSignals }: Person): string {
  const counting = scoringSignals.filter(({ lapsed }) => !lapsed);
  const byName = Map.groupBy(counting, (scored) => scored.scoring_signal);
  return [...byName].map(([name, { length }]) => (length === 1 ? name : `${name} ×${length}`)).join(", ");
}
