/**
 * The signal queue (spec §6.3) as its page shows it: without payloads, with the counts of days, and looked through by
 * event name and source. Senders choose the names, so there may be very many groups: a page looks at the next
 * QUEUE_SCAN_GROUPS of them, the latest first, and the next page begins where it stopped.
 */
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import { QUEUE_SCAN_GROUPS, QUEUE_SUGGEST_GROUPS } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { EventGroup } from "../protocol.ts";
import { byDay, readDayPlace, writeDayPlace } from "./by-day.ts";
import type { DayList, DayPlace, Values } from "./by-day.ts";
import { readCursor, writeCursor } from "./cursor.ts";

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

/** What is read of all groups that are looked at; the rest is read of those that are shown. */
export interface ScannedGroup {
  [column: string]: SqlStorageValue;
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  last_seen: number;
}

interface Row extends ScannedGroup {
  first_seen: number;
  sample_id: string;
  days: DayCounts;
}

export function queuePage(sql: SqlStorage, filter: QueueFilter, page: Page): QueuePage {
  const from = page.cursor === null ? null : readGroupCursor(page.cursor);
  if (from === null && page.cursor !== null) return { items: [], next: null, complete: true };
  const items: QueueGroup[] = [];
  let scanned = 0;
  let last: DayPlace | null = null;
  for (const { row, place } of latestGroups(sql, from)) {
    const full = items.length === page.limit;
    if (last !== null && (full || scanned === QUEUE_SCAN_GROUPS)) {
      return { items, next: writeCursor(writeDayPlace(last)), complete: full };
    }
    scanned++;
    last = place;
    const group = isAskedFor(row, filter) ? findGroup(sql, row.event, row.source) : null;
    if (group !== null) items.push(group);
  }
  return { items, next: null, complete: true };
}

/** Null: no such group. */
export function findGroup(sql: SqlStorage, event: string, source: string): QueueGroup | null {
  const [row] = sql.exec<Row>(
    `SELECT event, source, count, held, anonymous, first_seen, last_seen, sample_id, days FROM event_groups
     WHERE event = ? AND source = ?`,
    event,
    source,
  );
  return row === undefined ? null : toGroup(row);
}

/** Event names and sources of the latest groups, each once. */
export function recentNames(sql: SqlStorage): { events: string[]; sources: string[] } {
  const [events, sources] = [new Set<string>(), new Set<string>()];
  let groups = 0;
  for (const { row } of latestGroups(sql, null)) {
    if (groups++ === QUEUE_SUGGEST_GROUPS) break;
    events.add(row.event);
    sources.add(row.source);
  }
  const sorted = (names: Set<string>) => [...names].sort((one, other) => one.localeCompare(other));
  return { events: sorted(events), sources: sorted(sources) };
}

/** The latest seen first, then by event and source. */
export function latestGroups(
  sql: SqlStorage,
  from: DayPlace | null,
): Generator<{ row: ScannedGroup; place: DayPlace }> {
  const list: DayList<ScannedGroup> = {
    chunk: QUEUE_SCAN_GROUPS,
    direction: "down",
    nextDay: (upTo) =>
      sql.exec<{ day: number | null }>("SELECT max(last_day) AS day FROM event_groups WHERE last_day <= ?", upTo).one()
        .day,
    rows: (day, behind) => {
      const isBehind = behind === null ? "" : "AND (event, source) > (?3, ?4)";
      return sql
        .exec<ScannedGroup>(
          `SELECT event, source, count, held, anonymous, last_seen FROM event_groups
           WHERE last_day = ?1 ${isBehind} ORDER BY event, source LIMIT ?2`,
          day,
          QUEUE_SCAN_GROUPS,
          ...(behind ?? []),
        )
        .toArray();
    },
    keyOf: ({ event, source }) => [event, source],
    orderOf: ({ event, source, last_seen }) => [last_seen, event, source],
    compare: byLastSeen,
  };
  return byDay(list, from);
}

/** Null for one that this list did not give out. */
export function readGroupCursor(cursor: string): DayPlace | null {
  return readDayPlace(readCursor(cursor), ["string", "string"], ["number", "string", "string"]);
}

function byLastSeen([one = 0, ...names]: Values, [other = 0, ...otherNames]: Values): number {
  if (one !== other) return one > other ? -1 : 1;
  for (const [index, name] of names.entries()) {
    const otherName = otherNames[index] ?? "";
    if (name !== otherName) return name < otherName ? -1 : 1;
  }
  return 0;
}

function isAskedFor(row: ScannedGroup, { search, source, only }: QueueFilter): boolean {
  if (source !== undefined && row.source !== source) return false;
  if (only !== undefined && row[only] === 0) return false;
  return search === undefined || row.event.toLowerCase().includes(search.toLowerCase());
}

function toGroup({ event, source, count, held, anonymous, ...row }: Row): QueueGroup {
  const { first_seen: firstSeenMs, last_seen: lastSeenMs, sample_id: sampleId, days } = row;
  return { event, source, count, held, anonymous, firstSeenMs, lastSeenMs, sampleId, days };
}
