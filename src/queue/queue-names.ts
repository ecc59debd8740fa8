/** A batch contains only the queue's name. Names differ between environments but share a word. */
export type QueueKind = "signals" | "dead_letters" | "deliveries";

export const QUEUE_WORDS = { dead_letters: "dlq", deliveries: "deliveries" } as const;

/** `deliveries-staging` carries deliveries, `signals-dlq` and `staging-dlq-signals` dead letters; all others carry signals. */
export function queueKind(queue: string): QueueKind {
  const words = queue.split(/[^A-Za-z0-9]+/);
  if (words.includes(QUEUE_WORDS.deliveries)) return "deliveries";
  return words.includes(QUEUE_WORDS.dead_letters) ? "dead_letters" : "signals";
}
