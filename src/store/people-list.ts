/** People with their identities and scores, as the store answers them. */
import { and, desc, eq, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { newestFirst, toPage } from "./page.ts";
import type { Page, PageOf, Person } from "./protocol.ts";
import { identities, people, scoringSignals } from "./schema.ts";

type Database = DrizzleSqliteDODatabase;

/** Scoring signals shown with a person. */
const SCORING_SIGNALS_SHOWN = 100;

/** Not those that are being deleted. */
export const isThere = sql`${people.id} NOT IN (SELECT person_id FROM erasures WHERE person_id IS NOT NULL)`;

/** Newest first, or the one with an email. */
export function listPeople(db: Database, filter: { email?: string }, page: Page): PageOf<Person> {
  const asked = and(
    isThere,
    filter.email === undefined ? undefined : eq(people.email, filter.email.trim().toLowerCase()),
  );
  return toPage(
    newestFirst(db.select().from(people).$dynamic(), people.id, page, asked).all(),
    page,
    (row) => row.id,
    (row) => toPerson(db, row),
  );
}

function toPerson(db: Database, row: typeof people.$inferSelect): Person {
  const linked = db.select().from(identities).where(eq(identities.personId, row.id)).all();
  const scored = db
    .select()
    .from(scoringSignals)
    .where(eq(scoringSignals.personId, row.id))
    .orderBy(desc(scoringSignals.id))
    .limit(SCORING_SIGNALS_SHOWN)
    .all();
  return {
    email: row.email,
    name: row.name,
    company: row.company,
    title: row.title,
    score: row.score,
    firstSeenMs: row.firstSeen,
    lastSeenMs: row.lastSeen,
    identities: linked.map(({ kind, value, linkedAt }) => ({ kind, value, linkedAtMs: linkedAt })),
    scoringSignals: scored.map(({ scoringSignal, points, ruleId, ruleVersion, signalId, at }) => ({
      scoringSignal,
      points,
      ruleId,
      ruleVersion,
      signalId,
      atMs: at,
    })),
  };
}
