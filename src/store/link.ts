/**
 * Signals whose visitor has become known (spec §6.1): anonymous ones, and those that an anonymous id gave to a person
 * before their user id, which counts for more, was linked to another. What is to be linked is read off the tables, not
 * remembered: a crash between the steps changes nothing, and repeating a step is harmless.
 */
import type { LinkedSignal, UnlinkedSignal } from "./protocol.ts";
import { People } from "./people.ts";
import type { Visitor } from "./people.ts";
import { recount } from "./recount.ts";
import { EventGroupChanges } from "./tables.ts";

/** An id of a visitor, as an identify call or a signal names it. */
export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

const UNLINKED = {
  user_id: `SELECT signals.id, signals.source, people.email, signals.payload
    FROM json_each(?1) AS visitor
    CROSS JOIN signals ON signals.user_id = visitor.value
      AND (signals.status = 'anonymous' OR signals.named_by = 'anonymous_id')
    JOIN identities ON identities.kind = 'user_id' AND identities.value = signals.user_id
    JOIN people ON people.id = identities.person_id
    WHERE signals.email IS NULL
    LIMIT ?2`,
  anonymous_id: `SELECT signals.id, signals.source, people.email, signals.payload
    FROM json_each(?1) AS visitor
    CROSS JOIN signals ON signals.anonymous_id = visitor.value AND signals.status = 'anonymous'
    JOIN identities AS anonymous ON anonymous.kind = 'anonymous_id' AND anonymous.value = signals.anonymous_id
    LEFT JOIN identities AS user ON user.kind = 'user_id' AND user.value = signals.user_id
    JOIN people ON people.id = ifnull(user.person_id, anonymous.person_id)
    LIMIT ?2`,
};

/** Earlier signals of these visitors that are not yet theirs although the visitor is linked; at most `limit`. */
export function unlinkedSignals(sql: SqlStorage, visitors: readonly VisitorId[], limit: number): UnlinkedSignal[] {
  const found = new Map<string, UnlinkedSignal>();
  for (const kind of ["user_id", "anonymous_id"] as const) {
    const values = visitors.filter((visitor) => visitor.kind === kind).map((visitor) => visitor.value);
    if (values.length === 0 || found.size >= limit) continue;
    const rows = sql.exec<{ id: string; source: string; email: string; payload: string }>(
      UNLINKED[kind],
      JSON.stringify([...new Set(values)]),
      limit - found.size,
    );
    for (const row of rows) found.set(row.id, row);
  }
  return [...found.values()];
}

/** Gives the signals to the persons their visitors are linked to, with what they scored. Returns how many. */
export function linkSignals(sql: SqlStorage, linked: readonly LinkedSignal[], nowMs: number): number {
  const rows = sql
    .exec<{
      id: string;
      event: string;
      source: string;
      person_id: number | null;
      user_id: string | null;
      anonymous_id: string | null;
      received_at: number;
      ordinal: number;
    }>(
      `SELECT id, event, source, person_id, user_id, anonymous_id, received_at, ordinal FROM signals
       WHERE (status = 'anonymous' OR named_by = 'anonymous_id') AND id IN (SELECT value FROM json_each(?))`,
      JSON.stringify(linked.map((signal) => signal.id)),
    )
    .toArray();
  const evaluations = new Map(linked.map((signal) => [signal.id, signal] as const));
  const visitors = rows.map((row): Visitor => {
    const visitor: Visitor = {};
    if (row.user_id !== null) visitor.userId = row.user_id;
    if (row.anonymous_id !== null) visitor.anonymousId = row.anonymous_id;
    return visitor;
  });
  const people = new People(sql, visitors);
  const groups = new EventGroupChanges();
  /** Persons that a signal was taken from. */
  const left = new Set<number>();
  let count = 0;
  rows.forEach((row, index) => {
    const evaluation = evaluations.get(row.id);
    const owner = people.ownerOf(visitors[index] ?? {}, row.received_at);
    if (evaluation === undefined || owner === null || (row.person_id !== null && owner.by === "anonymous_id")) return;
    count++;
    if (owner.personId === row.person_id) {
      sql.exec("UPDATE signals SET named_by = ? WHERE id = ?", owner.by, row.id);
      return;
    }
    sql.exec(
      `UPDATE signals SET status = 'processed', person_id = ?2, named_by = ?3, linked_at = ?4, rules_tried = ?5
       WHERE id = ?1`,
      row.id,
      owner.personId,
      owner.by,
      nowMs,
      evaluation.rulesTried,
    );
    if (row.person_id === null)
      groups.count(row.event, row.source, { count: 0, held: 0, anonymous: -1 }, row.received_at);
    else {
      people.unscore(row.id, row.person_id);
      left.add(row.person_id);
    }
    people.enrich(owner.personId, evaluation.traits, { receivedAtMs: row.received_at, ordinal: row.ordinal });
    people.seen(owner.personId, row.received_at);
    people.score(row.id, owner.personId, evaluation.matches, row.received_at);
  });
  people.write();
  groups.write(sql);
  for (const personId of left) recount(sql, personId);
  return count;
}
