/** The counted items of the platform's bill: the amount of each, and its cause. */

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

/** A queue operation is billed per this many bytes of a message, including the queue's overhead. */
const OPERATION_BYTES = 64_000;
const MESSAGE_OVERHEAD_BYTES = 100;

export function addUsage(usage: Usage, item: Item, cause: string, amount: number): void {
  const causes = (usage[item] ??= {});
  causes[cause] = (causes[cause] ?? 0) + amount;
}

export function amountOf(usage: Usage, item: Item): number {
  return Object.values(usage[item] ?? {}).reduce((sum, amount) => sum + amount, 0);
}

/** Queue operations of a message of this size: its write, its read and its deletion. */
export function queueOperations(bytes: number): number {
  return Math.ceil((bytes + MESSAGE_OVERHEAD_BYTES) / OPERATION_BYTES);
}

/** Adds up several usages. */
export function sumOf(...usages: Usage[]): Usage {
  const sum: Usage = {};
  for (const usage of usages)
    for (const item of ITEMS)
      for (const [cause, amount] of Object.entries(usage[item] ?? {})) addUsage(sum, item, cause, amount);
  return sum;
}

/** Multiplies a usage. */
export function times(usage: Usage, factor: number): Usage {
  const scaled: Usage = {};
  for (const item of ITEMS)
    for (const [cause, amount] of Object.entries(usage[item] ?? {})) addUsage(scaled, item, cause, amount * factor);
  return scaled;
}
