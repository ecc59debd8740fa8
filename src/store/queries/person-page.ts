/** Everything that a person's page shows, in one call, and the parts that lists and exports show too. */
import { dayOf } from "../../domain/duration.ts";
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { Page, PageOf } from "../../platform/list-page.ts";
import { nameOf, SHORT_NAME } from "../accounts/accounts.ts";
import type { Facts } from "../log/line.ts";
import { scoreAt, lapseOf } from "../people/scoring.ts";
import { latestEntries, type Entry, type Scored, personList, visitorOfKey } from "../people/timelines.ts";
import type {
  Identity,
  PersonPage,
  PersonSummary,
  PersonTimeline,
  RuleShare,
  ScoreCurve,
  ScoringSignal,
  SharedId,
  TimelineEntry,
  TimelineSignal,
} from "../protocol/people-and-accounts.ts";
import { deletedUntilMs, type StoreState } from "../state/store-state.ts";
import { shownStatus } from "./newest-signals.ts";

const PERSON_IDENTITIES_SHOWN = 50;
const SHARED_IDS_SHOWN = 20;
/** Maximum points of a score curve: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** The latest signals of a score curve: reading them takes about 20 ms. */
export const SCORE_CURVE_SIGNALS = 20_000;

/** The field of a line with the name that found its person. */
const NAMING_FIELD = { email: "email", user_id: "userId", anonymous_id: "anonymousId" } as const;

const ENTRIES_AT_ONCE = 1_000;

export type PersonSummaryRow = Omit<PersonSummary, "account" | "nextLapseAtMs"> & {
  id: number;
  lastDay: number;
  lapses: string;
  next_lapse_at: number | null;
  accountId: string | null;
  /** JSON. */
  accountName: string | null;
};

export const PERSON_COLUMNS = `id, email, ${TRAIT_NAMES.join(", ")}, score, first_seen AS firstSeenMs, last_seen AS lastSeenMs,
  last_day AS lastDay, ids_dropped AS idsDropped, lapses, next_lapse_at, account AS accountId,
  (SELECT ${SHORT_NAME} FROM accounts WHERE external_id = people.account) AS accountName`;

type Row = PersonSummaryRow & { recent: string };

/** Null: the email is unknown, or the person is being deleted. An invalid cursor is ignored. */
export function readPersonPage(
  state: StoreState,
  email: string,
  timeline: PersonTimeline,
  { cursor, limit }: Page,
): PersonPage | null {
  const [person] = state.sql.exec<Row>(`SELECT ${PERSON_COLUMNS}, recent FROM people WHERE email = ?`, email);
  if (person === undefined) return null;
  const identities = latestIdentities(state.sql, person.id, PERSON_IDENTITIES_SHOWN + 1);
  const before = /^\d{1,15}$/.test(cursor ?? "") ? Number(cursor) : Number.MAX_SAFE_INTEGER;
  return {
    person: toPersonSummary(person),
    identities: identities.slice(0, PERSON_IDENTITIES_SHOWN),
    moreIdentities: identities.length > PERSON_IDENTITIES_SHOWN,
    sharedIds: sharedIds(state.sql, person.id),
    curve: readScoreCurve(state, person),
    timeline: (timeline === "all" ? listSignals : listScores)(state, person, before, limit),
    deletedUntilMs: deletedUntilMs(state.sql),
  };
}

function listSignals(state: StoreState, person: Row, before: number, limit: number): PageOf<TimelineEntry> {
  const oldest = state.signals.firstSeq;
  const entries = latestEntries(state.sql, personList(person.id), person.recent, { before, limit: limit + 1 });
  const stored = entries.filter(({ seq }) => seq >= oldest);
  const shown = stored.slice(0, limit).map((entry) => withCountedOutcomes(state, person.id, entry));
  return {
    items: toTimeline(state, person.id, shown).filter(({ signal }) => signal !== null),
    next: stored.length > limit ? String(shown.at(-1)?.seq) : null,
  };
}

/** A page may be short although more scoring signals follow. */
function listScores(state: StoreState, person: Row, before: number, limit: number): PageOf<TimelineEntry> {
  const scored: Entry[] = [];
  let [last, isMore] = [0, false];
  for (const { count, seq, entry } of latestScored(state, person, { before, limit: SCORE_CURVE_SIGNALS })) {
    const isFull = entry !== null && scored.length === limit;
    isMore = isFull || count === SCORE_CURVE_SIGNALS;
    if (isFull) break;
    if (entry !== null) scored.push(entry);
    last = seq;
  }
  return { items: toTimeline(state, person.id, scored), next: isMore ? String(last) : null };
}

function toTimeline(state: StoreState, personId: number, entries: readonly Entry[]): TimelineEntry[] {
  return entries.map((entry) => {
    const facts = state.signals.read(entry.seq);
    return {
      signal: facts === null ? null : toTimelineSignal(facts),
      scores: isScored(entry) ? toScoringSignals(state, personId, entry) : [],
    };
  });
}

function toTimelineSignal(facts: Facts): TimelineSignal {
  const { admission, occurred, kind, status, event, source, person, linkedAtMs } = facts;
  return {
    id: admission.id,
    kind,
    status: shownStatus(status),
    event,
    source,
    namedBy: person?.by ?? null,
    namedByValue: person === null ? null : facts[NAMING_FIELD[person.by]],
    linkedAtMs,
    receivedAtMs: admission.receivedAtMs,
    occurredAtMs: occurred.ms,
    occurredFrom: occurred.from,
  };
}

interface ScoredPoints {
  atMs: number;
  points: number;
}

/** The curve follows the occurrence times of the latest recorded signals. */
function readScoreCurve(state: StoreState, person: Row): ScoreCurve {
  const scored: ScoredPoints[] = [];
  const shares = new Map<string, RuleShare>();
  let [signals, complete] = [0, true];
  const range = { before: Number.MAX_SAFE_INTEGER, limit: SCORE_CURVE_SIGNALS + 1 };
  for (const { count, entry } of latestScored(state, person, range)) {
    complete = count <= SCORE_CURVE_SIGNALS;
    if (!complete || entry === null) continue;
    signals += entry.scored.outcomes.length;
    for (const score of toScoringSignals(state, person.id, entry)) {
      const { ruleId, points, occurredAtMs: atMs, lapsed, lapsesAtMs } = score;
      scored.push({ atMs, points });
      if (lapsed && lapsesAtMs !== null) scored.push({ atMs: lapsesAtMs, points: -points });
      if (lapsed) continue;
      const share = shares.get(ruleId) ?? { ruleId, points: 0, times: 0, latestMs: 0 };
      shares.set(ruleId, {
        ruleId,
        points: share.points + points,
        times: share.times + 1,
        latestMs: Math.max(share.latestMs, atMs),
      });
    }
  }
  const steps = inSteps(scored.sort((a, b) => a.atMs - b.atMs));
  const fromScore = toPersonSummary(person).score - steps.reduce((sum, { points }) => sum + points, 0);
  let score = fromScore;
  return {
    fromScore,
    points: steps.map(({ atMs, points }) => ({ atMs, score: (score += points) })),
    signals,
    byRule: [...shares.values()].sort((a, b) => Math.abs(b.points) - Math.abs(a.points)),
    complete,
  };
}

/** Merges scores that are close in time into one, at the time of the last. */
function inSteps(scored: readonly ScoredPoints[]): ScoredPoints[] {
  const first = scored[0]?.atMs ?? 0;
  const stepMs = Math.floor(((scored.at(-1)?.atMs ?? 0) - first) / SCORE_CURVE_STEPS) + 1;
  const steps = new Map<number, ScoredPoints>();
  for (const { atMs, points } of scored) {
    const step = Math.floor((atMs - first) / stepMs);
    steps.set(step, { atMs, points: points + (steps.get(step)?.points ?? 0) });
  }
  return [...steps.values()];
}

type SharedIdRow = { key: ArrayBuffer; email: string; at: number };

/** The latest ids of a person that other people claimed too. */
function sharedIds(sql: SqlStorage, personId: number): SharedId[] {
  const rows = sql.exec<SharedIdRow>(
    `SELECT theirs.key, people.email, theirs."at" FROM identities AS mine
       CROSS JOIN identities AS theirs ON theirs.key = mine.key AND theirs.person_id <> mine.person_id
       CROSS JOIN people ON people.id = theirs.person_id
     WHERE mine.person_id = ?`,
    personId,
  );
  const found = new Map<string, SharedId>();
  for (const { at, email, key } of rows) {
    const id = { ...visitorOfKey(key), email };
    const name = JSON.stringify(id);
    found.set(name, { ...id, sinceMs: Math.max(at, found.get(name)?.sinceMs ?? 0) });
  }
  return [...found.values()].sort((a, b) => b.sinceMs - a.sinceMs).slice(0, SHARED_IDS_SHOWN);
}

export function toPersonSummary(row: PersonSummaryRow): PersonSummary {
  const { id: _id, lastDay: _day, lapses, next_lapse_at, accountId, accountName, ...summary } = row;
  const left = scoreAt({ score: row.score, lapses, next_lapse_at }, dayOf(Date.now()));
  return {
    ...summary,
    score: left.score,
    nextLapseAtMs: left.next_lapse_at,
    account: accountId === null ? null : { externalId: accountId, name: nameOf(accountName) },
  };
}

/** The latest first. Leaves out ids that another person claimed later. */
export function latestIdentities(sql: SqlStorage, personId: number, limit: number): Identity[] {
  const rows = sql.exec<{ key: ArrayBuffer; at: number }>(
    `SELECT key, "at" FROM identities AS mine WHERE person_id = ? AND NOT EXISTS (SELECT 1 FROM identities AS later
       WHERE later.key = mine.key AND (later."at", later.ordinal) > (mine."at", mine.ordinal))
     ORDER BY "at" DESC, ordinal DESC, key DESC LIMIT ?`,
    personId,
    limit,
  );
  return rows.toArray().map(({ key, at: linkedAtMs }) => ({ ...visitorOfKey(key), linkedAtMs }));
}

type ScoredEntry = Entry & { scored: Scored };

export function isScored(entry: Entry): entry is ScoredEntry {
  return entry.scored !== null;
}

/** Removes outcomes that do not count, because the rule scores a person only once. */
export function withCountedOutcomes({ once, outcomes }: StoreState, personId: number, entry: Entry): Entry {
  const { seq, scored } = entry;
  if (scored === null) return entry;
  const counts = scored.outcomes.filter((id) => once.counts(personId, scored, outcomes.get(id)));
  return { seq, scored: counts.length === 0 ? null : { ...scored, outcomes: counts } };
}

export function toScoringSignals(state: StoreState, personId: number, { scored }: ScoredEntry): ScoringSignal[] {
  const { signalId, atMs, occurredMs: occurredAtMs } = scored;
  return scored.outcomes.map((id) => {
    const match = state.outcomes.get(id);
    return { ...match, signalId, atMs, occurredAtMs, ...lapseOf(state, personId, scored, match) };
  });
}

/**
 * The latest signals of a person, the latest first, also those that retention has dropped. `entry` is null if the signal has no score;
 * `count` counts the signals so far.
 */
export function* latestScored(
  state: StoreState,
  { id, recent }: { id: number; recent: string },
  { before, limit }: { before: number; limit: number },
): Generator<{ count: number; seq: number; entry: ScoredEntry | null }> {
  let end = before;
  for (let count = 0; count < limit;) {
    const portion = Math.min(ENTRIES_AT_ONCE, limit - count);
    const entries = latestEntries(state.sql, personList(id), recent, { before: end, limit: portion });
    for (const stored of entries) {
      const entry = withCountedOutcomes(state, id, stored);
      yield { count: ++count, seq: entry.seq, entry: isScored(entry) ? entry : null };
    }
    const last = entries.at(-1);
    if (last === undefined || entries.length < portion) return;
    end = last.seq;
  }
}
