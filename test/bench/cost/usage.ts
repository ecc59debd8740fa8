/** What the platform bills, counted: how much of each item, and what caused it. */

export const ITEMS = [
  "worker_requests",
  "worker_cpu_ms",
  "object_requests",
  "object_gb_seconds",
  "object_rows_written",
  "object_rows_read",
  "d1_rows_written",
  "d1_rows_read",
  "queue_operations",
  "r2_class_a",
  "r2_class_b",
  "log_lines",
  "log_bytes",
] as const;

export type Item = (typeof ITEMS)[number];

/** By item, then by cause: a statement and its table, a method, a log event. */
export type Usage = Partial<Record<Item, Record<string, number>>>;

/** A Durable Object is billed as if it had this much memory, in GB, however much it uses. */
export const OBJECT_GB = 0.128;

/** A queue operation is billed for each of so many bytes of a message, with what the queue itself adds to it. */
const OPERATION_BYTES = 64_000;
const MESSAGE_OVERHEAD_BYTES = 100;

export function addUsage(usage: Usage, item: Item, cause: string, amount: number): void {
  const causes = (usage[item] ??= {});
  causes[cause] = (causes[cause] ?? 0) + amount;
}

export function amountOf(usage: Usage, item: Item): number {
  return Object.values(usage[item] ?? {}).reduce((sum, amount) => sum + amount, 0);
}

/** What a message of so many bytes is billed when it is written, and again when it is read and when it is deleted. */
export function queueOperations(bytes: number): number {
  return Math.ceil((bytes + MESSAGE_OVERHEAD_BYTES) / OPERATION_BYTES);
}

/** All of them together. */
export function sumOf(...usages: Usage[]): Usage {
  const sum: Usage = {};
  for (const usage of usages)
    for (const item of ITEMS)
      for (const [cause, amount] of Object.entries(usage[item] ?? {})) addUsage(sum, item, cause, amount);
  return sum;
}

/** So many times as much. */
export function times(usage: Usage, factor: number): Usage {
  const scaled: Usage = {};
  for (const item of ITEMS)
    for (const [cause, amount] of Object.entries(usage[item] ?? {})) addUsage(scaled, item, cause, amount * factor);
  return scaled;
}
