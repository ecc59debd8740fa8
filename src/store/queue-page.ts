/**
 * The signal queue (spec §6.3) as its page shows it: without payloads, with the counts of days, and looked through by
 * event name and source. Senders choose the names, so there may be very many groups: a page looks at the next
 * QUEUE_SCAN_GROUPS of them, the latest first, and the next page begins where it stopped.
 */
import type { DayCounts } from "../domain/day-counts.ts";
import { QUEUE_SCAN_GROUPS, QUEUE_SUGGEST_GROUPS } from "../limits.ts";
import { parsed } from "./queries/list-page.ts";
import type { EventGroup, Page, PageOf } from "./protocol.ts";

export interface QueueFilter {
  /** Part of the event name, in any letter case. */
  search?: string;
  source?: string;
  /** Only groups with such signals. */
  only?: "held" | "anonymous";
}

export interface QueueGroup extends Omit<EventGroup, "sample"> {
  /** The latest signal of the group that was no duplicate. */
  sampleId: string;
  days: DayCounts;
}

export interface QueuePage extends PageOf<QueueGroup> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
}

type Scanned = {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  last_seen: number;
};

type Row = Scanned & {
  first_seen: number;
  sample_id: string;
  days: DayCounts | null;
};

const COLUMNS = "event, source, count, held, anonymous, first_seen, last_seen, sample_id, days";

/** From the latest; `last_seen <= ?1` is what the index is entered with. The rest is read of those that are shown. */
const SCAN = `SELECT event, source, count, held, anonymous, last_seen FROM event_groups
  WHERE count > 0 AND last_seen <= ?1 AND NOT (last_seen = ?1 AND (event, source) <= (?2, ?3))
  ORDER BY last_seen DESC, event, source LIMIT ?4`;

export function queuePage(sql: SqlStorage, filter: QueueFilter, page: Page): QueuePage {
  const from = page.cursor === null ? [Number.MAX_SAFE_INTEGER, "", ""] : readCursor(page.cursor);
  if (from === null) return { items: [], next: null, complete: true };
  const items: QueueGroup[] = [];
  let scanned = 0;
  let last: Scanned | null = null;
  for (const row of sql.exec<Scanned>(SCAN, ...from, QUEUE_SCAN_GROUPS + 1)) {
    const full = items.length === page.limit;
    if (last !== null && (full || scanned === QUEUE_SCAN_GROUPS)) {
      return { items, next: JSON.stringify([last.last_seen, last.event, last.source]), complete: full };
    }
    scanned++;
    last = row;
    const group = isAskedFor(row, filter) ? findGroup(sql, row.event, row.source) : null;
    if (group !== null) items.push(group);
  }
  return { items, next: null, complete: true };
}

/** Null: no such group. */
export function findGroup(sql: SqlStorage, event: string, source: string): QueueGroup | null {
  const [row] = sql.exec<Row>(`SELECT ${COLUMNS} FROM event_groups WHERE event = ? AND source = ?`, event, source);
  return row === undefined ? null : toGroup(row);
}

/** Event names and sources of the latest groups, each once. */
export function recentNames(sql: SqlStorage): { events: string[]; sources: string[] } {
  const rows = sql
    .exec<{ event: string; source: string }>(
      "SELECT event, source FROM event_groups WHERE count > 0 ORDER BY last_seen DESC LIMIT ?",
      QUEUE_SUGGEST_GROUPS,
    )
    .toArray();
  const sorted = (names: string[]) => [...new Set(names)].sort((one, other) => one.localeCompare(other));
  return { events: sorted(rows.map(({ event }) => event)), sources: sorted(rows.map(({ source }) => source)) };
}

function isAskedFor(row: Scanned, { search, source, only }: QueueFilter): boolean {
  if (source !== undefined && row.source !== source) return false;
  if (only !== undefined && row[only] === 0) return false;
  return search === undefined || row.event.toLowerCase().includes(search.toLowerCase());
}

function toGroup({ first_seen, last_seen, sample_id, days, ...group }: Row): QueueGroup {
  return { ...group, sampleId: sample_id, firstSeenMs: first_seen, lastSeenMs: last_seen, days: days ?? "" };
}

/** Null for one that this list did not give out. */
function readCursor(cursor: string): [number, string, string] | null {
  const fields = parsed(cursor);
  if (!Array.isArray(fields) || fields.length !== 3) return null;
  const [at, event, source] = fields as unknown[];
  return typeof at === "number" && typeof event === "string" && typeof source === "string" ? [at, event, source] : null;
}
