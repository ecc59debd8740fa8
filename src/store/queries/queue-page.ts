/**
 * The signal queue (spec §6.3) as its page shows it: without payloads, with counts by day, filtered by event name and
 * source. Senders choose the names, so there may be very many groups. A page scans the next QUEUE_SCAN_GROUPS groups
 * by last seen, and the next page continues there. Other orders have no index: by count and by name, the latest
 * QUEUE_SORTED_GROUPS groups are sorted.
 */
import { parsed } from "../../domain/json/json-value.ts";
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import { QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import { readPayloads, type ColdObjects, type Payloads } from "../log/cold.ts";
import { keepsPayload } from "../log/line.ts";
import type { Log } from "../log/log.ts";
import type { EventGroup, QueueFilter, QueueGroup, QueuePage, RecentNames } from "../protocol/stored-signals.ts";
import type { StoreState } from "../state/store-state.ts";
import { ascending, byDay, isOf, readCursor, readDayPlace, writeCursor, writeDayPlace } from "./by-day.ts";
import type { DayList, DayPlace, Values } from "./by-day.ts";

/** Event groups, the latest, whose sources and event names the signal queue proposes. */
export const QUEUE_SUGGEST_GROUPS = 500;

/** Columns read of all scanned groups; the others are read for shown groups only. */
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
  const { sort = "last_seen" } = filter;
  if (sort === "count" || sort === "name") return sortedPage(sql, filter, sort, page);
  const none = { items: [], next: null, complete: true, isCut: false };
  const from = page.cursor === null ? null : readGroupCursor(page.cursor);
  if (from === null && page.cursor !== null) return none;
  const items: QueueGroup[] = [];
  let scanned = 0;
  let last: DayPlace | null = null;
  for (const { row, place } of groupsByDay(sql, from, { ...filter, sort })) {
    const full = items.length === page.limit;
    if (last !== null && (full || scanned === QUEUE_SCAN_GROUPS)) {
      return { items, next: writeCursor(writeDayPlace(last)), complete: full, isCut: false };
    }
    scanned++;
    last = place;
    const group = isAskedFor(row, filter) ? findGroup(sql, row.event, row.source) : null;
    if (group !== null) items.push(group);
  }
  return { ...none, items };
}

function sortedPage(sql: SqlStorage, filter: QueueFilter, sort: "count" | "name", { cursor, limit }: Page): QueuePage {
  const keyOf = ({ event, source, count }: ScannedGroup): Values =>
    sort === "count" ? [-count, event, source] : [event.toLowerCase(), event, source];
  const behind = readCursor(cursor);
  const none = { items: [], next: null, complete: true, isCut: false };
  const types = [sort === "count" ? "number" : "string", "string", "string"] as const;
  if (cursor !== null && !isOf(behind, types)) return none;
  const fitting: { row: ScannedGroup; key: Values }[] = [];
  let looked = 0;
  for (const { row } of groupsByDay(sql, null, { ...filter, sort: "last_seen" })) {
    if (looked++ === QUEUE_SORTED_GROUPS) break;
    const key = keyOf(row);
    if (isAskedFor(row, filter) && (!isOf(behind, types) || ascending(key, behind) > 0)) fitting.push({ row, key });
  }
  fitting.sort((one, other) => ascending(one.key, other.key));
  const shown = fitting.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.flatMap(({ row }) => findGroup(sql, row.event, row.source) ?? []),
    next: last === undefined || fitting.length === shown.length ? null : writeCursor(last.key),
    complete: true,
    isCut: looked > QUEUE_SORTED_GROUPS,
  };
}

/** One group; null: unknown event and source. */
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
export function recentNames(sql: SqlStorage): RecentNames {
  const groups = recentGroups(sql);
  const sorted = (names: string[]) => [...new Set(names)].sort((one, other) => one.localeCompare(other));
  return { events: sorted(groups.map(({ event }) => event)), sources: sorted(groups.map(({ source }) => source)) };
}

/** The groups seen last, QUEUE_SUGGEST_GROUPS at most. */
export function recentGroups(sql: SqlStorage): ScannedGroup[] {
  const groups: ScannedGroup[] = [];
  for (const { row } of groupsByDay(sql, null)) {
    if (groups.push(row) === QUEUE_SUGGEST_GROUPS) break;
  }
  return groups;
}

/** Groups that were last seen within these days, the latest first where nothing else is asked for; then by event and source. */
export function groupsByDay(
  sql: SqlStorage,
  from: DayPlace | null,
  { sort, sinceDay = 0, untilDay = Number.MAX_SAFE_INTEGER }: Pick<QueueFilter, "sort" | "sinceDay" | "untilDay"> = {},
): Generator<{ row: ScannedGroup; place: DayPlace }> {
  const isUp = sort === "last_seen_up";
  const nextDay = (query: string, first: number, last: number) =>
    sql.exec<{ day: number | null }>(query, first, last).one().day;
  const list: DayList<ScannedGroup> = {
    chunk: QUEUE_SCAN_GROUPS,
    direction: isUp ? "up" : "down",
    nextDay: (day) =>
      isUp ? nextDay(EARLIEST, Math.max(day, sinceDay), untilDay) : nextDay(LATEST, Math.min(day, untilDay), sinceDay),
    rows: (day, behind) =>
      (behind === null
        ? sql.exec<ScannedGroup>(FIRST_OF_DAY, day, QUEUE_SCAN_GROUPS)
        : sql.exec<ScannedGroup>(NEXT_OF_DAY, day, ...behind, QUEUE_SCAN_GROUPS)
      ).toArray(),
    keyOf: ({ event, source }) => [event, source],
    orderOf: ({ event, source, last_seen }) => [isUp ? last_seen : -last_seen, event, source],
    compare: ascending,
  };
  return byDay(list, from);
}

const OF_DAY = `SELECT event, source, count, held, anonymous, last_seen FROM event_groups WHERE last_day = ?`;
const FIRST_OF_DAY = `${OF_DAY} ORDER BY event, source LIMIT ?`;
const NEXT_OF_DAY = `${OF_DAY} AND (event, source) > (?, ?) ORDER BY event, source LIMIT ?`;
const LATEST = "SELECT max(last_day) AS day FROM event_groups WHERE last_day <= ? AND last_day >= ?";
const EARLIEST = "SELECT min(last_day) AS day FROM event_groups WHERE last_day >= ? AND last_day <= ?";

/** The place that a cursor tells; null for a cursor that this list did not give out. */
export function readGroupCursor(cursor: string): DayPlace | null {
  return readDayPlace(readCursor(cursor), ["string", "string"], ["number", "string", "string"]);
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

interface Row {
  [column: string]: SqlStorageValue;
  first_seen: number;
  sample_id: string;
  /** Line of the sample; a negative number belongs to the log of held signals. */
  sample_seq: number;
}

/** Groups, the most recently seen first. A cursor that was not given out here finds nothing. */
export async function listEventGroups(
  state: StoreState,
  objects: ColdObjects,
  { cursor, limit }: Page,
): Promise<PageOf<EventGroup>> {
  const from = cursor === null ? null : readGroupCursor(cursor);
  if (from === null && cursor !== null) return { items: [], next: null };
  const groups: { row: ScannedGroup & Row; next: string }[] = [];
  let isMore = false;
  for (const { row, place } of groupsByDay(state.sql, from)) {
    isMore = groups.length === limit;
    if (isMore) break;
    groups.push({ row: { ...row, ...readGroup(state.sql, row) }, next: writeCursor(writeDayPlace(place)) });
  }
  const payloads = await readSamples(
    state,
    objects,
    groups.map(({ row }) => row.sample_seq),
  );
  return {
    items: groups.map(({ row }, index) => toSampledGroup(row, parsed(payloads[index] ?? null))),
    next: isMore ? (groups.at(-1)?.next ?? null) : null,
  };
}

/** The groups' samples in their order; null where there is no payload, or none that can be had now. */
export function samplesOfGroups(
  state: StoreState,
  objects: ColdObjects,
  groups: readonly GroupName[],
): Promise<(string | null)[]> {
  return readSamples(
    state,
    objects,
    groups.map((group) => readGroup(state.sql, group).sample_seq),
  );
}

async function readSamples(
  state: StoreState,
  objects: ColdObjects,
  seqs: readonly number[],
): Promise<(string | null)[]> {
  const signals = await samplesOf(state.signals, objects, seqs);
  const held = await samplesOf(
    state.held,
    objects,
    seqs.map((seq) => -seq),
  );
  return seqs.map((seq) => signals.get(seq) ?? held.get(-seq) ?? null);
}

type GroupName = Pick<ScannedGroup, "event" | "source">;

function readGroup(sql: SqlStorage, { event, source }: GroupName): Row {
  return sql
    .exec<Row>(
      "SELECT first_seen, sample_id, sample_seq FROM event_groups WHERE event = ? AND source = ?",
      event,
      source,
    )
    .one();
}

/** Payloads of the samples that are lines of this log. */
function samplesOf(log: Log, objects: ColdObjects, seqs: readonly number[]): Promise<Payloads> {
  const lines = log.segmentsOf(seqs.filter((seq) => seq > 0));
  const wanted = [...lines].map(({ segment, seqs: here }) => {
    return { segment, seqs: here.filter((seq) => keepsPayload(segment.facts(seq))) };
  });
  return readPayloads(log, objects, wanted);
}

function toSampledGroup(row: ScannedGroup & Row, payload: unknown): EventGroup {
  const { event, source, count, held, anonymous, first_seen: firstSeenMs, last_seen: lastSeenMs } = row;
  return { event, source, count, held, anonymous, firstSeenMs, lastSeenMs, sample: { id: row.sample_id, payload } };
}
