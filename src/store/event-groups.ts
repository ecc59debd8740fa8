/** The signal queue (spec §6.3), as the store answers it. */
import { and, desc, eq, lt, lte, or, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import { parsed, toPage } from "./queries/list-page.ts";
import type { EventGroup, Page, PageOf } from "./protocol.ts";
import { eventGroups, signals } from "./schema.ts";

/** Before all groups. */
const START = [Number.MAX_SAFE_INTEGER, "", ""] as const;

/** A group whose sample is in cold storage, and where there. */
export interface ColdSample {
  group: EventGroup;
  place: ColdPlace;
}

/** The signal queue, the most recently seen group first, and those of the groups whose samples are still to be fetched. */
export function listEventGroups(
  db: DrizzleSqliteDODatabase,
  page: Page,
): { groups: PageOf<EventGroup>; cold: ColdSample[] } {
  const cursor = page.cursor === null ? START : readGroupCursor(page.cursor);
  if (cursor === undefined) return { groups: { items: [], next: null }, cold: [] };
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
  const groups = toPage(
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
  const cold = groups.items.flatMap((group, index) => {
    const sample = rows[index]?.signals ?? null;
    const place = sample && placeOf(sample);
    return place === null ? [] : [{ group, place }];
  });
  return { groups, cold };
}

/** Undefined for one that this list did not give out. */
function readGroupCursor(cursor: string): [number, string, string] | undefined {
  const fields = parsed(cursor);
  return Array.isArray(fields) && fields.length === 3 ? (fields as [number, string, string]) : undefined;
}
