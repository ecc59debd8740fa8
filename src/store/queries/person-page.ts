/** Everything that a person's page shows, in one call, and the parts that lists and exports show too. */
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { ListQuery, ListPage } from "../../platform/list-page.ts";
import { nameOf, SHORT_NAME } from "../accounts/accounts.ts";
import type { SignalFacts } from "../log/line.ts";
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
import { readLine } from "../log/signal-log.ts";
import type { SingleScores } from "../state/rule-outcomes.ts";
import { deletedUntilMs, todayOf } from "../state/store-state.ts";
import type { ShownState } from "./shown.ts";
import { isGroupCall, shownStatus } from "./newest-signals.ts";

const PERSON_IDENTITIES_SHOWN = 50;
const SHARED_IDS_SHOWN = 20;
/** Maximum points of a score curve: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** The latest signals of a score curve: reading them takes up to 40 ms. */
export const SCORE_CURVE_SIGNALS = 4_000;

/** The field of a line with the name that found its person. */
const NAMING_FIELD = { email: "email", user_id: "userId", anonymous_id: "anonymousId" } as const;

const ENTRIES_AT_ONCE = 1_000;

export type PersonSummaryRow = Omit<PersonSummary, "account" | "nextLapseAtMs" | "recomputing"> & {
  id: number;
  score_before: number | null;
  lastDay: number;
  lapses: string;
  next_lapse_at: number | null;
  accountId: string | null;
  /** JSON. */
  accountName: string | null;
};

export const PERSON_COLUMNS = `id, email, ${TRAIT_NAMES.join(", ")}, score, first_seen AS firstSeenMs, last_seen AS lastSeenMs,
  last_day AS lastDay, ids_dropped AS idsDropped, score_before, lapses, next_lapse_at, account AS accountId,
  (SELECT ${SHORT_NAME} FROM accounts WHERE external_id = people.account) AS accountName`;

type Row = PersonSummaryRow & { recent: string };

/** Null: the email is unknown, or the person is being deleted. An invalid cursor is ignored. */
export function readPersonPage(
  state: ShownState,
  email: string,
  timeline: PersonTimeline,
  { cursor, limit }: ListQuery,
): PersonPage | null {
  const [person] = state.sql.exec<Row>(`SELECT ${PERSON_COLUMNS}, recent FROM people WHERE email = ?`, email);
  if (person === undefined) return null;
  const identities = latestIdentities(state.sql, person.id, PERSON_IDENTITIES_SHOWN + 1);
  const before = /^\d{1,15}$/.test(cursor ?? "") ? Number(cursor) : Number.MAX_SAFE_INTEGER;
  return {
    person: toPersonSummary(state, person),
    identities: identities.slice(0, PERSON_IDENTITIES_SHOWN),
    moreIdentities: identities.length > PERSON_IDENTITIES_SHOWN,
    sharedIds: sharedIds(state.sql, person.id),
    curve: readScoreCurve(state, person),
    timeline: (timeline === "all" ? listSignals : listScores)(state, person, before, limit),
    deletedUntilMs: deletedUntilMs(state.sql),
  };
}

function listSignals(state: ShownState, person: Row, before: number, limit: number): ListPage<TimelineEntry> {
  const oldest = state.signals.firstSeq;
  const entries = latestEntries(state.sql, personList(person.id), person.recent, { before, limit: limit + 1 });
  const stored = entries.filter(({ seq }) => seq >= oldest);
  const counts = state.singleScores.countsOf(person.id);
  const shown = stored.slice(0, limit).map((entry) => withCountedOutcomes(state, counts, entry));
  return {
    items: toTimeline(state, person.id, shown).filter(({ signal }) => signal !== null),
    next: stored.length > limit ? String(shown.at(-1)?.seq) : null,
  };
}

/** A slice may be short although more scoring signals follow. */
function listScores(state: ShownState, person: Row, before: number, limit: number): ListPage<TimelineEntry> {
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

function toTimeline(state: ShownState, personId: number, entries: readonly Entry[]): TimelineEntry[] {
  return entries.map((entry) => {
    const facts = readLine(state.signals, entry.seq);
    return {
      signal: facts === null ? null : toTimelineSignal(facts),
      scores: isScored(entry) ? toScoringSignals(state, personId, entry) : [],
    };
  });
}

function toTimelineSignal(facts: SignalFacts): TimelineSignal {
  const { admission, occurred, kind, status, event, source, person, linkedAtMs, topic } = facts;
  return {
    id: admission.id,
    kind,
    status: shownStatus(status),
    event,
    source,
    topic,
    isGroupCall: isGroupCall(facts),
    isExcluded: facts.excludedBy !== null,
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

function readScoreCurve(state: ShownState, person: Row): ScoreCurve {
  return scoreCurve(readLatestScores(state, [person]), toPersonSummary(state, person).score);
}

interface ScoreOf<Person> extends ScoringSignal {
  seq: number;
  person: Person;
}

interface LatestScores<Person> {
  scores: readonly ScoreOf<Person>[];
  /** Signals up to this one were not read of everybody; null: all were read. */
  cutAtSeq: number | null;
}

/** The scores of the latest recorded signals of people: SCORE_CURVE_SIGNALS signals of all together, as many of each. */
export function readLatestScores<Person extends { id: number; recent: string }>(
  state: ShownState,
  people: readonly Person[],
): LatestScores<Person> {
  const limit = Math.floor(SCORE_CURVE_SIGNALS / Math.max(1, people.length));
  const scores: ScoreOf<Person>[] = [];
  let cutAtSeq: number | null = null;
  for (const person of people) {
    const range = { before: Number.MAX_SAFE_INTEGER, limit: limit + 1 };
    for (const { count, seq, entry } of latestScored(state, person, range)) {
      if (count > limit) cutAtSeq = Math.max(cutAtSeq ?? seq, seq);
      else if (entry !== null)
        scores.push(...toScoringSignals(state, person.id, entry).map((score) => ({ ...score, seq, person })));
    }
  }
  return { scores, cutAtSeq };
}

/** The curve follows the times from which points count, and ends at `now`, the present score. */
export function scoreCurve({ scores, cutAtSeq }: LatestScores<unknown>, now: number): ScoreCurve {
  const shown = cutAtSeq === null ? scores : scores.filter(({ seq }) => seq > cutAtSeq);
  const scored: ScoredPoints[] = [];
  const shares = new Map<string, RuleShare>();
  for (const { ruleId, points, countsFromMs: atMs, occurredAtMs, lapsed, lapsesAtMs } of shown) {
    scored.push({ atMs, points });
    if (lapsed && lapsesAtMs !== null) scored.push({ atMs: lapsesAtMs, points: -points });
    if (lapsed) continue;
    const share = shares.get(ruleId) ?? { ruleId, points: 0, times: 0, latestMs: 0 };
    shares.set(ruleId, {
      ruleId,
      points: share.points + points,
      times: share.times + 1,
      latestMs: Math.max(share.latestMs, occurredAtMs),
    });
  }
  const steps = inSteps(scored.sort((a, b) => a.atMs - b.atMs));
  const fromScore = now - steps.reduce((sum, { points }) => sum + points, 0);
  let score = fromScore;
  return {
    fromScore,
    points: steps.map(({ atMs, points }) => ({ atMs, score: (score += points) })),
    signals: shown.length,
    byRule: [...shares.values()].sort((a, b) => Math.abs(b.points) - Math.abs(a.points)),
    complete: cutAtSeq === null,
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

export function toPersonSummary(state: Pick<ShownState, "head">, row: PersonSummaryRow): PersonSummary {
  const { id: _id, lastDay: _day, score_before, lapses, next_lapse_at, accountId, accountName, ...summary } = row;
  const left = scoreAt({ score: row.score, lapses, next_lapse_at }, todayOf(state));
  return {
    ...summary,
    score: left.score,
    recomputing: score_before !== null,
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

/** Removes outcomes that do not count, because the rule scores a person only once. @param counts of the person, see `SingleScores`. */
export function withCountedOutcomes(
  { outcomes }: ShownState,
  counts: ReturnType<SingleScores["countsOf"]>,
  entry: Entry,
): Entry {
  const { seq, scored } = entry;
  if (scored === null) return entry;
  const counted = scored.outcomes.filter((id) => counts(scored, outcomes.get(id)));
  return { seq, scored: counted.length === 0 ? null : { ...scored, outcomes: counted } };
}

export function toScoringSignals(state: ShownState, personId: number, { scored }: ScoredEntry): ScoringSignal[] {
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
  state: ShownState,
  { id, recent }: { id: number; recent: string },
  { before, limit }: { before: number; limit: number },
): Generator<{ count: number; seq: number; entry: ScoredEntry | null }> {
  const counts = state.singleScores.countsOf(id);
  let end = before;
  for (let count = 0; count < limit;) {
    const portion = Math.min(ENTRIES_AT_ONCE, limit - count);
    const entries = latestEntries(state.sql, personList(id), recent, { before: end, limit: portion });
    for (const stored of entries) {
      const entry = withCountedOutcomes(state, counts, stored);
      yield { count: ++count, seq: entry.seq, entry: isScored(entry) ? entry : null };
    }
    const last = entries.at(-1);
    if (last === undefined || entries.length < portion) return;
    end = last.seq;
  }
}
