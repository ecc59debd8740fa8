/**
 * Events of scoring signals that wait to be gathered. Each destination has had them up to a row of its own, so that one that
 * fails is behind without holding up the others.
 */
import { fittingEvents, gatherIntervalMs, gathered } from "../domain/events/gathering.ts";
import type { EventData, EventId, EventOf } from "../domain/events/workspace-event.ts";
import { PERSON_SCORED_MAX_SIGNALS } from "../limits.ts";
import type { StoredDestination } from "./roster.ts";

/** Scoring signals that wait to be gathered, of a workspace: beyond that the oldest are given up. Some 50 MB. */
const GATHERED_MAX_SIGNALS = 200_000;

type Scored = EventOf<"person.scored">;
type Row = { seq: number; id: string; time_ms: number; signals: number; data: string };

export class ScoredEvents {
  readonly #sql: SqlStorage;
  /** The number of the latest row, or of the latest that some destination has had: new rows get higher ones. */
  #lastSeq: number;
  #signals: number;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    ({ lastSeq: this.#lastSeq, signals: this.#signals } = this.#read());
  }

  /** Reads the counts again: after a transaction was taken back, memory may not be what is stored. */
  rolledBack(): void {
    ({ lastSeq: this.#lastSeq, signals: this.#signals } = this.#read());
  }

  #read(): { lastSeq: number; signals: number } {
    const { signals, last } = this.#sql
      .exec<{ signals: number | null; last: number | null }>(
        `SELECT sum(signals) AS signals, max(coalesce(max(seq), 0), (SELECT coalesce(max(gathered_to), 0) FROM destinations)) AS last FROM scored`,
      )
      .one();
    return { lastSeq: last ?? 0, signals: signals ?? 0 };
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  add({ id, time, data }: Scored): void {
    const signals = data.scoring_signals.length;
    this.#sql.exec(
      "INSERT INTO scored (seq, id, time_ms, signals, data) VALUES (?, ?, ?, ?, ?)",
      this.#lastSeq + 1,
      id,
      time,
      signals,
      JSON.stringify(data),
    );
    this.#lastSeq++;
    this.#signals += signals;
  }

  /** When the next events are gathered for a destination, in milliseconds since 1970; infinity: there are none. */
  dueMs(one: StoredDestination): number {
    if (!isWanted(one) || one.gatheredTo >= this.#lastSeq) return Number.POSITIVE_INFINITY;
    const failingForMs = one.failing === null ? 0 : one.failing.lastMs - one.failing.sinceMs;
    return one.gatheredMs + gatherIntervalMs(failingForMs);
  }

  /** The next events for a destination as one, and up to which row that is; null: there are none. */
  next(one: StoredDestination): { event: Scored; gatheredTo: number } | null {
    const rows = this.#sql
      .exec<Row>("SELECT * FROM scored WHERE seq > ? ORDER BY seq LIMIT ?", one.gatheredTo, PERSON_SCORED_MAX_SIGNALS)
      .toArray();
    const fitting = rows.slice(0, fittingEvents(rows.map(({ signals }) => signals)));
    const [first, ...others] = fitting.map(toEvent);
    const last = fitting.at(-1);
    return first === undefined || last === undefined
      ? null
      : { event: gathered([first, ...others]), gatheredTo: last.seq };
  }

  /** How many events a destination would lose with all rows up to this one. */
  between(one: StoredDestination, seq: number): number {
    if (!isWanted(one) || one.gatheredTo >= seq) return 0;
    return this.#sql
      .exec<{ n: number }>("SELECT count(*) AS n FROM scored WHERE seq > ? AND seq <= ?", one.gatheredTo, seq)
      .one().n;
  }

  /** The row up to which events must go because more scoring signals wait than may; null: there are not too many. */
  tooManyUpTo(): number | null {
    let beyond = this.#signals - GATHERED_MAX_SIGNALS;
    if (beyond <= 0) return null;
    for (const { seq, signals } of this.#sql.exec<Row>("SELECT seq, signals FROM scored ORDER BY seq")) {
      beyond -= signals;
      if (beyond <= 0) return seq;
    }
    return this.#lastSeq;
  }

  /** Deletes rows that no destination waits for any more. */
  removeGathered(destinations: readonly StoredDestination[]): void {
    if (this.#signals === 0) return;
    this.removeUpTo(Math.min(this.#lastSeq, ...destinations.filter(isWanted).map(({ gatheredTo }) => gatheredTo)));
  }

  removeUpTo(seq: number): void {
    for (const { signals } of this.#sql.exec<Row>("DELETE FROM scored WHERE seq <= ? RETURNING signals", seq)) {
      this.#signals -= signals;
    }
  }
}

export function isWanted({ state, events }: Pick<StoredDestination, "state" | "events">): boolean {
  return state === "active" && events.includes("person.scored");
}

function toEvent({ id, time_ms, data }: Row): Scored {
  return {
    id: id as EventId,
    type: "person.scored",
    time: time_ms,
    data: JSON.parse(data) as EventData["person.scored"],
  };
}
