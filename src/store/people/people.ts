/** People as a batch reads and changes them. Rows are read on demand, and each changed row is written once, by `flush`. */
import { DAY_MS, dayOf } from "../../domain/duration.ts";
import {
  eachTrait,
  folded,
  PERSON_FIELDS,
  SEARCHED_TRAITS,
  TRAIT_NAMES,
  type PersonField,
} from "../../domain/signal/traits.ts";
import { Accounts } from "../accounts/accounts.ts";
import { insertRow, updateRow } from "../../platform/sql-row.ts";
import { isLater, type ReceivedOrder } from "../../wire/message.ts";
import type { SignalFacts, LinePerson } from "../log/line.ts";
import { type NumberedLine, readLine } from "../log/signal-log.ts";
import type { PersonRow } from "../schema.ts";
import type { Notification } from "../../domain/notifications/notification.ts";
import { crossingNotifications, ScoreNotifications, type ScoreSums } from "../state/raise-notifications.ts";
import { type StoreState, todayOf } from "../state/store-state.ts";
import type { RuleMatch } from "../../domain/rules/mapping-rule.ts";
import { addToBase, emptyBase, leftOfDropped, type PersonBase } from "./dropped-lines.ts";
import { DeletedClaims, Identities, idsOf, portionsOf, type VisitorNames, Owners } from "./identities.ts";
import {
  personList,
  addToRecent,
  ascendingEntries,
  changeEntries,
  entryOf,
  fitsInRow,
  hasLapsed,
  insertEntries,
  lapsedEntries,
  latestWithField,
  mergeEntries,
  readEntries,
  scoredBy,
  timesOf,
  type Entry,
  type EntryChange,
  type Scored,
} from "./timelines.ts";
import { removeLapsed, Scoring, type CountedMatch, type ScoreChange } from "./scoring.ts";
import { KEPT, STEPS } from "../steps.ts";

type PersonColumns = Omit<PersonRow, "names">;

const EMPTY_PERSON: Readonly<PersonColumns> = {
  id: 0,
  email: "",
  trait_orders: "",
  score: 0,
  score_before: null,
  lapses: "",
  next_lapse_at: null,
  account: null,
  first_seen: 0,
  last_seen: 0,
  last_day: 0,
  recent: "",
  base: "",
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
  /** The stored score without the points that have lapsed since. */
  unlapsed: number;
  /** `now.trait_orders`, read; null until something asks: few signals carry traits. */
  traitOrders: TraitOrders | null;
  /** Entries that this transaction adds. */
  entries: Entry[];
  /** The fields whose values came from lines that the person has lost. `#findLost` searches them again. */
  lost: Set<PersonField | "times">;
  /** Whether entries of dropped lines may have to go: points have lapsed, retention has dropped lines, or a search has ended. */
  hasLapsed: boolean;
}

export class People {
  readonly #state: StoreState;
  /** Null: there is no such person. */
  readonly #known = { id: new Map<number, KnownPerson | null>(), email: new Map<string, KnownPerson | null>() };
  readonly #scoring: Scoring;
  readonly #nowMs: number;
  readonly #today: number;
  readonly identities: Identities;
  readonly owners: Owners;
  readonly accounts: Accounts;
  /** Notifications of scores; null: no destination wants them. */
  readonly notifications: ScoreNotifications | null;

  constructor(state: StoreState, nowMs: number) {
    this.#state = state;
    this.#nowMs = nowMs;
    this.#today = todayOf(state, nowMs);
    this.#scoring = new Scoring(state, this.#today);
    const deleted = new DeletedClaims(state.sql);
    this.identities = new Identities(state.sql, deleted);
    this.owners = new Owners(this.identities, deleted);
    this.accounts = new Accounts(state.sql);
    this.notifications = state.head.wanted && new ScoreNotifications(state.head.wanted);
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
    const owner = this.owners.ownerOf(visitor, order);
    if (owner === null || owner.isDeleted || owner.personId === null) return null;
    return { personId: owner.personId, by: owner.by };
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
  addLine(personId: number, seq: number, facts: SignalFacts): readonly CountedMatch[] {
    const person = this.#person(personId);
    if (person === null) return [];
    addTraits(person, facts);
    const entry = entryOf(seq, facts);
    person.entries.push(entry);
    if (entry.scored === null) return [];
    const counted = this.#scoring.add(person.now, seq, entry.scored);
    const scoring = counted.filter(({ lapsed }) => !lapsed);
    this.notifications?.noteScored(person.now, { ...entry.scored, event: facts.event ?? "" }, scoring);
    return counted;
  }

  /** Returns the matches that had counted. @param facts of the line, before the change. */
  removeLine(personId: number, seq: number, facts: SignalFacts): readonly CountedMatch[] {
    const person = this.#person(personId);
    if (person === null) return [];
    this.#change(person, new Map([[seq, "gone"]]));
    noteLost(person, facts);
    const scored = scoredBy(facts);
    return scored === null ? [] : this.#scoring.remove(person.now, seq, scored);
  }

  /** Changes the entries of a person's lines. The caller changes their scores too: `changeScore`. */
  changeEntries(personId: number, changes: ReadonlyMap<number, ScoreChange>): void {
    const person = this.#person(personId);
    if (person === null) return;
    const rescored = ({ after: scored }: ScoreChange): EntryChange => {
      return (entry) => (entry.dropped ? this.#left(person, { ...entry, scored }) : { ...entry, scored });
    };
    this.#change(person, new Map([...changes].map(([seq, change]) => [seq, rescored(change)] as const)));
  }

  /** Returns what that does to the line; null: nothing counts more or less. */
  changeScore(personId: number, seq: number, change: ScoreChange): "added" | "changed" | "removed" | null {
    const person = this.#person(personId);
    return person && this.#scoring.change(person.now, seq, change);
  }

  /** Retention drops lines of a person, who keeps the times, traits and points that came from them. */
  dropLines(personId: number, lines: readonly NumberedLine[]): void {
    const person = this.#person(personId);
    if (person === null) return;
    const base = baseOf(person) ?? emptyBase();
    for (const { facts } of lines) addToBase(base, facts);
    person.now.base = JSON.stringify(base);
    const drop = ({ traits: _inBase, ...entry }: Entry): Entry | null => this.#left(person, entry);
    this.#change(person, new Map(lines.map(({ seq }) => [seq, drop] as const)));
    person.hasLapsed = true;
  }

  /** Removes the lapsed points of people: each read does so. */
  lapse(personIds: readonly number[]): void {
    this.preloadPeople(personIds);
  }

  preloadPeople(personIds: Iterable<number>): void {
    this.#read("id", personIds);
  }

  exists(personId: number): boolean {
    return this.#person(personId) !== null;
  }

  /** All entries of a person after a line, in ascending order. */
  entriesAfter(personId: number, seq: number): Iterable<Entry> {
    const person = this.#person(personId);
    if (person === null) return [];
    const recent = mergeEntries(readEntries(person.now.recent), person.entries);
    return ascendingEntries(this.#state.sql, personList(personId), recent, seq);
  }

  /** The score of a line; null: none. */
  scoredOf(personId: number, seq: number): Scored | null {
    const [entry] = this.entriesAfter(personId, seq - 1);
    return entry?.seq === seq ? entry.scored : null;
  }

  /** A search counts a match of an entry that has not counted, or moves the day from which a once-ever rule counts. */
  addFound(personId: number, seq: number, scored: Scored): void {
    const person = this.#person(personId);
    if (person !== null) this.#scoring.addFound(person.now, seq, scored);
  }

  /** A search lets an earlier match count in place of this one. */
  removeFound(personId: number, scored: Scored, match: RuleMatch): void {
    const person = this.#person(personId);
    if (person !== null) this.#scoring.removeFound(person.now, scored, match);
  }

  /** The person's score is complete again: `flush` compares it with the score before the first match was removed. */
  endReplacements(personId: number): void {
    const person = this.#person(personId);
    if (person === null) return;
    person.now.score_before = null;
    person.hasLapsed = true;
  }

  /**
   * Writes the changed people and accounts, and raises a notification for each threshold that a score passed.
   *
   * @param summed the changes of people's scores that raise no notification, because the caller reports their sum. Default: none.
   * @param others notifications for the same row. @returns the sum.
   */
  flush({ summed, others = [] }: { summed?: "lapses" | "changes"; others?: readonly Notification[] } = {}): ScoreSums {
    this.#countIds();
    for (const person of this.#known.id.values()) if (person !== null) this.#write(person);
    this.accounts.flush(this.notifications);
    const { notifications } = this;
    const ofPeople = (["lapses", "changes"] as const).flatMap((kind) =>
      kind === summed ? [] : crossingNotifications(this.#state, notifications?.[kind].crossings ?? [], this.#nowMs),
    );
    this.#state.raised.raise([...ofPeople, ...(notifications?.accountNotifications(this.#nowMs) ?? []), ...others]);
    return (summed && notifications?.[summed]) ?? { points: 0, crossings: [] };
  }

  #person(personId: number): KnownPerson | null {
    if (!this.#known.id.has(personId)) this.#read("id", [personId]);
    return this.#known.id.get(personId) ?? null;
  }

  #create(email: string, occurredMs: number): KnownPerson {
    const id = this.#state.head.nextPersonId++;
    const seen = { first_seen: occurredMs, last_seen: occurredMs, last_day: dayOf(occurredMs) };
    return this.#add(toKnown(null, { ...EMPTY_PERSON, id, email, ...seen }));
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
        const row = toRow(raw);
        const person = this.#add(toKnown(row, { ...row }));
        if (removeLapsed(person.now, this.#today)) {
          this.#state.head.lapsedUntil = this.#today;
          person.hasLapsed = true;
        }
        person.unlapsed = person.now.score;
      }
    }
  }

  #add(person: KnownPerson): KnownPerson {
    this.#known.id.set(person.now.id, person);
    this.#known.email.set(person.now.email, person);
    return person;
  }

  /** Drops the oldest ids of a kind, if they are too many. */
  #countIds(): void {
    for (const person of this.#addIdChanges()) {
      for (const kind of ID_KINDS) {
        const tooMany = person.now[`${kind}s`] - KEPT.personIds;
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
  #change({ now }: KnownPerson, changes: ReadonlyMap<number, EntryChange>): void {
    now.recent = changeEntries(this.#state.sql, personList(now.id), now.recent, changes);
  }

  /** The rest of the entry of a dropped line; null: the entry goes. */
  #left({ now }: KnownPerson, entry: Entry): Entry | null {
    return leftOfDropped(this.#state, now.id, entry, this.#today);
  }

  /** Removes entries of dropped lines whose points have lapsed, of a few rows. The run of lapses comes again for the rest. */
  #forgetLapsed(person: KnownPerson): void {
    if (!person.hasLapsed) return;
    const { now } = person;
    const read = (rows: number): Entry[] =>
      lapsedEntries(this.#state.sql, personList(now.id), now.recent, this.#today, rows);
    const entries = read(STEPS.lapsedRows);
    if (entries.length === 0) return;
    // An entry that a search may still count stays until `endReplacements`.
    let waiting = 0;
    const leave = (entry: Entry): Entry | null => {
      const left = this.#left(person, entry);
      if (left !== null && hasLapsed(left, this.#today)) waiting++;
      return left;
    };
    this.#change(person, new Map(entries.map(({ seq }) => [seq, leave] as const)));
    if (waiting < entries.length && read(1).length > 0) now.next_lapse_at = this.#today * DAY_MS;
  }

  /** Finds the times and traits that the person still has without the lost lines: in the timeline, or of dropped lines. */
  #findLost(person: KnownPerson): void {
    const { now, lost } = person;
    if (lost.size === 0) return;
    const traitOrders = traitOrdersOf(person);
    const { sql, signals } = this.#state;
    const [list, base] = [personList(now.id), baseOf(person)];
    for (const field of lost) {
      if (field === "times") {
        const times = [timesOf(sql, list, now.recent) ?? [], base ?? []].flat();
        now.first_seen = Math.min(...times.map(({ firstMs }) => firstMs));
        now.last_seen = Math.max(...times.map(({ lastMs }) => lastMs));
        now.last_day = dayOf(now.last_seen);
        continue;
      }
      const kept = base?.traits[field];
      const entry = latestWithField(sql, list, now.recent, field);
      const isStored = entry !== undefined && (kept === undefined || isLater(entry.traits, kept));
      const order = isStored ? entry.traits : kept;
      now[field] = (isStored ? readLine(signals, entry.seq)?.traits[field] : kept?.value) ?? null;
      if (order === undefined) delete traitOrders[field];
      else traitOrders[field] = { receivedAtMs: order.receivedAtMs, ordinal: order.ordinal };
    }
    lost.clear();
  }

  #write(person: KnownPerson): void {
    const { before, now, entries } = person;
    const { sql, due } = this.#state;
    // One search may end and another start in the same transaction: nothing is compared in between.
    if (this.#scoring.startReplacements(now.id)) now.score_before ??= before?.score_before ?? person.unlapsed;
    this.#compareScores(person);
    if (entries.length > 0) {
      now.recent = addToRecent(now.recent, entries);
      if (!fitsInRow(now.recent)) {
        insertEntries(sql, personList(now.id), readEntries(now.recent), now.recent);
        now.recent = "";
      }
      person.entries = [];
    }
    this.#forgetLapsed(person);
    this.#findLost(person);
    this.accounts.changeMember(before, now);
    if (person.traitOrders !== null) now.trait_orders = writeTraitOrders(person.traitOrders);
    const isRenamed = before === null || SEARCHED_TRAITS.some((trait) => before[trait] !== now[trait]);
    const row = isRenamed ? { ...now, names: searchedText(now) } : now;
    if (before === null) insertRow(sql, "people", row);
    else updateRow(sql, "people", ["id"], before, row);
    due.by("lapse", now.next_lapse_at);
    person.before = { ...now };
    person.unlapsed = now.score;
  }

  /** Points that have lapsed are a change of their own. While matches of the person are replaced, no threshold counts. */
  #compareScores({ before, now, unlapsed }: KnownPerson): void {
    const { notifications } = this;
    if (notifications === null) return;
    const stored = before?.score ?? 0;
    notifications.lapses.points += unlapsed - stored;
    notifications.changes.points += now.score - unlapsed;
    const comparedLast = before?.score_before ?? null;
    if (comparedLast === null) notifications.compare(now, stored, unlapsed, notifications.lapses);
    if (now.score_before === null)
      notifications.compare(now, comparedLast ?? unlapsed, now.score, notifications.changes);
  }
}

/** Where traits conflict, the latest received wins, field by field. */
function addTraits(person: KnownPerson, { admission, occurred, traits }: SignalFacts): void {
  const { now } = person;
  const { receivedAtMs, ordinal } = admission;
  now.first_seen = Math.min(now.first_seen, occurred.ms);
  now.last_seen = Math.max(now.last_seen, occurred.ms);
  now.last_day = dayOf(now.last_seen);
  for (const field of PERSON_FIELDS) {
    const value = traits[field];
    if (value === undefined) continue;
    const traitOrders = traitOrdersOf(person);
    const known = traitOrders[field];
    if (known !== undefined && !isLater(admission, known)) continue;
    now[field] = value;
    traitOrders[field] = { receivedAtMs, ordinal };
  }
}

/** Notes which times and traits of a person came from a line that the person loses. */
function noteLost(person: KnownPerson, { admission, occurred, traits }: SignalFacts): void {
  const { now, lost } = person;
  if (occurred.ms === now.first_seen || occurred.ms === now.last_seen) lost.add("times");
  for (const field of PERSON_FIELDS) {
    if (traits[field] === undefined) continue;
    const order = traitOrdersOf(person)[field];
    // A line that is later received in the same transaction may have replaced the value.
    if (order !== undefined && !isLater(order, admission)) lost.add(field);
  }
}

/** The text in which names are searched. Each trait is a line, so that no match spans two traits. */
function searchedText(person: PersonColumns): string {
  if (SEARCHED_TRAITS.every((trait) => person[trait] === null)) return "";
  return folded(SEARCHED_TRAITS.map((trait) => person[trait] ?? "").join("\n"));
}

function toRow(raw: SqlStorageValue[]): PersonColumns {
  const row: Record<string, SqlStorageValue> = { ...EMPTY_PERSON };
  for (const [place, column] of COLUMNS.entries()) row[column] = raw[place] ?? null;
  return row as unknown as PersonColumns;
}

function toKnown(before: PersonColumns | null, now: PersonColumns): KnownPerson {
  return { before, now, unlapsed: now.score, traitOrders: null, entries: [], lost: new Set(), hasLapsed: false };
}

function traitOrdersOf(person: KnownPerson): TraitOrders {
  return (person.traitOrders ??= readTraitOrders(person.now.trait_orders));
}

/** Null: retention has dropped no line of the person. */
function baseOf({ now: { base } }: KnownPerson): PersonBase | null {
  return base === "" ? null : (JSON.parse(base) as PersonBase);
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
