/**
 * A neighbour of an attacker loses nothing: it sends a signal each 50 ms while a workspace with everything that it may
 * have, or ten free workspaces, do their worst. No single call of an attack takes much processor time, the memory stays
 * bounded, and five seconds later all is as before. `-t TEXT` runs the attacks whose title contains the text.
 * WORST_INPUT_SHOW prints a line for each attack, ATTACK_MS sets the duration of each.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { BODY_MAX_BYTES } from "../../src/limits.ts";
import type { ProvisionedWorkspace } from "../bench/operator-api.ts";
import { Service } from "../support/service.ts";
import { AttackClient, type AttackCall, type AttackResult } from "./support/attack.ts";
import { makeAttacker, makeFreeWorkspaces, type PreparedAttack, type World } from "./support/attacker.ts";
import { readAttacks } from "./support/attacks-of-reads.ts";
import { plainBody, senderAttacks } from "./support/attacks-of-senders.ts";
import { shapeAttacks } from "./support/attacks-of-shapes.ts";
import { cpuOfEach, delayOf, runtimeTimes, sendCall } from "./support/measure.ts";
import { figuresOf, Neighbour, type NeighbourFigures } from "./support/neighbour.ts";

const ATTACK_MS = Number(process.env["ATTACK_MS"] ?? 2_000);
const NEIGHBOUR_MAX_MS = { p50: 100, p99: 1_000, max: 2_000 } as const;
const CPU_MAX_MS = 250;
const MEBIBYTE = 1024 * 1024;
const GROWTH_MAX_BYTES = 150 * MEBIBYTE;
/** After the attack, until all is as before. */
const RECOVERY_MS = 5_000;
/** The neighbour's answers in the last part of the recovery are compared with those before the attacks. */
const COMPARED_MS = 1_000;
const COMPARED_FACTOR = 3;
/** An answer within this time is as fast as before in any case. */
const PROMPT_MS = 30;
/** The limits are those of a machine whose neighbour waits so long without an attack. A slower one has as many times more. */
const QUIET_MS = 3;
/** Longest time that a Retry-After asks the attacker to wait after the attack. */
const RETRY_AFTER_MAX_SECONDS = 10;
/** Number of attempts after which a failed check counts: other processes may disturb an attempt. */
const ATTEMPTS = Number(process.env["ATTACK_ATTEMPTS"] ?? 3);

let service: Service;
let world: World;
let neighbourWorkspace: ProvisionedWorkspace;
let honestWorkspace: ProvisionedWorkspace;
let neighbour: Neighbour;
let client: AttackClient;
/** Calls of the neighbour that were answered with 202. */
let accepted = 0;
/** The neighbour's median without an attack. */
let quietMs = Infinity;
/** The factor by which the machine was slower than the one of the limits when the quiet was measured last; at least 1. */
let slowness = 1;
let honestBytes = 0;

vi.setConfig({ testTimeout: 600_000, hookTimeout: 300_000 });

beforeAll(async () => {
  service = await Service.make({ vars: { SIGN_IN: "local" } });
  neighbour = new Neighbour();
  client = new AttackClient();
  neighbourWorkspace = await service.api.provision({ slug: "neighbour" });
  honestWorkspace = await service.api.provision({ slug: "honest" });
  world = { origin: service.origin, attacker: await makeAttacker(service), free: await makeFreeWorkspaces(service) };
  await measureQuiet();
});

/** Measures the service without an attack, after what came before is recorded. */
async function measureQuiet(): Promise<void> {
  await settled();
  honestBytes = await growthOfOneBody(honestWorkspace);
  const { calls } = await besides(() => sleep(COMPARED_MS));
  const { p50Ms } = figuresOf(calls, 0, Infinity);
  quietMs = Math.min(quietMs, p50Ms);
  slowness = Math.max(1, p50Ms / QUIET_MS);
  show(
    `quiet: neighbour p50 ${p50Ms.toFixed(1)} ms; ${megabytes(service.running.residentBytes())} MB resident; ` +
      `one bulk body: ${megabytes(honestBytes)} MB`,
  );
}

/** Waits until the signals that were accepted are recorded. */
async function settled(): Promise<void> {
  for (const { id } of [world.attacker, ...world.free, neighbourWorkspace]) await service.api.settled(id);
}

afterAll(async () => {
  neighbour.stop();
  client.stop();
  await service.remove();
});

const megabytes = (bytes: number): number => Math.round(bytes / MEBIBYTE);

function show(line: string): void {
  if (process.env["WORST_INPUT_SHOW"] !== undefined) process.stdout.write(`${line}\n`);
}

/** @returns the growth of the memory while the largest honest body is recorded. */
async function growthOfOneBody({ id, key }: ProvisionedWorkspace): Promise<number> {
  const lines = plainBody(BODY_MAX_BYTES - 10_000)
    .subarray(1, -1)
    .toString()
    .replaceAll("},{", "}\n{");
  service.running.forgetPeak();
  const before = service.running.peakBytes();
  const answer = await service.post(`signal-staging/bulk/${key}`, lines);
  if (answer.status !== 202) throw new Error(`the honest body was answered with ${answer.status}`);
  await answer.arrayBuffer();
  await service.api.settled(id);
  return service.running.peakBytes() - before;
}

/** Sends as the neighbour while something else happens. */
async function besides<T>(act: () => Promise<T>) {
  neighbour.begin({ origin: service.origin, path: `/api/signal-staging/webhook/${neighbourWorkspace.key}` });
  const acted = await act();
  const calls = await neighbour.calls();
  accepted += calls.filter(({ status }) => status === 202).length;
  return { acted, calls };
}

interface Outcome {
  result: AttackResult;
  /** Of the calls that were due during the attack. */
  during: NeighbourFigures;
  /** Of all calls, until the end of the recovery. */
  whole: NeighbourFigures;
  after: NeighbourFigures;
  growthBytes: number;
  residentBytes: number;
  /** The factor by which other processes delayed the service. */
  delay: number;
}

async function carryOut({ assaults }: PreparedAttack): Promise<Outcome> {
  const { running, origin } = service;
  running.forgetPeak();
  const before = running.peakBytes();
  const timesBefore = runtimeTimes(running.pid);
  const startedMs = Date.now();
  const { acted, calls } = await besides(async () => {
    const result = await client.run({ origin, forMs: ATTACK_MS, assaults });
    const endedMs = Date.now();
    await sleep(RECOVERY_MS);
    return { result, endedMs };
  });
  const { result, endedMs } = acted;
  return {
    result,
    during: figuresOf(calls, startedMs, endedMs),
    whole: figuresOf(calls, startedMs, Infinity),
    after: figuresOf(calls, endedMs + RECOVERY_MS - COMPARED_MS, Infinity),
    growthBytes: running.peakBytes() - before,
    residentBytes: running.residentBytes(),
    delay: delayOf(timesBefore, runtimeTimes(running.pid)),
  };
}

/** @returns the violated limits. */
async function complaintsOnce(title: string, made: PreparedAttack): Promise<string[]> {
  const wrong: string[] = [];
  const { mostMs: mostCpuMs, over, isHopeless } = await cpuOfEach(service.running, made.alone, CPU_MAX_MS * slowness);
  for (const { title: call, cpuMs } of over) wrong.push(`${call}: one call took ${Math.round(cpuMs)} ms of CPU`);
  if (isHopeless) {
    show(`${title}: CPU ${Math.round(mostCpuMs)} ms of one call; not carried out — FAILED`);
    return wrong;
  }
  const residentBefore = service.running.residentBytes();
  const { result, during, whole, after, growthBytes, residentBytes, delay } = await carryOut(made);
  const late = (what: string, ms: number, limitMs: number): string[] => {
    const mostMs = limitMs * delay * slowness;
    return ms > mostMs ? [`the neighbour's ${what} was ${Math.round(ms)} ms, of at most ${Math.round(mostMs)}`] : [];
  };
  wrong.push(
    ...late("median", during.p50Ms, NEIGHBOUR_MAX_MS.p50),
    ...late("99th percentile", during.p99Ms, NEIGHBOUR_MAX_MS.p99),
    ...late("slowest answer", whole.maxMs, NEIGHBOUR_MAX_MS.max),
    ...late("median five seconds later", after.p50Ms, Math.max(PROMPT_MS, COMPARED_FACTOR * quietMs)),
  );
  for (const [status, times] of Object.entries(whole.lost)) {
    wrong.push(`${times} signals of the neighbour were answered with ${status}`);
  }
  const mostBytes = GROWTH_MAX_BYTES + honestBytes;
  if (growthBytes > mostBytes)
    wrong.push(`memory grew by ${megabytes(growthBytes)} MB, of at most ${megabytes(mostBytes)}`);
  // The runtime gives memory back late, so what earlier attacks left counts for them.
  if (residentBytes > residentBefore + mostBytes)
    wrong.push(`five seconds later ${megabytes(residentBytes)} MB were in use, ${megabytes(residentBefore)} before`);
  const connections = made.assaults.reduce((sum, assault) => sum + assault.connections, 0);
  if (result.sent < connections / 2) wrong.push(`the attack's client could send only ${result.sent} calls`);
  const faults = Object.keys(result.statuses).filter((status) => status.startsWith("5") && status !== "503");
  for (const status of faults)
    wrong.push(`${result.statuses[status]} calls of the attack were answered with ${status}`);
  if (result.withoutRetryAfter > 0) wrong.push(`${result.withoutRetryAfter} rejections had no Retry-After`);
  for (const call of made.honest) wrong.push(...(await rejectionsAfter(call)));
  show(
    `${title}: p50 ${Math.round(during.p50Ms)} p99 ${Math.round(during.p99Ms)} max ${Math.round(whole.maxMs)} ms, ` +
      `lost ${JSON.stringify(whole.lost)}, after ${after.p50Ms.toFixed(1)} ms; CPU ${Math.round(mostCpuMs)} ms; ` +
      `+${megabytes(growthBytes)} MB, then ${megabytes(residentBytes)}; ×${delay.toFixed(2)}; ` +
      `${JSON.stringify(result.statuses)}, ${result.sent} sent, ${result.open} open${wrong.length === 0 ? "" : " — FAILED"}`,
  );
  return wrong;
}

/** An honest call is accepted, at the latest after its Retry-After. */
async function rejectionsAfter(call: AttackCall): Promise<string[]> {
  const first = await sendCall(service.running, call);
  if (first.status < 300) return [];
  const { retryAfter } = first;
  if (retryAfter === null || retryAfter > RETRY_AFTER_MAX_SECONDS)
    return [`${call.title} was answered with ${first.status} and Retry-After ${retryAfter} after the attack`];
  await sleep(retryAfter * 1_000);
  const second = await sendCall(service.running, call);
  return second.status < 300 ? [] : [`${call.title} was answered with ${second.status} after its Retry-After`];
}

const ATTACKS = [...senderAttacks, ...shapeAttacks, ...readAttacks].map(({ title, make }) => [title, make] as const);

test.each(ATTACKS)("a neighbour loses nothing during %s", async (title, make) => {
  let wrong: string[] = [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    await settled();
    wrong = await complaintsOnce(title, await make(world));
    if (wrong.length === 0) break;
    // Not on a new process: code that has just begun to run takes twice the time.
    await measureQuiet();
  }
  expect(wrong).toEqual([]);
});

test("each signal of the neighbour that was accepted is recorded", async () => {
  const books = await service.api.settled(neighbourWorkspace.id);
  expect(books).toMatchObject({ accepted, processed: accepted, balanced: true });
});
