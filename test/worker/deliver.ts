/** Queue messages written by hand, so that a test decides when, how often and in which company a signal is delivered. */
import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import type { QueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { consume } from "../../src/queue/consumer.ts";
import { writeMessage, writeRow, writeSignal } from "../../src/queue/message.ts";
import type { Envelope } from "../../src/queue/message.ts";

export const MINUTE = 60_000;
export const DAY = 24 * 60 * MINUTE;

/** A signal as the outbox would hold it. */
export interface Delivered {
  id: string;
  /** An object, or a text that is to be delivered as it is. */
  payload: unknown;
  at?: number;
  ordinal?: number;
  verdict?: "accepted" | "held";
  periodStart?: number;
  periodEnd?: number;
  envelope?: Partial<Envelope>;
  row?: number;
}

/** One row for each signal, all in one message. */
export function messageOf(workspaceId: string, signals: readonly Delivered[]): string {
  const rows = signals.map((signal, index) => {
    const { at = Date.now(), ordinal = index + 1, verdict = "accepted", payload } = signal;
    const row = {
      row: signal.row ?? ordinal,
      at,
      period_start: signal.periodStart ?? at - 10 * DAY,
      period_end: signal.periodEnd ?? at + 20 * DAY,
      limit: 1_000,
      first: ordinal,
      count: 1,
      accepted: verdict === "accepted" ? 1 : 0,
    };
    const text = typeof payload === "string" ? payload : JSON.stringify(payload);
    return writeRow(row, writeSignal({ id: signal.id, key: "key_test", ...signal.envelope }, text));
  });
  return writeMessage(workspaceId, rows.join(""));
}

/** Hands these messages to the consumer, as one batch. Message ids are their indexes. */
export async function consumeMessages(
  bodies: readonly string[],
  { queue = "signals", attempts = 1, bindings = env as Env } = {},
): Promise<QueueResult> {
  const messages = bodies.map((body, index) => ({ id: String(index), timestamp: new Date(), attempts, body }));
  const batch = createMessageBatch<string>(queue, messages);
  // The plugin's result leaves the delays out.
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
