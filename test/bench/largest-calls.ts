/**
 * The largest bodies, as one call of the Quota Counter each: how much memory the object needs, and how long other calls of
 * the workspace wait. Run by `npm run bench -- --only bulk-memory` and by test/fault/largest-calls.test.ts.
 */
import path from "node:path";
import type { AdmitCall } from "../../src/quota/protocol.ts";
import { type CallHead, writeCall } from "../../src/wire/message.ts";
import { newId } from "../../src/platform/ids.ts";
import { benchWorker, buildOnce, SERVICE_CONFIG } from "./build.ts";
import type { LargestBody } from "../support/largest-bodies.ts";
import { slowness } from "../support/slowness.ts";
import { start, type RunningWorker } from "./start.ts";

/** Memory that the largest body may take of the 128 MB of an object. */
export const OBJECT_MAX_GROWTH_BYTES = 48_000_000;
/** Time that other calls of the workspace may wait for it, on an idle machine. */
export const OTHERS_MAX_WAIT_MS = 100;

export interface LargestCall {
  title: string;
  callBytes: number;
  /** Growth of the process by the first such call. */
  growthBytes: number;
  /** The longest wait of another call beside it, in each repetition. */
  waitsMs: number[];
  /** The same beside two of them at once. */
  waitsBesideTwoMs: number[];
}

export async function measureLargestCall(body: LargestBody, stateDir: string): Promise<LargestCall> {
  const built = await buildOnce(SERVICE_CONFIG, benchWorker("counter-alone.ts"));
  const vars = { REQUEST_RATE_PER_SECOND: "1000000", REQUEST_BURST: "1000000" };
  const running = await start(built, { stateDir: path.join(stateDir, "counter"), vars });
  try {
    const call = callOf(body);
    await post(running, "/configure");
    await post(running, "/small");
    await post(running, "/prepare", preparedBody(call));
    const growthBytes = await growthOf(running, () => post(running, "/large?times=1"));
    const waitsMs = await longestWaits(running, 1);
    const waitsBesideTwoMs = await longestWaits(running, 2);
    return { title: body.title, callBytes: call.signals.byteLength, growthBytes, waitsMs, waitsBesideTwoMs };
  } finally {
    await running.stop();
  }
}

/** What is beyond the limits, also on a machine with other load: the shortest of the waits counts. */
export function tooLarge({ title, growthBytes, waitsMs, waitsBesideTwoMs }: LargestCall): string[] {
  const problems: string[] = [];
  if (growthBytes > OBJECT_MAX_GROWTH_BYTES) problems.push(`the Quota Counter grew by ${growthBytes} bytes`);
  for (const [times, waits] of [
    [1, waitsMs],
    [2, waitsBesideTwoMs],
  ] as const) {
    const waitMs = Math.min(...waits);
    if (waitMs > OTHERS_MAX_WAIT_MS && waitMs > OTHERS_MAX_WAIT_MS * slowness())
      problems.push(`others waited ${waitMs.toFixed(0)} ms beside ${times} of them`);
  }
  return problems.map((problem) => `${title}: ${problem}`);
}

const REPETITIONS = 5;
/** Beside other load of the machine, until one of them is within the limit. */
const MOST_REPETITIONS = 25;
/** Calls that wait at the same time, begun one after the other. */
const PROBES = 4;
const PROBE_EVERY_MS = 5;

function callOf({ signals, source, idempotencyKey }: LargestBody): AdmitCall {
  const head: CallHead = { key: "key_large" };
  if (source !== undefined) head.source = source;
  if (idempotencyKey !== undefined) head.idem = idempotencyKey;
  const nowMs = Date.now();
  const written = signals().map((text, index) => ({
    id: newId("sig", nowMs),
    payload: Buffer.from(text),
    ...(idempotencyKey === undefined ? {} : { index }),
  }));
  return { keyId: "key_large", requestId: "req_large", invalid: [], ...writeCall(head, written) };
}

function preparedBody({ signals, ...rest }: AdmitCall): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(rest)}\n`), signals]);
}

async function growthOf(running: RunningWorker, work: () => Promise<unknown>): Promise<number> {
  const restBytes = running.residentBytes();
  running.forgetPeak();
  await work();
  return running.peakBytes() - restBytes;
}

async function longestWaits(running: RunningWorker, times: number): Promise<number[]> {
  const waitsMs: number[] = [];
  while (
    waitsMs.length < REPETITIONS ||
    (Math.min(...waitsMs) > OTHERS_MAX_WAIT_MS && waitsMs.length < MOST_REPETITIONS)
  )
    waitsMs.push(await longestWait(running, times));
  return waitsMs;
}

async function longestWait(running: RunningWorker, times: number): Promise<number> {
  const over = new AbortController();
  let longestMs = 0;
  const probe = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const startedMs = performance.now();
      await post(running, "/small");
      longestMs = Math.max(longestMs, performance.now() - startedMs);
      await new Promise((resolve) => setTimeout(resolve, PROBE_EVERY_MS));
    }
  };
  const probes = Array.from({ length: PROBES }, probe);
  await post(running, `/large?times=${times}`);
  over.abort();
  await Promise.all(probes);
  return longestMs;
}

async function post(running: RunningWorker, at: string, body?: Buffer): Promise<string> {
  const response = await fetch(running.origin + at, { method: "POST", ...(body && { body: new Uint8Array(body) }) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${at}: ${response.status} ${text.slice(0, 300)}`);
  return text;
}
