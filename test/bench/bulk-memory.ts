/**
 * Memory that the largest bodies need: of the edge alone, which has a limit, and of the whole service. Each measurement is
 * the first such body of an instance that has taken a small batch. The figure is the maximum growth of the resident
 * memory of its process, as Linux reports it. largest-calls.ts measures the Quota Counter alone.
 */
import { gzipSync } from "node:zlib";
import { LARGEST_BODIES, type LargestBody } from "../support/largest-bodies.ts";
import type { Contestant } from "./contestants.ts";
import { body } from "./signals.ts";

/** Half of an isolate's memory. */
export const EDGE_MAX_GROWTH_BYTES = 64 * 1024 * 1024;

export interface BulkBody extends LargestBody {
  /** Sent so many times at once. */
  times: number;
}

export const BULK_BODIES: BulkBody[] = LARGEST_BODIES.flatMap((largest) => {
  const one = { ...largest, times: 1 };
  return largest.idempotencyKey === undefined ? [one] : [one, { ...one, title: `Two at once: ${one.title}`, times: 2 }];
});

export interface BulkMemory {
  title: string;
  hasBound: boolean;
  /** As sent. */
  bodyBytes: number;
  restBytes: number;
  growthBytes: number;
}

const WARM_UP_SIGNALS = 2_000;

export async function measureBulkMemory(service: Contestant, bulk: BulkBody): Promise<BulkMemory> {
  const { title, source, idempotencyKey, gzip, times } = bulk;
  const url = `${service.running.origin}/api/signal-staging/webhook`;
  // Numbers that the bulk does not use.
  await post(`${url}/${service.key}/batch`, Buffer.from(body(1_000_000, WARM_UP_SIGNALS)), WARM_UP_SIGNALS);
  await service.settle();

  const signals = bulk.signals();
  const text = `[${signals.join(",")}]`;
  const sent = gzip === true ? gzipSync(text) : Buffer.from(text);
  const to = source === undefined ? url : `${url}/${encodeURIComponent(source)}`;
  const restBytes = service.running.residentBytes();
  service.running.forgetPeak();
  await Promise.all(
    Array.from({ length: times }, (_, n) => {
      // Another key for each, so that none is a duplicate.
      const key = idempotencyKey === undefined ? {} : { "idempotency-key": `${n}${idempotencyKey.slice(1)}` };
      return post(`${to}/${service.key}`, sent, signals.length, {
        ...key,
        ...(gzip && { "content-encoding": "gzip" }),
      });
    }),
  );
  await service.settle();
  const growthBytes = service.running.peakBytes() - restBytes;
  service.accepted += WARM_UP_SIGNALS + times * signals.length;
  // The process keeps memory that gunzip has freed, so the figure varies.
  const hasBound = gzip === undefined && times === 1;
  return { title, hasBound, bodyBytes: sent.byteLength, restBytes, growthBytes };
}

async function post(url: string, sent: Buffer, signals: number, more: Record<string, string> = {}): Promise<void> {
  const headers = { "content-type": "application/json", ...more };
  const response = await fetch(url, { method: "POST", headers, body: new Uint8Array(sent) });
  const answer = await response.text();
  if (response.status !== 202 || !answer.startsWith(`{"status":"accepted","accepted":${signals},`))
    throw new Error(`bulk-memory: ${response.status} ${answer.slice(0, 300)}`);
}
