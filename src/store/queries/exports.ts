/**
 * Exports signals, people and scoring signals as files, a part at a time. The store writes the text, so that a long export costs the
 * Worker hardly any CPU time.
 */
import { stringify } from "csv-stringify/sync";
import { pointsOf } from "../../domain/rules/evaluate-rules.ts";
import { eachTrait } from "../../domain/signal/traits.ts";
import { keepsPayload } from "../log/line.ts";
import type { ShownSignalLog } from "../log/shown-log.ts";
import type { Payloads, Portion } from "../log/signal-log.ts";
import { countedMatches } from "../people/scoring.ts";
import { ascendingEntries, readEntries, personList } from "../people/timelines.ts";
import type { ExportFormat, ExportPart, ExportRange } from "../protocol/store-operations.ts";
import type { DeadLetterRow } from "../schema.ts";
import { admissionOf, lastDeadLetter, payloadOfLetter } from "../state/dead-letters.ts";
import type { ShownState } from "./shown.ts";
import {
  withCountedOutcomes,
  isScored,
  latestIdentities,
  PERSON_COLUMNS,
  toPersonSummary,
  toScoringSignals,
  type PersonSummaryRow,
} from "./person-page.ts";

/** A part may exceed the maximum by one row. It is low because two parts are in memory at the same time. */
export const EXPORT_PART_MAX_CHARACTERS = 2_000_000;
/** Budget of a part, in signals: about 20 ms, so that the store can answer other calls between two parts. */
export const EXPORT_PART_BUDGET = 1_000;
/** Costs in written signals: to read a portion of the log, to read the ids or the timeline of a person, to skip an entry. */
const PORTION_COST = 50;
const PERSON_COST = 4;
const ENTRY_COST = 0.05;
/** Payloads may move to R2, or to another R2 object, while others are read. */
const ATTEMPTS = 3;

/** In the order of the file. `json`: a JSON text, which stays as it is. */
type Columns = Record<string, "value" | "time" | "json">;
type ExportRow = Record<string, string | number | boolean | null>;

/** The export continues after `place` with the next part. */
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

/**
 * @param show gives the state as it is shown at the moment of the call.
 * @throws when payloads in R2 cannot be read: an export never omits data silently.
 */
export async function exportPart(show: () => ShownState, range: ExportRange): Promise<ExportPart> {
  const place: unknown = range.cursor === null ? null : JSON.parse(range.cursor);
  switch (range.records) {
    case "signals":
      return exportSignals(show, range, place as SignalPlace | null);
    case "people":
      return fillPart(peopleSteps(show(), place as PeoplePlace | null), PEOPLE_COLUMNS, range);
    case "scoring_signals":
      return fillPart(scoreSteps(show(), place as ScorePlace | null), SCORE_COLUMNS, range);
  }
}

function fillPart(
  steps: Iterable<Step<unknown>>,
  columns: Columns,
  { format, cursor }: Pick<ExportRange, "format" | "cursor">,
): ExportPart {
  let text = cursor === null && format === "csv" ? toCsv(Object.keys(columns)) : "";
  let [place, budget]: [unknown, number] = [null, EXPORT_PART_BUDGET];
  for (const step of steps) {
    if (budget <= 0 || text.length >= EXPORT_PART_MAX_CHARACTERS) return { text, next: JSON.stringify(place) };
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

function* peopleSteps(state: ShownState, from: PeoplePlace | null): Generator<Step<PeoplePlace>> {
  const { sql, head } = state;
  const { person: after, lastPerson } = from ?? { person: 0, lastPerson: head.nextPersonId - 1 };
  const people = sql.exec<PersonSummaryRow>(
    `SELECT ${PERSON_COLUMNS} FROM people WHERE id > ? AND id <= ? ORDER BY id`,
    after,
    lastPerson,
  );
  for (const person of people) {
    const ids = latestIdentities(sql, person.id, Number.MAX_SAFE_INTEGER);
    const listOf = (kind: string): string =>
      JSON.stringify(ids.filter((id) => id.kind === kind).map(({ value }) => value));
    const { email, score, nextLapseAtMs, account, ...summary } = toPersonSummary(state, person);
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
function* scoreSteps(state: ShownState, from: ScorePlace | null): Generator<Step<ScorePlace>> {
  const { sql, head, signals } = state;
  const begin = from ?? { person: 0, after: null, lastPerson: head.nextPersonId - 1, lastSeq: signals.nextSeq - 1 };
  const { lastPerson, lastSeq } = begin;
  const people = sql.exec<{ id: number; email: string; recent: string }>(
    "SELECT id, email, recent FROM people WHERE id >= ? AND id <= ? ORDER BY id",
    begin.after === null ? begin.person + 1 : begin.person,
    lastPerson,
  );
  for (const { id, email, recent } of people) {
    const after = id === begin.person ? (begin.after ?? 0) : 0;
    const counts = state.singleScores.countsOf(id);
    for (const stored of ascendingEntries(sql, personList(id), readEntries(recent), after)) {
      if (stored.seq > lastSeq) break;
      const entry = withCountedOutcomes(state, counts, stored);
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
  show: () => ShownState,
  range: ExportRange,
  place: SignalPlace | null,
): Promise<ExportPart> {
  let cold: Payloads = new Map();
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const state = show();
    const steps = new SignalSteps(state, cold);
    const part = fillPart(steps.from(place), SIGNAL_COLUMNS, range);
    if (steps.missing.length === 0) return part;
    // oxlint-disable-next-line no-await-in-loop -- the part is read again, because people may be deleted meanwhile
    cold = await state.signals.readPayloads(steps.missing);
  }
  throw new Error("payloads in cold storage could not be read");
}

/** `payloads`: null if they are in R2. */
interface StoredLines {
  portion: Portion;
  payloads: Payloads | null;
}

/**
 * Dead letters come first, then the log, then held signals. So a signal that moves meanwhile is read later. Only a release moves a signal
 * back, see `#rowOfReleased`. A dead letter may be read again if it is replayed while later ones are read: no row remembers it.
 */
class SignalSteps {
  readonly #state: ShownState;
  readonly #cold: Payloads;
  /** Lines whose payloads are in R2 and have not been read. */
  readonly missing: { portion: Portion; seqs: number[] }[] = [];

  constructor(state: ShownState, cold: Payloads) {
    this.#state = state;
    this.#cold = cold;
  }

  *from(begin: SignalPlace | null): Generator<Step<SignalPlace>> {
    const { sql, signals, held, deadLetters } = this.#state;
    const lastDead = begin?.lastDead ?? lastDeadLetter(sql);
    let place: SignalPlace = begin ?? { in: "dead", after: 0, lastDead, ends: null };
    if (place.in === "dead") {
      for (const row of deadLetters.between(place.after, lastDead)) {
        yield { rows: [this.#rowOfDead(row)], place: { ...place, after: row.seq }, cost: 1 };
      }
      place = { in: "signals", after: 0, lastDead, ends: { signals: signals.nextSeq, held: held.nextSeq } };
    }
    const ends = place.ends ?? { signals: 0, held: 0 };
    if (place.in === "signals") {
      yield* this.#lines(signals, place, ends.signals, (lines, seq) => this.#rowOfLine(lines, seq));
      place = { in: "held", after: 0, lastDead, ends };
    }
    yield* this.#lines(held, place, ends.held, (lines, seq) => {
      const { status, admission } = lines.portion.facts(seq);
      if (status !== "released") return this.#rowOfLine(lines, seq);
      return this.#rowOfReleased(admission.id, ends.signals, lastDead);
    });
  }

  *#lines(
    log: ShownSignalLog,
    place: SignalPlace,
    end: number,
    rowOf: (lines: StoredLines, seq: number) => ExportRow | null,
  ): Generator<Step<SignalPlace>> {
    for (const portion of log.walk({ after: place.after })) {
      if (portion.firstSeq >= end) return;
      const seqs = portion.seqs.filter((seq) => seq < end);
      this.#state.names.load(seqs.map((seq) => portion.facts(seq)));
      const lines = { portion, payloads: log.payloadsOf(portion) };
      for (const seq of seqs) yield { rows: [rowOf(lines, seq)], place: { ...place, after: seq }, cost: 1 };
      yield { rows: [], place: { ...place, after: Math.min(portion.lastSeq, end - 1) }, cost: PORTION_COST };
    }
  }

  /** A released signal is exported from its new place, unless that was exported before. */
  #rowOfReleased(id: string, endOfSignals: number, lastDead: number): ExportRow | null {
    const { signals, deadLetters } = this.#state;
    const found = signals.find(id);
    if (found !== null && found.seq < endOfSignals) return null;
    const [portion] = found === null ? [] : signals.read([found.seq]);
    if (found !== null && portion !== undefined) {
      return this.#rowOfLine({ portion, payloads: signals.payloadsOf(portion) }, found.seq);
    }
    const dead = deadLetters.find(id);
    return dead !== null && dead.seq > lastDead ? this.#rowOfDead(dead) : null;
  }

  #rowOfLine({ portion, payloads }: StoredLines, seq: number): ExportRow {
    const facts = portion.facts(seq);
    const { admission } = facts;
    return {
      id: admission.id,
      status: facts.status,
      kind: facts.kind,
      event: facts.event,
      source: facts.source,
      email: this.#state.names.emailOf(facts),
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
      payload: keepsPayload(facts) ? this.#payloadOf(portion, payloads ?? this.#cold, seq) : null,
    };
  }

  #payloadOf(portion: Portion, payloads: Payloads, seq: number): string | null {
    const payload = payloads.get(seq);
    if (payload !== undefined) return payload;
    const last = this.missing.at(-1);
    if (last?.portion === portion) last.seqs.push(seq);
    else this.missing.push({ portion, seqs: [seq] });
    return null;
  }

  #rowOfDead(row: DeadLetterRow): ExportRow {
    const { endpoint, keyId, verdict, ordinal } = admissionOf(row);
    const payload = payloadOfLetter(row);
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
      dead_reason: row.reason,
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
 * Prefixes formulas with `'`, as OWASP recommends. Quotes every line break (RFC 4180), because the library quotes only the one that it writes.
 * Also quotes the cell separators of other locales, after which a text could begin a formula.
 */
function toCsv(cells: ExportRow[string][]): string {
  const texts = cells.map((cell) => (typeof cell === "boolean" ? String(cell) : cell));
  return stringify([texts], { record_delimiter: "\r\n", quoted_match: /[\r\n;\t]/, escape_formulas: true });
}
