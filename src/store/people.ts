/** People, their identities and their scores, as a batch sees and changes them. Plain SQL, see tables.ts. */
import type { NormalisedSignal, Traits } from "../domain/signal.ts";
import { SQL_MAX_PARAMETERS } from "../limits.ts";
import { RuleDayChanges } from "./day-changes.ts";
import type { NamedBy, RuleMatch } from "./protocol.ts";
import { SCORES, SIGNALS, TimelineChanges } from "./timelines.ts";

/** What a signal says about who sent it. */
export type Visitor = Pick<NormalisedSignal, "email" | "userId" | "anonymousId">;

export interface Owner {
  personId: number;
  by: NamedBy;
}

/** Where a signal stands among all of its workspace: those of one commit share the time, so the ordinal decides. */
export interface Receipt {
  receivedAtMs: number;
  ordinal: number;
}

export function isLater(one: Receipt, other: Receipt): boolean {
  return (one.receivedAtMs - other.receivedAtMs || one.ordinal - other.ordinal) > 0;
}

export const TRAITS = ["name", "company", "title"] as const;
const TRAIT_COLUMNS = TRAITS.flatMap((trait) => [trait, `${trait}_at`, `${trait}_ordinal`]);

/** And the columns of the traits. */
interface StoredPerson {
  [column: string]: SqlStorageValue;
  id: number;
  score: number;
  first_seen: number;
  last_seen: number;
  recent_signals: string;
  recent_scoring_signals: string;
}

const SCORED_COLUMNS = ["signal_id", "rule_id", "rule_version", "person_id", "scoring_signal", "points", "at"] as const;
/** In one statement, which takes a hundred parameters at most: calling it costs about as much as writing a row. */
const SCORED_ROWS = Math.floor(SQL_MAX_PARAMETERS / SCORED_COLUMNS.length);

interface Scored extends RuleMatch {
  signalId: string;
  personId: number;
  atMs: number;
}

/** Reads what a batch needs at once, and keeps it current while the batch is being recorded. */
export class People {
  readonly #sql: SqlStorage;
  readonly #byEmail = new Map<string, number>();
  readonly #byIdentity = new Map<string, number>();
  readonly #seen = new Map<number, { first: number; last: number }>();
  readonly #points = new Map<number, number>();
  readonly #signals = new TimelineChanges(SIGNALS);
  readonly #scores = new TimelineChanges(SCORES);
  readonly #ruleDays = new RuleDayChanges();
  #scored: Scored[] = [];
  readonly #traits = new Map<number, { [Trait in keyof Traits]: { value: string } & Receipt }>();

  constructor(sql: SqlStorage, signals: Iterable<Visitor>) {
    this.#sql = sql;
    const emails = new Set<string>();
    const ids = new Set<string>();
    for (const { email, userId, anonymousId } of signals) {
      if (email !== undefined) emails.add(email);
      if (userId !== undefined) ids.add(userId);
      if (anonymousId !== undefined) ids.add(anonymousId);
    }
    if (emails.size > 0) {
      const rows = sql.exec<{ id: number; email: string }>(
        "SELECT id, email FROM people WHERE email IN (SELECT value FROM json_each(?))",
        JSON.stringify([...emails]),
      );
      for (const row of rows) this.#byEmail.set(row.email, row.id);
    }
    if (ids.size > 0) {
      const rows = sql.exec<{ kind: string; value: string; person_id: number }>(
        `SELECT kind, value, person_id FROM identities
         WHERE kind IN ('anonymous_id', 'user_id') AND value IN (SELECT value FROM json_each(?))`,
        JSON.stringify([...ids]),
      );
      for (const row of rows) this.#byIdentity.set(`${row.kind}:${row.value}`, row.person_id);
    }
  }

  /** Design §8.3: by email, else user id, else anonymous id. An email nobody has makes a new person. */
  ownerOf({ email, userId, anonymousId }: Visitor, receivedAtMs: number): Owner | null {
    if (email !== undefined) return { personId: this.#personFor(email, receivedAtMs), by: "email" };
    return this.#linked("user_id", userId) ?? this.#linked("anonymous_id", anonymousId);
  }

  /**
   * An identify call (spec §6): links its ids to the email. An id that is identified with a second email goes to the
   * later one from then on; what it already brought to the first stays there.
   */
  link(signal: Visitor, personId: number, receivedAtMs: number): void {
    for (const [kind, value] of [
      ["user_id", signal.userId],
      ["anonymous_id", signal.anonymousId],
    ] as const) {
      if (value === undefined) continue;
      const linked = this.#sql
        .exec<{ person_id: number }>(
          `INSERT INTO identities (kind, value, person_id, linked_at) VALUES (?, ?, ?, ?)
           ON CONFLICT (kind, value) DO UPDATE SET person_id = excluded.person_id, linked_at = excluded.linked_at
             WHERE excluded.linked_at > linked_at
           RETURNING person_id`,
          kind,
          value,
          personId,
          receivedAtMs,
        )
        .toArray()[0];
      if (linked !== undefined) this.#byIdentity.set(`${kind}:${value}`, linked.person_id);
    }
  }

  /** Conflicting traits: the latest by receipt wins, field by field. */
  enrich(personId: number, traits: Traits, receipt: Receipt): void {
    for (const trait of TRAITS) {
      const value = traits[trait];
      if (value === undefined) continue;
      const claims = this.#traits.get(personId) ?? {};
      this.#traits.set(personId, claims);
      const claim = claims[trait];
      if (claim === undefined || isLater(receipt, claim)) claims[trait] = { value, ...receipt };
    }
  }

  seen(personId: number, atMs: number): void {
    const seen = this.#seen.get(personId);
    if (seen === undefined) this.#seen.set(personId, { first: atMs, last: atMs });
    else {
      seen.first = Math.min(seen.first, atMs);
      seen.last = Math.max(seen.last, atMs);
    }
  }

  /** To be said of each stored signal that becomes a person's: only so it is found among theirs. */
  own(personId: number, seq: number): void {
    this.#signals.add(personId, seq);
  }

  /** Written with the rest. */
  score(signalId: string, personId: number, matches: readonly RuleMatch[], atMs: number): void {
    for (const match of matches) this.#scored.push({ ...match, signalId, personId, atMs });
  }

  /** Takes back what a signal scored. */
  unscore(signalId: string, personId: number): void {
    const taken = this.#sql.exec<{ rule_id: string; points: number; at: number }>(
      "DELETE FROM scoring_signals WHERE signal_id = ? RETURNING rule_id, points, at",
      signalId,
    );
    for (const { rule_id, points, at } of taken) {
      this.#points.set(personId, (this.#points.get(personId) ?? 0) - points);
      this.#ruleDays.add(rule_id, at, -1);
    }
  }

  /**
   * Scoring signals, one write per rule that matched, and one per person of the batch. All in the order of the people,
   * and after the signals rather than between them: what is written in turn to all tables and indexes of a large
   * workspace does not stay in memory until it is whole.
   */
  write(): void {
    const scored = this.#scored.sort((a, b) => a.personId - b.personId);
    this.#scored = [];
    for (let from = 0; from < scored.length; from += SCORED_ROWS)
      this.#writeScored(scored.slice(from, from + SCORED_ROWS));
    this.#ruleDays.write(this.#sql);
    this.#writePeople();
  }

  /**
   * Of those columns that become something else: where a column has an index, setting it writes rows there too, whether
   * its value is another one or not.
   */
  #writePeople(): void {
    const ids = new Set([...this.#seen.keys(), ...this.#points.keys(), ...this.#signals.people()]);
    const people = this.#sql
      .exec<StoredPerson>(
        `SELECT id, score, first_seen, last_seen, recent_signals, recent_scoring_signals, ${TRAIT_COLUMNS.join(", ")}
         FROM people WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`,
        JSON.stringify([...ids]),
      )
      .toArray();
    for (const person of people) {
      const values: SqlStorageValue[] = [person.id];
      const sets: string[] = [];
      const set = (column: string, value: SqlStorageValue): void => {
        if (person[column] !== value) sets.push(`${column} = ?${values.push(value)}`);
      };
      const seen = this.#seen.get(person.id);
      if (seen !== undefined) {
        set("first_seen", Math.min(person.first_seen, seen.first));
        set("last_seen", Math.max(person.last_seen, seen.last));
      }
      set("score", person.score + (this.#points.get(person.id) ?? 0));
      set("recent_signals", this.#signals.write(this.#sql, person.id, person.recent_signals));
      set("recent_scoring_signals", this.#scores.write(this.#sql, person.id, person.recent_scoring_signals));
      const claims = this.#traits.get(person.id);
      for (const trait of TRAITS) {
        const claim = claims?.[trait];
        const stored = { receivedAtMs: Number(person[`${trait}_at`]), ordinal: Number(person[`${trait}_ordinal`]) };
        if (claim === undefined || !isLater(claim, stored)) continue;
        set(trait, claim.value);
        set(`${trait}_at`, claim.receivedAtMs);
        set(`${trait}_ordinal`, claim.ordinal);
      }
      if (sets.length > 0) this.#sql.exec(`UPDATE people SET ${sets.join(", ")} WHERE id = ?1`, ...values);
    }
  }

  /** At most one scoring signal per signal and rule; the score follows in the same transaction (design §8.6). */
  #writeScored(scored: readonly Scored[]): void {
    const written = this.#sql.exec<{ id: number; rule_id: string; person_id: number; points: number; at: number }>(
      `INSERT OR IGNORE INTO scoring_signals (${SCORED_COLUMNS.join(", ")})
       VALUES ${scored.map(() => "(?, ?, ?, ?, ?, ?, ?)").join(", ")} RETURNING id, rule_id, person_id, points, at`,
      ...scored.flatMap((one) => [
        one.signalId,
        one.ruleId,
        one.ruleVersion,
        one.personId,
        one.scoringSignal,
        one.points,
        one.atMs,
      ]),
    );
    for (const { id, rule_id: ruleId, person_id: personId, points, at } of written) {
      this.#scores.add(personId, id);
      this.#points.set(personId, (this.#points.get(personId) ?? 0) + points);
      this.#ruleDays.add(ruleId, at, 1);
    }
  }

  #personFor(email: string, atMs: number): number {
    const known = this.#byEmail.get(email);
    if (known !== undefined) return known;
    const { id } = this.#sql
      .exec<{ id: number }>(
        "INSERT INTO people (email, first_seen, last_seen) VALUES (?1, ?2, ?2) RETURNING id",
        email,
        atMs,
      )
      .one();
    this.#byEmail.set(email, id);
    return id;
  }

  #linked(kind: "user_id" | "anonymous_id", value: string | undefined): Owner | null {
    const personId = value === undefined ? undefined : this.#byIdentity.get(`${kind}:${value}`);
    return personId === undefined ? null : { personId, by: kind };
  }
}
