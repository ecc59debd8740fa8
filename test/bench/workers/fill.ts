/**
 * Fills workspaces for the benches: hands queue messages directly to this service's own consumer, which records them
 * in the Signal Store as usual, with a simulated clock of receipt. Only the rows that the calls would leave in the
 * Quota Counter are written by hand.
 */
import { consume } from "../../../src/queue/consumer.ts";
import { writeMessage, writeRow, writeSignal } from "../../../src/wire/message.ts";
import { MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import { QuotaCounter as Counter } from "../../../src/quota/quota-counter.ts";
import type { FillOrder, FillerCall } from "../fill-order.ts";
import { HELD_EVERY, receivedAtMs, signalIdOf } from "../growth-traffic.ts";
import { isHeldIn, signalOf } from "../traffic.ts";
import type { SignalStore } from "./counting-store.ts";

export { Destinations } from "../../../src/notifications/destinations.ts";
export { SignalStore } from "./counting-store.ts";

type FillEnv = Omit<Env, "QUOTA_COUNTER" | "SIGNAL_STORE"> & {
  QUOTA_COUNTER: DurableObjectNamespace<QuotaCounter>;
  SIGNAL_STORE: DurableObjectNamespace<SignalStore>;
};
type Period = { periodStartMs: number; periodEndMs: number };

const ROW_SIGNALS = 100;

/** Null: the real time. */
let clockMs: number | null = null;
const realNow = Date.now.bind(Date);
Date.now = () => clockMs ?? realNow();

export class QuotaCounter extends Counter {
  nextRow(): number {
    return this.ctx.storage.sql.exec<{ next_row: number }>("SELECT next_row FROM ledger").one().next_row;
  }

  /** Writes the ledger as these admissions would leave it. Memory is outdated: the next start reads the ledger. */
  counted(accepted: number, held: number, nextRow: number): void {
    this.ctx.storage.sql.exec(
      "UPDATE ledger SET accepted = ?1, held = ?2, admitted = ?1 + ?2, next_row = ?3",
      accepted,
      held,
      nextRow,
    );
  }
}

export default {
  async fetch(request, env): Promise<Response> {
    const call: FillerCall = await request.json();
    const store = env.SIGNAL_STORE.getByName(call.workspaceId);
    if (call.call === "size") return Response.json(await store.size());
    if (call.call === "fill") return fill(env, store, call);
    await store.cool();
    return Response.json(await store.written());
  },
} satisfies ExportedHandler<FillEnv>;

async function fill(env: FillEnv, store: DurableObjectStub<SignalStore>, order: FillOrder): Promise<Response> {
  const counter = env.QUOTA_COUNTER.getByName(order.workspaceId);
  const period = await counter.usage();
  if (period === null) return new Response("no such workspace", { status: 404 });
  const rows = new Rows(order, period, await counter.nextRow());
  try {
    for (let from = order.from; from < order.to; from += order.batch) {
      const to = Math.min(from + order.batch, order.to);
      clockMs = receivedAtMs(to - 1, order) + 1;
      if (order.alarms) await store.ring();
      await record(env, writeMessage(order.workspaceId, 0, rows.take(from, to)));
      if (!order.alarms) await store.linkAll();
    }
  } finally {
    clockMs = null;
  }
  const held = order.traffic === "visits" ? Math.floor(order.to / HELD_EVERY) : 0;
  await counter.counted(order.to - held, held, rows.next);
  return Response.json(await store.written());
}

/** Signals as the outbox would hold them. */
class Rows {
  readonly #order: FillOrder;
  readonly #period: Period;
  next: number;

  constructor(order: FillOrder, period: Period, next: number) {
    this.#order = order;
    this.#period = period;
    this.next = next;
  }

  take(from: number, to: number): string {
    let rows = "";
    for (let first = from; first < to;) {
      let [signals, count, accepted] = ["", 0, 0];
      while (first + count < to && count < ROW_SIGNALS) {
        const n = first + count;
        const envelope = { id: signalIdOf(n, this.#order), key: this.#order.keyId };
        const signal = writeSignal(envelope, signalOf(n, this.#order));
        if (count > 0 && signals.length + signal.length > MESSAGE_MAX_BYTES) break;
        signals += signal;
        count++;
        // In a row the held signals come last.
        if (isHeldIn(n, this.#order)) break;
        accepted++;
      }
      rows += this.#row(first, count, accepted, signals);
      first += count;
    }
    return rows;
  }

  #row(first: number, count: number, accepted: number, signals: string): string {
    const row = {
      row: this.next++,
      at: receivedAtMs(first, this.#order),
      period_start: this.#period.periodStartMs,
      period_end: this.#period.periodEndMs,
      limit: this.#order.size.signals,
      first: first + 1,
      count,
      accepted,
    };
    return writeRow(row, signals);
  }
}

async function record(env: FillEnv, body: string): Promise<void> {
  let recorded = false;
  const message = { id: "fill", timestamp: new Date(), attempts: 1, body, ack: () => (recorded = true), retry() {} };
  const batch = { queue: "signals", messages: [message], metadata: {}, ackAll() {}, retryAll() {} };
  await consume(batch as unknown as MessageBatch<string>, env as unknown as Env);
  if (!recorded) throw new Error("the consumer did not record a batch");
}
