/** One person with everything that the page tells of them, in one call. Each part is bounded, and read by an index. */
import { and, desc, eq } from "drizzle-orm";
import type { DrizzleSqliteDODatabase } from "drizzle-orm/durable-sqlite";
import { PERSON_IDENTITIES_SHOWN, TIMELINE_SCORES_SHOWN } from "../limits.ts";
import { isAmong, toPage } from "./queries/list-page.ts";
import { isThere } from "./people-list.ts";
import { toPersonSummary } from "./people-search.ts";
import type { Page, PageOf, ScoringSignal } from "./protocol.ts";
import type { PersonPage, PersonTimeline, TimelineEntry } from "./record-pages.ts";
import { deletedUntilMs } from "./retention.ts";
import { identities, people, scoringSignals, signals } from "./schema.ts";
import { readScoreCurve } from "./score-curve.ts";
import { readLatest, SCORES, SIGNALS } from "./timelines.ts";

type Database = DrizzleSqliteDODatabase;

/** Null: nobody has this email, or they are being deleted. */
export function readPersonPage(
  db: Database,
  storage: SqlStorage,
  email: string,
  timeline: PersonTimeline,
  page: Page,
): PersonPage | null {
  const person = db
    .select()
    .from(people)
    .where(and(eq(people.email, email), isThere))
    .get();
  if (person === undefined) return null;
  const linked = db
    .select({ kind: identities.kind, value: identities.value, linkedAtMs: identities.linkedAt })
    .from(identities)
    .where(eq(identities.personId, person.id))
    .limit(PERSON_IDENTITIES_SHOWN + 1)
    .all();
  return {
    person: toPersonSummary(person),
    identities: linked.slice(0, PERSON_IDENTITIES_SHOWN),
    moreIdentities: linked.length > PERSON_IDENTITIES_SHOWN,
    curve: readScoreCurve(storage, person.id, person.score),
    timeline: timeline === "all" ? listSignals(db, storage, person.id, page) : listScores(db, storage, person.id, page),
    deletedUntilMs: deletedUntilMs(storage),
  };
}

/** The person's signals, the latest recorded first, each with what it has scored. */
function listSignals(db: Database, storage: SqlStorage, personId: number, page: Page): PageOf<TimelineEntry> {
  const seqs = readLatest(storage, SIGNALS, personId, page.limit + 1, beforeOf(page));
  const list = toPage(
    db
      .select(SIGNAL)
      .from(signals)
      .where(isAmong(signals.seq, seqs))
      .orderBy(desc(signals.seq))
      .limit(page.limit + 1)
      .all(),
    page,
    (row) => row.seq,
    ({ seq: _seq, ...signal }) => signal,
  );
  const ids = list.items.map(({ id }) => id);
  const scores = db
    .select()
    .from(scoringSignals)
    .where(isAmong(scoringSignals.signalId, ids))
    .limit(TIMELINE_SCORES_SHOWN)
    .all();
  const bySignal = Map.groupBy(scores.map(toScoringSignal), ({ signalId }) => signalId);
  return {
    items: list.items.map((signal) => ({ signal, scores: bySignal.get(signal.id) ?? [] })),
    next: list.next,
  };
}

/** What the person's signals have scored, the latest first; also of signals that are not kept any more. */
function listScores(db: Database, storage: SqlStorage, personId: number, page: Page): PageOf<TimelineEntry> {
  const ids = readLatest(storage, SCORES, personId, page.limit + 1, beforeOf(page));
  const rows = db
    .select({ score: scoringSignals, signal: SIGNAL })
    .from(scoringSignals)
    .leftJoin(signals, eq(signals.id, scoringSignals.signalId))
    .where(isAmong(scoringSignals.id, ids))
    .orderBy(desc(scoringSignals.id))
    .limit(page.limit + 1)
    .all();
  return toPage(
    rows,
    page,
    (row) => row.score.id,
    ({ score, signal }) => ({ signal, scores: [toScoringSignal(score)] }),
  );
}

function beforeOf({ cursor }: Page): number | undefined {
  return cursor === null ? undefined : Number(cursor);
}

const SIGNAL = {
  seq: signals.seq,
  id: signals.id,
  kind: signals.kind,
  status: signals.status,
  event: signals.event,
  source: signals.source,
  namedBy: signals.namedBy,
  linkedAtMs: signals.linkedAt,
  receivedAtMs: signals.receivedAt,
};

function toScoringSignal(row: typeof scoringSignals.$inferSelect): ScoringSignal {
  const { scoringSignal, points, ruleId, ruleVersion, signalId, at } = row;
  return { scoringSignal, points, ruleId, ruleVersion, signalId, atMs: at };
}
