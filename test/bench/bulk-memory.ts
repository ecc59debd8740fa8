/** How much memory one bulk of 10,000 signals takes in this service, from a warm start to the last settled row. */
import type { Contestant } from "./contestants.ts";
import { body, bulkBody } from "./signals.ts";

export interface BulkMemory {
  bodyBytes: number;
  beforeBytes: number;
  /** The largest of the whole runtime process: Worker, both Durable Objects, consumer, queue and D1 together. */
  peakBytes: number;
}

const BULK_SIGNALS = 10_000;
const WARM_UP_SIGNALS = 2_000;
const SAMPLE_MS = 10;

export async function measureBulkMemory(service: Contestant): Promise<BulkMemory> {
  const { origin } = service.running;
  // Numbers that the bulk does not use.
  await post(`${origin}/api/signal-staging/webhook/${service.key}/batch`, body(1_000_000, WARM_UP_SIGNALS));
  await service.settle();

  const bulk = bulkBody(BULK_SIGNALS);
  const beforeBytes = service.running.residentBytes();
  let peakBytes = beforeBytes;
  const sampling = setInterval(() => {
    peakBytes = Math.max(peakBytes, service.running.residentBytes());
  }, SAMPLE_MS);
  try {
    await post(`${origin}/api/signal-staging/bulk/${service.key}`, bulk);
    await service.settle();
  } finally {
    clearInterval(sampling);
  }
  service.accepted += WARM_UP_SIGNALS + BULK_SIGNALS;
  return { bodyBytes: Buffer.byteLength(bulk), beforeBytes, peakBytes };
}

async function post(url: string, text: string): Promise<void> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": url.endsWith("/batch") ? "application/json" : "application/x-ndjson" },
    body: text,
  });
  const answer = await response.text();
  if (response.status !== 202 || !answer.includes('"status":"accepted"'))
    throw new Error(`bulk-memory: ${response.status} ${answer.slice(0, 300)}`);
}
