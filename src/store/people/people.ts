/** People as a batch reads and changes them. Rows are read on demand, and each changed row is written once, by `write`. */
import { dayOf } from "../../domain/duration.ts";
import {
  eachTrait,
  folded,
  PERSON_FIELDS,
  SEARCHED_TRAITS,
  TRAIT_NAMES,
  type PersonField,
} from "../../domain/signal/traits.ts";
import { Accounts } from "../accounts/accounts.ts";
import { PERSON_MAX_IDS } from "../../limits.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { isLater, type ReceivedOrder } from "../../wire/admission.ts";
import { type Facts, type LinePerson, isDropped } from "../log/line.ts";
import type { PersonRow } from "../schema.ts";
import { ScoreNews } from "../state/raise-events.ts";
import { type StoreState, deletedUntilMs } from "../state/store-state.ts";
import { claimInForce, Identities, idsOf, portionsOf, type VisitorNames } from "./identities.ts";
import {
  personList,
  addToRecent,
  ascendingEntries,
  changeEntries,
  insertEntries,
  latestEntries,
  mergeEntries,
  readEntries,
  scoredBy,
  type Entry,
  type Scored,
} from "./timelines.ts";
import { removeLapsed, Scoring, type CountedMatch, endReplacement } from "./scoring.ts";
import type { Segment } from "../log/segment.ts";

/** The score of a line before and after a change; null: none. */
export interface ScoreChange {
  before: Scored | null;
  after: Scored | null;
}

type PersonColumns = Omit<PersonRow, "names">;

const EMPTY_PERSON: Readonly<PersonColumns> = {
  id: 0,
  email: "",
  trait_orders: "",
  score: 0,
  lapses: "",
  next_lapse_at: null,
  account: null,
  first_seen: 0,
  last_seen: 0,
  last_day: 0,
  recent: "",
  anonymous_ids: 0,
  user_ids: 0,
  ids_dropped: 0,
  ...eachTrait(() => null),
};
const COLUMNS = Object.keys(EMPTY_PERSON);
const READ = `SELECT ${COLUMNS.join(", ")} FROM people WHERE`;
const ID_KINDS = ["anonymous_id", "user_id"] as const;

interface KnownPerson {
  /** The stored row; null: the person is new. */
  before: PersonColumns | null;
  now: PersonColumns;
  traitOrders: TraitOrders;
  entries: Entry[];
}

export class People {
  readonly #state: StoreState;
  /** Null: there is no such person. */
  readonly #known = { id: new Map<number, KnownPerson | null>(), email: new Map<string, KnownPerson | null>() };
  readonly #scoring: Scoring;
  /** The current UTC day. Not earlier than a day whose lapses are already removed, even if the clock is. */
  readonly #today: number;
  readonly identities: Identities;
  readonly accounts: Accounts;
  /** People who lost a line that was the source of a trait or of a time, see `RecountStep`. */
  readonly toRecount = new Set<number>();
  /** Notifications of scores; null: no destination wants them. */
  readonly news: ScoreNews | null;

  constructor(state: StoreState, nowMs: number) {
    this.#state = state;
    this.#today = Math.max(dayOf(nowMs), state.books.lapsedUntil);
    this.#scoring = new Scoring(state, this.#today);
    this.identities = new Identities(state.sql);
    this.accounts = new Accounts(state.sql);
    this.news = state.books.wanted && new ScoreNews(state.books.wanted);
  }

  /** Reads the people of a batch with few statements. The ids of a visitor with an email are not needed. */
  preload(visitors: readonly VisitorNames[]): void {
    this.#read(
      "email",
      visitors.flatMap(({ email }) => email ?? []),
    );
    const ids = visitors.filter(({ email }) => typeof email !== "string").flatMap(idsOf);
    this.#read("id", this.identities.preload(ids));
  }

  /** Returns the person of a signal (design §8.3): by email, else user id, else anonymous id. An unknown email makes a new person. */
  personOf(visitor: VisitorNames, order: ReceivedOrder, occurredMs: number): LinePerson | null {
    if (typeof visitor.email === "string")
      return { personId: this.findOrCreate(visitor.email, occurredMs), by: "email" };
    return this.personByIds(visitor, order);
  }

  /** Returns the person of the visitor's strongest id that has a person. */
  personByIds(visitor: VisitorNames, order: ReceivedOrder): LinePerson | null {
    for (const id of idsOf(visitor)) {
      const claim = claimInForce(this.identities.claimsOf(id), order);
      if (claim !== undefined) return { personId: claim.personId, by: id.kind };
    }
    return null;
  }

  /** @param occurredMs when the signal that names the person occurred. */
  findOrCreate(email: string, occurredMs: number): number {
    if (!this.#known.email.has(email)) this.#read("email", [email]);
    return (this.#known.email.get(email) ?? this.#create(email, occurredMs)).now.id;
  }

  emailOf(personId: number): string | null {
    return this.#person(personId)?.now.email ?? null;
  }

  /** Adds a line with its score to a person. Returns the matches that count. */
  addLine(personId: number, seq: number, facts: Facts): readonly CountedMatch[] {
    const person = this.#person(personId);
    if (person === null) return [];
    addTraits(person, facts);
    const entry = { seq, scored: scoredBy(facts) };
    person.entries.push(entry);
    if (entry.scored === null) return [];
    const counted = this.#scoring.add(person.now, entry.scored);
    const news = counted.filter(({ lapsed }) => !lapsed);
    this.news?.noteScored(person.now, { ...entry.scored, event: facts.event ?? "" }, news);
    return counted;
  }

  /** Returns the matches that had counted. @param facts of the line, before the change. */
  removeLine(personId: number, seq: number, facts: Facts): readonly CountedMatch[] {
    const person = this.#person(personId);
    if (person === null) return [];
    this.#change(person, new Map([[seq, "gone"]]));
    if (removeTraits(person, facts)) this.toRecount.add(personId);
    const scored = scoredBy(facts);
    return scored === null ? [] : this.#scoring.remove(person.now, scored);
  }

  /** Changes the scores of a person's lines. Returns the number of lines whose score was added, changed and removed. */
  rescore(personId: number, changes: ReadonlyMap<number, ScoreChange>) {
    const counts = { added: 0, changed: 0, removed: 0 };
    const person = this.#person(personId);
    if (person === null) return counts;
    this.#change(person, new Map([...changes].map(([seq, { after }]) => [seq, after] as const)));
    for (const { before, after } of changes.values()) {
      const effect = this.#scoring.change(person.now, before, after);
      if (effect !== null) counts[effect]++;
    }
    return counts;
  }

  /**
   * Recomputes a person's times and traits from some of their lines. Lines that were counted before change nothing.
   *
   * @param keptUntilMs set for the first lines of a recount: times until then come from signals that retention has dropped, and stay.
   */
  recount(personId: number, lines: readonly Facts[], keptUntilMs: number | null): void {
    const person = this.#person(personId);
    const [first] = lines;
    if (person === null || first === undefined) return;
    if (keptUntilMs !== null) {
      const { ms } = first.occurred;
      if (person.now.first_seen > keptUntilMs) person.now.first_seen = ms;
      if (person.now.last_seen > keptUntilMs) person.now.last_seen = ms;
    }
    for (const facts of lines) addTraits(person, facts);
  }

  /** Removes the lapsed points of people: each read does so. */
  lapse(personIds: readonly number[]): void {
    this.#read("id", personIds);
  }

  /** Lets `write` search after a line for the match that replaces a removed match. False: the person no longer exists. */
  searchReplacement(personId: number, ruleId: string, seq: number): boolean {
    if (this.#person(personId) === null) return false;
    this.#scoring.searchReplacement(personId, ruleId, seq);
    return true;
  }

  latestEntriesOf(personId: number, range: { before: number; limit: number }): Entry[] {
    const recent = this.#person(personId)?.now.recent ?? "";
    return latestEntries(this.#state.sql, personList(personId), recent, range);
  }

  /** Returns the number of lines that score instead of removed lines. */
  write(): number {
    this.#countIds();
    const people = [...this.#known.id.values()].filter((person) => person !== null);
    let replaced = 0;
    for (const { now, entries } of people) {
      replaced += this.#scoring.replaceRemoved(now, (seq) =>
        ascendingEntries(this.#state.sql, personList(now.id), mergeEntries(readEntries(now.recent), entries), seq),
      );
    }
    for (const person of people) this.#write(person);
    this.accounts.write(this.news);
    return replaced;
  }

  #person(personId: number): KnownPerson | null {
    if (!this.#known.id.has(personId)) this.#read("id", [personId]);
    return this.#known.id.get(personId) ?? null;
  }

  #create(email: string, occurredMs: number): KnownPerson {
    const id = this.#state.books.nextPersonId++;
    const seen = { first_seen: occurredMs, last_seen: occurredMs, last_day: dayOf(occurredMs) };
    return this.#add({ before: null, now: { ...EMPTY_PERSON, id, email, ...seen }, traitOrders: {}, entries: [] });
  }

  #read(column: "id" | "email", values: Iterable<number | string>): void {
    const known: Map<number | string, KnownPerson | null> = this.#known[column];
    for (const portion of portionsOf(values)) {
      const unknown = portion.filter((value) => !known.has(value));
      if (unknown.length === 0) continue;
      for (const value of unknown) known.set(value, null);
      const query = `${READ} ${column} IN (SELECT value FROM json_each(?))`;
      // Reading rows as arrays takes half the time.
      for (const raw of this.#state.sql.exec(query, JSON.stringify(unknown)).raw()) {
        const person = this.#add(toKnown(raw));
        if (removeLapsed(person.now, this.#today)) this.#state.books.lapsedUntil = this.#today;
      }
    }
  }

  #add(person: KnownPerson): KnownPerson {
    this.#known.id.set(person.now.id, person);
    this.#known.email.set(person.now.email, person);
    return person;
  }

  /** Drops the oldest ids above PERSON_MAX_IDS of a kind. */
  #countIds(): void {
    for (const person of this.#addIdChanges()) {
      for (const kind of ID_KINDS) {
        const tooMany = person.now[`${kind}s`] - PERSON_MAX_IDS;
        if (tooMany > 0) person.now.ids_dropped += this.identities.dropOldest(person.now.id, kind, tooMany);
      }
    }
    this.#addIdChanges();
  }

  /** Returns the people whose numbers of ids have changed. */
  #addIdChanges(): KnownPerson[] {
    const changed: KnownPerson[] = [];
    for (const [personId, by] of this.identities.takeChanges()) {
      const person = this.#person(personId);
      if (person === null) continue;
      for (const kind of ID_KINDS) person.now[`${kind}s`] += by[kind];
      changed.push(person);
    }
    return changed;
  }

  /** Changes stored entries. A batch never changes an entry that it has added. */
  #change({ now }: KnownPerson, changes: ReadonlyMap<number, Scored | null | "gone">): void {
    now.recent = changeEntries(this.#state.sql, personList(now.id), now.recent, changes);
  }

  #write(person: KnownPerson): void {
    const { before, now, entries } = person;
    const { sql } = this.#state;
    this.news?.noteScoreChange(now, before?.score ?? 0);
    this.accounts.changeMember(before, now);
    now.trait_orders = writeTraitOrders(person.traitOrders);
    if (entries.length > 0) {
      const recent = addToRecent(now.recent, entries);
      if (recent === null) insertEntries(sql, personList(now.id), [...readEntries(now.recent), ...entries]);
      now.recent = recent ?? "";
      person.entries = [];
    }
    const isRenamed = before === null || SEARCHED_TRAITS.some((trait) => before[trait] !== now[trait]);
    const row = isRenamed ? { ...now, names: searchedText(now) } : now;
    if (before === null) insertRow(sql, "people", row);
    else updateRow(sql, "people", ["id"], before, row);
    person.before = { ...now };
  }
}

/** Of conflicting traits the latest received wins, field by field. */
function addTraits({ now, traitOrders }: KnownPerson, { admission, occurred, traits }: Facts): void {
  const { receivedAtMs, ordinal } = admission;
  now.first_seen = Math.min(now.first_seen, occurred.ms);
  now.last_seen = Math.max(now.last_seen, occurred.ms);
  now.last_day = dayOf(now.last_seen);
  for (const field of PERSON_FIELDS) {
    const value = traits[field];
    const known = traitOrders[field];
    if (value === undefined || (known !== undefined && !isLater(admission, known))) continue;
    now[field] = value;
    traitOrders[field] = { receivedAtMs, ordinal };
  }
}

/** Removes the traits that came from a line. Returns whether a trait or a time came from it. */
function removeTraits({ now, traitOrders }: KnownPerson, { admission, occurred, traits }: Facts): boolean {
  const { receivedAtMs, ordinal } = admission;
  let isSource = occurred.ms === now.first_seen || occurred.ms === now.last_seen;
  for (const field of PERSON_FIELDS) {
    const order = traitOrders[field];
    if (traits[field] === undefined || order?.receivedAtMs !== receivedAtMs || order.ordinal !== ordinal) continue;
    now[field] = null;
    delete traitOrders[field];
    isSource = true;
  }
  return isSource;
}

/** The text in which names are searched. Each trait is a line, so that no match spans two traits. */
function searchedText(person: PersonColumns): string {
  if (SEARCHED_TRAITS.every((trait) => person[trait] === null)) return "";
  return folded(SEARCHED_TRAITS.map((trait) => person[trait] ?? "").join("\n"));
}

function toKnown(raw: SqlStorageValue[]): KnownPerson {
  const row: Record<string, SqlStorageValue> = { ...EMPTY_PERSON };
  for (const [place, column] of COLUMNS.entries()) row[column] = raw[place] ?? null;
  const before = row as unknown as PersonColumns;
  return { before, now: { ...before }, traitOrders: readTraitOrders(before.trait_orders), entries: [] };
}

/** The received order of the signals that the traits came from. */
type TraitOrders = Partial<Record<PersonField, ReceivedOrder>>;

/** One text per field, in base 36: `=` means the same as the field before, empty means none. An empty text of the account is left out. */
export function writeTraitOrders(orders: TraitOrders): string {
  let before: ReceivedOrder | undefined;
  const fields = orders.account === undefined ? TRAIT_NAMES : PERSON_FIELDS;
  const texts = fields.map((field) => {
    const order = orders[field];
    const isSame = order?.receivedAtMs === before?.receivedAtMs && order?.ordinal === before?.ordinal;
    before = order;
    if (order === undefined) return "";
    return isSame ? "=" : `${order.receivedAtMs.toString(36)}.${order.ordinal.toString(36)}`;
  });
  return texts.join();
}

export function readTraitOrders(text: string): TraitOrders {
  const orders: TraitOrders = {};
  let before: ReceivedOrder | undefined;
  for (const [index, part] of text.split(",").entries()) {
    if (part !== "=") {
      const [at = "", ordinal] = part.split(".");
      before =
        ordinal === undefined
          ? undefined
          : { receivedAtMs: Number.parseInt(at, 36), ordinal: Number.parseInt(ordinal, 36) };
    }
    const field = PERSON_FIELDS[index];
    if (field !== undefined && before !== undefined) orders[field] = before;
  }
  return orders;
}

// Two jobs that repair people after lines were removed from them. A row stores the remaining work.
//
// - Recount: if a removed line was the source of a time or a trait, recompute it from the remaining lines, the latest first. Lines that
//   are recorded meanwhile count as usual, and counting a line twice is harmless.
// - Replacement: if a removed match counted for a rule that scores once, search for the match that counts instead (scoring.ts).

/** A step of this size takes about 20 ms. */
const RECOUNT_STEP_LINES = 5_000;
/** Cost of unpacking a segment, in lines. */
const SEGMENT_LINES = 60;
const JOBS_PER_STEP = 50;

/** Lines before `before` remain; null: all lines. */
type RecountRow = { person_id: number; before: number | null };
type ReplacementRow = { person_id: number; rule_id: string; behind_seq: number };

/** A job recounts what exceeds the budget of a step. */
export function writeAndRecount(state: StoreState, people: People): void {
  people.write();
  if (people.toRecount.size === 0) return;
  const step = new RecountStep(state, people);
  for (const personId of people.toRecount) step.take({ person_id: personId, before: null });
  people.toRecount.clear();
  people.write();
}

export function hasRecounts(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM recounts LIMIT 1").toArray().length > 0;
}

export function stepRecounts(state: StoreState, nowMs: number): void {
  const people = new People(state, nowMs);
  const step = new RecountStep(state, people);
  const jobs = state.sql.exec<RecountRow>("SELECT person_id, before FROM recounts LIMIT ?", JOBS_PER_STEP);
  for (const job of jobs.toArray()) step.take(job);
  people.write();
  state.signals.flush();
}

class RecountStep {
  readonly #state: StoreState;
  readonly #people: People;
  #budget = RECOUNT_STEP_LINES;

  constructor(state: StoreState, people: People) {
    this.#state = state;
    this.#people = people;
  }

  take({ person_id: personId, before }: RecountRow): void {
    const { sql } = this.#state;
    const left = this.#count(personId, before);
    if (left === 0) sql.exec("DELETE FROM recounts WHERE person_id = ?", personId);
    else sql.exec("INSERT OR REPLACE INTO recounts (person_id, before) VALUES (?, ?)", personId, left);
  }

  /** Returns the line before which lines remain; 0: none; null: all. */
  #count(personId: number, before: number | null): number | null {
    const limit = this.#budget;
    if (limit <= 0) return before;
    const { sql, signals } = this.#state;
    const entries = this.#people.latestEntriesOf(personId, { before: before ?? Number.MAX_SAFE_INTEGER, limit });
    const oldest = signals.firstSeq;
    const lines: Facts[] = [];
    let left = entries.length < limit ? 0 : (entries.at(-1)?.seq ?? 0);
    let segment: Segment | null = null;
    for (const { seq } of entries) {
      if (seq < oldest) {
        left = 0;
        break;
      }
      if (this.#budget <= 0) {
        left = seq + 1;
        break;
      }
      if (segment === null || seq < segment.firstSeq) {
        segment = signals.segmentOf(seq);
        this.#budget -= SEGMENT_LINES;
      }
      this.#budget--;
      const facts = segment?.facts(seq);
      if (facts !== undefined && !isDropped(facts)) lines.push(facts);
    }
    this.#people.recount(personId, lines, before === null ? deletedUntilMs(sql) : null);
    return left;
  }
}

export function hasReplacements(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM replacements LIMIT 1").toArray().length > 0;
}

export function stepReplacements(state: StoreState, nowMs: number): void {
  const { sql } = state;
  const people = new People(state, nowMs);
  const jobs = sql.exec<ReplacementRow>(
    "SELECT person_id, rule_id, behind_seq FROM replacements LIMIT ?",
    JOBS_PER_STEP,
  );
  for (const { person_id: personId, rule_id: ruleId, behind_seq: afterSeq } of jobs.toArray()) {
    if (!people.searchReplacement(personId, ruleId, afterSeq)) endReplacement(sql, personId, ruleId);
  }
  people.write();
  state.raised.raise(people.news?.thresholdEvents(nowMs) ?? []);
  state.signals.flush();
}
