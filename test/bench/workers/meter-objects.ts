/** Durable Objects whose calls, alarms, statements and time are counted. */
import type { DurableObject } from "cloudflare:workers";
import { meteredEnv, statementOf } from "./meter-bindings.ts";
import { count, currentObject, objectMeter, realTime, type ObjectMeter } from "./meter.ts";

type ObjectClass = new (ctx: DurableObjectState, env: never) => Rpc.DurableObjectBranded;

/** The metering methods of every metered object, besides its own. */
export interface Metered {
  /** Rings the alarm as if it were due now. */
  meterRing(): Promise<void>;
  meterSize(): number;
}

/** The class with every method of its prototypes counted. */
export function metered<Class extends ObjectClass>(className: string, base: Class): Class {
  const meters = new WeakMap<object, ObjectMeter>();
  const realAlarms = new WeakMap<object, () => Promise<void>>();

  for (
    let at = base.prototype as object;
    Object.getPrototypeOf(at) !== Object.prototype;
    at = Object.getPrototypeOf(at) as object
  )
    for (const [method, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (method === "constructor" || typeof value !== "function") continue;
      const call = value as (this: DurableObject, ...args: unknown[]) => unknown;
      Object.defineProperty(at, method, {
        configurable: true,
        writable: true,
        value(this: DurableObject, ...args: unknown[]): unknown {
          const meter = meters.get(this);
          // Called by its own code.
          if (meter === undefined || currentObject() === meter) return call.apply(this, args);
          count("object_requests", `${className}.${method}`);
          if (method === "alarm") meter.alarmAtMs = Number.POSITIVE_INFINITY;
          return meter.run(() => call.apply(this, args));
        },
      });
    }

  const added: Metered & ThisType<DurableObject & { ctx: DurableObjectState }> = {
    async meterRing() {
      await realAlarms.get(this)?.();
      await this.alarm?.();
    },
    meterSize() {
      return this.ctx.storage.sql.databaseSize;
    },
  };
  Object.assign(base.prototype as object, added);

  return new Proxy(base, {
    construct(target, [ctx, env]: [DurableObjectState, object], newTarget) {
      const meter = objectMeter(className, ctx.id.name ?? "");
      const deleteAlarm = meterStorage(ctx.storage, meter);
      const object = meter.run(() => Reflect.construct(target, [ctx, meteredEnv(env)], newTarget) as DurableObject);
      meters.set(object, meter);
      realAlarms.set(object, deleteAlarm);
      return object;
    },
  });
}

/** @returns a function that deletes the alarm without being counted. */
function meterStorage(storage: DurableObjectStorage, meter: ObjectMeter): () => Promise<void> {
  const { className } = meter;
  const { sql } = storage;
  const exec = sql.exec.bind(sql);
  const setAlarm = storage.setAlarm.bind(storage);
  const deleteAlarm = storage.deleteAlarm.bind(storage);
  const getAlarm = storage.getAlarm.bind(storage);
  let cursors: [string, SqlStorageCursor<Record<string, SqlStorageValue>>][] = [];
  const harvest = (): void => {
    for (const [query, cursor] of cursors) {
      const statement = `${className} ${statementOf(query)}`;
      if (cursor.rowsWritten > 0) count("object_rows_written", statement, cursor.rowsWritten);
      if (cursor.rowsRead > 0) count("object_rows_read", statement, cursor.rowsRead);
    }
    cursors = [];
  };
  sql.exec = ((query: string, ...bindings: unknown[]) => {
    const cursor = exec(query, ...bindings);
    // Counts the rows while the cursor is read.
    if (cursors.push([query, cursor]) === 1) queueMicrotask(harvest);
    return cursor;
  }) as typeof sql.exec;
  storage.setAlarm = (at, options) => {
    meter.alarmAtMs = Number(at);
    count("object_rows_written", `${className} setAlarm`);
    return setAlarm(realTime(Number(at)), options);
  };
  storage.deleteAlarm = (options) => {
    meter.alarmAtMs = Number.POSITIVE_INFINITY;
    count("object_rows_written", `${className} deleteAlarm`);
    return deleteAlarm(options);
  };
  storage.getAlarm = async (options) => {
    const at = await getAlarm(options);
    return at === null || meter.alarmAtMs === Number.POSITIVE_INFINITY ? at : meter.alarmAtMs;
  };
  return () => deleteAlarm();
}
