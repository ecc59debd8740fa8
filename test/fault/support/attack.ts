/**
 * An attack on the running service, and the client that carries it out. The client is a separate process of the lowest
 * priority, because a real attacker takes no processor time from the service.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import path from "node:path";

export interface AttackCall {
  /** For messages: which of the attack's calls this is. */
  title: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: Buffer;
}

/** How the client treats each of its connections. */
export type Manner =
  /** Sends a whole call, reads the whole answer, sends the next call. */
  | { kind: "answered" }
  /** Sends the head and the first bytes of a body. Then nothing, or one byte each `dripMs`. */
  | { kind: "stalled"; sentBytes: number; declaredBytes: number | "chunked"; dripMs?: number }
  /** Sends a call and never reads the answer. */
  | { kind: "unread" };

/** A part of an attack: connections of one manner. */
export interface Assault {
  connections: number;
  manner: Manner;
  /** Sent in turn by all connections. */
  calls: AttackCall[];
}

export interface AttackOrder {
  origin: string;
  forMs: number;
  /** Carried out at the same time. */
  assaults: Assault[];
}

/** As the client's process gets it: a body that several calls have is sent once. */
export interface PackedOrder extends Omit<AttackOrder, "assaults"> {
  assaults: (Omit<Assault, "calls"> & { calls: PackedCall[] })[];
  bodies: Buffer[];
}

export interface PackedCall extends Omit<AttackCall, "body"> {
  /** Its place in `bodies`; -1: none. */
  body: number;
}

export interface AttackResult {
  /** Calls of which at least the first bytes were sent. */
  sent: number;
  /** Number of answers by status; "closed": the service closed the connection without an answer. */
  statuses: Record<string, number>;
  /** Rejections with 429 or 503 that have no Retry-After. */
  withoutRetryAfter: number;
  /** Connections that were open at the end, with a call on its way. */
  open: number;
}

export class AttackClient {
  readonly #process = fork(path.join(import.meta.dirname, "attack-process.ts"), { serialization: "advanced" });

  /** Attacks for the given time, then closes all connections, whatever is on its way. */
  async run(order: AttackOrder): Promise<AttackResult> {
    const ended = new AbortController();
    const onExit = (): void => ended.abort(new Error("the attack's client has ended"));
    this.#process.once("exit", onExit);
    this.#process.send(packed(order));
    const [result]: AttackResult[] = await once(this.#process, "message", { signal: ended.signal });
    this.#process.off("exit", onExit);
    if (result === undefined) throw new Error("the attack's client has no result");
    return result;
  }

  stop(): void {
    this.#process.disconnect();
  }
}

function packed({ assaults, ...order }: AttackOrder): PackedOrder {
  const bodies = new Map<Buffer, number>();
  const placeOf = (body: Buffer): number => {
    const place = bodies.get(body) ?? bodies.size;
    bodies.set(body, place);
    return place;
  };
  const packedAssaults = assaults.map(({ calls, ...assault }) => {
    const packedCalls = calls.map((call) => ({ ...call, body: call.body === undefined ? -1 : placeOf(call.body) }));
    return { ...assault, calls: packedCalls };
  });
  return { ...order, assaults: packedAssaults, bodies: [...bodies.keys()] };
}
