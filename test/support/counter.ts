/** A separate Quota Counter for each test, called as the edge calls it, with access to its outbox. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { callOf } from "./wire.ts";
import { type Admission, readMessage } from "../../src/wire/message.ts";
import type { QuotaConfig } from "../../src/domain/quota/billing.ts";
import type { AdmitCall, AdmitResult, ResentSignal, Usage } from "../../src/quota/protocol.ts";
import type { QuotaCounter } from "../../src/quota/quota-counter.ts";
import { ownWorkspace } from "./logged.ts";
import { until } from "./until.ts";

export type Queued = { body: Uint8Array; contentType: "bytes" };

/** Takes the messages of the Quota Counter and passes none to a consumer. */
export type SendBatch = (messages: Queued[]) => Promise<unknown>;

const ANCHOR = Date.UTC(2026, 0, 1);

export async function newCounter(config: Partial<QuotaConfig> = {}): Promise<TestCounter> {
  const counter = new TestCounter(`ws_${crypto.randomUUID()}`);
  await counter.configure(config);
  return counter;
}

/** A version above the counter's, for its next configuration. */
export function newerVersion(counter: DurableObjectStub<QuotaCounter>): Promise<number> {
  return runInDurableObject(counter, (instance) => Math.max(Date.now(), 1 + instance.configVersion()));
}

export class TestCounter {
  readonly id: string;
  /** Number of the first outbox row; null before `configure`. */
  #firstRow: number | null = null;

  constructor(id: string) {
    ownWorkspace(id);
    this.id = id;
  }

  /** A new stub each time, because a stub is unusable after its object died. */
  get stub(): DurableObjectStub<QuotaCounter> {
    return env.QUOTA_COUNTER.getByName(this.id);
  }

  async configure(config: Partial<QuotaConfig>): Promise<void> {
    const terms = { signalLimit: 1_000, paid: true, overages: false, anchorMs: ANCHOR };
    const configVersion = config.configVersion ?? (await newerVersion(this.stub));
    await this.stub.configure([{ ...terms, ...config, configVersion }]);
    this.#firstRow ??= await runInDurableObject(this.stub, (_, { storage: { sql } }) => {
      const { next_row: next } = sql.exec<{ next_row: number }>("SELECT next_row FROM ledger").one();
      return sql.exec<{ row: number }>("SELECT ifnull(min(row), ?) AS row FROM outbox", next).one().row;
    });
  }

  /**
   * Row numbers begin at the time of the first configuration. Tests name a row by its position: 1 is the counter's
   * first row.
   */
  positionOf(row: number): number {
    if (this.#firstRow === null) throw new Error("the counter is not configured");
    return row - this.#firstRow + 1;
  }

  rowsAt(...positions: number[]): number[] {
    const before = this.positionOf(0);
    return positions.map((position) => position - before);
  }

  async settle(...positions: number[]): Promise<void> {
    await this.stub.settle(this.rowsAt(...positions));
  }

  async positions(): Promise<number[]> {
    return (await this.rows()).map(({ row }) => this.positionOf(row));
  }

  async admit(count = 1, call: Partial<AdmitCall> & { ids?: string[] } = {}): Promise<AdmitResult> {
    return this.stub.admit(admitCall(count, call));
  }

  /** Admits signals and returns the numbers accepted, held and rejected. */
  async counted(count = 1, call: Partial<AdmitCall> = {}): Promise<[number, number, number]> {
    const result = await this.admit(count, call);
    if (result.outcome !== "counted") throw new Error(result.outcome);
    return [result.accepted, result.held, result.rejected];
  }

  async usage(): Promise<Usage> {
    const usage = await this.stub.usage();
    if (usage === null) throw new Error("the counter is not configured");
    return usage;
  }

  /** Waits for an empty outbox. @returns the numbers of signals in the store. */
  async storedTotals() {
    await until(async () => expect((await this.stub.books()).unsettled).toBe(0));
    return env.SIGNAL_STORE.getByName(this.id).totals();
  }

  alarmMs(): Promise<number | null> {
    return runInDurableObject(this.stub, (_, { storage }) => storage.getAlarm());
  }

  /** Held signals of a period, as the Signal Store sends them back. */
  heldSignals(count: number, periodStartMs: number): ResentSignal[] {
    return Array.from({ length: count }, (_, n) => {
      const id = `sig_${this.id}_${n}`;
      return { id, periodStartMs, ...callOf({ key: "key_1" }, [{ id, payload: "{}" }]) };
    });
  }

  /** Lasts until the object starts again. */
  async sendTo(sendBatch: SendBatch): Promise<void> {
    await runInDurableObject(this.stub, (instance) => {
      Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch } } });
    });
  }

  async rows(): Promise<{ row: number; bytes: number; body: ArrayBuffer }[]> {
    return runInDurableObject(this.stub, (_, { storage }) =>
      storage.sql
        .exec<{ row: number; bytes: number; body: ArrayBuffer }>("SELECT row, bytes, body FROM outbox WHERE bytes > 0")
        .toArray(),
    );
  }

  /** Rows of one commit have the same count of admitted signals. */
  async admittedInRows(): Promise<{ admitted: number; count: number; bytes: number }[]> {
    return runInDurableObject(this.stub, (_, { storage }) =>
      storage.sql
        .exec<{ admitted: number; count: number; bytes: number }>(
          "SELECT admitted, count, bytes FROM outbox WHERE bytes > 0 ORDER BY row",
        )
        .toArray(),
    );
  }

  /** Every signal in the outbox, in row order. */
  async unsettled(): Promise<(Admission & { row: number; payload: string })[]> {
    const received = (await this.rows()).flatMap(({ body }) => readMessage(body).rows);
    return received.flatMap(({ row, signals }) =>
      signals.map(({ admission, payload }) => ({ ...admission, row: row.row, payload })),
    );
  }

  /**
   * Makes `sql.exec` fail for statements that begin with this text. Returns a function that undoes it, and that fails
   * if no such statement ran.
   */
  async breakStatement(start: string): Promise<() => Promise<void>> {
    let broken = 0;
    await runInDurableObject(this.stub, (_, { storage }) => {
      const { sql } = storage;
      const exec = sql.exec.bind(sql);
      sql.exec = ((query: string, ...bindings: unknown[]) => {
        if (query.startsWith(start)) {
          broken++;
          throw new Error("disk full");
        }
        return exec(query, ...bindings);
      }) as typeof sql.exec;
    });
    return async () => {
      await runInDurableObject(this.stub, (_, { storage }) => void Reflect.deleteProperty(storage.sql, "exec"));
      if (broken === 0) throw new Error(`no statement that begins with ${start} was executed`);
    };
  }
}

export function admitCall(
  count: number,
  { ids, payload = "{}", ...call }: Partial<AdmitCall> & { ids?: string[]; payload?: string } = {},
): AdmitCall {
  const keyId = call.keyId ?? "key_1";
  const signals = Array.from({ length: count }, (_, index) => ({
    id: ids?.[index] ?? `sig_${crypto.randomUUID()}`,
    payload,
  }));
  const written = callOf({ key: keyId }, signals);
  return { keyId, ...written, requestId: `req_${crypto.randomUUID()}`, invalid: [], ...call };
}

export const lose: SendBatch = () => Promise.resolve();

/** The rows that the object writes and the alarms that it sets during `work`. Each is billed as a row written. */
export async function countRows(
  counter: TestCounter,
  work: () => Promise<unknown>,
): Promise<{ rows: number; alarms: number }> {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  let alarms = 0;
  /** Of a shifted clock, see shift-alarms.ts. */
  let own: PropertyDescriptor | undefined;
  await runInDurableObject(counter.stub, (_, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = exec(query, ...bindings);
      cursors.push(cursor);
      return cursor;
    }) as typeof storage.sql.exec;
    own = Object.getOwnPropertyDescriptor(storage, "setAlarm");
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = (...given) => {
      alarms++;
      return setAlarm(...given);
    };
  });
  await work();
  return runInDurableObject(counter.stub, (_, { storage }) => {
    Reflect.deleteProperty(storage.sql, "exec");
    if (own === undefined) Reflect.deleteProperty(storage, "setAlarm");
    else Object.defineProperty(storage, "setAlarm", own);
    return { rows: cursors.reduce((sum, cursor) => sum + cursor.rowsWritten, 0), alarms };
  });
}
