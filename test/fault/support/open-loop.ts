/**
 * Calls at a rate independent of the answers, over kept connections, as from many independent senders. If all
 * connections are busy, due calls wait.
 */
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { isComplete } from "../../bench/response.ts";

export interface Call {
  path: string;
  body: string;
}

export interface Answered {
  status: number;
  /** In seconds; null: the answer has no such header. */
  retryAfter: number | null;
  text: string;
  /** From the first byte sent to the last byte read. */
  ms: number;
}

export interface OpenLoopOptions<Sent extends Call> {
  origin: string;
  connections: number;
  next: () => Sent;
  answered: (call: Sent, answer: Answered) => void;
}

const TICK_MS = 5;
/** The runtime closes a connection that was silent for five seconds, maybe while a call is on its way. */
const SILENT_MAX_MS = 2_000;

/** @returns the number of due calls and of sent calls. The rest still waited for a connection at the end. */
export async function callSteadily<Sent extends Call>(
  options: OpenLoopOptions<Sent>,
  perSecond: number,
  forMs: number,
): Promise<{ due: number; sent: number }> {
  const idle: Connection<Sent>[] = [];
  const connections: Connection<Sent>[] = [];
  const startedAt = performance.now();
  let sent = 0;
  const dueNow = (): number => Math.floor((Math.min(performance.now() - startedAt, forMs) * perSecond) / 1_000);
  const isOver = (): boolean => performance.now() - startedAt >= forMs;
  const sendOn = (connection: Connection<Sent>): void => {
    if (isOver() || sent >= dueNow()) {
      idle.push(connection);
      return;
    }
    sent++;
    connection.send(options.next());
  };
  const opened = (): Connection<Sent> => {
    const connection = new Connection(options, sendOn);
    connections.push(connection);
    return connection;
  };
  while (!isOver()) {
    while (!isOver() && sent < dueNow() && (idle.length > 0 || connections.length < options.connections)) {
      const last = idle.pop();
      if (last !== undefined && last.silentMs > SILENT_MAX_MS) await last.end();
      else sendOn(last ?? opened());
    }
    await sleep(TICK_MS);
  }
  await Promise.all(connections.map((connection) => connection.end()));
  return { due: dueNow(), sent };
}

class Connection<Sent extends Call> {
  readonly #options: OpenLoopOptions<Sent>;
  readonly #free: (connection: Connection<Sent>) => void;
  readonly #socket: net.Socket;
  readonly #closed: Promise<void>;
  #call: Sent | null = null;
  #sentAt = 0;
  #answeredAt = performance.now();
  #received = "";
  #ending = false;
  #error: Error | null = null;

  /** @param free is called each time that a call is answered. */
  constructor(options: OpenLoopOptions<Sent>, free: (connection: Connection<Sent>) => void) {
    this.#options = options;
    this.#free = free;
    const { hostname, port } = new URL(options.origin);
    this.#socket = net.connect({ host: hostname, port: Number(port), noDelay: true });
    this.#socket.setEncoding("latin1");
    this.#socket.on("data", (chunk: string) => this.#take(chunk));
    this.#socket.on("error", (error) => (this.#error = error));
    this.#closed = new Promise((resolve) => this.#socket.on("close", () => resolve()));
  }

  get silentMs(): number {
    return performance.now() - this.#answeredAt;
  }

  send(call: Sent): void {
    this.#call = call;
    this.#sentAt = performance.now();
    this.#socket.write(
      `POST ${call.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${Buffer.byteLength(call.body)}\r\n\r\n${call.body}`,
    );
  }

  /** After the answer to its call. @throws if there was none. */
  async end(): Promise<void> {
    this.#ending = true;
    if (this.#call === null) this.#socket.end();
    await this.#closed;
    if (this.#call !== null) throw this.#error ?? new Error("a connection was closed without an answer");
  }

  #take(chunk: string): void {
    this.#received += chunk;
    if (!isComplete(this.#received)) return;
    const call = this.#call;
    const head = this.#received.slice(0, this.#received.indexOf("\r\n\r\n"));
    const text = this.#received.slice(head.length + 4);
    const after = /^retry-after: (\d+)/im.exec(head)?.[1];
    this.#received = "";
    this.#call = null;
    if (call === null) return;
    this.#answeredAt = performance.now();
    this.#options.answered(call, {
      status: Number(head.slice(9, 12)),
      retryAfter: after === undefined ? null : Number(after),
      text,
      ms: this.#answeredAt - this.#sentAt,
    });
    if (this.#ending) this.#socket.end();
    else this.#free(this);
  }
}
