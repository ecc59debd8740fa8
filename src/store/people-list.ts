/** People with their identities and scores, as the store answers them. */
import { and, eq, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { newestFirst, toPage } from "./queries/list-page.ts";
import type { Page, PageOf, Person, ScoringSignal } from "./protocol.ts";
import { identities, people } from "./schema.ts";
import { rowsOf, SCORES } from "./timelines.ts";

type Database = DrizzleSqliteDODatabase;

/** Scoring signals shown with a person. */
const SCORING_SIGNALS_SHOWN = 100;

type Scored = ScoringSignal & Record<string, SqlStorageValue>;

/** Plain SQL: a page of people runs it for each of them. */
const SCORED = `SELECT scoring_signal AS scoringSignal, points, rule_id AS ruleId, rule_version AS ruleVersion,
    signal_id AS signalId, "at" AS atMs FROM scoring_signals
  WHERE id IN (${rowsOf(SCORES, "?1", "?2")}) ORDER BY id DESC LIMIT ?2`;

/** Not those that are being deleted. */
export const isThere = sql`${people.id} NOT IN (SELECT person_id FROM erasures WHERE person_id IS NOT NULL)`;

/** Newest first, or the one with an email. */
export function listPeople(db: Database, storage: SqlStorage, filter: { email?: string }, page: Page): PageOf<Person> {
  const asked = and(
    isThere,
    filter.email === undefined ? undefined : eq(people.email, filter.email.trim().toLowerCase()),
  );
  return toPage(
    newestFirst(db.select().from(people).$dynamic(), people.id, page, asked).all(),
    page,
    (row) => row.id,
    (row) => toPerson(db, storage, row),
  );
}

function toPerson(db: Database, storage: SqlStorage, row: typeof people.$inferSelect): Person {
  const linked = db.select().from(identities).where(eq(identities.personId, row.id)).all();
  return {
    email: row.email,
    name: row.name,
    company: row.company,
    title: row.title,
    score: row.score,
    firstSeenMs: row.firstSeen,
    lastSeenMs: row.lastSeen,
    identities: linked.map(({ kind, value, linkedAt }) => ({ kind, value, linkedAtMs: linkedAt })),
    scoringSignals: storage.exec<Scored>(SCORED, row.id, SCORING_SIGNALS_SHOWN).toArray(),
  };
}
