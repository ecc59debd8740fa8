/**
 * Four times as many calls as the service can take: it rejects the excess with a Retry-After, loses no acknowledged
 * signal, and returns to normal soon after. `npm run test:longer -- overload --seconds 60` for longer.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { callSteadily, type Answered, type Call } from "./support/open-loop.ts";
import { Service } from "../support/service.ts";
import { VISIT_RULE } from "../bench/rules.ts";
import { note } from "../support/amount.ts";

const SECONDS = Number(process.env["OVERLOAD_SECONDS"] ?? 6);
/** Duration of the measurement of the capacity. */
const MEASURED_MS = 2_000;
const TIMES_CAPACITY = 4;
const CONNECTIONS = 512;
/** The number of parallel callers with the highest throughput. */
const BUSY_CONNECTIONS = 32;
/** Senders, each with a separate key and so with a separate request rate. */
const KEYS = 4;
const PEOPLE = 50;
const RECOVERED_MS = 10_000;
/** An answer within this time is as fast as without load. */
const PROMPT_MS = 500;
/** Calls a second that the service handles here, at least, on an idle machine. A slower machine takes longer. */
const USUAL_PER_SECOND = 1_500;
/** The share of the capacity that the request rates of all keys allow together. */
const ALLOWED = 1 / 4;

let service: Service;
let workspace: ProvisionedWorkspace;
let keys: string[] = [];
let sent = 0;
const accepted: string[] = [];

beforeAll(async () => {
  service = await Service.makeShifted();
  workspace = await service.api.provision({ rules: [VISIT_RULE] });
  keys = [workspace.key];
  while (keys.length < KEYS) keys.push((await service.api.newKey(workspace.id)).key);
});

afterAll(() => service.remove());

function nextCall(): Call {
  const n = sent++;
  const body = JSON.stringify({ email: `p${n % PEOPLE}@example.com`, event: "Visit", properties: { n } });
  return { path: `/api/signal-staging/webhook/${keys[n % KEYS] ?? ""}`, body };
}

function countAccepted(_: Call, answer: Answered): Answered {
  if (answer.status === 202) accepted.push((JSON.parse(answer.text) as { id: string }).id);
  return answer;
}

/** Signals a second, answered with 202. */
async function capacity(): Promise<number> {
  const before = accepted.length;
  const options = {
    origin: service.origin,
    connections: BUSY_CONNECTIONS,
    next: nextCall,
    answered: countAccepted,
  };
  await callSteadily(options, Number.MAX_SAFE_INTEGER, MEASURED_MS);
  return ((accepted.length - before) * 1_000) / MEASURED_MS;
}

test(
  "§8.7: under four times the capacity each call gets 202 or a Retry-After; ten seconds later speed and answers are normal, and no signal is lost",
  async () => {
    const perSecond = await capacity();
    const slowness = Math.max(1, USUAL_PER_SECOND / perSecond);
    const rate = Math.ceil((perSecond * ALLOWED) / KEYS);
    await service.start({ vars: { REQUEST_RATE_PER_SECOND: String(rate), REQUEST_BURST: String(rate) } });

    const statuses = new Map<number, number>();
    const wrong: string[] = [];
    const answered = (call: Call, answer: Answered): void => {
      const { status, retryAfter, text } = countAccepted(call, answer);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      const isRejected = status === 429 || status === 503;
      if (status !== 202 && !(isRejected && retryAfter !== null && retryAfter > 0)) wrong.push(`${status}: ${text}`);
    };
    const options = { origin: service.origin, connections: CONNECTIONS, next: nextCall, answered };
    const { due } = await callSteadily(options, TIMES_CAPACITY * perSecond, SECONDS * 1_000);
    const stoppedAt = performance.now();
    expect(wrong.slice(0, 5)).toEqual([]);
    expect(statuses.get(429)).toBeGreaterThan(0);
    // Calls within the request rates are still accepted, or most of them if other processes use the machine.
    expect(statuses.get(202)).toBeGreaterThan((SECONDS * KEYS * rate) / 4);

    await expect
      .poll(
        async () => {
          const { body, path } = nextCall();
          const askedAt = performance.now();
          const answer = await service.post(path.slice("/api/".length), body);
          const text = await answer.text();
          if (answer.status === 202) accepted.push((JSON.parse(text) as { id: string }).id);
          const books = await service.api.books(workspace.id);
          return answer.status === 202 && performance.now() - askedAt < PROMPT_MS * slowness && books.in_flight < 10;
        },
        { timeout: RECOVERED_MS * slowness, interval: 100 },
      )
      .toBe(true);
    const recoveredMs = performance.now() - stoppedAt;
    note(
      `overload: capacity ${Math.round(perSecond)}/s, ${due} calls due in ${SECONDS} s, answered ${JSON.stringify(Object.fromEntries(statuses))}, ` +
        `as before after ${Math.round(recoveredMs)} ms`,
    );

    const books = await service.api.settled(workspace.id);
    const all = accepted.length;
    expect(new Set(accepted).size).toBe(all);
    expect(books).toMatchObject({ accepted: all, processed: all, balanced: true });
    const people = await service.api.list<{ score: number }>(`${workspace.home}/people`);
    expect(people.reduce((sum, { score }) => sum + score, 0)).toBe(all);
  },
  60_000 + SECONDS * 3_000,
);
