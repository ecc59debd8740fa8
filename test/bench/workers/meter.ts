/**
 * Counts billed operations within the runtime that runs a Worker and its objects: all of them share this module.
 * Their behaviour is unchanged.
 *
 * An object is billed for the time in which it runs or cannot hibernate: while a call, an alarm, a timer or an
 * awaited operation is in progress. Each of these enters and leaves; a timer belongs to the object whose code set it.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { OBJECT_GB, addUsage, type Item, type Usage } from "../cost/usage.ts";

/** One Durable Object, across its restarts. */
export class ObjectMeter {
  readonly className: string;
  readonly name: string;
  /** By the clock that its code sees; infinity while none is set. */
  alarmAtMs = Number.POSITIVE_INFINITY;
  #under = 0;
  #sinceMs = 0;

  constructor(className: string, name: string) {
    this.className = className;
    this.name = name;
  }

  get isBusy(): boolean {
    return this.#under > 0;
  }

  enter(): void {
    if (this.#under++ === 0) this.#sinceMs = performance.now();
  }

  leave(): void {
    if (--this.#under > 0) return;
    const seconds = (performance.now() - this.#sinceMs) / 1_000;
    count("object_gb_seconds", this.className, seconds * OBJECT_GB);
  }

  /** Runs its code. Background work that the code starts is attributed to this object too. */
  run<T>(work: () => T): T {
    this.enter();
    try {
      const result = current.run(this, work);
      void leaveAfter(this, result);
      return result;
    } catch (error) {
      this.leave();
      throw error;
    }
  }
}

const current = new AsyncLocalStorage<ObjectMeter>();
const objects = new Map<string, ObjectMeter>();

let usage: Usage = {};
let countedAtMs = performance.now();
let openMessages = 0;
/** The lead of the code's clock over the real clock. */
let aheadMs = 0;

const realNow = Date.now.bind(Date);
const realSetTimeout = globalThis.setTimeout;
const realClearTimeout = globalThis.clearTimeout;
const realLog = console.log.bind(console);
const timers = new Map<ReturnType<typeof setTimeout>, ObjectMeter>();

export function count(item: Item, cause: string, amount = 1): void {
  countedAtMs = performance.now();
  addUsage(usage, item, cause, amount);
}

/** Since the last request. */
export function takeUsage(): Usage {
  const taken = usage;
  usage = {};
  return taken;
}

export function quiet(): { quietMs: number; open: number } {
  const busy = [...objects.values()].filter((object) => object.isBusy).length;
  return { quietMs: performance.now() - countedAtMs, open: busy + openMessages };
}

/** Messages written to a queue, minus those deleted from it. */
export function queued(messages: number): void {
  openMessages += messages;
}

export function objectMeter(className: string, name: string): ObjectMeter {
  const key = `${className} ${name}`;
  let meter = objects.get(key);
  if (meter === undefined) objects.set(key, (meter = new ObjectMeter(className, name)));
  return meter;
}

export function objectMeters(): ObjectMeter[] {
  return [...objects.values()];
}

/** The object whose code runs now, if any. */
export function currentObject(): ObjectMeter | undefined {
  return current.getStore();
}

/** An object that waits for an outside operation cannot hibernate. */
export function waitedFor<T>(work: Promise<T>): Promise<T> {
  const object = currentObject();
  if (object !== undefined) {
    object.enter();
    void leaveAfter(object, work);
  }
  return work;
}

/** Moves the clock that the code sees forward, never back. */
export function advanceTo(atMs: number): void {
  aheadMs = Math.max(aheadMs, atMs - realNow());
}

/** Converts the code's time to the runtime's own clock. */
export function realTime(atMs: number): number {
  return atMs - aheadMs;
}

async function leaveAfter(object: ObjectMeter, work: unknown): Promise<void> {
  try {
    await work;
  } catch {
    // Resolves the waiting callers.
  } finally {
    object.leave();
  }
}

Date.now = () => realNow() + aheadMs;

globalThis.setTimeout = ((callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
  const object = currentObject();
  if (object === undefined) return realSetTimeout(callback, ms, ...args);
  object.enter();
  const timer = realSetTimeout(() => {
    timers.delete(timer);
    try {
      callback(...args);
    } finally {
      object.leave();
    }
  }, ms);
  timers.set(timer, object);
  return timer;
}) as typeof setTimeout;

globalThis.clearTimeout = ((timer: Parameters<typeof clearTimeout>[0]) => {
  const set = timer as ReturnType<typeof setTimeout>;
  timers.get(set)?.leave();
  timers.delete(set);
  realClearTimeout(set);
}) as typeof clearTimeout;

console.log = (line: string) => {
  const cause = /^\{"event":"(\w+)"/.exec(line)?.[1] ?? "other";
  count("log_lines", cause);
  count("log_bytes", cause, Buffer.byteLength(line));
  realLog(line);
};
