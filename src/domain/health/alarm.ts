/**
 * The health alarms of a workspace: a word for a monitor, and for each problem a sentence that says what to do. Each
 * alarm has a section in docs/operate.md.
 */
import { DAY_MS } from "../duration.ts";
import type { DisabledReason } from "../events/destination.ts";
import { counted } from "../text.ts";

/** `late`: look at it today. `stuck`: look at it now; it does not recover, or senders notice it. */
export type HealthWord = "ok" | "late" | "stuck";

export interface FailingJob {
  job: string;
  sinceMs: number;
  error: string;
}

/** A destination without a successful delivery since `sinceMs`. */
export interface FailingDestination {
  id: string;
  name: string;
  sinceMs: number;
  /** Set if the service switched the destination off; null: it still retries. */
  off: { reason: DisabledReason; sinceMs: number } | null;
}

export interface OpenRestore {
  id: string;
  isFinished: boolean;
  lost: number;
}

export interface HealthFigures {
  store: Filled;
  outbox: Filled;
  /** Restores that have not finished, or whose loss nobody has acknowledged. */
  openRestores: readonly OpenRestore[];
  /** Accepted signals in unreadable rows of the outbox. */
  unreadable: number;
  waiting: number;
  /** Time at which the oldest waiting signal was admitted, in milliseconds since 1970; null: no signal waits. */
  waitingSinceMs: number | null;
  booksBalanced: boolean;
  deadLetters: number;
  /** Time at which the latest dead letter was recorded, in milliseconds since 1970; null: there is none. */
  deadLetterMs: number | null;
  failingJobs: FailingJob[];
  failingDestinations: FailingDestination[];
}

/** Every alarm with its word, the most severe first. */
const WORDS = {
  senders_refused: "stuck",
  restore_unfinished: "stuck",
  signals_unreadable: "stuck",
  store_full: "stuck",
  books_open: "stuck",
  signals_stuck: "stuck",
  unreachable: "stuck",
  not_asked: "late",
  signals_lost: "late",
  signals_late: "late",
  store_filling: "late",
  job_failing: "late",
  dead_letters: "late",
  destination_off: "late",
  destination_failing: "late",
} as const satisfies Record<string, Exclude<HealthWord, "ok">>;

type AlarmName = keyof typeof WORDS;

export const ALARMS = Object.keys(WORDS) as [AlarmName, ...AlarmName[]];

export interface HealthAlarm {
  alarm: AlarmName;
  word: Exclude<HealthWord, "ok">;
  /** The problem, and what to do. */
  says: string;
}

const MINUTE_MS = 60_000;
/** Wait after which a signal is late. A healthy backlog is a hundred times younger. */
const SIGNALS_LATE_MS = 10 * MINUTE_MS;
/** Wait after which a signal is stuck: the outbox, which retries every 15 minutes, has retried it. */
const SIGNALS_STUCK_MS = 60 * MINUTE_MS;
/** Failing time after which a job is reported. It is retried every minute, and R2 may be down for a few. */
const JOB_FAILING_MS = 10 * MINUTE_MS;
/** Time for which dead letters are reported, so that the alarm ends if the operator decides to leave them. */
const DEAD_LETTERS_NEW_MS = DAY_MS;
/** Failing time after which a destination is reported; deploying a receiver takes some minutes. */
const DESTINATION_FAILING_REPORT_MS = 60 * MINUTE_MS;
/** Time for which a switched-off destination is reported. The operator may leave it that way. */
const DESTINATION_OFF_REPORT_MS = 7 * DAY_MS;

/** The alarms of a workspace, the most severe first; empty if all is well. */
export function alarmsOf(figures: HealthFigures, nowMs: number): HealthAlarm[] {
  const level = roomLevel(figures);
  const waitedMs = figures.waitingSinceMs === null ? 0 : nowMs - figures.waitingSinceMs;
  const waiting = `${counted(figures.waiting, "accepted signal waits", "accepted signals wait")}, the oldest for ${minutes(waitedMs)}`;
  const failing = figures.failingJobs.find(({ sinceMs }) => nowMs - sinceMs >= JOB_FAILING_MS);
  const unfinished = figures.openRestores.find(({ isFinished }) => !isFinished);
  const lossy = figures.openRestores.find(({ isFinished, lost }) => isFinished && lost > 0);
  const deadMs = figures.deadLetterMs === null ? Number.POSITIVE_INFINITY : nowMs - figures.deadLetterMs;
  const alarms: (HealthAlarm | false)[] = [
    level === "refusing" &&
      alarm(
        "senders_refused",
        "The outbox is full and senders get 503. Find what keeps it from draining, and mend that.",
      ),
    unfinished !== undefined &&
      alarm(
        "restore_unfinished",
        `The restore ${unfinished.id} has not finished, and nothing is recorded until it has. Send it again.`,
      ),
    figures.unreadable > 0 &&
      alarm(
        "signals_unreadable",
        `${counted(figures.unreadable, "accepted signal")} cannot be read by this release. They are kept: report it, this is a bug.`,
      ),
    isFull(figures.store) &&
      alarm(
        "store_full",
        `The store is full and records nothing; ${waiting}. Give the workspace a plan with a shorter retention.`,
      ),
    !figures.booksBalanced &&
      alarm("books_open", "The books do not balance. Compare GET …/books with the log, and report it: this is a bug."),
    waitedMs >= SIGNALS_STUCK_MS &&
      alarm(
        "signals_stuck",
        `${waiting}, and sending them again did not help. Look at the queue's consumer and at D1.`,
      ),
    lossy !== undefined &&
      alarm(
        "signals_lost",
        `A restore has lost ${counted(lossy.lost, "accepted signal")}. Look at GET …/books, then POST …/restores/${lossy.id}/acknowledge.`,
      ),
    waitedMs >= SIGNALS_LATE_MS &&
      waitedMs < SIGNALS_STUCK_MS &&
      alarm("signals_late", `${waiting}. Look whether the queue is backed up, and whether D1 answers.`),
    level === "filling" &&
      alarm(
        "store_filling",
        `The store is ${percent(figures.store)} % full. Give the workspace a plan with a shorter retention before it is.`,
      ),
    failing !== undefined &&
      alarm(
        "job_failing",
        `The job \`${failing.job}\` has failed for ${minutes(nowMs - failing.sinceMs)}: ${failing.error}. Look whether R2 and D1 answer.`,
      ),
    deadMs < DEAD_LETTERS_NEW_MS &&
      alarm(
        "dead_letters",
        `${counted(figures.deadLetters, "signal")} could not be processed, the latest ${minutes(deadMs)} ago. Read their reasons, then replay them.`,
      ),
    ...destinationAlarms(figures.failingDestinations, nowMs),
  ];
  return alarms.filter((raised) => raised !== false);
}

function destinationAlarms(destinations: readonly FailingDestination[], nowMs: number): (HealthAlarm | false)[] {
  const switchedOff = destinations.filter(({ off }) => off !== null && nowMs - off.sinceMs < DESTINATION_OFF_REPORT_MS);
  const gone = switchedOff.every(({ off }) => off?.reason === "gone");
  const why = gone ? "the receiver wants nothing any more (410)" : "nothing has reached it for days";
  const failing = destinations.filter(
    ({ off, sinceMs }) => off === null && nowMs - sinceMs >= DESTINATION_FAILING_REPORT_MS,
  );
  const failingMs = nowMs - Math.min(...failing.map(({ sinceMs }) => sinceMs));
  return [
    switchedOff.length > 0 &&
      alarm(
        "destination_off",
        `${named(switchedOff)} was switched off: ${why}. Mend the receiver, then POST …/destinations/{id}/resume.`,
      ),
    failing.length > 0 &&
      alarm(
        "destination_failing",
        `${named(failing)} has not been reached for ${minutes(failingMs)}. Look at its deliveries for why; it is switched off after five days.`,
      ),
  ];
}

function named([first, ...rest]: readonly FailingDestination[]): string {
  const more = rest.length === 0 ? "" : `, as ${rest.length} more,`;
  return `The destination "${first?.name}" (${first?.id})${more}`;
}

/** @param silent the names of the objects that did not answer, with their errors. */
export function unreachable(silent: string): HealthAlarm {
  const says = `The workspace's objects do not answer: ${silent}. Ask again; look at the platform's status.`;
  return alarm("unreachable", says);
}

/** The alarm if there was no time to ask the workspace, so its state is unknown. */
export function notAsked(): HealthAlarm {
  return alarm("not_asked", "There was no time to ask it, since others took long to answer. Ask again.");
}

/** The most severe word of the alarms, of one workspace or of many. */
export function wordOf(alarms: readonly { word: HealthWord }[]): HealthWord {
  if (alarms.some(({ word }) => word === "stuck")) return "stuck";
  return alarms.some(({ word }) => word === "late") ? "late" : "ok";
}

function alarm(name: AlarmName, says: string): HealthAlarm {
  return { alarm: name, word: WORDS[name], says };
}

function isFull({ bytes, maxBytes }: Filled): boolean {
  return bytes >= maxBytes;
}

function percent({ bytes, maxBytes }: Filled): number {
  return Math.floor((100 * bytes) / maxBytes);
}

function minutes(ms: number): string {
  return counted(Math.floor(ms / MINUTE_MS), "minute");
}

/** Percent of STORE_MAX_BYTES at which admins are warned. A store that fills in a year then has ten weeks left. */
const STORE_NOTICE_PERCENT = 80;

export interface Filled {
  bytes: number;
  maxBytes: number;
}

/**
 * `filling`: the Signal Store is filling up. `full`: the store records nothing, and signals wait in the outbox.
 * `refusing`: the outbox is full, for any reason, and new calls get 503.
 */
export type RoomLevel = "ok" | "filling" | "full" | "refusing";

export function roomLevel({ store, outbox }: Pick<HealthFigures, "store" | "outbox">): RoomLevel {
  if (outbox.bytes >= outbox.maxBytes) return "refusing";
  if (store.bytes >= store.maxBytes) return "full";
  return store.bytes * 100 >= store.maxBytes * STORE_NOTICE_PERCENT ? "filling" : "ok";
}
