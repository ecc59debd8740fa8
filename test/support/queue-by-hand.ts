/** Replaces the queue: messages wait until a test delivers them, in the order and batches that it chooses. */
import { consumeMessages } from "./deliver.ts";

export interface WaitingMessage {
  body: string;
  /** The attempt of the next delivery: 1 for the first. */
  attempts: number;
  /** The time of the next delivery. */
  atMs: number;
}

export class QueueByHand {
  readonly waiting: WaitingMessage[] = [];

  readonly sendBatch: Queue["sendBatch"] = (messages) => {
    for (const { body } of messages) this.waiting.push({ body: String(body), attempts: 1, atMs: Date.now() });
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
