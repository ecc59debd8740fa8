/** The process of the AttackClient. Makes the head of each call once, so that sending it costs little. */
import net from "node:net";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { AttackResult, Manner, PackedCall, PackedOrder } from "./attack.ts";

/** Pause before a new connection takes the place of a closed one: the attack is no flood of connections. */
const REOPEN_MS = 1_000;
/** Connections opened at once: the runtime's queue of new connections is short. */
const OPENED_AT_ONCE = 100;
const OPEN_PAUSE_MS = 10;

os.setPriority(os.constants.priority.PRIORITY_BELOW_NORMAL);

async function run({ origin, forMs, assaults, bodies }: PackedOrder): Promise<AttackResult> {
  const result: AttackResult = { sent: 0, statuses: {}, withoutRetryAfter: 0, open: 0 };
  const prepared = assaults.map(({ calls, ...assault }) => {
    return { ...assault, requests: calls.map((call) => requestOf(call, bodies, origin, assault.manner)) };
  });
  const endsAt = performance.now() + forMs;
  await Promise.all(prepared.map((assault) => assail(origin, endsAt, assault, result)));
  return result;
}

interface Assault {
  connections: number;
  manner: Manner;
  requests: Request[];
}

/** The head and the part of the body that is sent. */
type Request = readonly Buffer[];

async function assail(origin: string, endsAt: number, assault: Assault, result: AttackResult): Promise<void> {
  const { requests } = assault;
  const connections = new Set<Connection>();
  let given = 0;
  const next = (): Request => {
    result.sent++;
    return requests[given++ % requests.length] ?? [];
  };
  const isOver = (): boolean => performance.now() >= endsAt;
  const open = (): void => {
    if (isOver()) return;
    const connection = new Connection(origin, assault.manner, next, {
      answered: (answer) => {
        count(result, answer.status);
        if (/^(429|503)$/.test(answer.status) && !answer.hasRetryAfter) result.withoutRetryAfter++;
      },
      closed: (isExpected) => {
        connections.delete(connection);
        if (!isExpected) count(result, "closed");
        setTimeout(open, REOPEN_MS);
      },
    });
    connections.add(connection);
  };
  for (let opened = 1; opened <= assault.connections && !isOver(); opened++) {
    open();
    // oxlint-disable-next-line no-await-in-loop
    if (opened % OPENED_AT_ONCE === 0) await sleep(OPEN_PAUSE_MS);
  }
  await sleep(Math.max(0, endsAt - performance.now()));
  result.open += connections.size;
  for (const connection of connections) connection.end();
}

function count({ statuses }: AttackResult, status: string): void {
  statuses[status] = (statuses[status] ?? 0) + 1;
}

function requestOf(call: PackedCall, bodies: readonly Buffer[], origin: string, manner: Manner): Request {
  const body = bodies[call.body] ?? Buffer.alloc(0);
  const length = manner.kind === "stalled" ? manner.declaredBytes : body.length;
  const isChunked = length === "chunked";
  const framing = isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`;
  const headers = Object.entries({ ...call.headers, origin }).map(([name, value]) => `${name}: ${value}\r\n`);
  const { host } = new URL(origin);
  const head = Buffer.from(
    `${call.method} ${call.path} HTTP/1.1\r\nHost: ${host}\r\n${headers.join("")}${framing}\r\n\r\n`,
  );
  const first = manner.kind === "stalled" ? body.subarray(0, manner.sentBytes) : body;
  if (!isChunked || first.length === 0) return [head, first];
  return [head, Buffer.from(`${first.length.toString(16)}\r\n`), first, Buffer.from("\r\n")];
}

interface Answer {
  status: string;
  hasRetryAfter: boolean;
}

interface Events {
  answered: (answer: Answer) => void;
  /** @param isExpected the client closed it, or the service did after an answer. */
  closed: (isExpected: boolean) => void;
}

class Connection {
  readonly #socket: net.Socket;
  readonly #manner: Manner;
  readonly #next: () => Request;
  readonly #events: Events;
  #reader = new AnswerReader();
  #drip: NodeJS.Timeout | undefined;
  #isWaiting = false;

  constructor(origin: string, manner: Manner, next: () => Request, events: Events) {
    this.#manner = manner;
    this.#next = next;
    this.#events = events;
    const { hostname, port } = new URL(origin);
    this.#socket = net.connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("connect", () => this.#send());
    // Without a listener nothing reads the answer, and the kernel's buffers fill up.
    if (manner.kind !== "unread") this.#socket.on("data", (chunk: string) => this.#take(chunk));
    this.#socket.on("error", () => undefined);
    this.#socket.on("close", () => {
      clearInterval(this.#drip);
      events.closed(!this.#isWaiting);
    });
  }

  end(): void {
    this.#isWaiting = false;
    this.#socket.destroy();
  }

  #send(): void {
    this.#reader = new AnswerReader();
    this.#isWaiting = true;
    this.#socket.cork();
    for (const part of this.#next()) this.#socket.write(part);
    this.#socket.uncork();
    if (this.#manner.kind !== "stalled" || this.#manner.dripMs === undefined) return;
    const byte = this.#manner.declaredBytes === "chunked" ? "1\r\n \r\n" : " ";
    this.#drip = setInterval(() => this.#socket.write(byte), this.#manner.dripMs);
  }

  #take(chunk: string): void {
    const answer = this.#reader.take(chunk);
    if (answer === null) return;
    this.#isWaiting = false;
    this.#events.answered(answer);
    // The service still expects the rest of a stalled body.
    if (answer.isLast || this.#manner.kind === "stalled") this.#socket.destroy();
    else this.#send();
  }
}

/** Finds the end of an answer. Keeps only the head and the last characters, because an export is long. */
class AnswerReader {
  #head = "";
  #isInHead = true;
  #bytesLeft: number | null = null;
  #tail = "";

  take(chunk: string): (Answer & { isLast: boolean }) | null {
    let rest = chunk;
    if (this.#isInHead) {
      this.#head += chunk;
      const end = this.#head.indexOf("\r\n\r\n");
      if (end < 0) return null;
      rest = this.#head.slice(end + 4);
      this.#head = this.#head.slice(0, end);
      this.#isInHead = false;
      const length = /^content-length: (\d+)/im.exec(this.#head)?.[1];
      if (length !== undefined) this.#bytesLeft = Number(length);
      else if (/^HTTP\/1\.1 [23]04/.test(this.#head)) this.#bytesLeft = 0;
    }
    if (this.#bytesLeft === null) this.#tail = (this.#tail + rest).slice(-LAST_CHUNK.length);
    else this.#bytesLeft -= rest.length;
    if (this.#bytesLeft === null ? this.#tail !== LAST_CHUNK : this.#bytesLeft > 0) return null;
    return {
      status: this.#head.slice(9, 12),
      hasRetryAfter: /^retry-after: [1-9]/im.test(this.#head),
      isLast: /^connection: close/im.test(this.#head),
    };
  }
}

const LAST_CHUNK = "\r\n0\r\n\r\n";

process.on("message", (order: PackedOrder) => {
  void run(order).then((result) => process.send?.(result));
});
