/**
 * Signals by what is asked for, the latest first. One index leads; what it leads to is looked through, at most
 * LIST_SCAN_SIGNALS a page, so that a rare combination among very many signals takes more pages, and never a long one.
 */
import { LIST_SCAN_SIGNALS } from "../limits.ts";
import type { Page, PageOf, SignalFilter, SignalStatus, SignalSummary } from "./protocol.ts";

export interface FindFilter extends SignalFilter {
  source?: string;
}

export interface FoundSignals extends PageOf<SignalSummary> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
}

type Row = {
  seq: number;
  id: string;
  status: SignalStatus;
  kind: SignalSummary["kind"];
  event: string | null;
  source: string | null;
  person_id: number | null;
  email: string | null;
  received_at: number;
};

export function findSignals(sql: SqlStorage, filter: FindFilter, page: Page): FoundSignals {
  const before = page.cursor === null ? Number.MAX_SAFE_INTEGER : Number(page.cursor);
  if (!Number.isSafeInteger(before)) return { items: [], next: null, complete: true };
  const [where, ...bindings] = lead(filter);
  const rows = sql.exec<Row>(
    `SELECT seq, id, status, kind, event, source, person_id, email, received_at FROM signals
     WHERE ${where} AND seq < ? ORDER BY seq DESC LIMIT ?`,
    ...bindings,
    before,
    LIST_SCAN_SIGNALS + 1,
  );
  const found: Row[] = [];
  let scanned = 0;
  let last = before;
  for (const row of rows) {
    const full = found.length === page.limit;
    if (full || scanned === LIST_SCAN_SIGNALS) {
      return { items: withPeople(sql, found), next: String(last), complete: full };
    }
    scanned++;
    last = row.seq;
    if (isAskedFor(row, filter)) found.push(row);
  }
  return { items: withPeople(sql, found), next: null, complete: true };
}

/** The most telling of what is asked for; each of these has an index in the order of `seq`. */
function lead({ email, event, status }: FindFilter): [where: string, ...bindings: string[]] {
  if (email !== undefined) {
    return ["person_id = (SELECT id FROM people WHERE people.email = ?)", email.trim().toLowerCase()];
  }
  if (event !== undefined) return ["event = ?", event];
  // Said twice: only then is the index of all that is not processed used.
  if (status !== undefined && status !== "processed") return ["status = ? AND status <> 'processed'", status];
  return ["TRUE"];
}

function isAskedFor(row: Row, { event, source, status }: FindFilter): boolean {
  return (
    (event === undefined || row.event === event) &&
    (source === undefined || row.source === source) &&
    (status === undefined || row.status === status)
  );
}

function withPeople(sql: SqlStorage, rows: readonly Row[]): SignalSummary[] {
  const ids = [...new Set(rows.map((row) => row.person_id))];
  const people = sql.exec<{ id: number; email: string }>(
    "SELECT id, email FROM people WHERE id IN (SELECT value FROM json_each(?))",
    JSON.stringify(ids),
  );
  const emails = new Map([...people].map(({ id, email }) => [id, email] as const));
  return rows.map(({ seq: _, person_id, received_at, email, ...row }) => ({
    ...row,
    email: (person_id === null ? undefined : emails.get(person_id)) ?? email,
    receivedAtMs: received_at,
  }));
}
