/**
 * Calls sent at fixed times, whether earlier calls have been answered or not, because senders do not know of each
 * other.
 */
import { once } from "node:events";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { chance } from "../growth-traffic.ts";

export interface PacedCall {
  path: string;
  body: string;
  headers?: Record<string, string>;
}

export interface Pace {
  perSecond: number;
  calls: number;
}

/** Maximum time to the last answer. */
const LAST_ANSWER_MS = 1_000;
/** Distinguishes these numbers from other derived numbers. */
const GAP_SALT = 31;

/**
 * The send time of each call, in milliseconds from the first. The gaps are as between independent senders, and the
 * same in every run.
 */
function arrivalsMs({ perSecond, calls }: Pace): number[] {
  let atMs = 0;
  return Array.from({ length: calls }, (_, n) => (atMs += (-Math.log(1 - chance(n, GAP_SALT)) * 1_000) / perSecond));
}

/**
 * The runtime closes a connection that idles for five seconds, so that no connection near that age is used again. If
 * a Worker cannot keep up its callers wait, as in production.
 */
const agent = new http.Agent({ keepAlive: true, timeout: 2_000, maxSockets: 64 });

/**
 * @returns the actual duration divided by the planned one.
 *
 * @throws if any answer is unexpected.
 */
export async function sendPaced(
  origin: string,
  pace: Pace,
  expected: readonly number[],
  callOf: (n: number) => PacedCall,
): Promise<number> {
  const startedAt = performance.now();
  const answers: Promise<string>[] = [];
  const times = arrivalsMs(pace);
  for (const [n, atMs] of times.entries()) {
    const waitMs = startedAt + atMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    answers.push(send(origin, callOf(n)).catch(String));
  }
  const all = await Promise.all(answers);
  const tookMs = performance.now() - startedAt;
  const unexpected = all.filter((answer) => !expected.map(String).includes(answer));
  if (unexpected.length > 0)
    throw new Error(`${unexpected.length} answers were others than expected, such as ${unexpected[0]}`);
  return tookMs / ((times.at(-1) ?? 0) + LAST_ANSWER_MS);
}

/** Resolves with the status. */
async function send(origin: string, { path, body, headers }: PacedCall): Promise<string> {
  const request = http.request(`${origin}${path}`, {
    method: "POST",
    agent,
    headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body), ...headers },
  });
  request.end(body);
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  response.resume();
  await once(response, "end");
  return String(response.statusCode);
}
