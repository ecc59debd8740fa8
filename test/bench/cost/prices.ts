/**
 * The list prices, in US dollars for a million of each, beyond what a plan includes. Read on 22 November 2026 from
 * Cloudflare's pricing pages in its developer documentation: those of Workers, Durable Objects, D1, Queues, R2 and
 * Workers Logs. Nowhere else does a price stand.
 */
import type { Item } from "./usage.ts";

export interface PriceList {
  /** The first day on which it holds, UTC. */
  from: string;
  perMillion: Record<Item, number>;
  /** For a gigabyte that is kept for a month. */
  gigabyteMonth: { objects: number; d1: number; r2: number };
}

const UNTIL_NOVEMBER: PriceList = {
  from: "2026-01-01",
  perMillion: {
    // A run of a queue consumer is a request too. Calls from a Worker to what it is bound to are none.
    worker_requests: 0.3,
    worker_cpu_ms: 0.02,
    // Each call of a method is one, and each alarm.
    object_requests: 0.15,
    object_gb_seconds: 12.5,
    // An entry of an index, a deleted row and a call of setAlarm are a row written each.
    object_rows_written: 1,
    object_rows_read: 0.001,
    d1_rows_written: 1,
    d1_rows_read: 0.001,
    queue_operations: 0.4,
    r2_class_a: 4.5,
    r2_class_b: 0.36,
    log_lines: 0.6,
    log_bytes: 0,
  },
  gigabyteMonth: { objects: 0.2, d1: 0.75, r2: 0.015 },
};

/** From December on logs are billed by volume: $0.25 for a gigabyte taken in, $0.10 for keeping it a month, here a week of it. */
const FROM_DECEMBER: PriceList = {
  ...UNTIL_NOVEMBER,
  from: "2026-12-01",
  perMillion: { ...UNTIL_NOVEMBER.perMillion, log_lines: 0, log_bytes: (0.25 + (0.1 * 7) / 30) / 1_000 },
};

/** In order of time. */
export const PRICE_LISTS: readonly PriceList[] = [UNTIL_NOVEMBER, FROM_DECEMBER];
