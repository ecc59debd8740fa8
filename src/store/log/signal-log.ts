/**
 * The log: signals as lines in the order of recording, each with a number, `seq`. Everything outside this folder reads
 * and writes lines through this interface, and nothing outside knows how lines are stored.
 *
 * All methods except those that return a promise are synchronous and part of the caller's transaction. The caller calls `flush` once
 * per transaction to write what waits in memory, and `reload` after a rollback, because memory then differs from the tables.
 */
import type { LineStatus } from "../../domain/signal/signal.ts";
import type { SignalFacts, Line } from "./line.ts";

/** A portion has up to this number of lines. */
export const PORTION_MAX_LINES = 512;

/** `signals` for recorded signals, `held` for held signals. */
export type SignalLogName = "signals" | "held";

/** Lines that are stored, read and rewritten together. Reading one costs some 0.2 ms, however few lines are wanted. */
export interface Portion {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** The wanted lines, ascending, without lines that are gone. */
  readonly seqs: readonly number[];
  readonly payloads: "here" | "in_r2" | "lost";
  /** @param seq any line of the portion. A line that is gone has the facts that `isDropped` finds. */
  facts(seq: number): SignalFacts;
}

export interface LinesOfPortion {
  portion: Portion;
  seqs: readonly number[];
}

export interface NumberedLine {
  seq: number;
  facts: SignalFacts;
}

/** The start of a walk: ascending, descending from the latest line, or by ordinal, which finds only portions with held lines. */
export type WalkFrom = { after: number } | { before: number } | { afterOrdinal: number };

/** `event`, `outcomes` and `email` choose lines. By the other fields a walk only skips portions, so the caller checks the lines. */
export interface WantedLines {
  event?: string | ((event: string) => boolean) | undefined;
  /** Lines with one of these outcomes are wanted too, of any event. */
  outcomes?: ReadonlySet<number> | undefined;
  email?: string | undefined;
  /** Only with `event`. */
  source?: string | undefined;
  status?: LineStatus | undefined;
  /** Received in this time, in milliseconds since 1970, `untilMs` exclusive. */
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
  /** With held lines whose billing period ends by then. Only with the status `held`. */
  periodEndMs?: number | undefined;
  /** Portions that were received completely before `wholly`, or partly before `partly`. */
  received?: { wholly: number; partly: number } | undefined;
}

/** Times are milliseconds since 1970. */
export interface DuplicateCandidate {
  hash: Uint8Array;
  receivedAtMs: number;
  windowMs: number;
  /** Released or replayed, long after its receipt. */
  isResent: boolean;
}

export interface Original {
  seq: number;
  id: string;
}

/** Payloads by line number; null: the line has none. Lines that cannot be read now are missing. */
export type Payloads = ReadonlyMap<number, string | null>;

/** The earliest moments in the log, in milliseconds since 1970; null: there is none. */
export interface Earliest {
  /** When the oldest line was received, and when the first portion to expire whole received its last line. */
  receivedMs: number | null;
  wholeMs: number | null;
  /** The next end of a billing period with held lines. */
  periodEndMs: number | null;
}

export interface SignalLog {
  readonly name: SignalLogName;
  /** Other data of the store, which `flush` writes at no further row. Callers may change it. */
  readonly meta: object;
  readonly nextSeq: number;
  /** The oldest line; `nextSeq` if the log is empty. */
  readonly firstSeq: number;
  /** Whether R2 may still have payloads that were removed. */
  readonly isClearing: boolean;
  /** Signals received from this time on find their originals in memory, in milliseconds since 1970. */
  readonly remembersSinceMs: number;

  /** Returns the number of the line. @param hash HASH_BYTES to find duplicates of the line; null: it can have none. */
  append(line: Line, hash: Uint8Array | null): number;
  flush(): void;
  reload(): void;

  /** The latest line with a signal id. */
  find(id: string): NumberedLine | null;
  /** In ascending order. Lines that are gone are left out. */
  read(seqs: Iterable<number>): Iterable<Portion>;
  /** Lazy. Portions without wanted lines may be among the others, because reading them costs time too. Callers may write meanwhile. */
  walk(from: WalkFrom, wanted?: WantedLines): Iterable<Portion>;
  /**
   * The original of each candidate; null: there is none. Does not know lines of the same batch.
   *
   * @param isKept false: the line is no original.
   */
  findOriginals(
    candidates: readonly DuplicateCandidate[],
    nowMs: number,
    isKept?: (facts: SignalFacts) => boolean,
  ): (Original | null)[];
  earliest(): Earliest;

  /** For each line of the portion from `firstSeq` on; null: they are in R2. */
  payloadsOf(portion: Portion): readonly (string | null)[] | null;
  /** Reads R2 too. Never throws. */
  readPayloads(wanted: Iterable<LinesOfPortion>): Promise<Payloads>;

  /** Whether the portion is unchanged since it was read. New lines do not count. Callers check this after an `await`. */
  isCurrent(portion: Portion): boolean;
  /**
   * Changes lines of a portion. An event, a source and an admission may leave a line, but never become others. A payload leaves with the
   * facts that kept it (`keepsPayload`); from R2 it goes in a later step of `work`. A dropped line (`isDropped`) leaves only its number.
   *
   * @returns the number of R2 objects that had nothing to remove before.
   * @throws when the portion has been rewritten since it was read.
   */
  rewrite(portion: Portion, changes: ReadonlyMap<number, SignalFacts>): number;

  /** Lets `work` remove payloads of dropped lines from R2. Otherwise they stay there until all lines of their object are dropped. */
  clearDropped(): void;
  /** When `work` has something to do, in milliseconds since 1970; null: never. */
  workMs(nowMs: number): number | null;
  /** Takes one step of moving old payloads to R2, and of removing payloads there. @throws when R2 does not answer. */
  work(nowMs: number): Promise<void>;
  /** Marks lines whose object is missing in R2, so that nothing waits for them for ever. Returns their number. @throws when R2 does not answer. */
  markLostPayloads(nowMs: number): Promise<number>;
}

/** Null: the line is gone. */
export function readLine(log: Pick<SignalLog, "read">, seq: number): SignalFacts | null {
  for (const portion of log.read([seq])) return portion.facts(seq);
  return null;
}
