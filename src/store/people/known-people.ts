/** Persons that a batch has come across, by number and by email: each is read once, and remembered as it is to be. */
import { TRAIT_NAMES } from "../../domain/signal/traits.ts";
import type { Traits } from "../../domain/signal/traits.ts";
import type { Facts } from "../log/line.ts";
import type { ReceivedOrder } from "../../wire/admission.ts";
import type { StoreState } from "../state/store-state.ts";
import { portionsOf } from "./identities.ts";
import { READ_PEOPLE, READ_PERSON, newPerson, toPersonColumns } from "./stored-person.ts";
import type { PersonColumns, RawPerson } from "./stored-person.ts";
import type { Entry } from "./timeline-text.ts";
import { readReceipts } from "./trait-receipts.ts";
import type { TraitReceipts } from "./trait-receipts.ts";

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
