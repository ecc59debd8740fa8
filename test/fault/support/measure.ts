/** What the runtime's process uses: processor time of single calls, and the time that it waits for a processor. */
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunningWorker } from "../../bench/start.ts";
import type { AttackCall } from "./attack.ts";

/** The best of so many attempts counts: other work of the service may fall into a measurement. */
const CPU_ATTEMPTS = 3;
/** A call this many times over its limit is not measured again, and no other call either. */
const HOPELESS = 8;
/** Longest wait for a call that was rejected. */
const RETRY_MAX_SECONDS = 5;
const RETRIES = 3;
/** Waiting takes no processor time. Other processes only take the caches and half of a core. */
const CPU_DELAY_MAX = 2;
/** So many calls over the limit are enough to see what is wrong. */
const OVER_SHOWN = 5;
const PATH_SHOWN = 100;
const ANSWER_TIMEOUT_MS = 120_000;

export interface CallAnswer {
  /** 0: the service closed the connection without an answer. */
  status: number;
  /** In seconds; null: the answer has no such header. */
  retryAfter: number | null;
}

export function sendCall({ origin }: RunningWorker, { method, path, headers, body }: AttackCall): Promise<CallAnswer> {
  return new Promise((resolve) => {
    const failed = (): void => resolve({ status: 0, retryAfter: null });
    const length = body === undefined ? {} : { "content-length": String(body.length) };
    const options = { method, headers: { ...headers, ...length, origin }, agent: false, timeout: ANSWER_TIMEOUT_MS };
    const sent = request(origin + path, options, (answer) => {
      const after = Number(answer.headers["retry-after"] ?? Number.NaN);
      const result = { status: answer.statusCode ?? 0, retryAfter: Number.isNaN(after) ? null : after };
      answer.resume();
      answer.on("end", () => resolve(result)).on("error", failed);
    });
    sent.on("timeout", () => sent.destroy(new Error("timeout")));
    sent.on("error", failed);
    sent.end(body);
  });
}

interface Measured {
  title: string;
  cpuMs: number;
}

/**
 * Sends each call alone, and measures the processor time of the runtime from sending to the answer.
 *
 * @param limitMs counts up to twice if other processes delay the runtime.
 * @returns the most time, and the calls over the limit: not more than are enough to see what is wrong.
 */
export async function cpuOfEach(running: RunningWorker, calls: readonly AttackCall[], limitMs: number) {
  let mostMs = 0;
  const over: Measured[] = [];
  for (const call of calls) {
    const { cpuMs, isOver } = await measureAlone(running, call, limitMs);
    mostMs = Math.max(mostMs, cpuMs);
    if (isOver) over.push({ title: `${call.method} ${call.path.slice(0, PATH_SHOWN)}, ${call.title}`, cpuMs });
    if (over.length === OVER_SHOWN || mostMs > HOPELESS * limitMs) break;
  }
  return { mostMs, over, isHopeless: mostMs > HOPELESS * limitMs };
}

/** The best of some attempts. After a rejection, which costs less than the call itself, the call is sent again. */
async function measureAlone(running: RunningWorker, call: AttackCall, limitMs: number) {
  let best = { cpuMs: Infinity, isOver: true };
  let retries = 0;
  for (let attempts = 0; attempts < CPU_ATTEMPTS && best.isOver;) {
    const before = runtimeTimes(running.pid);
    const { status, retryAfter } = await sendCall(running, call);
    const after = runtimeTimes(running.pid);
    const cpuMs = (after.ran - before.ran) / 1_000_000;
    const isOver = cpuMs > limitMs * Math.min(CPU_DELAY_MAX, delayOf(before, after));
    const isRejected = status === 429 || status === 503;
    if (isRejected && retries < RETRIES && !isOver) {
      retries++;
      await sleep(Math.min(retryAfter ?? 1, RETRY_MAX_SECONDS) * 1_000);
      continue;
    }
    attempts++;
    if (cpuMs < best.cpuMs) best = { cpuMs, isOver };
    if (cpuMs > HOPELESS * limitMs) break;
  }
  return best;
}

export interface RuntimeTimes {
  /** Nanoseconds of all threads. */
  ran: number;
  waited: number;
  /** Ticks of the machine: used by its processes, and by other machines on its host. */
  used: number;
  stolen: number;
}

export function runtimeTimes(pid: number | undefined): RuntimeTimes {
  let [ran, waited] = [0, 0];
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [running, waiting] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
    ran += Number(running);
    waited += Number(waiting);
  }
  // cpu, user, nice, system, idle, iowait, irq, softirq, steal
  const ticks = readFileSync("/proc/stat", "utf8").split("\n", 1)[0]?.split(/\s+/).slice(1).map(Number) ?? [];
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = ticks;
  return { ran, waited, used: user + nice + system + irq + softirq, stolen };
}

/** @returns the factor by which other processes and machines delayed the runtime; 1: not at all. */
export function delayOf(before: RuntimeTimes, after: RuntimeTimes): number {
  const [ran, waited] = [after.ran - before.ran, after.waited - before.waited];
  const [used, stolen] = [after.used - before.used, after.stolen - before.stolen];
  return (1 + waited / Math.max(1, ran)) * (1 + stolen / Math.max(1, used));
}
