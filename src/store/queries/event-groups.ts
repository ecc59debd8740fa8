/**
 * Event groups: the signal queue (spec §6.3), and what the rule editor suggests from it. Senders choose the names, so there may be very
 * many groups. A slice scans the next QUEUE_SCAN_GROUPS groups by last seen. The orders by count and by name have no index: they sort the
 * latest QUEUE_SORTED_GROUPS groups.
 */
import { isJsonObject, parsed } from "../../domain/json/json-value.ts";
import { compileRules, isAboutEvent, propertyPaths } from "../../domain/rules/mapping-rule.ts";
import { comparable, propertiesRead } from "../../domain/signal/normalise.ts";
import { QUEUE_SCAN_GROUPS, QUEUE_SORTED_GROUPS } from "../../limits.ts";
import type { ListQuery, ListPage } from "../../platform/list-page.ts";
import { keepsPayload } from "../log/line.ts";
import type { ShownSignalLog } from "../log/shown-log.ts";
import type { RuleSuggestions } from "../protocol/store-operations.ts";
import type { EventGroup, QueueFilter, QueueGroup, QueuePage, RecentNames } from "../protocol/stored-signals.ts";
import type { GroupName } from "../state/status-change.ts";
import {
  ascending,
  byDay,
  nextDayOf,
  hasTypes,
  readCursor,
  readDayPlace,
  writeCursor,
  type DayPlace,
  type Values,
} from "./by-day.ts";
import type { ShownState } from "./shown.ts";

/** The latest groups whose names are suggested. */
const QUEUE_SUGGEST_GROUPS = 500;
const RULE_SUGGEST_EVENTS = 100;
const RULE_SUGGEST_PATHS = 100;
/** Samples in which the rule editor looks for paths. */
const RULE_SUGGEST_SAMPLES = 5;

interface ScannedGroup {
  [column: string]: SqlStorageValue;
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  last_seen: number;
}

const SCANNED = "SELECT event, source, count, held, anonymous, last_seen FROM event_groups WHERE last_day = ?";
const NO_GROUPS: QueuePage = { items: [], next: null, complete: true, isCut: false };

/** An invalid cursor finds nothing. */
export function queuePage(sql: SqlStorage, filter: QueueFilter, { cursor, limit }: ListQuery): QueuePage {
  const { sort = "last_seen" } = filter;
  if (sort === "count" || sort === "name") return sortedGroups(sql, filter, sort, { cursor, limit });
  const from = readDayPlace(readCursor(cursor), ["string", "string"], ["number", "string", "string"]);
  if (from === null && cursor !== null) return NO_GROUPS;
  const items: QueueGroup[] = [];
  let [scanned, last]: [number, DayPlace | null] = [0, null];
  for (const { row, place } of byLastSeen(sql, from, filter)) {
    const isFull = items.length === limit;
    if (last !== null && (isFull || scanned === QUEUE_SCAN_GROUPS)) {
      return { items, next: writeCursor(last), complete: isFull, isCut: false };
    }
    scanned++;
    last = place;
    const group = matches(row, filter) ? findGroup(sql, row.event, row.source) : null;
    if (group !== null) items.push(group);
  }
  return { ...NO_GROUPS, items };
}

function sortedGroups(
  sql: SqlStorage,
  filter: QueueFilter,
  sort: "count" | "name",
  { cursor, limit }: ListQuery,
): QueuePage {
  const keyOf = ({ event, source, count }: ScannedGroup): Values =>
    sort === "count" ? [-count, event, source] : [event.toLowerCase(), event, source];
  const place = readCursor(cursor);
  const after = hasTypes(place, [sort === "count" ? "number" : "string", "string", "string"]) ? place : null;
  if (cursor !== null && after === null) return NO_GROUPS;
  const matching: { row: ScannedGroup; key: Values }[] = [];
  let looked = 0;
  for (const { row } of byLastSeen(sql, null, { ...filter, sort: "last_seen" })) {
    if (looked++ === QUEUE_SORTED_GROUPS) break;
    const key = keyOf(row);
    if (matches(row, filter) && (after === null || ascending(key, after) > 0)) matching.push({ row, key });
  }
  const shown = matching.sort((a, b) => ascending(a.key, b.key)).slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.flatMap(({ row }) => findGroup(sql, row.event, row.source) ?? []),
    next: last === undefined || matching.length === shown.length ? null : writeCursor(last.key),
    complete: true,
    isCut: looked > QUEUE_SORTED_GROUPS,
  };
}

function matches(row: ScannedGroup, { search, source, only }: QueueFilter): boolean {
  if (source !== undefined && row.source.toLowerCase() !== comparable(source).toLowerCase()) return false;
  if (only !== undefined && row[only] === 0) return false;
  return search === undefined || row.event.toLowerCase().includes(comparable(search).toLowerCase());
}

export function findGroup(sql: SqlStorage, event: string, source: string): QueueGroup | null {
  const rows = sql.exec(
    `SELECT event, source, count, held, anonymous, first_seen AS firstSeenMs, last_seen AS lastSeenMs, sample_id AS sampleId, days
     FROM event_groups WHERE event = ? AND source = ?`,
    event,
    source,
  );
  return (rows.toArray()[0] as QueueGroup | undefined) ?? null;
}

/** Groups by last seen, then by event and source; the latest first by default. */
function byLastSeen(
  sql: SqlStorage,
  from: DayPlace | null,
  filter: Pick<QueueFilter, "sort" | "sinceDay" | "untilDay"> = {},
): Generator<{ row: ScannedGroup; place: DayPlace }> {
  const direction = filter.sort === "last_seen_up" ? "up" : "down";
  const list = {
    chunk: QUEUE_SCAN_GROUPS,
    direction,
    nextDay: nextDayOf(sql, "event_groups", direction, filter),
    rows: (day: number, after: Values | null) =>
      sql
        .exec<ScannedGroup>(
          `${SCANNED} ${after === null ? "" : "AND (event, source) > (?, ?)"} ORDER BY event, source LIMIT ?`,
          day,
          ...(after ?? []),
          QUEUE_SCAN_GROUPS,
        )
        .toArray(),
    keyOf: ({ event, source }: ScannedGroup) => [event, source],
    orderOf: ({ event, source, last_seen: ms }: ScannedGroup) => [direction === "up" ? ms : -ms, event, source],
    compare: ascending,
  } as const;
  return byDay(list, from);
}

/** Groups with their samples, the most recently seen first. An invalid cursor finds nothing. */
export async function listEventGroups(state: ShownState, listQuery: ListQuery): Promise<ListPage<EventGroup>> {
  const { items: groups, next } = queuePage(state.sql, {}, listQuery);
  const samples = await readSamples(state, groups);
  const items = groups.map(({ sampleId: id, days: _days, ...group }, index) => ({
    ...group,
    sample: { id, payload: samples[index]?.payload ?? null },
  }));
  return { items, next };
}

interface Sample {
  payload: string | null;
  /** As in the facts of its line. */
  mapped: boolean;
}

/** Null: the group has no payload, or cold storage does not answer. */
async function readSamples(state: ShownState, groups: readonly GroupName[]): Promise<(Sample | null)[]> {
  // Positive numbers are lines of the log, negative numbers lines of the held log.
  const seqs = groups.map(({ event, source }) => {
    const query = "SELECT sample_seq FROM event_groups WHERE event = ? AND source = ?";
    return state.sql.exec<{ sample_seq: number }>(query, event, source).toArray()[0]?.sample_seq ?? 0;
  });
  const signals = await readLines(state.signals, seqs);
  const held = await readLines(
    state.held,
    seqs.map((seq) => -seq),
  );
  return seqs.map((seq) => signals.get(seq) ?? held.get(-seq) ?? null);
}

async function readLines(log: ShownSignalLog, seqs: readonly number[]): Promise<ReadonlyMap<number, Sample>> {
  const lines = [...log.read(seqs.filter((seq) => seq > 0))].map((portion) => ({
    portion,
    seqs: portion.seqs.filter((seq) => keepsPayload(portion.facts(seq))),
  }));
  const mapped = new Map(
    lines.flatMap(({ portion, seqs: kept }) => kept.map((seq) => [seq, portion.facts(seq).mapped])),
  );
  const payloads = await log.readPayloads(lines);
  return new Map([...payloads].map(([seq, payload]) => [seq, { payload, mapped: mapped.get(seq) === true }]));
}

export function recentNames(sql: SqlStorage): RecentNames {
  const groups = recentGroups(sql);
  const sorted = (names: string[]): string[] => [...new Set(names)].sort((a, b) => a.localeCompare(b));
  return { events: sorted(groups.map(({ event }) => event)), sources: sorted(groups.map(({ source }) => source)) };
}

function recentGroups(sql: SqlStorage): ScannedGroup[] {
  const groups: ScannedGroup[] = [];
  for (const { row } of byLastSeen(sql, null)) if (groups.push(row) === QUEUE_SUGGEST_GROUPS) break;
  return groups;
}

/** Suggests frequent events to the rule editor, and paths in samples of a pattern's events. @param pattern blank: any event. */
export async function suggestForRule(state: ShownState, pattern: string): Promise<RuleSuggestions> {
  const recent = recentGroups(state.sql);
  const counts = new Map<string, number>();
  for (const { event, count } of recent) counts.set(event, (counts.get(event) ?? 0) + count);
  const events = [...counts].toSorted(([a, countA], [b, countB]) => countB - countA || (a < b ? -1 : 1));
  const groups = groupsOfPattern(state.sql, recent, pattern.trim())
    .toSorted((a, b) => b.count - a.count)
    .slice(0, RULE_SUGGEST_SAMPLES);
  const read = await readSamples(state, groups);
  const samples = read.flatMap((sample) => {
    const payload = parsed(sample?.payload ?? null);
    return isJsonObject(payload) ? [propertiesRead(payload, sample?.mapped === true)] : [];
  });
  return {
    events: events.slice(0, RULE_SUGGEST_EVENTS).map(([event]) => event),
    paths: propertyPaths(samples, RULE_SUGGEST_PATHS),
  };
}

/** A pattern without a wildcard also finds groups that are not recent. */
function groupsOfPattern(sql: SqlStorage, recent: ScannedGroup[], pattern: string): ScannedGroup[] {
  if (pattern === "") return recent;
  if (!pattern.includes("*")) {
    const query = "SELECT * FROM event_groups WHERE event = ? LIMIT ?";
    return sql.exec<ScannedGroup>(query, pattern, QUEUE_SUGGEST_GROUPS).toArray();
  }
  const rule = { id: "", version: 0, event: pattern, match: "all" as const, scoringSignal: "", points: 0 };
  const compiled = compileRules([{ ...rule, conditions: [] }]);
  return recent.filter(({ event }) => isAboutEvent(compiled, event));
}
