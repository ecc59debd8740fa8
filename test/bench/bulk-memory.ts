/**
 * Memory that the largest accepted body needs: of the edge alone, which has a limit, and of the whole service. Each
 * measurement is the first such body of an instance that has taken a small batch. The figure is the maximum growth of
 * the resident memory of its process, as Linux reports it.
 */
import { gzipSync } from "node:zlib";
import { BODY_MAX_BYTES, BODY_MAX_SIGNALS } from "../../src/limits.ts";
import type { Contestant } from "./contestants.ts";
import { body, largestBulk } from "./signals.ts";

/** Half of an isolate's memory. */
export const EDGE_MAX_GROWTH_BYTES = 64 * 1024 * 1024;

interface BulkBody {
  title: string;
  make(): Buffer;
  /** Has no limit: the figure varies because the process keeps memory that gunzip has freed. */
  gzip?: true;
}

const lines = (comment: string): string => largestBulk(BODY_MAX_SIGNALS, BODY_MAX_BYTES, comment).join("\n");
const array = (comment: string): string => `[${largestBulk(BODY_MAX_SIGNALS, BODY_MAX_BYTES, comment).join(",")}]`;

/** A string with one letter beyond Latin-1 takes two bytes per letter. */
export const BULK_BODIES: BulkBody[] = [
  { title: "Lines of JSON, ASCII", make: () => Buffer.from(lines("x")) },
  { title: "Lines of JSON, each with a Cyrillic letter", make: () => Buffer.from(lines("ж")) },
  { title: "An array, each signal with a Cyrillic letter", make: () => Buffer.from(array("ж")) },
  { title: "The same array, gzip", make: () => gzipSync(array("ж")), gzip: true },
];

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
  const url = `${service.running.origin}/api/signal-staging`;
  // Numbers that the bulk does not use.
  await post(`${url}/webhook/${service.key}/batch`, Buffer.from(body(1_000_000, WARM_UP_SIGNALS)), WARM_UP_SIGNALS);
  await service.settle();

  const sent = bulk.make();
  const restBytes = service.running.residentBytes();
  service.running.forgetPeak();
  await post(`${url}/bulk/${service.key}`, sent, BODY_MAX_SIGNALS, bulk.gzip);
  await service.settle();
  const growthBytes = service.running.peakBytes() - restBytes;
  service.accepted += WARM_UP_SIGNALS + BODY_MAX_SIGNALS;
  return { title: bulk.title, hasBound: bulk.gzip === undefined, bodyBytes: sent.byteLength, restBytes, growthBytes };
}

async function post(url: string, sent: Buffer, signals: number, gzip?: true): Promise<void> {
  const headers = { "content-type": "application/json", ...(gzip && { "content-encoding": "gzip" }) };
  const response = await fetch(url, { method: "POST", headers, body: new Uint8Array(sent) });
  const answer = await response.text();
  if (response.status !== 202 || !answer.startsWith(`{"status":"accepted","accepted":${signals},`))
    throw new Error(`bulk-memory: ${response.status} ${answer.slice(0, 300)}`);
}
