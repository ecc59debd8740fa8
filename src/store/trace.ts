/** The whole way of one signal, as the store answers it. */
import { and, eq, sql } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import { parsed } from "./queries/list-page.ts";
import type { SignalStatus, SignalSummary, SignalTrace } from "./protocol.ts";
import { people, scoringSignals, signals } from "./schema.ts";

type Database = DrizzleSqliteDODatabase;

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
