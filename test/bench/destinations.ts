/**
 * `npm run bench -- destinations`: the same traffic in a workspace with two destinations for every scoring signal and
 * in a workspace without, in turn. The deliveries finish before the next round and are not measured.
 */
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { listenAndAccept, type Listener } from "../support/listen.ts";
import { Bencher } from "./bencher.ts";
import { until } from "./operator-api.ts";
import { SERVICE_CONFIG, build } from "./build.ts";
import { VARS } from "./growth-workspaces.ts";
import { LoadGenerator } from "./load.ts";
import { median, type StorePart } from "./figures.ts";
import { RULES } from "./rules.ts";
import { body } from "./signals.ts";
import { startEmpty } from "./start.ts";

const CALLS = 100;
const BATCH = 100;
const CONNECTIONS = 8;
const POLL_MS = 10;
/** Number of polls without waiting notifications: gathered deliveries are a second apart. */
const QUIET_POLLS = 6;
const QUIET_POLL_MS = 250;
/** Maximum ratio to the same traffic without destinations. */
const MAX_RATIO = 1.05;

interface Notifying {
  id: string;
  key: string;
  sent: number;
  destinations: string[];
}

interface Round {
  ingestMs: number;
  processedMs: number;
  cpuMicroseconds: number;
}

export async function measureDestinations(rounds: number, scratch: string, failures: string[]): Promise<StorePart> {
  const service = await build(SERVICE_CONFIG, path.join(scratch, "build/service"));
  // A short pace, because it is chance whether the last message waits for it.
  const running = await startEmpty(service, {
    stateDir: path.join(scratch, "state"),
    vars: { ...VARS, SIGN_IN: "local", DRAIN_PACE_MS: "50" },
  });
  const generator = new LoadGenerator();
  const receivers = await Promise.all([listenAndAccept(), listenAndAccept()]);
  try {
    const bencher = new Bencher("destinations", running, generator, failures);
    const plain = await provision(bencher, "plain", []);
    const notifying = await provision(bencher, "notifying", receivers);
    const measured: { plain: Round; notifying: Round }[] = [];
    // The first round warms up.
    for (let round = 0; round <= rounds; round++) {
      // Neither is always the second.
      const first = round % 2 === 0 ? plain : notifying;
      const firstResult = await send(bencher, first);
      const secondResult = await send(bencher, first === plain ? notifying : plain);
      if (round > 0)
        measured.push(
          first === plain
            ? { plain: firstResult, notifying: secondResult }
            : { plain: secondResult, notifying: firstResult },
        );
    }
    const ratio = (of: keyof Round): number => median(measured.map((round) => round.notifying[of] / round.plain[of]));
    return {
      title: "With two destinations, to without",
      figures: [
        { name: "Ingest", value: ratio("ingestMs"), unit: "×", atMost: MAX_RATIO },
        { name: "Until all is processed", value: ratio("processedMs"), unit: "×", atMost: MAX_RATIO },
        { name: "CPU until then, deliveries included", value: ratio("cpuMicroseconds"), unit: "×" },
      ],
      notes: [`Medians of ${rounds} pairs of ${(CALLS * BATCH).toLocaleString("en")} signals in calls of ${BATCH}.`],
    };
  } finally {
    generator.stop();
    for (const receiver of receivers) receiver.close();
    await running.stop();
  }
}

async function provision({ api }: Bencher, slug: string, receivers: readonly Listener[]): Promise<Notifying> {
  const { id, key } = await api.provision({ slug, rules: RULES });
  const targets = receivers.map(({ origin }) => origin);
  return { id, key, sent: 0, destinations: await api.addWebhooks(id, targets, ["person.scored"]) };
}

async function send(bencher: Bencher, workspace: Notifying): Promise<Round> {
  const { running, api } = bencher;
  const route = `/api/signal-staging/webhook/${workspace.key}/batch`;
  const calls = Array.from({ length: CALLS }, () => {
    workspace.sent += BATCH;
    return { method: "POST" as const, path: route, body: body(workspace.sent - BATCH, BATCH) };
  });
  const cpu = running.cpuMicroseconds();
  const startedAt = performance.now();
  await bencher.load(calls, CONNECTIONS);
  const ingestMs = performance.now() - startedAt;
  await until(async () => (await api.books(workspace.id)).in_flight === 0, POLL_MS);
  const processedMs = performance.now() - startedAt;
  const cpuMicroseconds = running.cpuMicroseconds() - cpu;
  const waiting = async (id: string): Promise<number> =>
    (await api.get<{ waiting: number }>(`workspaces/${workspace.id}/destinations/${id}`)).waiting;
  // Gathering notifications are no delivery yet.
  for (const id of workspace.destinations) {
    for (let quiet = 0; quiet < QUIET_POLLS; quiet = (await waiting(id)) === 0 ? quiet + 1 : 0)
      await sleep(QUIET_POLL_MS);
  }
  return { ingestMs, processedMs, cpuMicroseconds };
}
