/**
 * People as a batch reads and changes them. Rows are read on demand and written once at the end, one row a person.
 */
import { dayOf } from "../../domain/quota/day-counts.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import { PERSON_MAX_IDS } from "../../limits.ts";
import { isLater } from "../../wire/admission.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import { ScoreNews } from "../state/raise-events.ts";
import type { Facts, Owner } from "../log/line.ts";
import type { StoreState } from "../state/store-state.ts";
import { Identities, portionsOf } from "./identities.ts";
import { Scoring } from "./scoring.ts";
import type { Replacement } from "./scoring.ts";
import {
  newPerson,
  READ_PEOPLE,
  READ_PERSON,
  readReceipts,
  toPersonColumns,
  writePerson,
  writeReceipts,
} from "./stored-person.ts";
import type { PersonColumns, RawPerson, TraitReceipts } from "./stored-person.ts";
import {
  addToRecent,
  ascendingEntries,
  changeEntries,
  insertEntries,
  mergeEntries,
  readEntries,
  scoredBy,
} from "./timelines.ts";
import type { Entry, Scored } from "./timelines.ts";
import { personList } from "./visitors.ts";
import type { VisitorId, VisitorNames } from "./visitors.ts";

const ID_COUNTS = [
  ["anonymous_id", "anonymous_ids"],
  ["user_id", "user_ids"],
] as const;
/** From how many visitors on reading them together is worth it. */
const PRELOAD_FROM = 4;

export class People {
  readonly #state: StoreState;
  readonly #known: KnownPeople;
  readonly identities: Identities;
  readonly #scoring: Scoring;
  /** Persons of whose times or traits some came from a line that was taken from them: see recount.ts. */
  readonly toRecount = new Set<number>();
  /** Notifications of scores; null if no destination wants them. */
  readonly news: ScoreNews | null;

  constructor(state: StoreState) {
    this.#state = state;
    this.#known = new KnownPeople(state);
    this.identities = new Identities(state.sql);
    this.#scoring = new Scoring(state);
    this.news = state.books.wanted && new ScoreNews(state.books.wanted);
  }

  /** Reads what a batch will ask for by few statements. */
  preload(visitors: readonly VisitorNames[]): void {
    if (visitors.length < PRELOAD_FROM) return;
    const emails = visitors.flatMap(({ email }) => email ?? []);
    this.#known.readEmails(emails);
    // A signal with an email is not looked up by its ids.
    const ids = visitors.flatMap(({ email, userId, anonymousId }): VisitorId[] => [
      ...(email !== undefined || userId === undefined ? [] : [{ kind: "user_id" as const, value: userId }]),
      ...(email !== undefined || anonymousId === undefined
        ? []
        : [{ kind: "anonymous_id" as const, value: anonymousId }]),
    ]);
    this.#known.readIds(this.identities.preload(ids));
  }

  /**
   * The person of a signal (design §8.3): by email, else user id, else anonymous id. An unknown email makes a new
   * person.
   */
  ownerOf({ email, userId, anonymousId }: VisitorNames, receipt: ReceivedOrder): Owner | null {
    if (email !== undefined) return { personId: this.personFor(email, receipt), by: "email" };
    return this.#linked("user_id", userId, receipt) ?? this.#linked("anonymous_id", anonymousId, receipt);
  }

  personFor(email: string, { receivedAtMs }: ReceivedOrder): number {
    return (this.#known.byEmail(email) ?? this.#known.create(email, receivedAtMs)).now.id;
  }

  emailOf(personId: number): string | null {
    return this.#known.byId(personId)?.now.email ?? null;
  }

  /** Merges traits into a person. Of conflicting values the latest by receipt wins, field by field. */
  enrich(personId: number, traits: Traits, receipt: ReceivedOrder): void {
    const person = this.#known.byId(personId);
    if (person === null) return;
    for (const trait of TRAIT_NAMES) {
      const value = traits[trait];
      if (value === undefined) continue;
      const known = person.receipts[trait];
      if (known !== undefined && !isLater(receipt, known)) continue;
      person.now[trait] = value;
      person.receipts[trait] = { receivedAtMs: receipt.receivedAtMs, ordinal: receipt.ordinal };
    }
  }

  seen(personId: number, atMs: number): void {
    const now = this.#known.byId(personId)?.now;
    if (now === undefined) return;
    now.first_seen = Math.min(now.first_seen, atMs);
    now.last_seen = Math.max(now.last_seen, atMs);
    now.last_day = dayOf(now.last_seen);
  }

  /**
   * Makes a line a person's, with what it has scored. Returns the matches that count.
   *
   * @param event names what the line says.
   */
  own(personId: number, entry: Entry, event: string | null): readonly RuleMatch[] {
    const person = this.#known.byId(personId);
    if (person === null) return [];
    person.entries.push(entry);
    if (entry.scored === null) return [];
    const counted = this.#scoring.add(person.now, entry.scored);
    this.news?.made(person.now, { ...entry.scored, event: event ?? "" }, counted);
    return counted;
  }

  /**
   * Changes what rules made of lines of a person; null is nothing.
   *
   * @param changes in the order of the lines.
   * @returns of how many lines what they score was added, changed and removed.
   */
  rescore(
    personId: number,
    changes: ReadonlyMap<number, { before: Scored | null; after: Scored | null }>,
  ): { added: number; changed: number; removed: number } {
    const done = { added: 0, changed: 0, removed: 0 };
    const person = this.#known.byId(personId);
    if (person === null) return done;
    this.#change(person, new Map([...changes].map(([seq, { after }]) => [seq, after] as const)));
    for (const { before, after } of changes.values()) {
      const what = this.#scoring.change(person.now, before, after);
      if (what !== null) done[what]++;
    }
    return done;
  }

  /** Takes a line from a person. Returns the matches that had counted. @param facts of the line, as they were. */
  disown(personId: number, seq: number, facts: Facts): readonly RuleMatch[] {
    const person = this.#known.byId(personId);
    if (person === null) return [];
    this.#change(person, new Map([[seq, "gone"]]));
    if (forgetLine(person, facts)) this.toRecount.add(personId);
    const scored = scoredBy(facts);
    return scored === null ? [] : this.#scoring.remove(person.now, scored);
  }

  /**
   * Begins to count a person's times again, with some of their lines. What comes from signals that retention has deleted
   * stays.
   *
   * @param keptUntilMs the latest receipt of signals that retention has deleted.
   */
  beginRecount(personId: number, lines: readonly LineOfPerson[], keptUntilMs: number): void {
    const now = this.#known.byId(personId)?.now;
    const [line] = lines;
    if (now === undefined || line === undefined) return;
    if (now.first_seen > keptUntilMs) now.first_seen = line.receipt.receivedAtMs;
    if (now.last_seen > keptUntilMs) now.last_seen = line.receipt.receivedAtMs;
    this.countAgain(personId, lines);
  }

  /** Adds lines of a person again; lines that were added before change nothing. */
  countAgain(personId: number, lines: readonly LineOfPerson[]): void {
    for (const { receipt, traits } of lines) {
      this.seen(personId, receipt.receivedAtMs);
      this.enrich(personId, traits, receipt);
    }
  }

  /** Lets `write` continue with a replacement. Returns false if the person no longer exists. */
  goOnReplacing({ personId, ruleId, behind }: Replacement): boolean {
    if (this.#known.byId(personId) === null) return false;
    this.#scoring.replaceBehind(personId, ruleId, behind);
    return true;
  }

  /** The latest entries of a person's list that are in their row. */
  recentOf(personId: number): string {
    return this.#known.byId(personId)?.now.recent ?? "";
  }

  /** Writes the changes. Returns the number of lines that score in place of others. */
  write(): number {
    this.#countIds();
    const people = this.#known.all();
    let replaced = 0;
    for (const person of people) {
      replaced += this.#scoring.replaceReleased(person.now, (seq) => this.#entriesBehind(person, seq));
    }
    for (const person of people) this.#write(person);
    return replaced;
  }

  /** Counts ids again and drops the oldest above PERSON_MAX_IDS of a kind. */
  #countIds(): void {
    for (const person of this.#withGrownIds()) {
      for (const [kind, column] of ID_COUNTS) {
        const tooMany = person.now[column] - PERSON_MAX_IDS;
        if (tooMany > 0) person.now.ids_dropped += this.identities.dropOldest(person.now.id, kind, tooMany);
      }
    }
    this.#withGrownIds();
  }

  #withGrownIds(): KnownPerson[] {
    const grown: KnownPerson[] = [];
    for (const [personId, by] of this.identities.takeGrowth()) {
      const person = this.#known.byId(personId);
      if (person === null) continue;
      for (const [kind, column] of ID_COUNTS) person.now[column] += by[kind];
      grown.push(person);
    }
    return grown;
  }

  #linked(kind: "user_id" | "anonymous_id", value: string | undefined, receipt: ReceivedOrder): Owner | null {
    if (value === undefined) return null;
    const personId = this.identities.ownerAt({ kind, value }, receipt);
    return personId === undefined ? null : { personId, by: kind };
  }

  #entriesBehind({ now: { id, recent }, entries }: KnownPerson, seq: number): Generator<Entry> {
    return ascendingEntries(this.#state.sql, personList(id), mergeEntries(readEntries(recent), entries), seq);
  }

  /** Changes entries of a person that are stored, or were added in this batch. */
  #change(person: KnownPerson, changes: Map<number, Scored | null | "gone">): void {
    person.entries = person.entries.flatMap((entry) => {
      const change = changes.get(entry.seq);
      if (change === undefined) return [entry];
      changes.delete(entry.seq);
      return change === "gone" ? [] : [{ seq: entry.seq, scored: change }];
    });
    const { id, recent } = person.now;
    person.now.recent = changeEntries(this.#state.sql, personList(id), recent, changes);
  }

  #write(person: KnownPerson): void {
    const { before, now } = person;
    const { sql } = this.#state;
    this.news?.changed(now, before?.score ?? 0);
    now.trait_orders = writeReceipts(person.receipts);
    if (person.entries.length > 0) {
      now.recent = this.#addEntries(person);
      person.entries = [];
    }
    if (writePerson(sql, before, now)) person.before = { ...now };
  }

  /** Adds a person's new entries. Returns those that are to be in the person's row; the rest goes to the rows of the list. */
  #addEntries({ now: { id, recent }, entries }: KnownPerson): string {
    const all = addToRecent(recent, entries);
    if (all === null) insertEntries(this.#state.sql, personList(id), [...readEntries(recent), ...entries]);
    return all ?? "";
  }
}

/** A person in memory: as stored, null where they are new, and as they are to be. */
export interface KnownPerson {
  before: PersonColumns | null;
  now: PersonColumns;
  receipts: TraitReceipts;
  /** Entries of the person's list that are new. */
  entries: Entry[];
}

/** Facts of a line that identify a person. */
export interface LineOfPerson {
  receipt: ReceivedOrder;
  traits: Traits;
}

export class KnownPeople {
  readonly #state: StoreState;
  readonly #byId = new Map<number, KnownPerson | null>();
  readonly #byEmail = new Map<string, KnownPerson | null>();

  constructor(state: StoreState) {
    this.#state = state;
  }

  /** Everybody that has been asked for, and is there. */
  all(): KnownPerson[] {
    return [...this.#byId.values()].filter((person) => person !== null);
  }

  byId(personId: number): KnownPerson | null {
    const known = this.#byId.get(personId);
    return known === undefined ? this.#read("id", personId) : known;
  }

  byEmail(email: string): KnownPerson | null {
    const known = this.#byEmail.get(email);
    return known === undefined ? this.#read("email", email) : known;
  }

  /** Creates a person. The email must be unused. */
  create(email: string, receivedAtMs: number): KnownPerson {
    const now = newPerson(this.#state.books.nextPersonId++, email, receivedAtMs);
    return this.#remember({ before: null, now, receipts: {}, entries: [] });
  }

  /** Reads people by emails, with few statements. */
  readEmails(emails: Iterable<string>): void {
    this.#readMany("email", this.#byEmail, emails);
  }

  /** Reads people by numbers, with few statements. */
  readIds(ids: Iterable<number>): void {
    this.#readMany("id", this.#byId, ids);
  }

  #read(column: "id" | "email", value: number | string): KnownPerson | null {
    const [raw] = this.#state.sql.exec(READ_PERSON[column], value).raw<RawPerson>();
    if (raw !== undefined) return this.#remember(toKnown(raw));
    if (typeof value === "number") this.#byId.set(value, null);
    return null;
  }

  #readMany<Value extends string | number>(
    column: "id" | "email",
    known: Map<Value, KnownPerson | null>,
    values: Iterable<Value>,
  ): void {
    for (const portion of portionsOf(values)) {
      const unknown = portion.filter((value) => !known.has(value));
      const rows = this.#state.sql.exec(READ_PEOPLE[column], JSON.stringify(unknown)).raw<RawPerson>();
      for (const raw of rows) this.#remember(toKnown(raw));
      for (const value of unknown) if (!known.has(value)) known.set(value, null);
    }
  }

  #remember(person: KnownPerson): KnownPerson {
    this.#byId.set(person.now.id, person);
    this.#byEmail.set(person.now.email, person);
    return person;
  }
}

function toKnown(raw: RawPerson): KnownPerson {
  const before = toPersonColumns(raw);
  return { before, now: { ...before }, receipts: readReceipts(before.trait_orders), entries: [] };
}

/** Takes from a person the traits that they have from a line. Returns whether any of those, or of their times, was from it. */
export function forgetLine({ now, receipts }: KnownPerson, { admission, traits }: Facts): boolean {
  const { receivedAtMs, ordinal } = admission;
  let isKnownByIt = receivedAtMs === now.first_seen || receivedAtMs === now.last_seen;
  for (const trait of TRAIT_NAMES) {
    const from = receipts[trait];
    if (traits[trait] === undefined || from?.receivedAtMs !== receivedAtMs || from.ordinal !== ordinal) continue;
    now[trait] = null;
    delete receipts[trait];
    isKnownByIt = true;
  }
  return isKnownByIt;
}
