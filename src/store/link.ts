/**
 * Anonymous signals whose visitor has become known (spec §6.1). What is to be linked is read off the tables, not
 * remembered: a crash between the steps changes nothing, and repeating a step is harmless.
 */
import type { LinkedSignal, UnlinkedSignal } from "./protocol.ts";
import { People } from "./people.ts";
import { leaving } from "./record.ts";
import { EventGroupChanges } from "./tables.ts";

/** An id of a visitor, as an identify call or a signal names it. */
export interface VisitorId {
  kind: "anonymous_id" | "user_id";
  value: string;
}

const OWNER_OF: Record<VisitorId["kind"], string> = {
  anonymous_id: "signals.anonymous_id = v.value",
  user_id: "signals.user_id = v.value",
};

/** Earlier signals of these visitors that are still anonymous although the visitor is linked; at most `limit`. */
export function unlinkedSignals(sql: SqlStorage, visitors: readonly VisitorId[], limit: number): UnlinkedSignal[] {
  const found = new Map<string, UnlinkedSignal>();
  for (const kind of ["user_id", "anonymous_id"] as const) {
    const values = visitors.filter((visitor) => visitor.kind === kind).map((visitor) => visitor.value);
    if (values.length === 0 || found.size >= limit) continue;
    const rows = sql.exec<{ id: string; source: string; email: string; payload: string }>(
      `SELECT signals.id, signals.source, people.email, signals.payload
       FROM json_each(?) AS v
       CROSS JOIN signals ON ${OWNER_OF[kind]} AND signals.status = 'anonymous'
       JOIN identities ON identities.kind = '${kind}' AND identities.value = v.value
       JOIN people ON people.id = identities.person_id
       LIMIT ?`,
      JSON.stringify(values),
      limit - found.size,
    );
    for (const row of rows) if (!found.has(row.id)) found.set(row.id, row);
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
      user_id: string | null;
      anonymous_id: string | null;
      received_at: number;
    }>(
      `SELECT id, event, source, user_id, anonymous_id, received_at FROM signals
       WHERE status = 'anonymous' AND id IN (SELECT value FROM json_each(?))`,
      JSON.stringify(linked.map((signal) => signal.id)),
    )
    .toArray();
  const evaluations = new Map(linked.map((signal) => [signal.id, signal] as const));
  const visitors = rows.map((row) => ({
    kind: "signal" as const,
    event: row.event,
    source: row.source,
    ...(row.user_id === null ? {} : { userId: row.user_id }),
    ...(row.anonymous_id === null ? {} : { anonymousId: row.anonymous_id }),
    hasOwnId: false,
    properties: {},
    traits: {},
  }));
  const people = new People(sql, visitors);
  const groups = new EventGroupChanges();
  let count = 0;
  rows.forEach((row, index) => {
    const visitor = visitors[index];
    const evaluation = evaluations.get(row.id);
    if (visitor === undefined || evaluation === undefined) return;
    const personId = people.ownerOf(visitor, row.received_at);
    if (personId === null) return;
    sql.exec(
      "UPDATE signals SET status = 'processed', person_id = ?2, linked_at = ?3, rules_tried = ?4 WHERE id = ?1",
      row.id,
      personId,
      nowMs,
      evaluation.rulesTried,
    );
    people.seen(personId, row.received_at);
    people.score(row.id, personId, evaluation.matches, row.received_at);
    groups.add(row.event, row.source, { ...leaving({ held: 0, anonymous: 1 }), count: 0 });
    count++;
  });
  people.write();
  groups.write(sql);
  return count;
}
