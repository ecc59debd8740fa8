/** The signal queue (spec §6.3), as the store answers it. */
import { and, desc, eq, lt, lte, or, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { parsed, toPage } from "./page.ts";
import type { EventGroup, Page, PageOf } from "./protocol.ts";
import { eventGroups, signals } from "./schema.ts";

/** Before all groups. */
const START = [Number.MAX_SAFE_INTEGER, "", ""] as const;

/** The signal queue, the most recently seen group first. */
export function listEventGroups(db: DrizzleSqliteDODatabase, page: Page): PageOf<EventGroup> {
  const cursor = page.cursor === null ? START : readGroupCursor(page.cursor);
  if (cursor === undefined) return { items: [], next: null };
  const [lastSeen, event, source] = cursor;
  const rows = db
    .select()
    .from(eventGroups)
    .leftJoin(signals, eq(signals.id, eventGroups.sampleId))
    .where(
      and(
        sql`${eventGroups.count} > 0`,
        // Said twice: by this one the index finds where the page begins.
        lte(eventGroups.lastSeen, lastSeen),
        or(
          lt(eventGroups.lastSeen, lastSeen),
          sql`(${eventGroups.event}, ${eventGroups.source}) > (${event}, ${source})`,
        ),
      ),
    )
    .orderBy(desc(eventGroups.lastSeen), eventGroups.event, eventGroups.source)
    .limit(page.limit + 1)
    .all();
  return toPage(
    rows,
    page,
    ({ event_groups: group }) => JSON.stringify([group.lastSeen, group.event, group.source]),
    ({ event_groups: group, signals: sample }) => ({
      event: group.event,
      source: group.source,
      count: group.count,
      held: group.held,
      anonymous: group.anonymous,
      firstSeenMs: group.firstSeen,
      lastSeenMs: group.lastSeen,
      sample: { id: group.sampleId, payload: parsed(sample?.payload ?? null) },
    }),
  );
}

/** Undefined for one that this list did not give out. */
function readGroupCursor(cursor: string): [number, string, string] | undefined {
  const fields = parsed(cursor);
  return Array.isArray(fields) && fields.length === 3 ? (fields as [number, string, string]) : undefined;
}
