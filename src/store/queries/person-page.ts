/** Everything that a person's page shows, in one call. Each part has a limit and is read by an index. */
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Facts } from "../log/line.ts";
import { latestEntries, type Entry } from "../people/timelines.ts";
import { personList, visitorOfKey } from "../people/identities.ts";
import type {
  PersonPage,
  PersonTimeline,
  ScoreCurve,
  SharedId,
  TimelineEntry,
  TimelineSignal,
} from "../protocol/people-and-accounts.ts";
import { deletedUntilMs, type StoreState } from "../state/store-state.ts";
import { shownStatus } from "./newest-signals.ts";
import {
  counting,
  isScored,
  latestIdentities,
  latestScored,
  PERSON_COLUMNS,
  toPersonSummary,
  toScoringSignals,
  type PersonRow,
} from "./person-parts.ts";

const PERSON_IDENTITIES_SHOWN = 50;
const SHARED_IDS_SHOWN = 20;
/** Points of a score curve: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** The latest signals of a score curve: reading them takes some 20 ms. */
export const SCORE_CURVE_SIGNALS = 20_000;

/** The column of a signal that named its person. */
const NAMING_FIELD = { email: "email", user_id: "userId", anonymous_id: "anonymousId" } as const;

type Row = PersonRow & { recent: string };

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

/** The stored signals of a person, the latest recorded first. */
function listSignals(state: StoreState, person: Row, before: number, limit: number): PageOf<TimelineEntry> {
  const oldest = state.signals.firstSeq;
  const entries = latestEntries(state.sql, personList(person.id), person.recent, { before, limit: limit + 1 });
  const stored = entries.filter(({ seq }) => seq >= oldest);
  const shown = stored.slice(0, limit).map((entry) => counting(state, person.id, entry));
  return {
    items: toTimeline(state, shown).filter(({ signal }) => signal !== null),
    next: stored.length > limit ? String(shown.at(-1)?.seq) : null,
  };
}

/** The scoring signals of a person, the latest first. A page may be short although more follow. */
function listScores(state: StoreState, person: Row, before: number, limit: number): PageOf<TimelineEntry> {
  const scored: Entry[] = [];
  let last = 0;
  for (const { looked, seq, entry } of latestScored(state, person, { before, look: SCORE_CURVE_SIGNALS })) {
    if (entry !== null && scored.length === limit) return { items: toTimeline(state, scored), next: String(last) };
    if (entry !== null) scored.push(entry);
    last = seq;
    if (looked === SCORE_CURVE_SIGNALS) return { items: toTimeline(state, scored), next: String(last) };
  }
  return { items: toTimeline(state, scored), next: null };
}

function toTimeline(state: StoreState, entries: readonly Entry[]): TimelineEntry[] {
  return entries.map((entry) => {
    const facts = state.signals.read(entry.seq);
    return {
      signal: facts === null ? null : toTimelineSignal(facts),
      scores: isScored(entry) ? toScoringSignals(state, entry) : [],
    };
  });
}

function toTimelineSignal(facts: Facts): TimelineSignal {
  const { admission, kind, status, event, source, owner, linkedAtMs } = facts;
  return {
    id: admission.id,
    kind,
    status: shownStatus(status),
    event,
    source,
    namedBy: owner?.by ?? null,
    namedByValue: owner === null ? null : facts[NAMING_FIELD[owner.by]],
    linkedAtMs,
    receivedAtMs: admission.receivedAtMs,
  };
}

interface ScoredPoints {
  atMs: number;
  points: number;
}

/** The curve of a person's score by the received times of the latest signals, which may have been linked late. */
function readScoreCurve(state: StoreState, person: Row): ScoreCurve {
  const scored: ScoredPoints[] = [];
  let [signals, complete] = [0, true];
  const look = { before: Number.MAX_SAFE_INTEGER, look: SCORE_CURVE_SIGNALS + 1 };
  for (const { looked, entry } of latestScored(state, person, look)) {
    complete = looked <= SCORE_CURVE_SIGNALS;
    if (!complete || entry === null) continue;
    const { atMs, outcomes } = entry.scored;
    scored.push({ atMs, points: state.outcomes.points(outcomes) });
    signals += outcomes.length;
  }
  const steps = inSteps(scored.sort((a, b) => a.atMs - b.atMs));
  const fromScore = person.score - steps.reduce((sum, { points }) => sum + points, 0);
  let score = fromScore;
  return {
    fromScore,
    points: steps.map(({ atMs, points }) => ({ atMs, score: (score += points) })),
    signals,
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

/** The latest ids of a person that have named other people too. */
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
