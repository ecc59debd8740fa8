/**
 * Long operations in a large workspace: links, a rule on the whole past, a deletion, an export; and reads, which must
 * be short.
 */
import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { Bencher } from "./bencher.ts";
import { READS } from "./growth-costs.ts";
import { MAX_PAGE_MS, measurePages } from "./growth-pages.ts";
import { rulesOf } from "./growth-traffic.ts";
import { VARS } from "./growth-workspaces.ts";
import type { FilledWorkspace } from "./growth-workspaces.ts";
import type { StoreFigure, StorePart } from "./store-figures.ts";
import { QUIET_MS, scoreOf, send } from "./store-speed.ts";
import { HEAVY_PERSON, SPREAD_VISITOR, mixedPayloadOf, pointsOf, spreadNumbers } from "./store-traffic.ts";

const RULES = 500;
const READ_CALLS = 31;
const LINKED_SIGNALS = 10_000;
const CALL_SIGNALS = 1_000;
const EXPORTED_SIGNALS = 100_000;
const MAX_SECONDS = 2;
const MAX_RULE_SECONDS = 5;
const POLL_MS = 20;
/** An operation that takes longer has failed. */
const TIMEOUT_MS = 600_000;

const Created = z.object({ id: z.string() });
const RuleJob = z.object({ status: z.string(), scanned: z.number(), matched: z.number(), added: z.number() });
const Deletion = z.object({ complete: z.boolean(), signals: z.number(), cold_objects: z.number() });

/** @param segments that what was filled in is kept in. */
export async function measureLinking(
  bencher: Bencher,
  workspace: FilledWorkspace,
  segments: number,
): Promise<StorePart> {
  const { order } = workspace;
  const signal = { type: "track", anonymousId: "c1f6a7de-0c1f-4f0a-9f2e-6d7f7f6f1a77", event: "Came Back" };
  const sent = Array.from({ length: LINKED_SIGNALS }, (_, n) =>
    JSON.stringify({ ...signal, messageId: `one-${n}`, properties: { stage: `stage ${n % 60}`, page: `/docs/${n}` } }),
  );
  for (let from = 0; from < sent.length; from += CALL_SIGNALS)
    await send(bencher, workspace, sent.slice(from, from + CALL_SIGNALS));
  await bencher.settle(workspace);
  const together = await link(bencher, workspace, signal.anonymousId, "one@example.com", sent);

  const spread = spreadNumbers(SPREAD_VISITOR, order).map((n) => mixedPayloadOf(n, order));
  const apart = await link(bencher, workspace, SPREAD_VISITOR.id, "spread@example.com", spread);
  const figure = (name: string, { seconds, cpuSeconds }: typeof apart): StoreFigure[] => [
    { name, value: seconds, unit: "s", atMost: MAX_SECONDS },
    { name: `${name}, CPU`, value: cpuSeconds, unit: "s" },
  ];
  return {
    title: "Linking, from the identify call until all have scored",
    figures: [
      ...figure(`${LINKED_SIGNALS.toLocaleString("en")} signals of one visitor`, together),
      ...figure(
        `${spread.length.toLocaleString("en")} signals, spread over ${segments.toLocaleString("en")} segments, in R2`,
        apart,
      ),
    ],
    notes: [],
  };
}

export async function measureReads(bencher: Bencher, workspace: FilledWorkspace): Promise<StorePart> {
  for (const rule of rulesOf(RULES).slice(workspace.size.rules))
    await bencher.api.post(`workspaces/${workspace.id}/rules`, rule);
  const figures: StoreFigure[] = [];
  for (const read of READS) {
    const calls = Array.from({ length: READ_CALLS }, (_, index) => ({
      method: "GET" as const,
      path: `/operator/workspaces/${workspace.id}/${read.path(workspace, index)}`,
      token: VARS.OPERATOR_TOKEN,
    }));
    const { p50Ms } = await bencher.load(calls);
    figures.push({ name: `Operator API: ${read.name}`, value: p50Ms, unit: "ms", atMost: MAX_PAGE_MS });
  }
  const pages = await measurePages(workspace, bencher.running.origin, VARS.OPERATOR_TOKEN, (calls) =>
    bencher.load(calls),
  );
  for (const { name, p50Ms } of pages)
    figures.push({ name: `Page: ${name}`, value: p50Ms, unit: "ms", atMost: MAX_PAGE_MS });
  return { title: `Reads with ${RULES} rules, p50`, figures, notes: [] };
}

/** A rule that reads every signal's payload and matches one in sixty. */
export async function measureRule(bencher: Bencher, { id }: FilledWorkspace): Promise<StorePart> {
  const { id: ruleId } = Created.parse(
    await bencher.api.post(`workspaces/${id}/rules`, {
      name: "On the past",
      event: "*",
      conditions: [{ path: "properties.stage", operator: "equals", value: "stage 33" }],
      scoring_signal: "Reached stage 33",
      points: 1,
    }),
  );
  const path = `workspaces/${id}/rules/${ruleId}/apply`;
  const cost = await timed(bencher, async () => {
    await bencher.api.post(path);
    await until(async () => RuleJob.parse(await bencher.api.get(path)).status === "done");
  });
  const job = RuleJob.parse(await bencher.api.get(path));
  return {
    title: "A rule on the whole past",
    figures: [
      { name: "A rule on the whole past, CPU", value: cost.cpuSeconds, unit: "s", atMost: MAX_RULE_SECONDS },
      { name: "A rule on the whole past", value: cost.seconds, unit: "s" },
      { name: "Signals that it has given a score", value: job.added, unit: "signals", atLeast: 1 },
    ],
    notes: [
      `It looked at ${job.scanned.toLocaleString("en")} signals, and matched ${job.matched.toLocaleString("en")}.`,
    ],
  };
}

export async function measureDeletion(bencher: Bencher, workspace: FilledWorkspace): Promise<StorePart> {
  const person = `workspaces/${workspace.id}/people/${encodeURIComponent(HEAVY_PERSON.email)}`;
  const signals = spreadNumbers(HEAVY_PERSON, workspace.order).length;
  const receipt = async () => Deletion.parse(await bencher.api.get(`${person}/deletion`));
  const startedAt = performance.now();
  await bencher.api.call("DELETE", person);
  await until(async () => (await receipt()).signals >= signals);
  const inStore = (performance.now() - startedAt) / 1_000;
  await until(async () => (await receipt()).complete);
  const complete = (performance.now() - startedAt) / 1_000;
  const { cold_objects: objects } = await receipt();
  return {
    title: `Deletion of a person with ${signals.toLocaleString("en")} signals`,
    figures: [
      { name: "Deletion, until only R2 is waited for", value: inStore, unit: "s", atMost: MAX_SECONDS },
      { name: "Deletion, until the receipt says complete", value: complete, unit: "s" },
    ],
    notes: [`Copies were in ${objects} objects of R2.`],
  };
}

export async function measureExport(bencher: Bencher, { id, size }: FilledWorkspace): Promise<StorePart> {
  const wanted = Math.min(EXPORTED_SIGNALS, size.signals);
  const cost = await timed(bencher, async () => {
    const response = await fetch(`${bencher.running.origin}/operator/workspaces/${id}/export/signals`, {
      headers: { authorization: `Bearer ${VARS.OPERATOR_TOKEN}` },
    });
    if (!response.ok || response.body === null) throw new Error(`the export: ${response.status}`);
    let lines = 0;
    for await (const chunk of response.body) {
      for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines++;
      if (lines >= wanted) break;
    }
    if (lines < wanted) throw new Error(`the export: ${lines} lines`);
  });
  return {
    title: `An export of ${wanted.toLocaleString("en")} signals, payloads in R2`,
    figures: [
      { name: "Export", value: cost.seconds, unit: "s" },
      { name: "Export, CPU", value: cost.cpuSeconds, unit: "s" },
    ],
    notes: [],
  };
}

/** Identifies a visitor and waits until the person has all points of the visitor's signals. */
async function link(
  bencher: Bencher,
  workspace: FilledWorkspace,
  anonymousId: string,
  email: string,
  sent: readonly string[],
): Promise<{ seconds: number; cpuSeconds: number }> {
  const points = sent.reduce((sum, payload) => sum + pointsOf(payload), 0);
  await sleep(QUIET_MS);
  return timed(bencher, async () => {
    const identify = { type: "identify", messageId: `identify-${anonymousId}`, anonymousId, traits: { email } };
    await send(bencher, workspace, [JSON.stringify(identify)]);
    await until(async () => (await scoreOf(bencher, workspace, email)) === points);
  });
}

async function timed(bencher: Bencher, act: () => Promise<void>): Promise<{ seconds: number; cpuSeconds: number }> {
  const [startedAt, cpu] = [performance.now(), bencher.running.cpuMicroseconds()];
  await act();
  return {
    seconds: (performance.now() - startedAt) / 1_000,
    cpuSeconds: (bencher.running.cpuMicroseconds() - cpu) / 1_000_000,
  };
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`not done after ${TIMEOUT_MS} ms`);
    await sleep(POLL_MS);
  }
}
