/**
 * Queue messages written by hand, so that a test decides when, how often and in which batch a signal is delivered.
 */
import { createExecutionContext, createMessageBatch, getQueueResult, type QueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { consume } from "../../src/queue/consumer.ts";
import { type CallHead, writeMessage } from "../../src/wire/message.ts";
import { rowOfSignals } from "./wire.ts";

export const MINUTE = 60_000;
export const DAY = 24 * 60 * MINUTE;

export interface Delivered {
  id: string;
  /** An object, or a text that is delivered unchanged. */
  payload: unknown;
  at?: number;
  ordinal?: number;
  verdict?: "accepted" | "held";
  periodStart?: number;
  periodEnd?: number;
  head?: Partial<CallHead>;
  row?: number;
  /** The earlier place of a released or replayed signal. */
  resent?: { from: "held" | "dead"; place: number };
}

/** A received payload with the number that a Quota Counter gives it. */
export type Placed<Received> = Received & { id: string; ordinal: number; at: number };

/** Sorts by receipt. Several signals may share a time, like those of one commit. */
export function inOrder<Received extends { minute: number }>(
  received: readonly Received[],
  startMs: number,
): Placed<Received>[] {
  return received
    .toSorted((a, b) => a.minute - b.minute)
    .map((signal, index) => ({
      ...signal,
      id: `sig_${index}`,
      ordinal: index + 1,
      at: startMs + signal.minute * MINUTE,
    }));
}

/** The row number and commit time of each delivered signal, far above those of a Quota Counter. */
const committed = new Map<string, { row: number; at: number }>();
const FIRST_ROW = 2 ** 52;

/**
 * One row for each signal, all in one message. A resent signal keeps its row. A released or replayed signal, or
 * one with another verdict, gets a new row.
 */
export function messageOf(workspaceId: string, signals: readonly Delivered[]): Uint8Array {
  const rows = signals.map((signal, index) => {
    const { ordinal = index + 1, verdict = "accepted", payload, resent } = signal;
    const { row: number, at } = commitOf(workspaceId, signal);
    const admitted = {
      at,
      period_start: signal.periodStart ?? at - 10 * DAY,
      period_end: signal.periodEnd ?? at + 20 * DAY,
      limit: 1_000,
    };
    const row = { row: number, ...admitted, first: ordinal, count: 1, accepted: verdict === "accepted" ? 1 : 0 };
    const head: CallHead = { key: "key_test", ...signal.head };
    if (resent !== undefined) head.resent = { ...resent, verdict, ordinal, ...admitted };
    const text = typeof payload === "string" ? payload : JSON.stringify(payload);
    return rowOfSignals(row, [{ head, id: signal.id, payload: text }]);
  });
  return writeMessage(workspaceId, 0, rows);
}

function commitOf(workspaceId: string, { id, verdict = "accepted", resent, at, row }: Delivered) {
  const name = JSON.stringify([workspaceId, id, verdict, resent?.from, resent?.place]);
  const known = committed.get(name);
  const commit = { row: row ?? known?.row ?? FIRST_ROW + committed.size, at: at ?? known?.at ?? Date.now() };
  if (known === undefined) committed.set(name, commit);
  return commit;
}

/** As the queue delivers a body of bytes. */
function bufferOf(body: string | Uint8Array): ArrayBuffer {
  return Uint8Array.from(typeof body === "string" ? new TextEncoder().encode(body) : body).buffer;
}

/**
 * Hands these messages to the consumer as one batch. Message ids are their indexes.
 *
 * @param how.attempts of all messages, or of each.
 */
export async function consumeMessages(
  bodies: readonly (string | Uint8Array)[],
  how: { queue?: string; attempts?: number | readonly number[]; bindings?: Env } = {},
): Promise<QueueResult> {
  const { queue = "signals", attempts: given = 1, bindings = env as Env } = how;
  const messages = bodies.map((body, index) => {
    const attempts = typeof given === "number" ? given : (given[index] ?? 1);
    return { id: String(index), timestamp: new Date(), attempts, body: bufferOf(body) };
  });
  const batch = createMessageBatch<ArrayBuffer>(queue, messages);
  // The plugin's result omits the delays.
  const retryMessages: QueueResult["retryMessages"] = [];
  for (const message of batch.messages) {
    const retry = message.retry.bind(message);
    message.retry = (options) => {
      retryMessages.push({ msgId: message.id, ...options });
      retry(options);
    };
  }
  await consume(batch, bindings);
  const result = await getQueueResult(batch, createExecutionContext());
  expect(result.retryMessages.map(({ msgId }) => msgId)).toEqual(retryMessages.map(({ msgId }) => msgId));
  return { ...result, retryMessages };
}

export function deliver(workspaceId: string, signals: readonly Delivered[]): Promise<QueueResult> {
  return consumeMessages([messageOf(workspaceId, signals)]);
}

export interface WaitingMessage {
  body: Uint8Array;
  /** The attempt of the next delivery: 1 for the first. */
  attempts: number;
  /** The time of the next delivery. */
  atMs: number;
}

/** Replaces the queue: messages wait until a test delivers them, in the order and batches that it chooses. */
export class QueueByHand {
  readonly waiting: WaitingMessage[] = [];

  readonly sendBatch: Queue["sendBatch"] = (messages) => {
    for (const { body } of messages) this.waiting.push({ body: body as Uint8Array, attempts: 1, atMs: Date.now() });
    return Promise.resolve({ metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } });
  };
}

/**
 * Hands messages to a queue's consumer. @returns the messages that it did not acknowledge, for their next delivery.
 */
export async function deliverByHand(messages: readonly WaitingMessage[], queue = "signals"): Promise<WaitingMessage[]> {
  const attempts = messages.map((message) => message.attempts);
  const bodies = messages.map(({ body }) => body);
  const { explicitAcks, retryMessages } = await consumeMessages(bodies, { queue, attempts });
  const delays = new Map(retryMessages.map(({ msgId, delaySeconds = 0 }) => [msgId, delaySeconds * 1_000]));
  return messages.flatMap((message, index) => {
    const id = String(index);
    if (explicitAcks.includes(id)) return [];
    return [{ ...message, attempts: message.attempts + 1, atMs: Date.now() + (delays.get(id) ?? 0) }];
  });
}
