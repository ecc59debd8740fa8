/**
 * Signals by what is asked for, the latest first. One index leads; what it leads to is looked through, at most
 * LIST_SCAN_SIGNALS a page, so that a rare combination among very many signals takes more pages, and none takes long.
 */
import { LIST_SCAN_SIGNALS } from "../limits.ts";
import { rowsByBlock, SIGNALS_BY_EVENT } from "./blocks.ts";
import { rowsOf, SIGNALS } from "./timelines.ts";
import type { Page, PageOf, SignalFilter, SignalStatus, SignalSummary } from "./protocol.ts";

export interface FindFilter extends SignalFilter {
  source?: string;
}

export interface FoundSignals extends PageOf<SignalSummary> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
}

type Scanned = { seq: number; status: SignalStatus; event: string | null; source: string | null };

type Row = Omit<SignalSummary, "email" | "receivedAtMs"> & {
  seq: number;
  email: string | null;
  person_email: string | null;
  received_at: number;
};

export function findSignals(sql: SqlStorage, filter: FindFilter, page: Page): FoundSignals {
  const before = page.cursor === null ? Number.MAX_SAFE_INTEGER : Number(page.cursor);
  if (!Number.isSafeInteger(before)) return { items: [], next: null, complete: true };
  const found: number[] = [];
  let scanned = 0;
  let last = before;
  const isEach = filter.event === undefined && filter.source === undefined && filter.status === undefined;
  for (const row of candidates(sql, filter, before, isEach ? page.limit + 1 : LIST_SCAN_SIGNALS + 1)) {
    const full = found.length === page.limit;
    if (full || scanned === LIST_SCAN_SIGNALS) {
      return { items: summaries(sql, found), next: String(last), complete: full };
    }
    scanned++;
    last = row.seq;
    if (isAskedFor(row, filter)) found.push(row.seq);
  }
  return { items: summaries(sql, found), next: null, complete: true };
}

/** By the most telling of what is asked for: each of these is found without looking at others. */
function candidates(sql: SqlStorage, filter: FindFilter, before: number, limit: number): Iterable<Scanned> {
  const { email, event } = filter;
  const columns = ["seq", "status", "event", "source"];
  if (email === undefined && event !== undefined) {
    return rowsByBlock<Scanned>(sql, SIGNALS_BY_EVENT, { value: event, from: before, to: "earlier" }, columns);
  }
  const [where, ...asked] = lead(filter);
  return sql.exec<Scanned>(
    `SELECT ${columns.join(", ")} FROM signals WHERE ${where} AND seq < ?1 ORDER BY seq DESC LIMIT ?2`,
    before,
    limit,
    ...asked,
  );
}

/** For an index in the order of `seq`, or a timeline. ?1: what they come before. ?2: how many. */
function lead({ email, status }: FindFilter): [where: string, ...asked: string[]] {
  if (email !== undefined) {
    return [
      `seq IN (${rowsOf(SIGNALS, "(SELECT id FROM people WHERE people.email = ?3)", "?2", "?1")})`,
      email.trim().toLowerCase(),
    ];
  }
  // Said twice: only then is the index of all that is not processed used.
  if (status !== undefined && status !== "processed") return ["status = ?3 AND status <> 'processed'", status];
  return ["TRUE"];
}

function isAskedFor(row: Scanned, { event, source, status }: FindFilter): boolean {
  return (
    (event === undefined || row.event === event) &&
    (source === undefined || row.source === source) &&
    (status === undefined || row.status === status)
  );
}

/** The rest is read only of those that are shown. */
function summaries(sql: SqlStorage, seqs: readonly number[]): SignalSummary[] {
  const rows = sql
    .exec<Row>(
      `SELECT seq, signals.id, status, kind, event, source, signals.email, received_at, people.email AS person_email
       FROM signals LEFT JOIN people ON people.id = person_id WHERE seq IN (SELECT value FROM json_each(?))`,
      JSON.stringify(seqs),
    )
    .toArray();
  return rows
    .sort((one, other) => other.seq - one.seq)
    .map(({ id, status, kind, event, source, email, person_email, received_at }) => {
      return { id, status, kind, event, source, email: person_email ?? email, receivedAtMs: received_at };
    });
}
