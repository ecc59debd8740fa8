/** People as the page lists them: in one of four orders, or those whose email or name begins with something. */
import { and, isNotNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { cursorOf, ordered, readBehind, type Order } from "./queries/keyset.ts";
import { toPage } from "./queries/list-page.ts";
import { isThere } from "./people-list.ts";
import type { Page, PageOf } from "./protocol.ts";
import type { PeopleQuery, PersonSummary } from "./record-pages.ts";
import { people } from "./schema.ts";

type Row = typeof people.$inferSelect;
type Listing = Order & { of: (row: Row) => number | string; has?: SQL };

const NAME = sql`${people.name} COLLATE NOCASE`;

export function findPeople(db: DrizzleSqliteDODatabase, query: PeopleQuery, page: Page): PageOf<PersonSummary> {
  const listing = listingOf(query);
  const rows = readBehind(listing, page, (asked, limit) =>
    db
      .select()
      .from(people)
      .where(and(isThere, listing.has, asked))
      .orderBy(...ordered(listing))
      .limit(limit)
      .all(),
  );
  return toPage(rows, page, (row) => cursorOf(row.id, listing.of(row)), toPersonSummary);
}

export function toPersonSummary(row: Row): PersonSummary {
  const { email, name, company, title, score, firstSeen, lastSeen } = row;
  return { email, name, company, title, score, firstSeenMs: firstSeen, lastSeenMs: lastSeen };
}

function listingOf(query: PeopleQuery): Listing {
  const { id, email, name, lastSeen, score } = people;
  if ("prefix" in query) {
    const { prefix } = query;
    return query.by === "email"
      ? { value: email, kind: "text", id, direction: "up", of: (row) => row.email, prefix: prefix.toLowerCase() }
      : // Who has no name is not in the index.
        { value: NAME, kind: "text", id, direction: "up", of: (row) => row.name ?? "", prefix, has: isNotNull(name) };
  }
  switch (query.sort) {
    case "email":
      return { value: email, kind: "text", id, direction: "up", of: (row) => row.email };
    case "last_seen":
      return { value: lastSeen, kind: "number", id, direction: "down", of: (row) => row.lastSeen };
    case "score":
      return { value: score, kind: "number", id, direction: "down", of: (row) => row.score };
    case "newest":
      return { value: id, kind: "number", id, direction: "down", of: (row) => row.id };
  }
}
