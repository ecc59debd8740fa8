/**
 * How a workspace is: how full, what waits, what fails. Asked of its Durable Objects, one call each; only where the books do
 * not balance by these, which signals on their way explain as a rule, they are read once more and with care.
 */
import { alarmsOf, notAsked, unreachable } from "../domain/health/alarm.ts";
import type { HealthAlarm, HealthFigures, OpenRestore } from "../domain/health/alarm.ts";
import { balanceBooks, readAgain } from "../domain/quota/balance.ts";
import type { Balance } from "../domain/quota/balance.ts";
import { roomLevel } from "../domain/quota/room.ts";
import type { RoomLevel } from "../domain/quota/room.ts";
import { errorText } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";

/** A workspace whose objects take longer to say how it is, in milliseconds, counts as one whose objects do not answer. */
export const HEALTH_ANSWER_MS = 5_000;

/** The part of a workspace's health that its pages show. */
export interface Room extends Pick<HealthFigures, "store" | "outbox" | "waiting" | "waitingSinceMs"> {
  level: RoomLevel;
  /** How far back signals with an id of their own are compared; less than the window while memory is short. */
  duplicatesCoveredMs: number;
}

/** What the counter and the store say of it. */
export interface StorageHealth extends Omit<HealthFigures, "failingDestinations" | "openRestores">, Room {
  books: Balance;
  hasDestinations: boolean;
}

export type Health = Omit<StorageHealth, "hasDestinations"> & HealthFigures;

export interface HealthOrAlarm {
  /** What is wrong, the gravest first; empty where all is well. */
  alarms: HealthAlarm[];
  /** The workspace's health; null where its objects did not answer, or were not asked. */
  health: Health | null;
}

/** Waits for a call of these objects. */
type Ask = <T>(objects: string, call: Promise<T>) => Promise<T>;

/**
 * How the workspace is; within `maxMs`, `unreachable` otherwise, which names the objects that did not answer. Never throws.
 *
 * @param openRestores of the workspace, as D1 has them.
 */
export async function healthWithin(
  env: Env,
  workspaceId: string,
  openRestores: readonly OpenRestore[],
  maxMs = HEALTH_ANSWER_MS,
): Promise<HealthOrAlarm> {
  const untilMs = Date.now() + maxMs;
  const silent: string[] = [];
  const ask: Ask = async (objects, call) => {
    try {
      return await within(Math.max(0, untilMs - Date.now()), call);
    } catch (error) {
      silent.push(`${objects} (${errorText(error)})`);
      throw error;
    }
  };
  try {
    const health = { ...(await readHealth(env, workspaceId, ask)), openRestores };
    return { health, alarms: alarmsOf(health, Date.now()) };
  } catch (error) {
    return { health: null, alarms: [unreachable(silent.toSorted().join(", ") || errorText(error))] };
  }
}

/** Also how its destinations are, where it has any: one that has none is not asked, since that would make the object. */
async function readHealth(env: Env, workspaceId: string, ask: Ask): Promise<Omit<Health, "openRestores">> {
  const { hasDestinations, ...stored } = await readStorageHealth(env, workspaceId, ask);
  const failing = hasDestinations ? ask("Destinations", destinationsOf(env, workspaceId).failing()) : [];
  return { ...stored, failingDestinations: await failing };
}

export async function readStorageHealth(
  env: Env,
  workspaceId: string,
  ask: Ask = (_, call) => call,
): Promise<StorageHealth> {
  const asked = [
    ask("Signal Store", signalStore(env, workspaceId).health()),
    ask("Quota Counter", quotaCounter(env, workspaceId).backlog()),
  ] as const;
  // Where both fail, both are to be named: neither is left while it is still waited for.
  await Promise.allSettled(asked);
  const [kept, backlog] = await Promise.all(asked);
  const store = { bytes: kept.bytes, maxBytes: kept.maxBytes };
  const outbox = { bytes: backlog.outboxBytes, maxBytes: backlog.outboxMaxBytes };
  const counted = { admitted: backlog.admitted, unsettled: backlog.unsettledSignals, lost: backlog.lostSignals };
  const atOnce = balanceBooks(counted, kept.totals, counted);
  const books = atOnce.balanced
    ? atOnce
    : await ask("Quota Counter or Signal Store", readBooks(env, workspaceId, undefined));
  return {
    level: roomLevel({ store, outbox }),
    store,
    outbox,
    unreadable: backlog.unreadableSignals,
    waiting: backlog.unsettledSignals,
    waitingSinceMs: backlog.oldestAtMs,
    books,
    booksBalanced: books.balanced,
    deadLetters: books.deadLettered,
    deadLetterMs: kept.deadLetterMs,
    failingJobs: kept.failingJobs,
    duplicatesCoveredMs: kept.duplicatesCoveredMs,
    hasDestinations: backlog.hasDestinations,
  };
}

const BOOK_READINGS = 3;

/**
 * The counter is read, the store, and the counter again (domain/quota/balance.ts); all of it once more while signals come in.
 *
 * @param periodStartMs start of one billing period; undefined: the books since the workspace began.
 */
export async function readBooks(env: Env, workspaceId: string, periodStartMs: number | undefined): Promise<Balance> {
  const counter = quotaCounter(env, workspaceId);
  for (let reading = 1; ; reading++) {
    const before = await counter.books(periodStartMs);
    const totals = await signalStore(env, workspaceId).totals(periodStartMs);
    const after = await counter.books(periodStartMs);
    if (!readAgain(before, after) || reading === BOOK_READINGS) return balanceBooks(before, totals, after);
  }
}

/** Workspaces in one answer: two or three calls each. */
export const HEALTH_PAGE_WORKSPACES = 200;
/** Workspaces that are asked how they are at a time: calls of objects do not count among a Worker's six connections. */
const HEALTH_AT_ONCE = 50;
/** What all of it may take, in milliseconds: the two together are less than the fifteen seconds that operate.md promises. */
const HEALTH_LIMITS = {
  answerMs: HEALTH_ANSWER_MS,
  /** Later than that no workspace is asked any more: twice what 400 objects take that all have to start. */
  askMs: 8_000,
};

export interface WorkspaceHealth extends HealthOrAlarm {
  id: string;
  slug: string;
}

/**
 * Health in the order of `workspaces`, within the limits, whatever hangs. Never throws: a workspace whose objects do not
 * answer is `unreachable`, one that there was no time for is `not_asked`. Each call begins with another one, so that none is
 * left out for ever because of those before it.
 */
export async function healthOfAll(
  env: Env,
  workspaces: readonly { id: string; slug: string }[],
  openRestores: ReadonlyMap<string, readonly OpenRestore[]>,
  { answerMs, askMs } = HEALTH_LIMITS,
): Promise<WorkspaceHealth[]> {
  const found = workspaces.map(({ id, slug }): WorkspaceHealth => ({ id, slug, alarms: [notAsked()], health: null }));
  const first = Math.floor(Math.random() * found.length);
  const inTurn = [...found.slice(first), ...found.slice(0, first)].values();
  const untilMs = Date.now() + askMs;
  const worker = async (): Promise<void> => {
    for (const one of inTurn) {
      if (Date.now() >= untilMs) return;
      // oxlint-disable-next-line no-await-in-loop -- HEALTH_AT_ONCE loops run at once, and each takes the next workspace
      Object.assign(one, await healthWithin(env, one.id, openRestores.get(one.id) ?? [], answerMs));
    }
  };
  await Promise.all(Array.from({ length: HEALTH_AT_ONCE }, worker));
  return found;
}
