/** Who is told by the demo's service: a receiver on this machine that takes only what the library verifies. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import type { OperatorClient, PersonAnswer } from "../operator-client.ts";
import { bold, mark, table } from "../terminal.ts";

/** A score that only those who are really interested reach. */
const THRESHOLD = 50;
const WAIT_MS = 15_000;
const POLL_MS = 50;

interface Crossing {
  id: string;
  time: string;
  data: { email: string; threshold: number; score_before: number; score: number };
}

export interface DemoReceiver extends AsyncDisposable {
  /** The crossings by the ids of their events, because an event may come more than once. */
  crossings: Map<string, Crossing>;
  /** How many calls were not signed, or signed for somebody else. */
  refused: number;
}

/**
 * Makes a destination of the workspace that is told when a score crosses the threshold.
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

/** Shows who has crossed the threshold, as the receiver was told. False: that is not who has. */
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
  const crossings = [...receiver.crossings.values()].sort((one, other) => one.time.localeCompare(other.time));
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
