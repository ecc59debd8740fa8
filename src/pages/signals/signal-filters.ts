/** What the address of a list of signals asks for. What it does not know, it ignores: a list is no form. */
import { dayOf } from "../../domain/quota/day-counts.ts";
import { SIGNAL_STATUSES, type SignalStatus } from "../../domain/signal/signal.ts";
import type { FindFilter, QueueFilter, QueueSort } from "../../store/protocol/stored-signals.ts";
import { readDayRange } from "../day-range.ts";
import { STATUS_COPY } from "../copy.ts";

/** Options of the status filter; the first one stands for all statuses. */
export const STATUS_OPTIONS = [
  ["", "Any status"],
  ...SIGNAL_STATUSES.map((status) => [status, STATUS_COPY[status].label] as const),
] as const;

export const QUEUE_SORTS = {
  last_seen: "Last seen",
  last_seen_up: "Longest unseen",
  count: "Most signals",
  name: "Event name",
} as const satisfies Record<QueueSort, string>;

export function queueFilter(query: Record<string, string>): QueueFilter {
  const { q, source, only, sort = "" } = query;
  const { sinceMs, untilMs } = readDayRange(query);
  const filter: QueueFilter = {};
  const [search, from] = [nonEmpty(q), nonEmpty(source)];
  if (search !== undefined) filter.search = search;
  if (from !== undefined) filter.source = from;
  if (only === "held" || only === "anonymous") filter.only = only;
  if (isQueueSort(sort)) filter.sort = sort;
  if (sinceMs !== null) filter.sinceDay = dayOf(sinceMs);
  if (untilMs !== null) filter.untilDay = dayOf(untilMs) - 1;
  return filter;
}

function isQueueSort(sort: string): sort is QueueSort {
  return Object.hasOwn(QUEUE_SORTS, sort);
}

/** @param keyId of the key whose signals are asked for; empty: of any. */
export function signalFilter(query: Record<string, string>, keyId: string): FindFilter {
  const { event, source, email, status } = query;
  const { sinceMs, untilMs } = readDayRange(query);
  const filter: FindFilter = {};
  const [named, from, owner, only] = [nonEmpty(event), nonEmpty(source), nonEmpty(email), statusAsked(status)];
  if (named !== undefined) filter.event = named;
  if (from !== undefined) filter.source = from;
  if (owner !== undefined) filter.email = owner;
  if (only !== undefined) filter.status = only;
  if (keyId !== "") filter.keyId = keyId;
  if (sinceMs !== null) filter.sinceMs = sinceMs;
  if (untilMs !== null) filter.untilMs = untilMs;
  return filter;
}

export function statusAsked(text: string | undefined): SignalStatus | undefined {
  return SIGNAL_STATUSES.find((status) => status === text);
}

function nonEmpty(text: string | undefined): string | undefined {
  const trimmed = text?.trim() ?? "";
  return trimmed === "" ? undefined : trimmed;
}
