/** Signals and their traces, as the store answers them: reads only, each by an index. */
import { and, desc, eq, gte, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { SIGNALS_PAGE_MAX_READ } from "../limits.ts";
import { placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import { newestFirst, parsed, toPage } from "./page.ts";
import type { Page, PageOf, SignalFilter, SignalStatus, SignalSummary, SignalTrace } from "./protocol.ts";
import { people, scoringSignals, signals } from "./schema.ts";

type Database = DrizzleSqliteDODatabase;

/**
 * One filter is an index of its own, save that of what is processed. Of several, one is the index and the others are
 * looked at row by row: SIGNALS_PAGE_MAX_READ of them, after which the page ends where it is, perhaps empty, with a cursor.
 */
export function listSignals(db: Database, filter: SignalFilter, page: Page): PageOf<SignalSummary> {
  const owner =
    filter.email === undefined
      ? undefined
      : sql`${signals.personId} = ${db
          .select({ id: people.id })
          .from(people)
          .where(eq(people.email, filter.email.trim().toLowerCase()))}`;
  const event = filter.event === undefined ? undefined : eq(signals.event, filter.event);
  const status = filter.status === undefined ? undefined : hasStatus(filter.status);
  const indexed = owner ?? event ?? (filter.status === "processed" ? undefined : status);
  const others = [
    owner === undefined || filter.event === undefined ? undefined : sql`+${signals.event} = ${filter.event}`,
    indexed === status || filter.status === undefined ? undefined : sql`+${signals.status} = ${filter.status}`,
  ].filter((other) => other !== undefined);
  const end = others.length === 0 ? null : endOfReading(db, indexed, page);
  const asked = and(indexed, ...others, others.length === 0 ? undefined : gte(signals.seq, end ?? 0));
  const query = db.select().from(signals).leftJoin(people, eq(people.id, signals.personId)).$dynamic();
  const { items, next } = toPage(
    newestFirst(query, signals.seq, page, asked).all(),
    page,
    (row) => row.signals.seq,
    (row) => toSummary(row.signals, row.people?.email ?? null),
  );
  return { items, next: next ?? (end === null ? null : String(end)) };
}

/**
 * Of the signals of this index, or of all, one that is SIGNALS_PAGE_MAX_READ behind the page's beginning; null: there are
 * not so many.
 */
function endOfReading(db: Database, indexed: SQL | undefined, page: Page): number | null {
  const newest = db.select({ seq: signals.seq }).from(signals).orderBy(desc(signals.seq)).limit(1);
  if (indexed === undefined) {
    const begin = page.cursor === null ? (newest.get()?.seq ?? 0) : Number(page.cursor);
    return begin > SIGNALS_PAGE_MAX_READ ? begin - SIGNALS_PAGE_MAX_READ : null;
  }
  const behind = page.cursor === null ? undefined : lt(signals.seq, Number(page.cursor));
  const end = newest.where(and(indexed, behind)).offset(SIGNALS_PAGE_MAX_READ - 1);
  return end.get()?.seq ?? null;
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
    erasedAtMs: row.erasedAt,
    inColdStorage: place !== null,
  };
  return { trace, place };
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

/** Said twice where it can be: only then is the index of all that is not processed used. */
export function hasStatus(status: SignalStatus) {
  return and(eq(signals.status, status), status === "processed" ? undefined : sql`${signals.status} <> 'processed'`);
}
