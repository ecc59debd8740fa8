/**
 * `npm run cost`: the platform's bill for a million signals, of this service and of the straightforward Worker,
 * counted in the real local runtime and priced by prices.ts. Prints the tables, and fails if a target is missed. Writes
 * some tables into the README.md of the benches, the one next to this file and docs/operate.md. The README.md next to
 * this file also lists what the meter cannot see.
 */
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { ROOT, SERVICE_CONFIG, benchWorker, build } from "../build.ts";
import { startService, startStraightforward, type BuiltWorkers } from "../contestants.ts";
import { writeTables } from "./documents.ts";
import { measureNotifications, startForNotifications, measureDestinations, startNotifying } from "./notifications.ts";
import { pricesOn, PRICE_LISTS } from "./prices.ts";
import { measureIdle, WATCHED, measureRejections, startForRejections } from "./rejections.ts";
import {
  reportBounds,
  reportCauses,
  reportDeployments,
  reportNotifications,
  reportIdle,
  reportItems,
  reportRejected,
  reportRejectedInShort,
  reportDestinations,
  reportTotals,
  tooDear,
  type Compared,
  type Figures,
} from "./report.ts";
import { BATCHES, FAST, SHAPES, SLOW, STEADY, measureShapes, type Measured } from "./shapes.ts";
import { amountOf, type Item } from "./usage.ts";

type Workers = Pick<BuiltWorkers, "service" | "straightforward" | "sink">;

const BENCH = path.join(import.meta.dirname, "..");

const scratch = mkdtempSync(path.join(os.tmpdir(), "signal-ingestion-cost-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
process.on("SIGINT", () => process.exit(130));
process.on("SIGTERM", () => process.exit(143));

const prices = pricesOn(PRICE_LISTS, new Date());
const laterPrices = PRICE_LISTS.slice(PRICE_LISTS.indexOf(prices) + 1);
const lastPrices = laterPrices.at(-1) ?? prices;
const figures = await measure(await buildAll());
const inShort = [
  reportTotals(figures, prices, laterPrices),
  reportRejectedInShort(figures, lastPrices),
  reportIdle(figures, prices),
];
const inDetail = [
  reportItems(figures, prices),
  reportCauses(figures, "object_rows_written", "Rows written"),
  reportNotifications(figures, prices),
  reportDestinations(figures, prices),
];
const onlyPrinted = [
  reportBounds(figures, prices),
  reportCauses(figures, "object_requests"),
  reportCauses(figures, "object_gb_seconds", "Object time, GB-s"),
  reportCauses(figures, "worker_requests"),
  reportCauses(figures, "log_lines"),
  reportRejected(figures, prices, lastPrices),
];
console.log([...inShort, ...inDetail, ...onlyPrinted].join("\n"));
await writeTables(path.join(BENCH, "README.md"), inShort);
await writeTables(path.join(import.meta.dirname, "README.md"), inDetail);
await writeTables(path.join(ROOT, "docs/operate.md"), [reportDeployments(figures, prices)]);
const failures = [...misread(figures), ...tooDear(figures, prices, lastPrices)];
for (const failure of failures) console.error(`FAILED ${failure}`);
process.exit(failures.length === 0 ? 0 : 1);

async function buildAll(): Promise<Workers> {
  const buildTo = (name: string): string => path.join(scratch, "build", name);
  const [service, straightforward, sink] = await Promise.all([
    build(SERVICE_CONFIG, buildTo("service"), benchWorker("metered-service.ts")),
    build(benchWorker("straightforward.toml"), buildTo("straightforward"), benchWorker("metered-straightforward.ts")),
    build(benchWorker("sink.toml"), buildTo("sink")),
  ]);
  return { service, straightforward, sink };
}

/** Everything side by side in separate processes. They are started one after the other, to identify each. */
async function measure(workers: Workers): Promise<Figures> {
  const state = (name: string): string => path.join(scratch, "state", name);
  const slow = await startService("service", workers, state("slow"));
  const otherSlow = await startStraightforward(workers, state("slow"));
  const fast = await startService("service", workers, state("fast"));
  const otherFast = await startStraightforward(workers, state("fast"));
  const flooded = await startForRejections(workers.service, state("floods"));
  const trickled = await startForRejections(workers.service, state("trickle"));
  const alsoTrickled = await startForRejections(workers.service, state("other-trickle"));
  const notifying = await startForNotifications(workers.service, state("notifications"));
  const idling = await startService("service", workers, state("idle"), WATCHED);
  const notifyingAll = await startNotifying(workers, state("notifying"));
  const [service, straightforward, rejected, notifications, idle, withDestinations] = await Promise.all([
    // The fast shapes of one Worker are measured while the other is nearly idle.
    Promise.all([measureShapes(slow, [SLOW]), measureShapes(fast, [STEADY, BATCHES, FAST])]),
    Promise.all([measureShapes(otherSlow, [SLOW]), measureShapes(otherFast, [FAST, BATCHES, STEADY])]),
    Promise.all([
      measureRejections(flooded, ({ floods }) => floods),
      measureRejections(trickled, ({ trickles }) => trickles.slice(0, 1)),
      measureRejections(alsoTrickled, ({ trickles }) => trickles.slice(1)),
    ]),
    measureNotifications(notifying),
    measureIdle(idling),
    measureDestinations(notifyingAll),
  ]);
  return {
    compared: compared(
      service.flatMap(({ measured }) => measured),
      straightforward.flatMap(({ measured }) => measured),
    ),
    kept: { service: service[1].kept, straightforward: straightforward[1].kept },
    rejected: rejected.flat(),
    notifications,
    idle,
    withDestinations,
  };
}

function compared(ours: Measured[], theirs: Measured[]): Compared[] {
  return SHAPES.map((shape) => {
    const [service, straightforward] = [ours, theirs].map((all) => all.find((measured) => measured.shape === shape));
    if (service === undefined || straightforward === undefined) throw new Error(`${shape.name} has not been measured`);
    return { shape, service, straightforward };
  });
}

/**
 * The operations of the straightforward Worker per call and signal are known: a meter that misses any of them is
 * broken.
 */
function misread({ compared: shapes }: Figures): string[] {
  return shapes.flatMap(({ shape, straightforward: { usage, signals } }) => {
    const known: [Item, number][] = [
      ["object_requests", signals / shape.batch],
      ["object_rows_written", signals / shape.batch],
      ["queue_operations", 3 * signals],
    ];
    return known
      .filter(([item, amount]) => amountOf(usage, item) !== amount)
      .map(
        ([item, amount]) =>
          `${shape.name}: ${amountOf(usage, item)} ${item} counted, not ${amount}: the meter is wrong`,
      );
  });
}
