/** The signal queue: groups of signals by event name and source. Times are milliseconds since 1970. */
import type { DayCounts } from "../../domain/quota/day-counts.ts";
import type { PageOf } from "../../platform/list-page.ts";

export interface EventGroup {
  event: string;
  source: string;
  count: number;
  held: number;
  anonymous: number;
  firstSeenMs: number;
  lastSeenMs: number;
  /** The latest signal of the group: its id, and its payload, null while cold storage does not answer. */
  sample: { id: string; payload: unknown };
}

export interface QueueFilter {
  /** Part of the event name, in any letter case. */
  search?: string;
  source?: string;
  /** Only groups that have held signals, or anonymous ones. */
  only?: "held" | "anonymous";
  /** The first and the last day on which groups may have been seen last, in days since 1970; both included. */
  sinceDay?: number;
  untilDay?: number;
  /** The order of the groups; without it the last seen comes first. */
  sort?: QueueSort;
}

/** `last_seen_up`: those that have not come for the longest first. */
export type QueueSort = "last_seen" | "last_seen_up" | "count" | "name";

export interface QueueGroup extends Omit<EventGroup, "sample"> {
  /** The latest signal of the group that was no duplicate. */
  sampleId: string;
  days: DayCounts;
}

export interface QueuePage extends PageOf<QueueGroup> {
  /** False: the page stopped before it was full, and goes on from `next`. */
  complete: boolean;
  /** True: of the groups only the latest QUEUE_SORTED_GROUPS are sorted, and there are more. */
  isCut: boolean;
}

export interface RecentNames {
  events: string[];
  sources: string[];
}
