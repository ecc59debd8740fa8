/**
 * Fills workspaces for the benches: hands queue messages directly to this service's own consumer, which records them
 * in the Signal Store as usual, with a simulated clock of receipt. Only the rows that the calls would leave in the
 * Quota Counter are written by hand.
 */
import { MESSAGE_MAX_BYTES } from "../../../src/limits.ts";
import { consume } from "../../../src/queue/consumer.ts";
import { QuotaCounter as Counter } from "../../../src/quota/quota-counter.ts";
import { stepLapses } from "../../../src/store/people/lapse-run.ts";
import type { RecordOptions, RecordResult, RowToRecord } from "../../../src/store/protocol/stored-signals.ts";
import { SignalStore as Store } from "../../../src/store/signal-store.ts";
import { writeCall, writeMessage, writeRow } from "../../../src/wire/message.ts";
import type { FillerCall, FillOrder, LapseStep, StoreSize, Written } from "../fill-order.ts";
import { HELD_EVERY, receivedAtMs, signalIdOf } from "../growth-traffic.ts";
import { isHeldIn, signalOf } from "../traffic.ts";
import { nextLinkJobMs } from "../../../src/store/state/due.ts";

export { Destinations } from "../../../src/notifications/destinations.ts";

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
    if (call.call === "lapse") return Response.json(await store.lapse(call.nowMs));
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

interface WrittenSignal {
  id: string;
  payload: Uint8Array;
}

const encoder = new TextEncoder();

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

  take(from: number, to: number): Uint8Array[] {
    const rows: Uint8Array[] = [];
    for (let first = from; first < to;) {
      const signals: WrittenSignal[] = [];
      let [bytes, accepted] = [0, 0];
      while (first + signals.length < to && signals.length < ROW_SIGNALS) {
        const n = first + signals.length;
        const payload = encoder.encode(signalOf(n, this.#order));
        if (signals.length > 0 && bytes + payload.length > MESSAGE_MAX_BYTES) break;
        signals.push({ id: signalIdOf(n, this.#order), payload });
        bytes += payload.length;
        // In a row the held signals come last.
        if (isHeldIn(n, this.#order)) break;
        accepted++;
      }
      rows.push(this.#row(first, accepted, signals));
      first += signals.length;
    }
    return rows;
  }

  #row(first: number, accepted: number, signals: WrittenSignal[]): Uint8Array {
    const row = {
      row: this.next++,
      at: receivedAtMs(first, this.#order),
      period_start: this.#period.periodStartMs,
      period_end: this.#period.periodEndMs,
      limit: this.#order.size.signals,
      first: first + 1,
      count: signals.length,
      accepted,
    };
    const call = writeCall({ key: this.#order.keyId }, signals);
    return writeRow(row, [encoder.encode(call.head), call.signals]);
  }
}

async function record(env: FillEnv, body: Uint8Array): Promise<void> {
  let recorded = false;
  const message = { id: "fill", timestamp: new Date(), attempts: 1, body, ack: () => (recorded = true), retry() {} };
  const batch = { queue: "signals", messages: [message], metadata: {}, ackAll() {}, retryAll() {} };
  await consume(batch as unknown as MessageBatch<ArrayBuffer>, env as unknown as Env);
  if (!recorded) throw new Error("the consumer did not record a batch");
}

type Part = "recording" | "linking" | "chores";

/** A limit that only a bug can reach. */
const MOST_TURNS = 1_000;
const WRITES = /^\s*(INSERT|UPDATE|DELETE|REPLACE)\b(?:\s+OR\s+\w+)?(?:\s+(?:INTO|FROM))?\s+[`"]?(\w+)/i;
const NEVER = Number.POSITIVE_INFINITY;

/** The rows written, by cause. */
class RowCounter {
  part: Part = "linking";
  alarmAtMs = NEVER;
  written = nothing();

  constructor(storage: DurableObjectStorage) {
    const { sql } = storage;
    const exec = sql.exec.bind(sql);
    sql.exec = ((query: string, ...bindings: unknown[]) => {
      const cursor = exec(query, ...bindings);
      const [, verb, table] = WRITES.exec(query) ?? [];
      if (table !== undefined) this.#count(`${verb?.toUpperCase()} ${table}`, cursor.rowsWritten);
      return cursor;
    }) as typeof sql.exec;
    storage.setAlarm = (at) => {
      this.alarmAtMs = Number(at);
      this.written.alarms++;
      return Promise.resolve();
    };
  }

  take(): Written {
    const { written } = this;
    this.written = nothing();
    return written;
  }

  #count(statement: string, rows: number): void {
    this.written[this.part] += rows;
    this.written.statements[statement] = (this.written.statements[statement] ?? 0) + rows;
  }
}

function nothing(): Written {
  return { recording: 0, linking: 0, chores: 0, alarms: 0, statements: {} };
}

/** The Signal Store with a count of every row that it writes, and with an alarm that rings only on the filler's command. Its behaviour is unchanged. */
export class SignalStore extends Store {
  readonly #counter: RowCounter;

  constructor(ctx: DurableObjectState, env: Env) {
    const counter = new RowCounter(ctx.storage);
    super(ctx, env);
    this.#counter = counter;
  }

  override record(rows: RowToRecord[], options?: RecordOptions): RecordResult {
    this.#counter.part = "recording";
    try {
      return super.record(rows, options);
    } finally {
      this.#counter.part = "linking";
    }
  }

  /** Since the last request. */
  written(): Written {
    return this.#counter.take();
  }

  /** Does the work of the alarms that are due by now. */
  async ring(): Promise<void> {
    const counter = this.#counter;
    for (let turns = 0; counter.alarmAtMs <= Date.now() && turns < MOST_TURNS; turns++) {
      counter.alarmAtMs = NEVER;
      counter.part = "chores";
      await this.alarm();
    }
    counter.part = "linking";
  }

  /** Links all earlier signals of visitors who are known by now. */
  async linkAll(): Promise<void> {
    for (let turns = 0; nextLinkJobMs(this.ctx.storage.sql) !== null && turns < MOST_TURNS; turns++) {
      await this.link();
    }
  }

  lapse(nowMs: number): LapseStep {
    this.#counter.take();
    this.#counter.part = "chores";
    this.ctx.storage.transactionSync(() => stepLapses(this.state, nowMs));
    const due = "SELECT count(*) AS people FROM people WHERE next_lapse_at <= ?";
    const { people } = this.ctx.storage.sql.exec<{ people: number }>(due, nowMs).one();
    return { rows: this.#counter.take().chores, dueAfter: people };
  }

  async cool(): Promise<void> {
    const payloads = () => this.ctx.storage.sql.exec("SELECT 1 FROM signals_payloads LIMIT 1").toArray().length;
    for (let turns = 0; payloads() > 0 && turns < MOST_TURNS; turns++) {
      await this.state.signals.work(Number.MAX_SAFE_INTEGER);
    }
  }

  async size(): Promise<StoreSize> {
    const { sql } = this.ctx.storage;
    const size: StoreSize = {
      databaseBytes: sql.databaseSize,
      coldBytes: 0,
      segments: sql.exec<{ n: number }>("SELECT count(*) AS n FROM signals_segments").one().n,
      longestRow: { table: "", bytes: 0 },
      tables: {},
    };
    const tables = sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    );
    for (const { name } of tables.toArray()) {
      const columns = sql.exec<{ name: string }>(`SELECT name FROM pragma_table_info('${name}')`).toArray();
      const bytes = columns.map((column) => `ifnull(length(CAST("${column.name}" AS BLOB)), 0)`).join(" + ");
      const { longest, all } = sql
        .exec<{ longest: number; all: number }>(
          `SELECT ifnull(max(${bytes}), 0) AS longest, ifnull(sum(${bytes}), 0) AS "all" FROM "${name}"`,
        )
        .one();
      size.tables[name] = all;
      if (longest > size.longestRow.bytes) size.longestRow = { table: name, bytes: longest };
    }
    for (let cursor: string | undefined; ;) {
      const prefix = `cold/${this.ctx.id.name ?? ""}/`;
      const page = await this.env.COLD.list({ prefix, ...(cursor === undefined ? {} : { cursor }) });
      for (const object of page.objects) size.coldBytes += object.size;
      if (!page.truncated) return size;
      cursor = page.cursor;
    }
  }
}
