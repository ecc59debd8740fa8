/** People, their identities and their scores, as a batch sees and changes them. Plain SQL, see tables.ts. */
import type { NormalisedSignal, Traits } from "../domain/signal.ts";
import { RuleDayChanges } from "./day-changes.ts";
import type { NamedBy, RuleMatch } from "./protocol.ts";

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

/** Reads what a batch needs at once, and keeps it current while the batch is being recorded. */
export class People {
  readonly #sql: SqlStorage;
  readonly #byEmail = new Map<string, number>();
  readonly #byIdentity = new Map<string, number>();
  readonly #seen = new Map<number, { first: number; last: number }>();
  readonly #points = new Map<number, number>();
  readonly #ruleDays = new RuleDayChanges();
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

  /** At most one scoring signal per signal and rule; the score follows in the same transaction (design §8.6). */
  score(signalId: string, personId: number, matches: readonly RuleMatch[], atMs: number): void {
    for (const match of matches) {
      const { rowsWritten } = this.#sql.exec(
        `INSERT OR IGNORE INTO scoring_signals (signal_id, rule_id, rule_version, person_id, scoring_signal, points, at)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
        signalId,
        match.ruleId,
        match.ruleVersion,
        personId,
        match.scoringSignal,
        match.points,
        atMs,
      );
      if (rowsWritten === 0) continue;
      this.#points.set(personId, (this.#points.get(personId) ?? 0) + match.points);
      this.#ruleDays.add(match.ruleId, atMs, 1);
    }
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
   * One write per rule that matched in the batch, and one per person, of those columns that there is something for: where a column has an index, setting
   * it writes a row there too, whether it becomes another value or not.
   */
  write(): void {
    this.#ruleDays.write(this.#sql);
    for (const personId of new Set([...this.#seen.keys(), ...this.#points.keys()])) {
      const values: (string | number)[] = [personId];
      const value = (one: string | number) => `?${values.push(one)}`;
      const sets: string[] = [];
      const seen = this.#seen.get(personId);
      const points = this.#points.get(personId) ?? 0;
      if (seen !== undefined) {
        sets.push(
          `first_seen = min(first_seen, ${value(seen.first)}), last_seen = max(last_seen, ${value(seen.last)})`,
        );
      }
      if (points !== 0) sets.push(`score = score + ${value(points)}`);
      const claims = this.#traits.get(personId);
      for (const trait of TRAITS) {
        const claim = claims?.[trait];
        if (claim === undefined) continue;
        const [at, ordinal] = [value(claim.receivedAtMs), value(claim.ordinal)];
        const later = `(${at}, ${ordinal}) > (${trait}_at, ${trait}_ordinal)`;
        sets.push(`${trait} = iif(${later}, ${value(claim.value)}, ${trait}), ${trait}_at = iif(${later}, ${at}, ${trait}_at),
          ${trait}_ordinal = iif(${later}, ${ordinal}, ${trait}_ordinal)`);
      }
      if (sets.length > 0) this.#sql.exec(`UPDATE people SET ${sets.join(", ")} WHERE id = ?1`, ...values);
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
