/**
 * Exports signals, people and scoring signals as files, a page at a time. The store writes the text, so that a long export costs the
 * Worker hardly any CPU time.
 */
import { stringify } from "csv-stringify/sync";
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { eachTrait } from "../../domain/signal/traits.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import { isDropped, keepsPayload, type Facts } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { Segment } from "../log/segment.ts";
import { countedMatches } from "../people/scoring.ts";
import { ascendingEntries, readEntries, personList } from "../people/timelines.ts";
import type { ExportFormat, ExportPage, ExportRange } from "../protocol/store-operations.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, findDeadLetter, lastDeadLetter } from "../state/dead-letters.ts";
import type { StoreState } from "../state/store-state.ts";
import { Names } from "./names.ts";
import {
  withCountedOutcomes,
  isScored,
  latestIdentities,
  PERSON_COLUMNS,
  toPersonSummary,
  toScoringSignals,
  type PersonSummaryRow,
} from "./person-page.ts";

/** A page may exceed the maximum by one row. It is low because two pages are in memory at the same time. */
export const EXPORT_PAGE_MAX_CHARACTERS = 2_000_000;
/** Budget of a page, in signals: about 20 ms, so that the store can answer other calls between two pages. */
export const EXPORT_PAGE_BUDGET = 1_000;
/** Costs in written signals: to unpack a segment, to read the ids or the timeline of a person, to skip an entry. */
const SEGMENT_COST = 50;
const PERSON_COST = 4;
const ENTRY_COST = 0.05;
/** Payloads may move to R2, or to another R2 object, while others are read. */
const ATTEMPTS = 3;

/** In the order of the file. `json`: a JSON text, which stays as it is. */
type Columns = Record<string, "value" | "time" | "json">;
type ExportRow = Record<string, string | number | boolean | null>;

/** The export continues after `place` on the next page. */
interface Step<Place> {
  rows: (ExportRow | null)[];
  place: Place;
  cost: number;
}

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
  // New columns come last: readers of CSV may count columns.
  occurred_at: "time",
  occurred_from: "value",
};

const PEOPLE_COLUMNS: Columns = {
  email: "value",
  ...eachTrait(() => "value" as const),
  score: "value",
  first_seen: "time",
  last_seen: "time",
  ids_dropped: "value",
  user_ids: "json",
  anonymous_ids: "json",
  next_lapse_at: "time",
  account: "value",
};

const SCORE_COLUMNS: Columns = {
  email: "value",
  signal_id: "value",
  rule_id: "value",
  rule_version: "value",
  scoring_signal: "value",
  points: "value",
  at: "time",
  occurred_at: "time",
  lapses_at: "time",
  lapsed: "value",
};

/** @throws when payloads in R2 cannot be read: an export never omits data silently. */
export async function exportPage(state: StoreState, objects: ColdObjects, range: ExportRange): Promise<ExportPage> {
  const place: unknown = range.cursor === null ? null : JSON.parse(range.cursor);
  switch (range.records) {
    case "signals":
      return exportSignals(state, objects, range, place as SignalPlace | null);
    case "people":
      return fillPage(peopleSteps(state, place as PeoplePlace | null), PEOPLE_COLUMNS, range);
    case "scoring_signals":
      return fillPage(scoreSteps(state, place as ScorePlace | null), SCORE_COLUMNS, range);
  }
}

function fillPage(
  steps: Iterable<Step<unknown>>,
  columns: Columns,
  { format, cursor }: Pick<ExportRange, "format" | "cursor">,
): ExportPage {
  let text = cursor === null && format === "csv" ? toCsv(Object.keys(columns)) : "";
  let [place, budget]: [unknown, number] = [null, EXPORT_PAGE_BUDGET];
  for (const step of steps) {
    if (budget <= 0 || text.length >= EXPORT_PAGE_MAX_CHARACTERS) return { text, next: JSON.stringify(place) };
    for (const row of step.rows) if (row !== null) text += lineOf(row, columns, format);
    budget -= step.cost;
    place = step.place;
  }
  return { text, next: null };
}

interface PeoplePlace {
  person: number;
  lastPerson: number;
}

function* peopleSteps({ sql, books }: StoreState, from: PeoplePlace | null): Generator<Step<PeoplePlace>> {
  const { person: after, lastPerson } = from ?? { person: 0, lastPerson: books.nextPersonId - 1 };
  const people = sql.exec<PersonSummaryRow>(
    `SELECT ${PERSON_COLUMNS} FROM people WHERE id > ? AND id <= ? ORDER BY id`,
    after,
    lastPerson,
  );
  for (const person of people) {
    const ids = latestIdentities(sql, person.id, Number.MAX_SAFE_INTEGER);
    const listOf = (kind: string): string =>
      JSON.stringify(ids.filter((id) => id.kind === kind).map(({ value }) => value));
    const { email, score, nextLapseAtMs, account, ...summary } = toPersonSummary(person);
    const row: ExportRow = {
      email,
      ...eachTrait((trait) => summary[trait]),
      score,
      first_seen: summary.firstSeenMs,
      last_seen: summary.lastSeenMs,
      ids_dropped: summary.idsDropped,
      user_ids: listOf("user_id"),
      anonymous_ids: listOf("anonymous_id"),
      next_lapse_at: nextLapseAtMs,
      account: account?.externalId ?? null,
    };
    yield { rows: [row], place: { person: person.id, lastPerson }, cost: PERSON_COST };
  }
}

interface ScorePlace {
  person: number;
  /** The last line of the person's timeline; null: the timeline is complete. */
  after: number | null;
  lastPerson: number;
  lastSeq: number;
}

/** Scoring signals person by person, in the order of recording. Retention may have dropped the signals. */
function* scoreSteps(state: StoreState, from: ScorePlace | null): Generator<Step<ScorePlace>> {
  const { sql, books, signals } = state;
  const begin = from ?? { person: 0, after: null, lastPerson: books.nextPersonId - 1, lastSeq: signals.nextSeq - 1 };
  const { lastPerson, lastSeq } = begin;
  const people = sql.exec<{ id: number; email: string; recent: string }>(
    "SELECT id, email, recent FROM people WHERE id >= ? AND id <= ? ORDER BY id",
    begin.after === null ? begin.person + 1 : begin.person,
    lastPerson,
  );
  for (const { id, email, recent } of people) {
    const after = id === begin.person ? (begin.after ?? 0) : 0;
    for (const stored of ascendingEntries(sql, personList(id), readEntries(recent), after)) {
      if (stored.seq > lastSeq) break;
      const entry = withCountedOutcomes(state, id, stored);
      const rows = (isScored(entry) ? toScoringSignals(state, id, entry) : []).map((scored) => ({
        email,
        signal_id: scored.signalId,
        rule_id: scored.ruleId,
        rule_version: scored.ruleVersion,
        scoring_signal: scored.scoringSignal,
        points: scored.points,
        at: scored.atMs,
        occurred_at: scored.occurredAtMs,
        lapses_at: scored.lapsesAtMs,
        lapsed: scored.lapsed,
      }));
      const place = { person: id, after: stored.seq, lastPerson, lastSeq };
      yield { rows, place, cost: rows.length + ENTRY_COST };
    }
    yield { rows: [], place: { person: id, after: null, lastPerson, lastSeq }, cost: PERSON_COST };
  }
}

interface SignalPlace {
  in: "dead" | "signals" | "held";
  after: number;
  lastDead: number;
  /** The next numbers of both logs, fixed when the dead letters are complete. */
  ends: { signals: number; held: number } | null;
}

async function exportSignals(
  state: StoreState,
  objects: ColdObjects,
  range: ExportRange,
  place: SignalPlace | null,
): Promise<ExportPage> {
  let cold: Payloads = new Map();
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const steps = new SignalSteps(state, cold);
    const page = fillPage(steps.from(place), SIGNAL_COLUMNS, range);
    if (steps.missing.length === 0) return page;
    // oxlint-disable-next-line no-await-in-loop -- the page is read again, because people may be deleted meanwhile
    cold = await readPayloads(state.signals, objects, steps.missing);
  }
  throw new Error("payloads in cold storage could not be read");
}

/** Dead letters come first, then the log, then held signals. So a signal that moves meanwhile is read later. Only a release moves a signal back, see `#rowOfReleased`. */
class SignalSteps {
  readonly #state: StoreState;
  readonly #cold: Payloads;
  readonly #names: Names;
  /** Lines whose payloads are in R2 and have not been read. */
  readonly missing: { segment: Segment; seqs: number[] }[] = [];

  constructor(state: StoreState, cold: Payloads) {
    this.#state = state;
    this.#cold = cold;
    this.#names = new Names(state.sql);
  }

  *from(begin: SignalPlace | null): Generator<Step<SignalPlace>> {
    const { sql, signals, held } = this.#state;
    const lastDead = begin?.lastDead ?? lastDeadLetter(sql);
    let place: SignalPlace = begin ?? { in: "dead", after: 0, lastDead, ends: null };
    if (place.in === "dead") {
      const rows = sql.exec<DeadLetterRow>(
        "SELECT * FROM dead_letters WHERE seq > ? AND seq <= ? ORDER BY seq",
        place.after,
        lastDead,
      );
      for (const row of rows) yield { rows: [this.#rowOfDead(row)], place: { ...place, after: row.seq }, cost: 1 };
      place = { in: "signals", after: 0, lastDead, ends: { signals: signals.nextSeq, held: held.nextSeq } };
    }
    const ends = place.ends ?? { signals: 0, held: 0 };
    if (place.in === "signals") {
      yield* this.#lines(signals, place, ends.signals, (segment, seq) => this.#rowOfLine(signals, segment, seq));
      place = { in: "held", after: 0, lastDead, ends };
    }
    yield* this.#lines(held, place, ends.held, (segment, seq) => {
      const { status, admission } = segment.facts(seq);
      if (status !== "released") return this.#rowOfLine(held, segment, seq);
      return this.#rowOfReleased(admission.id, ends.signals, lastDead);
    });
  }

  *#lines(
    log: Log,
    place: SignalPlace,
    end: number,
    rowOf: (segment: Segment, seq: number) => ExportRow | null,
  ): Generator<Step<SignalPlace>> {
    for (const segment of log.walk(place.after)) {
      if (segment.firstSeq >= end) return;
      const seqs = segment.seqs().filter((seq) => seq > place.after && seq < end);
      this.#names.load(seqs.map((seq) => segment.facts(seq)));
      for (const seq of seqs) yield { rows: [rowOf(segment, seq)], place: { ...place, after: seq }, cost: 1 };
      yield { rows: [], place: { ...place, after: Math.min(segment.lastSeq, end - 1) }, cost: SEGMENT_COST };
    }
  }

  /** A released signal is exported from its new place, unless that was exported before. */
  #rowOfReleased(id: string, endOfSignals: number, lastDead: number): ExportRow | null {
    const { signals, sql } = this.#state;
    const found = signals.find(id);
    const segment = found && signals.segmentOf(found.seq);
    if (found !== null && segment !== null) {
      return found.seq >= endOfSignals ? this.#rowOfLine(signals, segment, found.seq) : null;
    }
    const dead = findDeadLetter(sql, id);
    return dead !== null && dead.seq > lastDead ? this.#rowOfDead(dead) : null;
  }

  #rowOfLine(log: Log, segment: Segment, seq: number): ExportRow | null {
    const stored = segment.facts(seq);
    if (isDropped(stored)) return null;
    const facts = this.#names.visible(stored);
    const { admission } = facts;
    return {
      id: admission.id,
      status: facts.status,
      kind: facts.kind,
      event: facts.event,
      source: facts.source,
      email: this.#names.emailOf(facts),
      user_id: facts.userId,
      anonymous_id: facts.anonymousId,
      endpoint: admission.endpoint,
      key_id: admission.keyId,
      verdict: admission.verdict,
      ordinal: admission.ordinal,
      received_at: admission.receivedAtMs,
      occurred_at: facts.occurred.ms,
      occurred_from: facts.occurred.from,
      recorded_at: facts.recordedAtMs,
      duplicate_of: facts.duplicateOf,
      linked_at: facts.linkedAtMs,
      points: pointsOf(countedMatches(this.#state, facts)),
      dead_reason: null,
      deleted_at: facts.deletedAtMs,
      payload: this.#payloadOf(log, segment, seq, facts),
    };
  }

  #payloadOf(log: Log, segment: Segment, seq: number, facts: Facts): string | null {
    if (!keepsPayload(facts)) return null;
    const stored = log.payloadsOf(segment);
    if (stored !== null) return stored[seq - segment.firstSeq] ?? null;
    const payload = this.#cold.get(seq);
    if (payload !== undefined) return payload;
    const last = this.missing.at(-1);
    if (last?.segment === segment) last.seqs.push(seq);
    else this.missing.push({ segment, seqs: [seq] });
    return null;
  }

  #rowOfDead(row: DeadLetterRow): ExportRow {
    const { endpoint, keyId, verdict, ordinal } = admissionOf(row);
    const isHidden = this.#names.hides(row);
    const payload = isHidden ? null : row.payload;
    return {
      id: row.id,
      status: row.status,
      kind: "unknown",
      endpoint,
      key_id: keyId,
      verdict,
      ordinal,
      received_at: row.received_at,
      occurred_at: row.received_at,
      occurred_from: "received",
      recorded_at: row.recorded_at,
      points: 0,
      dead_reason: isHidden ? "" : row.reason,
      deleted_at: row.deleted_at,
      payload: payload === null || isJson(payload) ? payload : JSON.stringify(payload),
    };
  }
}

/** Only dead letters have payloads that are not JSON. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function lineOf(row: ExportRow, columns: Columns, format: ExportFormat): string {
  const cells = Object.entries(columns).map(([name, kind]) => ({
    name,
    kind,
    value: valueOf(row[name] ?? null, kind),
  }));
  if (format === "csv") return toCsv(cells.map(({ value }) => value));
  const members = cells.map(({ name, kind, value }) => {
    return `"${name}":${kind === "json" && value !== null ? value : JSON.stringify(value)}`;
  });
  return `{${members.join(",")}}\n`;
}

function valueOf(value: ExportRow[string], kind: Columns[string]): ExportRow[string] {
  if (value === null || kind === "value") return value;
  // Line breaks in a JSON text are white space: within strings they are escaped.
  return kind === "time" ? new Date(Number(value)).toISOString() : String(value).replaceAll(/[\r\n]+/g, " ");
}

/**
 * Prefixes formulas with `'`, as OWASP recommends. Quotes every line break (RFC 4180), because the library quotes only its own kind.
 * Also quotes the cell separators of other locales, after which a text could begin a formula.
 */
function toCsv(cells: ExportRow[string][]): string {
  const texts = cells.map((cell) => (typeof cell === "boolean" ? String(cell) : cell));
  return stringify([texts], { record_delimiter: "\r\n", quoted_match: /[\r\n;\t]/, escape_formulas: true });
}
