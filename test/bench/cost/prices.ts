/**
 * The list prices in US dollars per million, beyond the included amounts. Read on 22 November 2026 from Cloudflare's
 * pricing pages of Workers, Durable Objects, D1, Queues, R2 and Workers Logs. All prices are in this file.
 */
import type { Item } from "./usage.ts";

export interface PriceList {
  /** The first day on which it is in force, UTC. */
  from: string;
  perMillion: Record<Item, number>;
  /** For a gigabyte stored for a month. */
  gigabyteMonth: { objects: number; d1: number; r2: number };
}

const UNTIL_NOVEMBER: PriceList = {
  from: "2026-01-01",
  perMillion: {
    // A run of a queue consumer is a request too. Calls from a Worker to its bindings are free.
    worker_requests: 0.3,
    worker_cpu_ms: 0.02,
    // Each call of a method is one, and each alarm.
    object_requests: 0.15,
    object_gb_seconds: 12.5,
    // An index entry, a deleted row and a call of setAlarm are one written row each.
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

/**
 * From December on logs are billed by volume: $0.25 for a gigabyte ingested, and $0.10 for a month of storage, here a
 * week.
 */
const FROM_DECEMBER: PriceList = {
  ...UNTIL_NOVEMBER,
  from: "2026-12-01",
  perMillion: { ...UNTIL_NOVEMBER.perMillion, log_lines: 0, log_bytes: (0.25 + (0.1 * 7) / 30) / 1_000 },
};

/** In order of time. */
export const PRICE_LISTS: readonly PriceList[] = [UNTIL_NOVEMBER, FROM_DECEMBER];
