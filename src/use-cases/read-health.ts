/**
 * Health of a workspace: storage, waiting signals, failures. One call to each Durable Object. Signals in transit can
 * unbalance the books; only then they are read again.
 */
import {
  alarmsOf,
  notAsked,
  unreachable,
  roomLevel,
  wrongJurisdiction,
  type HealthAlarm,
  type HealthFigures,
  type RoomLevel,
} from "../domain/health/alarm.ts";
import { balanceBooks, type Balance } from "../domain/quota/balance.ts";
import { configuredJurisdiction, jurisdictionProblem } from "../env.ts";
import { errorText } from "../platform/log.ts";
import { within } from "../platform/time-limit.ts";
import { destinationsOf, quotaCounter, signalStore } from "./objects.ts";

/** Time limit for the objects of one workspace, in milliseconds. After it they count as unreachable. */
export const HEALTH_ANSWER_MS = 5_000;

export interface Room extends Pick<HealthFigures, "store" | "outbox" | "waiting" | "waitingSinceMs"> {
  level: RoomLevel;
  /** Period in which repeated signal ids are detected; shorter than the window while memory is short. */
  duplicatesCoveredMs: number;
}

interface StorageHealth extends Omit<HealthFigures, "failingDestinations">, Room {
  books: Balance;
  hasDestinations: boolean;
}

export type Health = Omit<StorageHealth, "hasDestinations"> & HealthFigures;

interface HealthOrAlarm {
  /** Alarms, most severe first; empty if all is well. */
  alarms: HealthAlarm[];
  /** Health of the workspace; null if its objects did not answer or were not asked. */
  health: Health | null;
}

/** Waits for a call to these objects. */
type Ask = <T>(objects: string, call: Promise<T>) => Promise<T>;

/**
 * Reads a workspace's health within `maxMs`; otherwise `unreachable`, with the objects that did not answer. Never
 * throws.
 */
export async function healthWithin(env: Env, workspaceId: string, maxMs = HEALTH_ANSWER_MS): Promise<HealthOrAlarm> {
  const untilMs = Date.now() + maxMs;
  const unanswered: string[] = [];
  const ask: Ask = async (objects, call) => {
    try {
      return await within(Math.max(0, untilMs - Date.now()), call);
    } catch (error) {
      unanswered.push(`${objects} (${errorText(error)})`);
      throw error;
    }
  };
  try {
    const { hasDestinations, ...stored } = await readStorageHealth(env, workspaceId, ask);
    // A workspace without destinations is not asked, because the call would create the object.
    const failing = hasDestinations ? ask("Destinations", destinationsOf(env, workspaceId).failing()) : [];
    const health = { ...stored, failingDestinations: await failing };
    return { health, alarms: alarmsOf(health, Date.now()) };
  } catch (error) {
    return { health: null, alarms: [unreachable(unanswered.toSorted().join(", ") || errorText(error))] };
  }
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
  // Wait for both calls, so that a double failure names both objects.
  await Promise.allSettled(asked);
  const [stored, backlog] = await Promise.all(asked);
  const store = { bytes: stored.bytes, maxBytes: stored.maxBytes };
  const outbox = { bytes: backlog.outboxBytes, maxBytes: backlog.outboxMaxBytes };
  const counted = { admitted: backlog.admitted, unsettled: backlog.unsettledSignals };
  const firstReading = balanceBooks(counted, stored.totals, counted);
  const books = firstReading.balanced
    ? firstReading
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
    deadLetterMs: stored.deadLetterMs,
    failingChores: stored.failingChores,
    alarms: { store: stored.alarms, counter: backlog.alarms },
    duplicatesCoveredMs: stored.duplicatesCoveredMs,
    hasDestinations: backlog.hasDestinations,
  };
}

const BOOK_READINGS = 3;

/**
 * Reads the counter, the store, and the counter again (domain/quota/balance.ts). Repeats all of it while signals
 * arrive.
 *
 * @param periodStartMs start of a billing period; undefined: the books since the workspace was created.
 */
export async function readBooks(env: Env, workspaceId: string, periodStartMs: number | undefined): Promise<Balance> {
  const counter = quotaCounter(env, workspaceId);
  for (let reading = 1; ; reading++) {
    const before = await counter.books(periodStartMs);
    const totals = await signalStore(env, workspaceId).totals(periodStartMs);
    const after = await counter.books(periodStartMs);
    if (before.admitted === after.admitted || reading === BOOK_READINGS) return balanceBooks(before, totals, after);
  }
}

/** Workspaces per answer: two or three calls each. */
export const HEALTH_PAGE_WORKSPACES = 200;
/** Workspaces asked at the same time. Calls to objects do not count towards a Worker's limit of six connections. */
const HEALTH_AT_ONCE = 50;
/**
 * Time limit of the whole answer, in milliseconds. With the limit per workspace it stays below the fifteen seconds of
 * operate.md.
 */
const HEALTH_LIMITS = {
  answerMs: HEALTH_ANSWER_MS,
  /** No workspace is asked after this time: twice the time in which 400 cold objects answer. */
  askMs: 8_000,
};

export interface WorkspaceHealth extends HealthOrAlarm {
  id: string;
  slug: string;
}

/**
 * Health in the order of `workspaces`, within the limits. Never throws: workspaces whose objects do not answer are
 * `unreachable`; those not reached in time are `not_asked`. Each call starts at a different workspace, so that slow
 * workspaces do not always delay the same workspaces.
 */
export async function healthOfAll(
  env: Env,
  workspaces: readonly { id: string; slug: string; jurisdiction: string }[],
  { answerMs, askMs } = HEALTH_LIMITS,
): Promise<WorkspaceHealth[]> {
  const jurisdiction = configuredJurisdiction(env);
  const found = workspaces.map((workspace): WorkspaceHealth => {
    const { id, slug } = workspace;
    const problem = jurisdictionProblem(jurisdiction, workspace.jurisdiction);
    return { id, slug, alarms: [problem === null ? notAsked() : wrongJurisdiction(problem)], health: null };
  });
  const toAsk = found.filter(({ alarms }) => alarms[0]?.alarm === "not_asked");
  const first = Math.floor(Math.random() * toAsk.length);
  const inTurn = [...toAsk.slice(first), ...toAsk.slice(0, first)].values();
  const untilMs = Date.now() + askMs;
  const worker = async (): Promise<void> => {
    for (const workspace of inTurn) {
      if (Date.now() >= untilMs) return;
      // oxlint-disable-next-line no-await-in-loop -- HEALTH_AT_ONCE loops run at once, and each takes the next workspace
      Object.assign(workspace, await healthWithin(env, workspace.id, answerMs));
    }
  };
  await Promise.all(Array.from({ length: HEALTH_AT_ONCE }, worker));
  return found;
}

const QUEUES = { signals: "SIGNALS", deliveries: "DELIVERIES" } as const;

export interface QueueBacklog {
  queue: keyof typeof QUEUES;
  messages: number;
  bytes: number;
  /** When the oldest message was sent; null: none waits. */
  oldestAtMs: number | null;
}

/** The backlog of each queue. Never throws: leaves out a queue that does not answer in time. */
export async function queueBacklogs(env: Env, maxMs = HEALTH_ANSWER_MS): Promise<QueueBacklog[]> {
  const asked = (["signals", "deliveries"] as const).map(async (queue): Promise<QueueBacklog> => {
    const metrics = await within(maxMs, env[QUEUES[queue]].metrics());
    // A queue without messages answers with no time, or with 1970.
    const oldestAtMs = metrics.oldestMessageTimestamp?.getTime() || null;
    return { queue, messages: metrics.backlogCount, bytes: metrics.backlogBytes, oldestAtMs };
  });
  const settled = await Promise.allSettled(asked);
  return settled.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
}
