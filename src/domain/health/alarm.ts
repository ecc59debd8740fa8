/**
 * The health alarms of a workspace: a word for a monitor, and for each problem a sentence that says what to do. Each
 * alarm has a section in docs/operate.md.
 */
import { DAY_MS } from "../duration.ts";
import type { DisabledReason } from "../notifications/destination.ts";
import { counted } from "../text.ts";

/** `late`: look at it today. `stuck`: look at it now; it does not recover, or senders notice it. */
export type HealthWord = "ok" | "late" | "stuck";

export interface FailingChore {
  chore: string;
  sinceMs: number;
  error: string;
}

/** Alarms of an object in the last hour, at most 1,000. `idle`: those that found nothing to do. */
export interface AlarmsOfHour {
  all: number;
  idle: number;
}

export interface FailingDestination {
  id: string;
  name: string;
  sinceMs: number;
  /** Set if the service switched the destination off; null: it still retries. */
  off: { reason: DisabledReason; sinceMs: number } | null;
}

export interface HealthFigures {
  store: FillLevel;
  outbox: FillLevel;
  /** Accepted signals in unreadable rows of the outbox. */
  unreadable: number;
  waiting: number;
  /** Time at which the oldest waiting signal was admitted, in milliseconds since 1970; null: no signal waits. */
  waitingSinceMs: number | null;
  booksBalanced: boolean;
  deadLetters: number;
  /** Time at which the latest dead letter was recorded, in milliseconds since 1970; null: there is none. */
  deadLetterMs: number | null;
  failingChores: FailingChore[];
  /** By object. */
  alarms: Record<"store" | "counter", AlarmsOfHour>;
  failingDestinations: FailingDestination[];
}

type Word = Exclude<HealthWord, "ok">;

/** The sentence of an alarm: the problem, and what to do. False: the workspace does not have the problem. */
type AlarmText = (figures: HealthFigures, nowMs: number) => string | false;

const stuck = (says: AlarmText): { word: Word; says: AlarmText } => ({ word: "stuck", says });
const late = (says: AlarmText): { word: Word; says: AlarmText } => ({ word: "late", says });

const MINUTE_MS = 60_000;
/** Wait after which a signal is late. A healthy backlog is a hundred times younger. */
const SIGNALS_LATE_MS = 10 * MINUTE_MS;
/** Wait after which a signal is stuck: the outbox, which retries every 15 minutes, has retried it. */
const SIGNALS_STUCK_MS = 60 * MINUTE_MS;
/** Failing time after which a chore of the store's alarm is reported. It is retried every minute, and R2 may be down for a few. */
const CHORE_FAILING_MS = 10 * MINUTE_MS;
/** Alarms without work in an hour. Each is billed; a healthy object has a few. */
const IDLE_ALARMS_MAX = 600;
/** Time for which dead letters are reported, so that the alarm ends if the operator decides to leave them. */
const DEAD_LETTERS_NEW_MS = DAY_MS;
/** Failing time after which a destination is reported; deploying a receiver takes some minutes. */
const DESTINATION_FAILING_REPORT_MS = 60 * MINUTE_MS;
/** Time for which a switched-off destination is reported. The operator may leave it switched off. */
const DESTINATION_OFF_REPORT_MS = 7 * DAY_MS;

/** Every alarm, the most severe first. */
const CATALOGUE = {
  // The objects are not asked. `wrongJurisdiction` makes this alarm.
  wrong_jurisdiction: stuck(() => false),
  senders_rejected: stuck(
    (figures) =>
      roomLevel(figures) === "rejecting" &&
      "The outbox is full and senders get 503. Find what keeps it from draining, and fix that.",
  ),
  signals_unreadable: stuck(
    ({ unreadable }) =>
      unreadable > 0 &&
      `${counted(unreadable, "accepted signal")} cannot be read by this release. They are kept. Report this bug (CONTRIBUTING.md).`,
  ),
  store_full: stuck(
    (figures, nowMs) =>
      figures.store.bytes >= figures.store.maxBytes &&
      `The store is full and records nothing; ${waiting(figures, nowMs)}. Give the workspace a plan with a shorter retention.`,
  ),
  books_open: stuck(
    ({ booksBalanced }) =>
      !booksBalanced &&
      "The books do not balance. Compare GET …/books with the log, and report this bug (CONTRIBUTING.md).",
  ),
  signals_stuck: stuck(
    (figures, nowMs) =>
      waitedMs(figures, nowMs) >= SIGNALS_STUCK_MS &&
      `${waiting(figures, nowMs)}, and sending them again did not help. Look at the queue's consumer and at D1.`,
  ),
  // The figures are missing. `unreachable` and `notAsked` make these alarms.
  unreachable: stuck(() => false),
  not_asked: late(() => false),
  signals_late: late((figures, nowMs) => {
    const ms = waitedMs(figures, nowMs);
    return (
      ms >= SIGNALS_LATE_MS &&
      ms < SIGNALS_STUCK_MS &&
      `${waiting(figures, nowMs)}. Look whether the queue is backed up, and whether D1 answers.`
    );
  }),
  store_filling: late((figures) => {
    const { bytes, maxBytes } = figures.store;
    return (
      roomLevel(figures) === "filling" &&
      `The store is ${Math.floor((100 * bytes) / maxBytes)}% full. Give the workspace a plan with a shorter retention before it is.`
    );
  }),
  chore_failing: late(({ failingChores }, nowMs) => {
    const failing = failingChores.find(({ sinceMs }) => nowMs - sinceMs >= CHORE_FAILING_MS);
    return (
      failing !== undefined &&
      `The chore \`${failing.chore}\` has failed for ${minutes(nowMs - failing.sinceMs)}: ${failing.error}. Look whether R2 and D1 answer.`
    );
  }),
  alarms_idle: late(({ alarms: { store, counter } }) => {
    const [object, idle] = store.idle > counter.idle ? ["Signal Store", store.idle] : ["Quota Counter", counter.idle];
    return (
      idle > IDLE_ALARMS_MAX &&
      `The ${object} woke up at least ${idle} times in an hour without work, and each time is billed. Report this bug (CONTRIBUTING.md).`
    );
  }),
  dead_letters: late(
    ({ deadLetters, deadLetterMs }, nowMs) =>
      deadLetterMs !== null &&
      nowMs - deadLetterMs < DEAD_LETTERS_NEW_MS &&
      `${counted(deadLetters, "signal")} could not be processed, the latest ${minutes(nowMs - deadLetterMs)} ago. Read their reasons, then replay them.`,
  ),
  destination_off: late(({ failingDestinations }, nowMs) => {
    const off = failingDestinations.filter(
      (destination) => destination.off !== null && nowMs - destination.off.sinceMs < DESTINATION_OFF_REPORT_MS,
    );
    const gone = off.every((destination) => destination.off?.reason === "gone");
    const why = gone ? "the receiver has unsubscribed (410)" : "no delivery has succeeded for five days";
    return (
      off.length > 0 &&
      `${named(off)} was switched off: ${why}. Fix the receiver, then POST …/destinations/{id}/resume.`
    );
  }),
  destination_failing: late(({ failingDestinations }, nowMs) => {
    const failing = failingDestinations.filter(
      ({ off, sinceMs }) => off === null && nowMs - sinceMs >= DESTINATION_FAILING_REPORT_MS,
    );
    const failingMs = nowMs - Math.min(...failing.map(({ sinceMs }) => sinceMs));
    return (
      failing.length > 0 &&
      `${named(failing)} has not been reached for ${minutes(failingMs)}. Look at its deliveries for why; it is switched off after five days.`
    );
  }),
};

export type AlarmName = keyof typeof CATALOGUE;

export const ALARMS = Object.keys(CATALOGUE) as [AlarmName, ...AlarmName[]];

export interface HealthAlarm {
  alarm: AlarmName;
  word: Word;
  says: string;
}

export function alarmsOf(figures: HealthFigures, nowMs: number): HealthAlarm[] {
  return ALARMS.flatMap((name) => {
    const says = CATALOGUE[name].says(figures, nowMs);
    return says === false ? [] : [alarm(name, says)];
  });
}

/** What an object shows that knows nothing of the others: they count as healthy. */
const HEALTHY: HealthFigures = {
  store: { bytes: 0, maxBytes: 1 },
  outbox: { bytes: 0, maxBytes: 1 },
  unreadable: 0,
  waiting: 0,
  waitingSinceMs: null,
  booksBalanced: true,
  deadLetters: 0,
  deadLetterMs: null,
  failingChores: [],
  alarms: { store: { all: 0, idle: 0 }, counter: { all: 0, idle: 0 } },
  failingDestinations: [],
};

/** The alarms that one object can find alone. */
export function alarmsOfObject(own: Partial<HealthFigures>, nowMs: number): AlarmName[] {
  return alarmsOf({ ...HEALTHY, ...own }, nowMs).map(({ alarm: name }) => name);
}

export const NO_ALARMS = HEALTHY.alarms.store;

/** @param silent the names of the objects that did not answer, with their errors. */
export function unreachable(silent: string): HealthAlarm {
  const says = `The workspace's objects do not answer: ${silent}. Ask again; look at the platform's status.`;
  return alarm("unreachable", says);
}

export function wrongJurisdiction(says: string): HealthAlarm {
  return alarm("wrong_jurisdiction", says);
}

export function notAsked(): HealthAlarm {
  return alarm("not_asked", "Other workspaces took too long to answer, so this one was not asked. Ask again.");
}

function alarm(name: AlarmName, says: string): HealthAlarm {
  return { alarm: name, word: CATALOGUE[name].word, says };
}

export function wordOfAlarm(name: AlarmName): Word {
  return CATALOGUE[name].word;
}

export function wordOf(alarms: readonly { word: HealthWord }[]): HealthWord {
  if (alarms.some(({ word }) => word === "stuck")) return "stuck";
  return alarms.some(({ word }) => word === "late") ? "late" : "ok";
}

function waitedMs({ waitingSinceMs }: HealthFigures, nowMs: number): number {
  return waitingSinceMs === null ? 0 : nowMs - waitingSinceMs;
}

function waiting(figures: HealthFigures, nowMs: number): string {
  const signals = counted(figures.waiting, "accepted signal waits", "accepted signals wait");
  return `${signals}, the oldest for ${minutes(waitedMs(figures, nowMs))}`;
}

function named([first, ...rest]: readonly FailingDestination[]): string {
  const more = rest.length === 0 ? "" : `, like ${counted(rest.length, "other")},`;
  return `The destination "${first?.name}" (${first?.id})${more}`;
}

function minutes(ms: number): string {
  return counted(Math.floor(ms / MINUTE_MS), "minute");
}

/** Percent of STORE_MAX_BYTES at which admins are warned. A store that fills in a year then has ten weeks left. */
const STORE_NOTICE_PERCENT = 80;

interface FillLevel {
  bytes: number;
  maxBytes: number;
}

/**
 * `filling`: the Signal Store is filling up. `full`: the store records nothing, and signals wait in the outbox.
 * `rejecting`: the outbox is full, for any reason, and new calls get 503.
 */
export type RoomLevel = "ok" | "filling" | "full" | "rejecting";

export function roomLevel({ store, outbox }: Pick<HealthFigures, "store" | "outbox">): RoomLevel {
  if (outbox.bytes >= outbox.maxBytes) return "rejecting";
  if (store.bytes >= store.maxBytes) return "full";
  return store.bytes * 100 >= store.maxBytes * STORE_NOTICE_PERCENT ? "filling" : "ok";
}
