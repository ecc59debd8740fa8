/**
 * A closed loop of HTTP/1.1 keep-alive connections, each sending its next call after the last answer. Deliberately
 * minimal: with one connection a general client (autocannon) added more than half to the time of a call. It also
 * counts in whole milliseconds and cuts off its last calls, so that no books balance.
 */
import net from "node:net";
import type { LoadCall, LoadOrder, LoadResult } from "./load.ts";
import { isComplete } from "./response.ts";
import { body } from "./signals.ts";

/** Number of signals sent in this run, so that all differ. */
let signalsSent = 0;
let requestsSent = 0;

async function run(order: LoadOrder): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  const failures: Record<string, number> = {};
  const startedAt = performance.now();
  let left = "requests" in order.until ? order.until.requests : Infinity;
  const endsAt = "elapsedMs" in order.until ? startedAt + order.until.elapsedMs : Infinity;

  const { host } = new URL(order.origin);
  let given = 0;
  const next = (): string | null => {
    if (left <= 0 || performance.now() >= endsAt) return null;
    left -= 1;
    const call = order.calls?.[given++ % order.calls.length] ?? signalsCall(order);
    const address = requestsSent++ % order.addresses;
    const ip = `10.${address >>> 16}.${(address >>> 8) & 255}.${address & 255}`;
    const token = call.token === undefined ? "" : `Authorization: Bearer ${call.token}\r\n`;
    const cookie = call.cookie === undefined ? "" : `Cookie: ${call.cookie}\r\n`;
    const secret = order.secret === undefined ? "" : `X-Api-Secret: ${order.secret}\r\n`;
    const text = call.body ?? "";
    return (
      `${call.method} ${call.path} HTTP/1.1\r\nHost: ${host}\r\n${token}${cookie}${secret}` +
      `Content-Type: application/json\r\nCF-Connecting-IP: ${ip}\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
    );
  };
  const answered = (status: number, text: string, latencyMs: number): void => {
    const good = order.expected.includes(status) && (status !== 202 || text.includes('"status":"accepted"'));
    if (good) latenciesMs.push(latencyMs);
    else failures[status] = (failures[status] ?? 0) + 1;
  };
  const broken = (reason: string): void => {
    failures[reason] = (failures[reason] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: order.connections }, () => converse(order.origin, next, answered, broken)));

  const elapsedMs = performance.now() - startedAt;
  latenciesMs.sort((a, b) => a - b);
  const percentile = (share: number): number => latenciesMs[Math.floor(latenciesMs.length * share)] ?? Number.NaN;
  return { requests: latenciesMs.length, elapsedMs, p50Ms: percentile(0.5), p99Ms: percentile(0.99), failures };
}

function signalsCall({ path, signalsPerRequest }: LoadOrder): LoadCall {
  const text = body(signalsSent, signalsPerRequest);
  signalsSent += signalsPerRequest;
  return { method: "POST", path, body: text };
}

/** Sends the calls of `next` over one connection, until none is left. */
function converse(
  origin: string,
  next: () => string | null,
  answered: (status: number, text: string, latencyMs: number) => void,
  broken: (reason: string) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(origin);
    const socket = net.connect({ host: hostname, port: Number(port), noDelay: true });
    let received = "";
    let sentAt = 0;
    let busy = false;
    const send = (): void => {
      const call = next();
      busy = call !== null;
      if (call === null) {
        socket.end();
        return;
      }
      sentAt = performance.now();
      socket.write(call);
    };
    socket.setEncoding("latin1");
    socket.on("connect", send);
    socket.on("data", (chunk: string) => {
      received += chunk;
      if (!isComplete(received)) return;
      answered(Number(received.slice(9, 12)), received, performance.now() - sentAt);
      received = "";
      send();
    });
    socket.on("error", (error) => broken(error.message));
    socket.on("close", () => {
      if (busy) broken("connection closed without an answer");
      resolve();
    });
  });
}

process.on("message", (order: LoadOrder) => {
  void run(order).then((result) => process.send?.(result));
});
