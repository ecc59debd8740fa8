/**
 * Signals, people and scoring signals as files, a page at a time. The text is made here, where the rows are: it crosses to
 * the Worker as it is, so that an export costs it next to no CPU time, however long it is.
 */
import type { ColdObjects } from "../log/cold.ts";
import type { ExportFormat, ExportPage, ExportRange } from "../protocol/store-operations.ts";
import type { StoreState } from "../state/store-state.ts";
import { exportPeople } from "./export-people.ts";
import { exportSignals } from "./export-signals.ts";
import { type Columns, EXPORT_PAGE_MAX_CHARACTERS, EXPORT_PAGE_ROWS, headerOf, lineOf } from "./export-text.ts";
import { counting, isScored, nextEntries, toScoringSignals } from "./scored-entries.ts";

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

interface Position {
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
  let position = cursor === null ? beginning(state) : (JSON.parse(cursor) as Position);
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

function beginning({ books, signals }: StoreState): Position {
  return { person: 0, after: null, lastPerson: books.nextPersonId - 1, lastSeq: signals.nextSeq - 1 };
}

/** The person with whom the export continues: the same one, or the next who is not being deleted. */
function personOf(sql: SqlStorage, { person, after, lastPerson }: Position): Person | null {
  const [row] = sql.exec<Person>(
    `SELECT id, email, recent FROM people WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1`,
    after === null ? person + 1 : person,
    lastPerson,
  );
  return row ?? null;
}
