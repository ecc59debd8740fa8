/** What the store answers: reads only, each by an index. Pages go from new to old; a cursor is the last row's key. */
import { and, desc, eq, lt, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import { parsed, toPage } from "./page.ts";
import type {
  DeadLetter,
  Page,
  PageOf,
  Person,
  SignalFilter,
  SignalStatus,
  SignalSummary,
  SignalTrace,
  StoreTotals,
} from "./protocol.ts";
import { identities, people, scoringSignals, signals, totals } from "./schema.ts";

type Database = DrizzleSqliteDODatabase;

/** Scoring signals shown with a person. */
const SCORING_SIGNALS_SHOWN = 100;

export function readTotals(db: Database, periodStartMs: number | undefined): StoreTotals {
  const sum = (column: SQLiteColumn) => sql<number>`coalesce(sum(${column}), 0)`;
  const row = db
    .select({
      processed: sum(totals.processed),
      duplicates: sum(totals.duplicates),
      held: sum(totals.held),
      purged: sum(totals.purged),
      deadLettered: sum(totals.deadLettered),
    })
    .from(totals)
    .where(periodStartMs === undefined ? undefined : eq(totals.periodStart, periodStartMs))
    .get();
  return row ?? { processed: 0, duplicates: 0, held: 0, purged: 0, deadLettered: 0 };
}

export function listSignals(db: Database, filter: SignalFilter, page: Page): PageOf<SignalSummary> {
  const owner =
    filter.email === undefined
      ? undefined
      : sql`${signals.personId} = ${db
          .select({ id: people.id })
          .from(people)
          .where(eq(people.email, filter.email.trim().toLowerCase()))}`;
  const rows = db
    .select()
    .from(signals)
    .leftJoin(people, eq(people.id, signals.personId))
    .where(
      and(
        owner,
        filter.event === undefined ? undefined : eq(signals.event, filter.event),
        filter.status === undefined ? undefined : hasStatus(filter.status),
        behindSeq(page),
      ),
    )
    .orderBy(desc(signals.seq))
    .limit(page.limit + 1)
    .all();
  return toPage(
    rows,
    page,
    (row) => row.signals.seq,
    (row) => toSummary(row.signals, row.people?.email ?? null),
  );
}

/** The whole way of one signal, and where its payload is, if not here; null when the store has not seen it. */
export function traceSignal(db: Database, id: string): { trace: SignalTrace; place: ColdPlace | null } | null {
  const found = db
    .select()
    .from(signals)
    .leftJoin(people, eq(people.id, signals.personId))
    .where(eq(signals.id, id))
    .get();
  if (found === undefined) return null;
  const { signals: row, people: person } = found;
  const matched = db.select().from(scoringSignals).where(eq(scoringSignals.signalId, id)).all();
  const place = placeOf(row);
  const trace = {
    ...toSummary(row, person?.email ?? null),
    endpoint: row.endpoint,
    keyId: row.keyId,
    verdict: row.verdict,
    ordinal: row.ordinal,
    signalLimit: row.signalLimit,
    recordedAtMs: row.recordedAt,
    duplicateOf: row.duplicateOf,
    heldUntilMs: row.verdict === "held" ? row.periodEnd : null,
    deadReason: row.deadReason,
    anonymousId: row.anonymousId,
    userId: row.userId,
    person: person === null ? null : { email: person.email, by: row.namedBy ?? "email", linkedAtMs: row.linkedAt },
    rulesTried: row.rulesTried,
    rulesMatched: matched.map(({ ruleId, ruleVersion, scoringSignal, points }) => ({
      ruleId,
      ruleVersion,
      scoringSignal,
      points,
    })),
    points: matched.reduce((sum, one) => sum + one.points, 0),
    payload: parsed(row.payload),
    inColdStorage: place !== null,
  };
  return { trace, place };
}

/** Newest first, or the one with an email. */
export function listPeople(db: Database, filter: { email?: string }, page: Page): PageOf<Person> {
  const rows = db
    .select()
    .from(people)
    .where(
      and(
        filter.email === undefined ? undefined : eq(people.email, filter.email.trim().toLowerCase()),
        page.cursor === null ? undefined : lt(people.id, Number(page.cursor)),
      ),
    )
    .orderBy(desc(people.id))
    .limit(page.limit + 1)
    .all();
  return toPage(
    rows,
    page,
    (row) => row.id,
    (row) => toPerson(db, row),
  );
}

export function listDeadLetters(db: Database, page: Page): PageOf<DeadLetter> {
  const rows = db
    .select()
    .from(signals)
    .where(and(hasStatus("dead"), behindSeq(page)))
    .orderBy(desc(signals.seq))
    .limit(page.limit + 1)
    .all();
  return toPage(
    rows,
    page,
    (row) => row.seq,
    (row) => ({
      id: row.id,
      reason: row.deadReason ?? "",
      receivedAtMs: row.receivedAt,
      deadAtMs: row.recordedAt,
      payload: parsed(row.payload),
    }),
  );
}

function toSummary(row: typeof signals.$inferSelect, personEmail: string | null): SignalSummary {
  return {
    id: row.id,
    status: row.status,
    kind: row.kind,
    event: row.event,
    source: row.source,
    email: personEmail ?? row.email,
    receivedAtMs: row.receivedAt,
  };
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

/** Said twice where it can be: only then is the index of all that is not processed used. */
function hasStatus(status: SignalStatus) {
  return and(eq(signals.status, status), status === "processed" ? undefined : sql`${signals.status} <> 'processed'`);
}

function behindSeq(page: Page) {
  return page.cursor === null ? undefined : lt(signals.seq, Number(page.cursor));
}
