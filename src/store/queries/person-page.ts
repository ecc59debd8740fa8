/** Everything that a person's page shows, in one call. Each part has a limit and is read by an index. */
import type { Page, PageOf } from "../../platform/list-page.ts";
import type { Facts } from "../log/line.ts";
import { latestEntries } from "../people/timelines.ts";
import type { Entry } from "../people/timelines.ts";
import { personList, visitorOfKey } from "../people/visitors.ts";
import type {
  PersonPage,
  PersonTimeline,
  ScoreCurve,
  SharedId,
  TimelineEntry,
  TimelineSignal,
} from "../protocol/people-and-accounts.ts";
import { deletedUntilMs } from "../state/store-state.ts";
import type { StoreState } from "../state/store-state.ts";
import { firstIdentities, keyOfPlace, PERSON_COLUMNS, toPersonSummary } from "./person-row.ts";
import type { ClaimPlace, PersonRow } from "./person-row.ts";
import { counting, isScored, latestScored, toScoringSignals } from "./scored-entries.ts";
import type { ListedPerson } from "./scored-entries.ts";
import { shownStatus } from "./newest-signals.ts";

/** Ids shown with a person. */
const PERSON_IDENTITIES_SHOWN = 50;

/** The field of a signal that holds what named its person. */
const NAMING_FIELD = { email: "email", user_id: "userId", anonymous_id: "anonymousId" } as const;

type Row = PersonRow & { recent: string };

/** A person's page. Null: unknown email, or the person is being deleted. An invalid cursor is ignored. */
export function readPersonPage(
  state: StoreState,
  email: string,
  timeline: PersonTimeline,
  { cursor, limit }: Page,
): PersonPage | null {
  const [person] = state.sql.exec<Row>(`SELECT ${PERSON_COLUMNS}, recent FROM people WHERE email = ?`, email);
  if (person === undefined) return null;
  const { identities, more, until } = firstIdentities(state.sql, person.id, PERSON_IDENTITIES_SHOWN);
  const before = /^\d{1,15}$/.test(cursor ?? "") ? Number(cursor) : Number.MAX_SAFE_INTEGER;
  return {
    person: toPersonSummary(person),
    identities,
    moreIdentities: more,
    sharedIds: sharedIds(state.sql, person.id, until),
    curve: readScoreCurve(state, person, person.score),
    timeline: (timeline === "all" ? listSignals : listScores)(state, person, before, limit),
    deletedUntilMs: deletedUntilMs(state.sql),
  };
}

/** The person's signals that are kept, the latest recorded first, each with what it has scored. */
function listSignals(state: StoreState, person: ListedPerson, before: number, limit: number): PageOf<TimelineEntry> {
  const oldest = state.signals.firstSeq;
  const entries = latestEntries(state.sql, personList(person.id), person.recent, { before, limit: limit + 1 });
  const kept = entries.filter(({ seq }) => seq >= oldest);
  return {
    items: toTimeline(
      state,
      kept.slice(0, limit).map((entry) => counting(state, person.id, entry)),
    ).filter(({ signal }) => signal !== null),
    next: kept.length > limit ? String(kept[limit - 1]?.seq) : null,
  };
}

/** The person's scoring signals, latest first. A slice may be short although more follow. */
function listScores(state: StoreState, person: ListedPerson, before: number, limit: number): PageOf<TimelineEntry> {
  const scored: Entry[] = [];
  let last = 0;
  let next: string | null = null;
  for (const { looked, seq, entry } of latestScored(state, person, { before, look: SCORE_CURVE_SIGNALS })) {
    if (entry !== null && scored.length === limit) {
      next = String(last);
      break;
    }
    if (entry !== null) scored.push(entry);
    last = seq;
    if (looked === SCORE_CURVE_SIGNALS) next = String(last);
  }
  return { items: toTimeline(state, scored), next };
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

// A person's score over time, from the scoring signals that made it, in at most SCORE_CURVE_STEPS steps.

/** Steps of the score curve: one for every few pixels. */
export const SCORE_CURVE_STEPS = 120;
/** Scoring signals, the latest, that the curve of a score is made of: reading them takes some 20 ms. */
export const SCORE_CURVE_SIGNALS = 20_000;

interface ScoredPoints {
  atMs: number;
  points: number;
  signals: number;
}

/**
 * The curve of a person's latest signals, by the times of their receipt: they may have been linked late.
 *
 * @param score what it has come to.
 */
function readScoreCurve(state: StoreState, person: ListedPerson, score: number): ScoreCurve {
  const scored: ScoredPoints[] = [];
  // One more than needed, to detect further rows.
  const look = { before: Number.MAX_SAFE_INTEGER, look: SCORE_CURVE_SIGNALS + 1 };
  let isMore = false;
  for (const { looked, entry } of latestScored(state, person, look)) {
    isMore = looked > SCORE_CURVE_SIGNALS;
    if (isMore || entry === null) continue;
    const { atMs, outcomes } = entry.scored;
    scored.push({ atMs, points: state.outcomes.points(outcomes), signals: outcomes.length });
  }
  scored.sort((one, other) => one.atMs - other.atMs);
  const steps = inSteps(scored);
  let reached = score - steps.reduce((sum, { points }) => sum + points, 0);
  const fromScore = reached;
  return {
    fromScore,
    points: steps.map(({ atMs, points }) => ({ atMs, score: (reached += points) })),
    signals: scored.reduce((sum, { signals }) => sum + signals, 0),
    complete: !isMore,
  };
}

/** Merges scoring signals that are close in time into one point, at the time of the last. */
function inSteps(scored: readonly ScoredPoints[]): { atMs: number; points: number }[] {
  const first = scored[0]?.atMs ?? 0;
  const stepMs = Math.floor(((scored.at(-1)?.atMs ?? 0) - first) / SCORE_CURVE_STEPS) + 1;
  const steps: { step: number; atMs: number; points: number }[] = [];
  for (const { atMs, points } of scored) {
    const step = Math.floor((atMs - first) / stepMs);
    const last = steps.at(-1);
    if (last?.step === step) {
      last.points += points;
      last.atMs = atMs;
    } else steps.push({ step, atMs, points });
  }
  return steps;
}

/** Latest other people who share an id with the person and are shown with it. */
const SHARED_IDS_SHOWN = 20;

type SharedIdRow = { key: ArrayBuffer; email: string; at: number };

/**
 * Shared ids of a person, latest first, at most SHARED_IDS_SHOWN.
 *
 * @param until last claim of the person to read, because a person may have very many. Null: all.
 */
export function sharedIds(sql: SqlStorage, personId: number, until: ClaimPlace | null): SharedId[] {
  const last = until ?? { key: "", atMs: 0, ordinal: 0 };
  const claims = sql.exec<SharedIdRow>(
    `SELECT other.key, people.email, other."at" FROM identities AS mine
       CROSS JOIN identities AS other
         ON other.key = mine.key AND other.person_id <> mine.person_id
       CROSS JOIN people ON people.id = other.person_id
     WHERE mine.person_id = ? AND (mine."at", mine.ordinal, mine.key) >= (?, ?, ?)`,
    personId,
    last.atMs,
    last.ordinal,
    keyOfPlace(last),
  );
  const found = new Map<string, SharedId>();
  for (const { at, email, key: ofId } of claims) {
    const id = { ...visitorOfKey(ofId), email };
    const key = JSON.stringify(id);
    found.set(key, { ...id, sinceMs: Math.max(at, found.get(key)?.sinceMs ?? 0) });
  }
  return [...found.values()].sort((a, b) => b.sinceMs - a.sinceMs).slice(0, SHARED_IDS_SHOWN);
}
