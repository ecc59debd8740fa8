/** A Quota Counter of its own for each test, called as the edge calls it, and a look into its outbox. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { readMessage, writeMessage, writeSignal } from "../../src/wire/message.ts";
import type { Admission } from "../../src/wire/admission.ts";
import type { QuotaConfig } from "../../src/domain/quota/billing.ts";
import type { AdmitCall, AdmitResult } from "../../src/quota/protocol.ts";
import type { QuotaCounter } from "../../src/quota/quota-counter.ts";

export type Queued = { body: string; contentType: "text" };

/** Takes what the Quota Counter sends, and gives nothing of it to a consumer. */
export type SendBatch = (messages: Queued[]) => Promise<unknown>;

export const ANCHOR = Date.UTC(2026, 0, 1);

export async function newCounter(config: Partial<QuotaConfig> = {}): Promise<TestCounter> {
  const counter = new TestCounter(`ws_${crypto.randomUUID()}`);
  await counter.configure(config);
  return counter;
}

export class TestCounter {
  readonly id: string;
  /** Number of the first outbox row; null before `configure`. */
  #firstRow: number | null = null;

  constructor(id: string) {
    this.id = id;
  }

  /** A new stub each time: one that has seen its object die is of no use any more. */
  get stub(): DurableObjectStub<QuotaCounter> {
    return env.QUOTA_COUNTER.getByName(this.id);
  }

  async configure(config: Partial<QuotaConfig>): Promise<void> {
    await this.stub.configure({ signalLimit: 1_000, paid: true, overages: false, anchorMs: ANCHOR, ...config });
    this.#firstRow ??= await runInDurableObject(this.stub, (_, { storage: { sql } }) => {
      const { next_row: next } = sql.exec<{ next_row: number }>("SELECT next_row FROM ledger").one();
      return sql.exec<{ row: number }>("SELECT ifnull(min(row), ?) AS row FROM outbox", next).one().row;
    });
  }

  /**
   * Row numbers begin at the time when the object starts. A test says which row it means by the row's position: 1 for the
   * counter's first row. Positions have no gaps as long as the object does not start again at a later time.
   */
  positionOf(row: number): number {
    if (this.#firstRow === null) throw new Error("the counter is not configured");
    return row - this.#firstRow + 1;
  }

  /** The numbers of the rows at these positions. */
  rowsAt(...positions: number[]): number[] {
    const before = this.positionOf(0);
    return positions.map((position) => position - before);
  }

  /** Settles the rows at these positions. */
  async settle(...positions: number[]): Promise<void> {
    await this.stub.settle(this.rowsAt(...positions));
  }

  /** Positions of the rows that are not settled. */
  async positions(): Promise<number[]> {
    return (await this.rows()).map(({ row }) => this.positionOf(row));
  }

  /** Admits `count` signals in one call. */
  async admit(count = 1, call: Partial<AdmitCall> & { ids?: string[] } = {}): Promise<AdmitResult> {
    return this.stub.admit(admitCall(count, call));
  }

  /** Admits and gives accepted, held and rejected. */
  async counted(count = 1, call: Partial<AdmitCall> = {}): Promise<[number, number, number]> {
    const result = await this.admit(count, call);
    if (result.outcome !== "counted") throw new Error(result.outcome);
    return [result.accepted, result.held, result.rejected];
  }

  /** From now on, until the object is started again. */
  async sendTo(sendBatch: SendBatch): Promise<void> {
    await runInDurableObject(this.stub, (instance) => {
      Object.assign(instance, { env: { ...env, SIGNALS: { sendBatch } } });
    });
  }

  /** The rows of the outbox, which are those that are not settled. */
  async rows(): Promise<{ row: number; bytes: number; body: string }[]> {
    return runInDurableObject(this.stub, (_, { storage }) =>
      storage.sql
        .exec<{ row: number; bytes: number; body: string }>("SELECT row, bytes, body FROM outbox WHERE bytes > 0")
        .toArray(),
    );
  }

  /** Every signal in the outbox, in the order of their rows. */
  async unsettled(): Promise<(Admission & { row: number; payload: string })[]> {
    const received = (await this.rows()).flatMap(({ body }) => readMessage(writeMessage(this.id, 0, body)).rows);
    return received.flatMap(({ row, signals }) =>
      signals.map(({ admission, payload }) => ({ ...admission, row: row.row, payload })),
    );
  }

  /** Lets `sql.exec` fail for statements that begin so; returns what makes it work again, and fails where none was executed. */
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
  let text = "";
  for (let index = 0; index < count; index++) {
    text += writeSignal({ id: ids?.[index] ?? `sig_${crypto.randomUUID()}`, key: keyId }, payload);
  }
  const chunks = count === 0 ? [] : [{ text, count, bytes: new TextEncoder().encode(text).length }];
  return { keyId, chunks, requestId: `req_${crypto.randomUUID()}`, firstSlice: true, invalid: [], ...call };
}

/** Takes every message and loses it. */
export const lose: SendBatch = () => Promise.resolve();

/** Rows that the object writes and alarms that it sets while `work` runs: each is billed as a row written. */
export async function countRows(
  counter: TestCounter,
  work: () => Promise<unknown>,
): Promise<{ rows: number; alarms: number }> {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  let alarms = 0;
  await runInDurableObject(counter.stub, (_, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((query: string, ...bindings: SqlStorageValue[]) => {
      const cursor = exec(query, ...bindings);
      cursors.push(cursor);
      return cursor;
    }) as typeof storage.sql.exec;
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = (...given) => {
      alarms++;
      return setAlarm(...given);
    };
  });
  await work();
  return runInDurableObject(counter.stub, (_, { storage }) => {
    Reflect.deleteProperty(storage.sql, "exec");
    Reflect.deleteProperty(storage, "setAlarm");
    return { rows: cursors.reduce((sum, cursor) => sum + cursor.rowsWritten, 0), alarms };
  });
}
