/** The sample of `npm run dev -- --sample`: three weeks of signals, the same each time, sent to a Worker with a settable clock. */
import path from "node:path";
import { readFile, writeFile } from "node:fs/promises";
import { DAY_MS } from "../domain/duration.ts";
import { createKeys, DEMO_SLUG, seedDemoWorkspace } from "./demo-workspace.ts";
import { accountOf, imports, LEADS, mistakes, type Call, type DemoKeys } from "./demo/senders.ts";
import { PROJECT_DIR, setClock, startService, WORKER_WITH_CLOCK } from "./local-service.ts";
import { untilProcessed, OperatorClient, type WorkspaceAnswer } from "./operator-client.ts";

interface Target {
  origin: string;
  operator: OperatorClient;
  home: string;
  keys: DemoKeys;
}

/** The Worker's clock must be set to the start of the weeks; it shows the real time afterwards. */
export async function sendThreeWeeks(
  { origin, operator, home, keys }: Target,
  nowMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const send = async (calls: readonly Call[]) => {
    for (const { path: callPath, ...call } of calls) {
      signal?.throwIfAborted();
      const answer = await fetch(origin + callPath, { method: "POST", ...call });
      await answer.body?.cancel();
    }
    await untilProcessed(operator, home);
  };
  for (const { atMs, calls } of sampleHours(nowMs, keys)) {
    await setClock(origin, atMs);
    await send(calls);
  }
  await setClock(origin, nowMs - 3_600_000);
  const deliveries = [imports, mistakes].flatMap((sender) => sender(keys).deliveries);
  await send(deliveries.flatMap(({ calls }) => calls));
  await setClock(origin, "now");
}

const DAYS = 20;
/** A fixed number: the pages must look the same at each weekday and time at which the sample is made. */
const SIGNALS = 1_250;

interface Hour {
  atMs: number;
  calls: Call[];
}

export function sampleStartMs(untilMs: number): number {
  return untilMs - DAYS * DAY_MS;
}

/** The calls of each hour. Weekends have fewer signals. */
export function sampleHours(untilMs: number, keys: DemoKeys): Hour[] {
  const random = randomNumbers(7);
  const pick = <T>(from: readonly [T, ...T[]]): T => from[Math.floor(random() * from.length)] ?? from[0];
  const anyLead = () => pick(LEADS);
  const visitor = () => `visitor-${Math.floor(random() * 40)}`;

  const web = (event: string, properties: object, who: object) => ({ event, source: "website", properties, ...who });
  const kinds = [
    () => web("Page Viewed", { url: `https://example.com${pick(PAGES)}` }, { anonymousId: visitor() }),
    () => web("Page Viewed", { url: `https://example.com${pick(PAGES)}` }, { email: anyLead().email }),
    () => mail("Opened Email", anyLead().email, { email_name: pick(MAILS) }),
    () => mail("Opened Email", anyLead().email, { email_name: pick(MAILS) }),
    () => mail("Clicked Email", anyLead().email, { email_name: pick(MAILS), link: "/pricing" }),
    () => mail("Filled Out Form", anyLead().email, { form_name: pick(["Newsletter", "Newsletter", "Demo request"]) }),
    () => mail("Registered - Autumn Webinar", anyLead().email, { program_name: "Autumn Webinar" }),
    () => ({ ...web("Feature Used", { feature: pick(FEATURES) }, { email: anyLead().email }), source: "product" }),
    () => ({ ...web("Deal Stage Changed", { stage: pick(STAGES) }, { email: anyLead().email }), source: "crm" }),
  ] as const;

  const starts = Array.from({ length: 4 * DAYS }, (_, at) => sampleStartMs(untilMs) + (at * DAY_MS) / 4);
  const counts = shares(
    SIGNALS,
    starts.map((at) => (isWeekend(at) ? 1 : 4) * (0.7 + random() * 0.6)),
  );
  return starts.map((at, index) => {
    const signals = Array.from({ length: counts[index] ?? 0 }, () => ({
      ...pick(kinds)(),
      messageId: `m-${Math.floor(random() * 1e12)}`,
    }));
    const batchPath = `/api/signal-staging/webhook/${keys.campaigns}/batch`;
    const bodies = index === 0 ? [signals, ...LEADS.map(identifyCall), ...LEADS.flatMap(groupCalls)] : [signals];
    const calls = bodies.map((body) => ({ path: batchPath, body: JSON.stringify(body) }));
    return { atMs: at + Math.floor(random() * 3_600_000), calls };
  });
}

function isWeekend(ms: number): boolean {
  return [0, 6].includes(new Date(ms).getUTCDay());
}

/** Divides a number into whole parts by weight. The sum of the parts is always the number. */
function shares(total: number, weights: number[]): number[] {
  const sum = weights.reduce((before, weight) => before + weight, 0);
  let [passed, given] = [0, 0];
  return weights.map((weight) => {
    passed += weight;
    const part = Math.round((total * passed) / sum) - given;
    given += part;
    return part;
  });
}

type Lead = (typeof LEADS)[number];
const PAGES = ["/", "/pricing", "/blog/first-party-data", "/customers", "/docs"] as const;
const MAILS = ["October news", "Product update", "Webinar invitation"] as const;
const FEATURES = ["export", "dashboards", "alerts", "sharing"] as const;
const STAGES = ["qualified", "proposal", "negotiation"] as const;

function mail(event: string, email: string, properties: object): object {
  return { event, source: "marketing-automation", email, properties };
}

function identifyCall({ id, email, firstName, lastName, company, title }: Lead): object {
  const traits = { email, name: `${firstName} ${lastName}`, company, title };
  return { type: "identify", messageId: `identify-${id}`, anonymousId: `browser-${id}`, userId: `user-${id}`, traits };
}

/** The group call that makes the lead a member of their company's account; none without a company. */
function groupCalls({ id, company }: Lead): object[] {
  const groupId = accountOf(company);
  if (groupId === null) return [];
  const traits = { name: company, plan: "growth" };
  return [{ type: "group", messageId: `group-${id}`, userId: `user-${id}`, groupId, traits }];
}

/** Pseudo-random numbers from 0 to below 1, reproducible by seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Fills an empty state. @returns false if the workspace exists. */
export async function fillSample(stateDir: string, token: string, signal: AbortSignal): Promise<boolean> {
  const args = ["--inspector-port", "0", ...(await noWaitArguments(stateDir))];
  const service = await startService({ stateDir, port: "0", args, signal, entry: WORKER_WITH_CLOCK });
  try {
    const operator = new OperatorClient(service.origin, token);
    const workspaces = await operator.list<WorkspaceAnswer>("workspaces");
    if (workspaces.some(({ slug }) => slug === DEMO_SLUG)) return false;
    const nowMs = Date.now();
    await setClock(service.origin, sampleStartMs(nowMs));
    const { workspace_id: id, key } = await seedDemoWorkspace(operator, stateDir);
    const home = `workspaces/${id}`;
    const keys = { ...(await createKeys(operator, home)), campaigns: key };
    console.log("Sending three weeks of signals …");
    await sendThreeWeeks({ origin: service.origin, operator, home, keys }, nowMs, signal);
    return true;
  } finally {
    await service.stop();
  }
}

/**
 * Arguments of `wrangler dev` that process each hour's signals at once: neither the drain nor the queue waits for a
 * batch. With production's waiting times the sample takes five times as long.
 */
async function noWaitArguments(stateDir: string): Promise<string[]> {
  const config = path.join(stateDir, "sample.toml");
  const text = await readFile(path.join(PROJECT_DIR, "wrangler.toml"), "utf8");
  await writeFile(config, text.replaceAll(/^max_batch_timeout = .*$/gm, "max_batch_timeout = 0"));
  // Wrangler looks for the secrets in the folder of the configuration.
  const secrets = path.join(PROJECT_DIR, ".dev.vars");
  return ["--config", config, "--env-file", secrets, "--var", "DRAIN_PACE_MS:0"];
}
