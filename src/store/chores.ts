/**
 * Runs the chores of the store's alarm, and knows when the next is due. A failed chore rests before its retry and does not block the
 * others.
 */
import type { FailingChore } from "../domain/health/alarm.ts";
import { errorText, logEvent } from "../platform/log.ts";
import type { ChoreName, NextDue } from "./state/due.ts";

export const CHORE_REST_MS = 60_000;
const FAILURE_MAX_CHARACTERS = 300;
const FAILING_KEY = "failing_chores";
const ALONE_KEY = "chores_alone";
/** Shown in health. */
const ENDED = "A step ended the object, which has too little memory or processor time for it";

/**
 * A step has ended the object without an error, and would do so again. So all chores rest. Then each alarm runs a step of one chore,
 * until none is due. If the object ends again, the chore of that step fails.
 */
interface Alone {
  restUntilMs: number;
  /** Stored before its step; null: not chosen yet. */
  chore: ChoreName | null;
}

interface Chore {
  /** Shown in logs and in health. */
  name: ChoreName;
  failureEvent?: string;
  /** When the chore is due, in milliseconds since 1970; null: nothing to do. */
  due(nowMs: number): number | null;
  step(nowMs: number): void | Promise<void>;
}

/** Chores that have failed since they last succeeded. Stored, because the object may leave memory between two retries. */
export function failingChores(kv: SyncKvStorage): FailingChore[] {
  return kv.get<FailingChore[]>(FAILING_KEY) ?? [];
}

export class ChoreRunner {
  readonly #workspaceId: string;
  readonly #storage: DurableObjectStorage;
  readonly #kv: SyncKvStorage;
  readonly #chores: readonly Chore[];
  readonly #next: () => NextDue;
  readonly #mayRun: (name: ChoreName) => boolean;
  readonly #restUntilMs = new Map<Chore, number>();
  readonly #running = new Map<Chore, Promise<void>>();
  #failing: FailingChore[];
  /** Null: each alarm takes the steps of all chores that are due. */
  #alone: Alone | null;
  #isAlarm = false;
  #isStopped = false;
  #steps = 0;

  /** @param next code that makes work for a chore sets its time here. @param mayRun false: the store is paused for this chore. */
  constructor(
    workspaceId: string,
    storage: DurableObjectStorage,
    { next, mayRun }: { next: () => NextDue; mayRun: (name: ChoreName) => boolean },
    chores: readonly Chore[],
  ) {
    this.#workspaceId = workspaceId;
    this.#mayRun = mayRun;
    this.#next = next;
    this.#storage = storage;
    const { kv } = storage;
    this.#kv = kv;
    this.#failing = failingChores(kv);
    this.#alone = kv.get<Alone>(ALONE_KEY) ?? null;
    this.#chores = chores;
  }

  /** Asks the chores only after a start, and after an alarm or another step. Otherwise their work has said when it is due. */
  nextDueMs(nowMs: number): number {
    if (!this.#next().isKnown) this.#next().set(this.#ask(nowMs));
    return this.#next().nextMs;
  }

  /** Asks each chore. Returns those that are due earlier than the known time: code that made work for them did not say so. */
  unknownWork(nowMs: number): ChoreName[] {
    if (!this.#next().isKnown) return [];
    return this.#ask(nowMs).flatMap(([chore, dueMs]) => (dueMs < this.#next().of(chore) ? chore : []));
  }

  /** For a chore whose work becomes due without any code that makes work. */
  askAgain(name: ChoreName, nowMs: number): void {
    for (const [chore, dueMs] of this.#ask(nowMs, name)) this.#next().by(chore, dueMs);
  }

  #ask(nowMs: number, only?: ChoreName): [ChoreName, number][] {
    // The running alarm comes to each chore.
    const fromMs = this.#isAlarm ? nowMs + CHORE_REST_MS : 0;
    return this.#chores
      .filter(({ name }) => only === undefined || name === only)
      .map((chore) => [chore.name, Math.max(this.#dueMs(chore, nowMs), fromMs)]);
  }

  /**
   * Takes a step of each chore that is due. Never throws: the platform drops an alarm that has thrown six times.
   *
   * @param isRetry the alarm before did not end, so one of its steps ended the object.
   * @returns the number of steps.
   */
  async run(isRetry: boolean): Promise<number> {
    this.#isAlarm = true;
    this.#steps = 0;
    this.#next().forget();
    if (isRetry) await this.#restAll();
    else if (this.#alone === null) await this.#runDue();
    else await this.#runAlone();
    this.#isAlarm = false;
    this.#next().forget();
    return this.#steps;
  }

  async #restAll(): Promise<void> {
    const chore = this.#chores.find(({ name }) => name === this.#alone?.chore);
    if (chore !== undefined) this.#noteFailure(chore, new Error(ENDED));
    logEvent("alarm_ended", { workspace: this.#workspaceId, chore: chore?.name ?? "" });
    await this.#setAlone({ restUntilMs: Date.now() + CHORE_REST_MS, chore: null });
  }

  /** Failing chores come last, so that they do not hold up the others. */
  async #runAlone(): Promise<void> {
    const due = this.#dueNow();
    const isFailing = ({ name }: Chore): boolean => this.#failing.some(({ chore }) => chore === name);
    const chore = due.find((candidate) => !isFailing(candidate)) ?? due[0];
    if (chore !== undefined) {
      await this.#setAlone({ restUntilMs: 0, chore: chore.name });
      await this.#takeStep(chore);
    }
    // The next alarm comes when a chore is due, so it would not find that none is.
    if ((this.#alone?.restUntilMs ?? 0) <= Date.now() && this.#dueNow().length === 0) await this.#setAlone(null);
  }

  #dueNow(): Chore[] {
    return this.#chores.filter((chore) => this.#dueMs(chore, Date.now()) <= Date.now());
  }

  /** Durable afterwards: the next step may end the object. */
  async #setAlone(alone: Alone | null): Promise<void> {
    this.#alone = alone;
    try {
      if (alone === null) this.#kv.delete(ALONE_KEY);
      else this.#kv.put(ALONE_KEY, alone);
      await this.#storage.sync();
    } catch (error) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(error) });
    }
  }

  async #runDue(): Promise<void> {
    for (const chore of this.#chores) {
      const dueMs = this.#dueMs(chore, Date.now());
      // oxlint-disable-next-line no-await-in-loop -- chores work on the same lines
      if (dueMs <= Date.now()) await this.#takeStep(chore);
      // A failed chore without work is healthy again. A chore that is due within a minute may rest after a failure.
      else if (dueMs > Date.now() + CHORE_REST_MS) this.#noteSuccess(chore);
    }
  }

  /** Takes a step of a chore that begins after this call. Never throws. */
  async runNow(name: ChoreName): Promise<void> {
    const chore = this.#chores.find((candidate) => candidate.name === name);
    if (chore === undefined) return;
    await this.#running.get(chore);
    // The step may have ended because an export waited for it.
    if (this.#isStopped || !this.#mayRun(name)) return;
    // Callers that waited for the same step share the next step.
    await this.#takeStep(chore);
    this.#next().forget();
  }

  /** Waits for the steps under way of all chores but one. Begin none meanwhile. Never throws. */
  async settleAllBut(name: ChoreName): Promise<void> {
    await Promise.all([...this.#running].flatMap(([chore, step]) => (chore.name === name ? [] : step)));
  }

  /** Begins no further step, and waits for those under way. Never throws. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running.values());
  }

  /** If `due` throws, the chore fails and rests. Otherwise no alarm would be set for any chore. */
  #dueMs(chore: Chore, nowMs: number): number {
    if (this.#isStopped || !this.#mayRun(chore.name)) return Number.POSITIVE_INFINITY;
    const untilMs = Math.max(this.#restUntilMs.get(chore) ?? 0, this.#alone?.restUntilMs ?? 0);
    // A rest of more than a minute means that the clock was set back.
    const restedMs = untilMs > nowMs + CHORE_REST_MS ? 0 : untilMs;
    // The alarm repeats a running step that a crash of the object ends.
    const restUntilMs = this.#running.has(chore) ? nowMs + CHORE_REST_MS : restedMs;
    try {
      return Math.max(chore.due(nowMs) ?? Number.POSITIVE_INFINITY, restUntilMs);
    } catch (error) {
      if (restUntilMs > nowMs) return restUntilMs;
      this.#noteFailure(chore, error);
      return nowMs + CHORE_REST_MS;
    }
  }

  #takeStep(chore: Chore): Promise<void> {
    const running = this.#running.get(chore) ?? this.#step(chore).finally(() => this.#running.delete(chore));
    this.#running.set(chore, running);
    return running;
  }

  async #step(chore: Chore): Promise<void> {
    this.#steps++;
    try {
      await chore.step(Date.now());
      this.#noteSuccess(chore);
    } catch (error) {
      this.#noteFailure(chore, error);
    }
  }

  /** Lets a failed chore rest, and stores its first failure since the last success. */
  #noteFailure(chore: Chore, thrown: unknown): void {
    if (this.#isStopped) return;
    const { name, failureEvent = "chore_failed" } = chore;
    const [sinceMs, error] = [Date.now(), errorText(thrown)];
    logEvent(failureEvent, { workspace: this.#workspaceId, chore: name, error });
    this.#restUntilMs.set(chore, sinceMs + CHORE_REST_MS);
    if (this.#failing.some((failing) => failing.chore === name)) return;
    this.#setFailing([...this.#failing, { chore: name, sinceMs, error: error.slice(0, FAILURE_MAX_CHARACTERS) }]);
  }

  #noteSuccess(chore: Chore): void {
    this.#restUntilMs.delete(chore);
    const remaining = this.#failing.filter((failing) => failing.chore !== chore.name);
    if (remaining.length < this.#failing.length) this.#setFailing(remaining);
  }

  #setFailing(failing: FailingChore[]): void {
    try {
      this.#kv.put(FAILING_KEY, failing);
      this.#failing = failing;
    } catch (error) {
      logEvent("notes_failed", { workspace: this.#workspaceId, error: errorText(error) });
    }
  }
}
