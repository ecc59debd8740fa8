/** What the store answers: reads only, each by an index. Pages go from new to old; a cursor is the last row's key. */
import { and, desc, eq, inArray, lt, or, sql } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import type {
  DeadLetter,
  EventGroup,
  Page,
  PageOf,
  Person,
  SignalFilter,
  SignalSummary,
  SignalTrace,
  StoreTotals,
} from "./protocol.ts";
import { eventGroups, identities, people, scoringSignals, signals, totals } from "./schema.ts";

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

/** The signal queue, the most recently seen group first. */
export function listEventGroups(db: Database, page: Page): PageOf<EventGroup> {
  const cursor = page.cursor === null ? null : (JSON.parse(page.cursor) as [number, string, string]);
  const behind =
    cursor === null
      ? undefined
      : or(
          lt(eventGroups.lastSeen, cursor[0]),
          and(
            eq(eventGroups.lastSeen, cursor[0]),
            sql`(${eventGroups.event}, ${eventGroups.source}) > (${cursor[1]}, ${cursor[2]})`,
          ),
        );
  const rows = db
    .select()
    .from(eventGroups)
    .leftJoin(signals, eq(signals.id, eventGroups.sampleId))
    .where(and(sql`${eventGroups.count} > 0`, behind))
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

export function listSignals(db: Database, filter: SignalFilter, page: Page): PageOf<SignalSummary> {
  const owner =
    filter.email === undefined
      ? undefined
      : inArray(
          signals.personId,
          db.select({ id: people.id }).from(people).where(eq(people.email, filter.email.trim().toLowerCase())),
        );
  const rows = db
    .select()
    .from(signals)
    .leftJoin(people, eq(people.id, signals.personId))
    .where(
      and(
        owner,
        filter.event === undefined ? undefined : eq(signals.event, filter.event),
        filter.status === undefined ? undefined : eq(signals.status, filter.status),
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

/** The whole way of one signal; null when the store has not seen it. */
export function traceSignal(db: Database, id: string): SignalTrace | null {
  const found = db
    .select()
    .from(signals)
    .leftJoin(people, eq(people.id, signals.personId))
    .where(eq(signals.id, id))
    .get();
  if (found === undefined) return null;
  const { signals: row, people: person } = found;
  const matched = db.select().from(scoringSignals).where(eq(scoringSignals.signalId, id)).all();
  return {
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
    person: person === null ? null : { email: person.email, by: namedBy(db, row), linkedAtMs: row.linkedAt },
    rulesTried: row.rulesTried,
    rulesMatched: matched.map(({ ruleId, ruleVersion, scoringSignal, points }) => ({
      ruleId,
      ruleVersion,
      scoringSignal,
      points,
    })),
    points: matched.reduce((sum, one) => sum + one.points, 0),
    payload: parsed(row.payload),
  };
}

/** Design §8.3: by email, else user id, else anonymous id. */
function namedBy(db: Database, row: typeof signals.$inferSelect): "email" | "user_id" | "anonymous_id" {
  if (row.email !== null) return "email";
  if (row.userId === null) return "anonymous_id";
  const linked = db
    .select({ personId: identities.personId })
    .from(identities)
    .where(and(eq(identities.kind, "user_id"), eq(identities.value, row.userId)))
    .get();
  return linked?.personId === row.personId ? "user_id" : "anonymous_id";
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
    .where(and(eq(signals.status, "dead"), behindSeq(page)))
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

function behindSeq(page: Page) {
  return page.cursor === null ? undefined : lt(signals.seq, Number(page.cursor));
}

/** Turns up to `page.limit + 1` rows into a page of items. */
function toPage<Row, T>(rows: Row[], page: Page, key: (row: Row) => string | number, item: (row: Row) => T): PageOf<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    items: shown.map(item),
    next: rows.length > page.limit && last !== undefined ? String(key(last)) : null,
  };
}

/** A payload is shown as JSON; one that is not (which only a dead letter can hold) as its text. */
function parsed(payload: string | null): unknown {
  if (payload === null) return null;
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}
