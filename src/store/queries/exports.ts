/**
 * Signals, people and scoring signals as files, a page at a time. The text is made here, where the rows are: it crosses to
 * the Worker as it is, so that an export costs it next to no CPU time, however long it is.
 */
import { stringify } from "csv-stringify/sync";
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { eachTrait } from "../../domain/signal/traits.ts";
import { BeingDeleted } from "../deletion/deleted-names.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import { isDropped, keepsPayload } from "../log/line.ts";
import type { Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import type { ExportFormat, ExportPage, ExportRange } from "../protocol/store-operations.ts";
import { admissionOf, findDeadLetter, lastDeadLetter } from "../state/dead-letters.ts";
import type { DeadLetterRow } from "../state/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./named-people.ts";
import { FIRST_CLAIM, readIdentities, PERSON_COLUMNS } from "./person-row.ts";
import type { ClaimPlace, PersonRow } from "./person-row.ts";
import { countedOf, counting, isScored, nextEntries, toScoringSignals } from "./scored-entries.ts";

/**
 * One slice of an export. @throws if payloads in cold storage cannot be read: an export never omits data silently.
 */
export async function exportPage(
  state: StoreState,
  objects: ColdObjects,
  { records, format, cursor }: ExportRange,
): Promise<ExportPage> {
  switch (records) {
    case "signals":
      return exportSignals(state, objects, format, cursor);
    case "people":
      return exportPeople(state, format, cursor);
    case "scoring_signals":
      return exportScores(state, format, cursor);
  }
}

// Scoring signals, person by person, in the order in which their signals were recorded; also of signals that are gone.

/** People and parts of their lists per slice when only scores are exported: some 20 ms without any score. */
const EXPORT_PAGE_LOOKS = 1_000;

const COLUMNS: Columns = {
  email: "value",
  signal_id: "value",
  rule_id: "value",
  rule_version: "value",
  scoring_signal: "value",
  points: "value",
  at: "time",
};

interface ScorePosition {
  /** The person whose list it is in, and the line that was looked at last; null: behind the whole list. */
  person: number;
  after: number | null;
  lastPerson: number;
  lastSeq: number;
}

type Person = { id: number; email: string; recent: string };

/** A page of the export. It looks at EXPORT_PAGE_LOOKS people and parts of their lists: few may have scored anything. */
function exportScores(state: StoreState, format: ExportFormat, cursor: string | null): ExportPage {
  let text = cursor === null && format === "csv" ? headerOf(COLUMNS) : "";
  let position = cursor === null ? scoresBeginning(state) : (JSON.parse(cursor) as ScorePosition);
  let rows = 0;
  for (let looks = 0; looks < EXPORT_PAGE_LOOKS && rows < EXPORT_PAGE_ROWS; looks++) {
    const person = personOf(state.sql, position);
    if (person === null) return { text, next: null };
    const after = person.id === position.person ? (position.after ?? 0) : 0;
    const { entries, last } = nextEntries(state.sql, person, after);
    for (const one of entries) {
      const entry = counting(state, person.id, one);
      if (!isScored(entry) || entry.seq > position.lastSeq) continue;
      for (const scored of toScoringSignals(state, entry)) {
        rows++;
        text += lineOf(
          {
            email: person.email,
            signal_id: scored.signalId,
            rule_id: scored.ruleId,
            rule_version: scored.ruleVersion,
            scoring_signal: scored.scoringSignal,
            points: scored.points,
            at: scored.atMs,
          },
          COLUMNS,
          format,
        );
      }
    }
    position = { ...position, person: person.id, after: last };
    if (text.length >= EXPORT_PAGE_MAX_CHARACTERS) break;
  }
  return { text, next: JSON.stringify(position) };
}

function scoresBeginning({ books, signals }: StoreState): ScorePosition {
  return { person: 0, after: null, lastPerson: books.nextPersonId - 1, lastSeq: signals.nextSeq - 1 };
}

/** The person with whom the export continues: the same one, or the next who is not being deleted. */
function personOf(sql: SqlStorage, { person, after, lastPerson }: ScorePosition): Person | null {
  const [row] = sql.exec<Person>(
    `SELECT id, email, recent FROM people WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1`,
    after === null ? person + 1 : person,
    lastPerson,
  );
  return row ?? null;
}

/** Segments per slice of an export: the largest together hold about EXPORT_PAGE_MAX_CHARACTERS. */
const EXPORT_PAGE_SEGMENTS = 20;

/** The number behind which the next page goes on, and where each of the three ends. */
interface SignalPosition {
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
    const next = page.read(cursor === null ? signalsBeginning(state) : (JSON.parse(cursor) as SignalPosition));
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

function signalsBeginning(state: StoreState): SignalPosition {
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
  read(position: SignalPosition): SignalPosition | null {
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

/** People per slice of an export, each with reads of their ids: some 20 ms. */
const EXPORT_PAGE_PEOPLE = 250;

const FACTS: Columns = {
  email: "value",
  ...eachTrait(() => "value" as const),
  score: "value",
  first_seen: "time",
  last_seen: "time",
  ids_dropped: "value",
};
const LISTS = [
  { column: "user_ids", kind: "user_id" },
  { column: "anonymous_ids", kind: "anonymous_id" },
] as const;
/** Ids that are read at a time. */
const IDS_AT_ONCE = 500;

interface PeoplePosition {
  /** Number of the last person whose line has been begun. */
  person: number;
  lastPerson: number;
  /** PeoplePosition within the line at which the export continues; null: the line is complete. */
  list: { index: number; behind: ClaimPlace; some: boolean } | null;
}

export function exportPeople(state: StoreState, format: ExportFormat, cursor: string | null): ExportPage {
  const columns = Object.fromEntries(LISTS.map(({ column }) => [column, "json" as const]));
  let text = cursor === null && format === "csv" ? headerOf({ ...FACTS, ...columns }) : "";
  let position =
    cursor === null
      ? { person: 0, lastPerson: state.books.nextPersonId - 1, list: null }
      : (JSON.parse(cursor) as PeoplePosition);
  for (let rows = 0; rows < EXPORT_PAGE_PEOPLE && text.length < EXPORT_PAGE_MAX_CHARACTERS;) {
    const part: Part | null =
      position.list === null ? nextPerson(state, position, format) : nextIds(state, position, format);
    if (part === null) return { text, next: null };
    text += part.text;
    position = part.position;
    if (position.list === null) rows++;
  }
  return { text, next: JSON.stringify(position) };
}

interface Part {
  text: string;
  position: PeoplePosition;
}

/** The beginning of the next person's line. */
function nextPerson({ sql }: StoreState, { person, lastPerson }: PeoplePosition, format: ExportFormat): Part | null {
  const [row] = sql.exec<PersonRow>(
    `SELECT ${PERSON_COLUMNS} FROM people WHERE id > ? AND id <= ? ORDER BY id LIMIT 1`,
    person,
    lastPerson,
  );
  if (row === undefined) return null;
  const line = lineOf(row as Record<keyof typeof FACTS, string | number | null>, FACTS, format);
  const text = format === "csv" ? `${line.trimEnd()},` : `${line.slice(0, -"}\n".length)},"user_ids":[`;
  return { text, position: { person: row.id, lastPerson, list: beginningOf(0) } };
}

function beginningOf(index: number) {
  return { index, behind: FIRST_CLAIM, some: false };
}

/** The next ids of a list, with the list's end if this is it. */
function nextIds({ sql }: StoreState, { list, ...position }: PeoplePosition, format: ExportFormat): Part {
  if (list === null) throw new Error("a line that is written has no more ids");
  const { kind } = LISTS[list.index] ?? LISTS[0];
  // Ids of a person whose deletion has started remain for a while.
  const isThere = sql.exec("SELECT 1 FROM people WHERE id = ?", position.person).toArray().length > 0;
  const { identities, next } = isThere
    ? readIdentities(sql, position.person, { behind: list.behind, limit: IDS_AT_ONCE, kind })
    : { identities: [], next: null };
  const ids = identities.map(({ value }) => JSON.stringify(value)).join(",");
  const some = list.some || ids !== "";
  let text = format === "csv" ? csvPart(ids, list.some) : `${list.some && ids !== "" ? "," : ""}${ids}`;
  if (next !== null) return { text, position: { ...position, list: { ...list, behind: next, some } } };
  const isLast = list.index === LISTS.length - 1;
  if (format === "csv") text += `${some ? ']"' : "[]"}${isLast ? "\r\n" : ","}`;
  else text += isLast ? "]}\n" : `],"${LISTS[list.index + 1]?.column}":[`;
  return { text, position: { ...position, list: isLast ? null : beginningOf(list.index + 1) } };
}

/** Part of a JSON array in a cell: an array that has something has quotes in it, so that the cell is quoted (RFC 4180). */
function csvPart(ids: string, isGoingOn: boolean): string {
  if (ids === "") return "";
  return `${isGoingOn ? "," : '"['}${ids.replaceAll('"', '""')}`;
}

/** Records per slice of an export, so that the store can answer other calls in between. */
export const EXPORT_PAGE_ROWS = 1_000;
/** Maximum characters of a slice: two slices are in memory at the same time. A slice is then shorter. */
export const EXPORT_PAGE_MAX_CHARACTERS = 2_000_000;

/** Columns by name, in their order. `json`: a JSON text, taken over as it is. */
export type Columns = Record<string, "value" | "time" | "json">;

export type ExportRow = Record<string, string | number | null>;

export function headerOf(columns: Columns): string {
  return toCsv(Object.keys(columns));
}

export function lineOf(row: ExportRow, columns: Columns, format: ExportFormat): string {
  return format === "csv" ? csvLine(row, columns) : ndjsonLine(row, columns);
}

function ndjsonLine(row: ExportRow, columns: Columns): string {
  const members = Object.entries(columns).map(([name, kind]) => {
    const value = valueOf(row, name, kind);
    return `"${name}":${kind === "json" && value !== null ? value : JSON.stringify(value)}`;
  });
  return `{${members.join(",")}}\n`;
}

function csvLine(row: ExportRow, columns: Columns): string {
  return toCsv(Object.entries(columns).map(([name, kind]) => valueOf(row, name, kind)));
}

/**
 * Prefixes formulas with `'`, as OWASP recommends. Quotes any line break (RFC 4180), because the library quotes only
 * its own kind. Also quotes the cell separators of other locales, after which a text could begin a formula.
 */
function toCsv(cells: (string | number | null)[]): string {
  return stringify([cells], { record_delimiter: "\r\n", quoted_match: /[\r\n;\t]/, escape_formulas: true });
}

function valueOf(row: ExportRow, name: string, kind: Columns[string]): string | number | null {
  const value = row[name] ?? null;
  if (value === null || kind === "value") return value;
  // Line breaks in a JSON text are white space: inside of its strings they are escaped.
  return kind === "time" ? new Date(Number(value)).toISOString() : String(value).replaceAll(/[\r\n]+/g, " ");
}
