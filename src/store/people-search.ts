/** People as the page lists them: in one of four orders, or those whose email or name begins with something. */
import { and, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { behind, cursorOf, ordered, startsWith, type Order } from "./keyset.ts";
import { toPage } from "./page.ts";
import { isThere } from "./people-list.ts";
import type { Page, PageOf, PeopleQuery, PersonSummary } from "./protocol.ts";
import { people } from "./schema.ts";

type Row = typeof people.$inferSelect;
type Listing = Order & { of: (row: Row) => number | string; asked?: SQL };

/** Who has no name is not in its index. */
const NAME = sql`${people.name} COLLATE NOCASE`;

export function findPeople(db: DrizzleSqliteDODatabase, query: PeopleQuery, page: Page): PageOf<PersonSummary> {
  const listing = listingOf(query);
  const rows = db
    .select()
    .from(people)
    .where(and(isThere, listing.asked, behind(listing, page)))
    .orderBy(...ordered(listing))
    .limit(page.limit + 1)
    .all();
  return toPage(rows, page, (row) => cursorOf(row.id, listing.of(row)), toPersonSummary);
}

export function toPersonSummary(row: Row): PersonSummary {
  const { email, name, company, title, score, firstSeen, lastSeen } = row;
  return { email, name, company, title, score, firstSeenMs: firstSeen, lastSeenMs: lastSeen };
}

function listingOf(query: PeopleQuery): Listing {
  const { id, email, lastSeen, score } = people;
  const byEmail = { value: email, kind: "text", id, direction: "up", of: (row: Row) => row.email } as const;
  if ("prefix" in query) {
    if (query.by === "email") return { ...byEmail, asked: startsWith(email, query.prefix.toLowerCase()) };
    const asked = sql`${people.name} IS NOT NULL AND ${startsWith(NAME, query.prefix)}`;
    return { value: NAME, kind: "text", id, direction: "up", of: (row) => row.name ?? "", asked };
  }
  switch (query.sort) {
    case "email":
      return byEmail;
    case "last_seen":
      return { value: lastSeen, kind: "number", id, direction: "down", of: (row) => row.lastSeen };
    case "score":
      return { value: score, kind: "number", id, direction: "down", of: (row) => row.score };
    case "newest":
      return { value: id, kind: "number", id, direction: "down", of: (row) => row.id };
  }
}
