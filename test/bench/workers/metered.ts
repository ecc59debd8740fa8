/** A Worker whose requests are counted, and which answers the bench's requests to the meter. */
import { METER_PATH, type MeterCall, type Size } from "../cost/meter-call.ts";
import { meteredBatch, meteredEnv } from "./meter-bindings.ts";
import type { Metered } from "./meter-objects.ts";
import { advanceTo, count, objectMeters, quiet, takeUsage, type ObjectMeter } from "./meter.ts";

/** By class name of the objects. */
type Namespaces = Record<string, Pick<DurableObjectNamespace, "getByName">>;
type MeteredStub = DurableObjectStub<Rpc.DurableObjectBranded & Metered>;

/** A limit that only a bug can reach. */
const MOST_ALARMS = 100_000;

export function meteredWorker<Bindings extends object, Body>(
  worker: {
    fetch: (request: Request, env: Bindings, ctx: ExecutionContext) => Response | Promise<Response>;
    queue: (batch: MessageBatch<Body>, env: Bindings, ctx: ExecutionContext) => void | Promise<void>;
    scheduled?: (controller: Pick<ScheduledController, "scheduledTime">, env: Bindings) => Promise<void>;
  },
  namespaces: (env: Bindings) => Namespaces,
): ExportedHandler<Bindings, Body> {
  const watch = async (env: Bindings): Promise<void> => {
    count("worker_requests", "runs of the watch");
    // Not the run of the day that also posts that the watch runs.
    await worker.scheduled?.({ scheduledTime: Date.UTC(2026, 0, 1, 12, 5) }, meteredEnv(env));
  };
  return {
    async fetch(request, env, ctx) {
      if (new URL(request.url).pathname === METER_PATH)
        return Response.json(await answer(await request.json(), namespaces(env), () => watch(env)));
      count("worker_requests", "calls");
      return worker.fetch(request, meteredEnv(env), ctx);
    },
    async queue(delivered, env, ctx) {
      count("worker_requests", "runs of the consumer");
      const { batch, settle } = meteredBatch(delivered);
      await worker.queue(batch, meteredEnv(env), ctx);
      settle();
    },
  };
}

async function answer(call: MeterCall, namespaces: Namespaces, watch: () => Promise<void>): Promise<object> {
  if (call.call === "take") return takeUsage();
  if (call.call === "quiet") return quiet();
  if (call.call === "size") return size(namespaces);
  await (call.call === "watch" ? watch() : pass(call.ms, namespaces));
  return {};
}

async function size(namespaces: Namespaces): Promise<Size> {
  const sizes = await Promise.all(
    objectMeters().map(async (meter) => (await stubOf(meter, namespaces)?.meterSize()) ?? 0),
  );
  return { objectBytes: sizes.reduce((sum, bytes) => sum + bytes, 0) };
}

/** Rings the alarms of all objects, in order of time. */
async function pass(ms: number, namespaces: Namespaces): Promise<void> {
  const untilMs = Date.now() + ms;
  for (let rung = 0; rung < MOST_ALARMS; rung++) {
    const next = objectMeters().reduce<ObjectMeter | null>(
      (first, alarm) => (first !== null && first.alarmAtMs <= alarm.alarmAtMs ? first : alarm),
      null,
    );
    if (next === null || next.alarmAtMs > untilMs) break;
    advanceTo(next.alarmAtMs);
    await stubOf(next, namespaces)?.meterRing();
  }
  advanceTo(untilMs);
}

function stubOf({ className, name }: ObjectMeter, namespaces: Namespaces): MeteredStub | undefined {
  return namespaces[className]?.getByName(name) as MeteredStub | undefined;
}
