/**
 * Fills workspaces for the growth bench: hands queue messages straight to this service's own consumer, which records
 * them in the Signal Store as always. Only what the calls would have left in the Quota Counter is written by hand.
 */
import { consume } from "../../../src/queue/consumer.ts";
import { writeMessage, writeRow, writeSignal } from "../../../src/queue/message.ts";
import { QuotaCounter as Counter } from "../../../src/quota/quota-counter.ts";
import { isHeld, payloadOf, receivedAtMs, signalIdOf } from "../growth-traffic.ts";
import type { FillOrder } from "../growth-traffic.ts";

export { SignalStore } from "../../../src/store/signal-store.ts";

type FillEnv = Omit<Env, "QUOTA_COUNTER"> & { QUOTA_COUNTER: DurableObjectNamespace<QuotaCounter> };

const ROW_SIGNALS = 100;
const BATCH_SIGNALS = 2_000;

export class QuotaCounter extends Counter {
  /** The ledger as these many admissions leave it. What is in memory is from before: the next start reads it. */
  counted(accepted: number, held: number): void {
    this.ctx.storage.sql.exec(
      "UPDATE ledger SET accepted = ?1, held = ?2, admitted = ?1 + ?2, next_row = ?1 + ?2 + 1",
      accepted,
      held,
    );
  }
}

export default {
  async fetch(request, env): Promise<Response> {
    const order: FillOrder = await request.json();
    const counter = env.QUOTA_COUNTER.getByName(order.workspaceId);
    const usage = await counter.usage();
    if (usage === null) return new Response("no such workspace", { status: 404 });
    for (let from = order.from; from < order.to; from += BATCH_SIGNALS) {
      let rows = "";
      for (let first = from; first < Math.min(from + BATCH_SIGNALS, order.to); first += ROW_SIGNALS) {
        rows += rowOf(order, first, usage);
      }
      await record(env, writeMessage(order.workspaceId, rows));
    }
    const held = Math.floor(order.to / ROW_SIGNALS);
    await counter.counted(order.to - held, held);
    return new Response("filled");
  },
} satisfies ExportedHandler<FillEnv>;

function rowOf(order: FillOrder, first: number, period: { periodStartMs: number; periodEndMs: number }): string {
  let signals = "";
  let accepted = 0;
  const count = Math.min(ROW_SIGNALS, order.to - first);
  for (let n = first; n < first + count; n++) {
    if (!isHeld(n)) accepted++;
    signals += writeSignal(
      { id: signalIdOf(n, order), key: order.keyId },
      payloadOf(n, order.size.people, receivedAtMs(n, order)),
    );
  }
  const row = {
    row: first + 1,
    at: receivedAtMs(first, order),
    period_start: period.periodStartMs,
    period_end: period.periodEndMs,
    limit: order.size.signals,
    first: first + 1,
    count,
    accepted,
  };
  return writeRow(row, signals);
}

async function record(env: FillEnv, body: string): Promise<void> {
  let recorded = false;
  const message = { id: "fill", timestamp: new Date(), attempts: 1, body, ack: () => (recorded = true), retry() {} };
  const batch = { queue: "signals", messages: [message], metadata: {}, ackAll() {}, retryAll() {} };
  await consume(batch as unknown as MessageBatch<string>, env as unknown as Env);
  if (!recorded) throw new Error("the consumer did not record a batch");
}
