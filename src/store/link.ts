/**
 * Signals whose visitor has become known (spec §6.1): anonymous ones, and those that an anonymous id gave to a person
 * before their user id, which counts for more, was linked to another. What is to be linked is read off the tables, not
 * remembered: a crash between the steps changes nothing, and repeating a step is harmless. See link-jobs.ts.
 */
import type { Traits } from "../domain/signal.ts";
import { RULE_STEP_MAX_CHARACTERS } from "../limits.ts";
import { forgetCold, placeOf } from "./cold-storage.ts";
import type { ColdPlace } from "./cold-storage.ts";
import type { Evaluation } from "./protocol.ts";
import { People } from "./people.ts";
import type { Visitor } from "./people.ts";
import { recount } from "./recount.ts";
import { EventGroupChanges } from "./tables.ts";

/** An id of a visitor, as an identify call or a signal names it. */
export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

/** A user id counts for more. */
const VISITOR_KINDS = ["user_id", "anonymous_id"] as const;

/** A signal whose visitor is known by now, or better than before: to be run through the rules and given to the person. */
export interface UnlinkedSignal {
  visitor: VisitorId;
  id: string;
  source: string;
  personId: number;
  email: string;
  /** Null where it is in cold storage, at `place`. */
  payload: string | null;
  place: ColdPlace | null;
}

export interface LinkedSignal extends Evaluation, Pick<UnlinkedSignal, "id" | "personId"> {
  payload: string;
  traits: Traits;
}

/** Signals of `visitor.value` that are not yet theirs although the visitor is linked, with the person it is linked to. */
const UNLINKED = {
  user_id: `signals
    JOIN identities ON identities.kind = 'user_id' AND identities.value = signals.user_id
    JOIN people ON people.id = identities.person_id
    WHERE signals.user_id = visitor.value AND (signals.status = 'anonymous' OR signals.named_by = 'anonymous_id')
      AND signals.email IS NULL`,
  anonymous_id: `signals
    JOIN identities AS anonymous ON anonymous.kind = 'anonymous_id' AND anonymous.value = signals.anonymous_id
    LEFT JOIN identities AS user ON user.kind = 'user_id' AND user.value = signals.user_id
    JOIN people ON people.id = ifnull(user.person_id, anonymous.person_id)
    WHERE signals.anonymous_id = visitor.value AND signals.status = 'anonymous'`,
};

/** Those of the visitors that have such signals. */
export function visitorsToLink(sql: SqlStorage, visitors: readonly VisitorId[]): VisitorId[] {
  return VISITOR_KINDS.flatMap((kind) => {
    const values = valuesOf(visitors, kind);
    if (values === null) return [];
    const rows = sql.exec<{ value: string }>(
      `SELECT visitor.value FROM json_each(?) AS visitor WHERE EXISTS (SELECT 1 FROM ${UNLINKED[kind]})`,
      values,
    );
    return [...rows].map(({ value }) => ({ kind, value }));
  });
}

/** Such signals of these visitors: at most `limit`, and fewer where they are large. */
export function unlinkedSignals(sql: SqlStorage, visitors: readonly VisitorId[], limit: number): UnlinkedSignal[] {
  const found = new Map<string, UnlinkedSignal>();
  let characters = 0;
  for (const kind of VISITOR_KINDS) {
    const values = valuesOf(visitors, kind);
    if (values === null || found.size >= limit) continue;
    const rows = sql.exec<{
      value: string;
      id: string;
      source: string;
      person_id: number;
      email: string;
      payload: string | null;
      cold_object: string | null;
      cold_line: number | null;
    }>(
      `SELECT visitor.value, signals.id, signals.source, people.id AS person_id, people.email, signals.payload,
         signals.cold_object, signals.cold_line
       FROM json_each(?) AS visitor CROSS JOIN ${UNLINKED[kind]} LIMIT ?`,
      values,
      limit - found.size,
    );
    for (const { value, id, source, person_id: personId, email, payload, cold_object, cold_line } of rows) {
      const place = placeOf({ payload, coldObject: cold_object, coldLine: cold_line });
      found.set(id, { visitor: { kind, value }, id, source, personId, email, payload, place });
      characters += payload?.length ?? 0;
      if (characters >= RULE_STEP_MAX_CHARACTERS) return [...found.values()];
    }
  }
  return [...found.values()];
}

/** As JSON; null when there are none of this kind. */
function valuesOf(visitors: readonly VisitorId[], kind: VisitorId["kind"]): string | null {
  const values = visitors.filter((visitor) => visitor.kind === kind).map((visitor) => visitor.value);
  return values.length === 0 ? null : JSON.stringify([...new Set(values)]);
}

/**
 * Gives the signals to the persons their visitors are linked to, with what they scored; those from cold storage get
 * their payload back. What has changed since `unlinkedSignals` is left for another time. Returns how many were given.
 */
export function linkSignals(sql: SqlStorage, linked: readonly LinkedSignal[], nowMs: number): number {
  const rows = sql
    .exec<{
      seq: number;
      id: string;
      event: string;
      source: string;
      person_id: number | null;
      user_id: string | null;
      anonymous_id: string | null;
      received_at: number;
      ordinal: number;
      payload: string | null;
      cold_object: string | null;
    }>(
      `SELECT seq, id, event, source, person_id, user_id, anonymous_id, received_at, ordinal, payload, cold_object
       FROM signals
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
    if (evaluation === undefined || owner?.personId !== evaluation.personId) return;
    if (row.person_id !== null && owner.by === "anonymous_id") return;
    count++;
    if (owner.personId === row.person_id) {
      sql.exec("UPDATE signals SET named_by = ? WHERE id = ?", owner.by, row.id);
      return;
    }
    sql.exec(
      `UPDATE signals SET status = 'processed', person_id = ?2, named_by = ?3, linked_at = ?4, rules_tried = ?5,
         payload = ?6
       WHERE id = ?1`,
      row.id,
      owner.personId,
      owner.by,
      nowMs,
      evaluation.rulesTried,
      row.payload ?? evaluation.payload,
    );
    if (row.person_id === null)
      groups.count(row.event, row.source, { count: 0, held: 0, anonymous: -1 }, row.received_at);
    else {
      people.unscore(row.id, row.person_id);
      left.add(row.person_id);
    }
    people.enrich(owner.personId, evaluation.traits, { receivedAtMs: row.received_at, ordinal: row.ordinal });
    people.seen(owner.personId, row.received_at);
    people.own(owner.personId, row.seq);
    people.score(row.id, owner.personId, evaluation.matches, row.received_at);
  });
  people.write();
  groups.write(sql);
  for (const personId of left) recount(sql, personId);
  forgetCold(
    sql,
    rows.map((row) => row.cold_object),
  );
  return count;
}
