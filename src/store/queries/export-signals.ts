/**
 * Export of all signals: dead letters, then the log, then held signals. Signals move between these during an export,
 * and this order misses none. The export covers the signals recorded when the dead letters are complete. A replayed
 * dead letter, or a released held signal, is recorded after that point: the dead letter was already written, and a
 * signal that left the held ones is written with its new state. A signal appears twice only if it was a dead letter
 * and is replayed while a file with several slices of dead letters begins, or was held before it failed.
 */
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { BeingDeleted } from "../deletion/being-deleted.ts";
import type { ColdObjects } from "../log/cold.ts";
import { isDropped, type Facts, keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import { type Payloads, readPayloads } from "../log/payloads.ts";
import type { Segment } from "../log/segment.ts";
import type { ExportFormat, ExportPage } from "../protocol/store-operations.ts";
import { admissionOf, type DeadLetterRow, findDeadLetter, lastDeadLetter } from "../record/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import {
  type Columns,
  EXPORT_PAGE_MAX_CHARACTERS,
  EXPORT_PAGE_ROWS,
  type ExportRow,
  headerOf,
  lineOf,
} from "./export-text.ts";
import { Names } from "./named-people.ts";
import { countedOf } from "./scored-entries.ts";

/** Segments per slice of an export: the largest together hold about EXPORT_PAGE_MAX_CHARACTERS. */
const EXPORT_PAGE_SEGMENTS = 20;

/** The number behind which the next page goes on, and where each of the three ends. */
interface Position {
  in: "dead" | "signals" | "held";
  after: number;
  lastDead: number;
  /** Ends of the log and of the held signals, fixed when the dead letters are complete. */
  ends: { signals: number; held: number } | null;
}

/** Between two transactions payloads may have moved to R2, or to another object. */
const ATTEMPTS = 3;

export async function exportSignals(
  state: StoreState,
  objects: ColdObjects,
  format: ExportFormat,
  cursor: string | null,
): Promise<ExportPage> {
  let cold: Payloads = new Map();
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const page = new SignalsPage(state, cold);
    const next = page.read(cursor === null ? beginning(state) : (JSON.parse(cursor) as Position));
    if (page.missing.length === 0) {
      const title = cursor === null && format === "csv" ? headerOf(SIGNAL_COLUMNS) : "";
      const text =
        title +
        page
          .rows()
          .map((row) => lineOf(row, SIGNAL_COLUMNS, format))
          .join("");
      return { text, next: next && JSON.stringify(next) };
    }
    // oxlint-disable-next-line no-await-in-loop -- what is read there belongs to what is read here
    cold = await readPayloads(state.signals, objects, page.missing);
  }
  throw new Error("payloads in cold storage could not be read");
}

function beginning(state: StoreState): Position {
  return { in: "dead", after: 0, lastDead: lastDeadLetter(state.sql), ends: null };
}

/** Content of one slice, read in one transaction. */
class SignalsPage {
  readonly #state: StoreState;
  readonly #cold: Payloads;
  readonly #beingDeleted: BeingDeleted;
  readonly #found: (ExportedLine | { facts: null; dead: DeadLetterRow })[] = [];
  #looked = 0;
  #segments = 0;
  #characters = 0;
  /** Lines whose payloads are in R2 and are still to be fetched. */
  readonly missing: { segment: Segment; seqs: number[] }[] = [];

  constructor(state: StoreState, cold: Payloads) {
    this.#state = state;
    this.#cold = cold;
    this.#beingDeleted = new BeingDeleted(state.sql);
  }

  /** Reads the page. @returns where the next page begins; null where this is the last. */
  read(position: Position): Position | null {
    const { signals, held } = this.#state;
    const { lastDead } = position;
    let from = position;
    if (from.in === "dead") {
      const after = this.#readDead(from.after, lastDead);
      if (after !== null) return { ...from, after };
      from = { in: "signals", after: 0, lastDead, ends: { signals: signals.nextSeq, held: held.nextSeq } };
    }
    const ends = from.ends ?? { signals: 0, held: 0 };
    if (from.in === "signals") {
      const after = this.#readLines(signals, from.after, ends.signals, (segment, seq) => {
        this.#add(signals, segment, seq);
      });
      if (after !== null) return { ...from, after };
      from = { in: "held", after: 0, lastDead, ends };
    }
    const hasMoved = signals.nextSeq > ends.signals || lastDeadLetter(this.#state.sql) > lastDead;
    const after = this.#readLines(held, from.after, ends.held, (segment, seq) => {
      const { status, admission } = segment.facts(seq);
      if (status !== "released") this.#add(held, segment, seq);
      else if (hasMoved) this.#addReleased(admission.id, ends.signals, lastDead);
    });
    return after === null ? null : { ...from, after };
  }

  rows(): ExportRow[] {
    const names = new Names(this.#state.sql);
    names.load(this.#found.flatMap(({ facts }) => (facts === null ? [] : [facts])));
    return this.#found.map((one) =>
      one.facts === null ? rowOfDeadLetter(one.dead) : rowOfLine(this.#state, one, names),
    );
  }

  /** Reads dead letters. @returns the last number read; null: none left. */
  #readDead(after: number, last: number): number | null {
    const rows = this.#state.sql.exec<DeadLetterRow>(
      "SELECT * FROM dead_letters WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
      after,
      last,
      EXPORT_PAGE_ROWS,
    );
    for (const row of rows) {
      this.#looked++;
      this.#addDead(row);
      if (this.#isFull) return row.seq;
    }
    return null;
  }

  #readLines(log: Log, after: number, end: number, add: (segment: Segment, seq: number) => void): number | null {
    for (const segment of log.walk(after)) {
      if (segment.firstSeq >= end) return null;
      this.#segments++;
      const last = Math.min(segment.lastSeq, end - 1);
      for (let seq = Math.max(segment.firstSeq, after + 1); seq <= last; seq++) {
        if (this.#isFull) return seq - 1;
        this.#looked++;
        add(segment, seq);
      }
      if (this.#segments >= EXPORT_PAGE_SEGMENTS) return last;
    }
    return null;
  }

  get #isFull(): boolean {
    return this.#looked >= EXPORT_PAGE_ROWS || this.#characters >= EXPORT_PAGE_MAX_CHARACTERS;
  }

  #add(log: Log, segment: Segment, seq: number): void {
    const stored = segment.facts(seq);
    if (isDropped(stored)) return;
    const facts = this.#beingDeleted.factsOf(stored, Date.now());
    let payload: string | null | undefined = null;
    if (keepsPayload(facts)) {
      const here = log.payloadsOf(segment);
      payload = here === null ? this.#cold.get(seq) : (here[seq - segment.firstSeq] ?? null);
    }
    if (payload === undefined) this.#miss(segment, seq);
    this.#found.push({ facts, payload: payload ?? null });
    this.#characters += payload?.length ?? 0;
  }

  /** Records a line whose payload is missing. Lines of one segment are grouped, so that it is unpacked once. */
  #miss(segment: Segment, seq: number): void {
    const last = this.missing.at(-1);
    if (last?.segment === segment) last.seqs.push(seq);
    else this.missing.push({ segment, seqs: [seq] });
  }

  #addDead(row: DeadLetterRow): void {
    const isLeaving = this.#beingDeleted.hasDeadLetter(row);
    this.#found.push({ facts: null, dead: isLeaving ? { ...row, payload: null, reason: "" } : row });
    this.#characters += row.payload?.length ?? 0;
  }

  /** Adds a signal that left the held ones from its new place, unless it was already written. */
  #addReleased(id: string, endOfSignals: number, lastDead: number): void {
    const { signals, sql } = this.#state;
    const found = signals.find(id);
    const segment = found && signals.segmentOf(found.seq);
    if (found !== null && segment !== null) {
      if (found.seq >= endOfSignals) this.#add(signals, segment, found.seq);
      return;
    }
    const dead = findDeadLetter(sql, id);
    if (dead !== null && dead.seq > lastDead) this.#addDead(dead);
  }
}

// A signal as a line of an export.

const SIGNAL_COLUMNS: Columns = {
  id: "value",
  status: "value",
  kind: "value",
  event: "value",
  source: "value",
  email: "value",
  user_id: "value",
  anonymous_id: "value",
  endpoint: "value",
  key_id: "value",
  verdict: "value",
  ordinal: "value",
  received_at: "time",
  recorded_at: "time",
  duplicate_of: "value",
  linked_at: "time",
  points: "value",
  dead_reason: "value",
  deleted_at: "time",
  payload: "json",
};

interface ExportedLine {
  facts: Facts;
  payload: string | null;
}

function rowOfLine(state: StoreState, { facts, payload }: ExportedLine, names: Names): ExportRow {
  const { admission } = facts;
  return {
    id: admission.id,
    status: facts.status,
    kind: facts.kind,
    event: facts.event,
    source: facts.source,
    email: names.of(facts),
    user_id: facts.userId,
    anonymous_id: facts.anonymousId,
    endpoint: admission.endpoint,
    key_id: admission.keyId,
    verdict: admission.verdict,
    ordinal: admission.ordinal,
    received_at: admission.receivedAtMs,
    recorded_at: facts.recordedAtMs,
    duplicate_of: facts.duplicateOf,
    linked_at: facts.linkedAtMs,
    points: pointsOf(countedOf(state, facts)),
    dead_reason: null,
    deleted_at: facts.deletedAtMs,
    payload,
  };
}

function rowOfDeadLetter(row: DeadLetterRow): ExportRow {
  const { endpoint, keyId, verdict, ordinal } = admissionOf(row);
  return {
    id: row.id,
    status: row.status,
    kind: "unknown",
    endpoint,
    key_id: keyId,
    verdict,
    ordinal,
    received_at: row.received_at,
    recorded_at: row.recorded_at,
    points: 0,
    dead_reason: row.reason,
    deleted_at: row.deleted_at,
    payload: row.payload === null || isJson(row.payload) ? row.payload : JSON.stringify(row.payload),
  };
}

/** Whether a payload is JSON. Only a dead letter's can be anything else. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
