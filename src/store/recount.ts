/** A person as its signals make it, read again. For the rare case that one of them is taken away or moves in time. */
import { normalise } from "../domain/normalise.ts";
import type { JsonObject } from "../domain/signal.ts";
import { People, TRAITS } from "./people.ts";
import { deletedUntilMs } from "./retention.ts";
import { rowsOf, SIGNALS } from "./timelines.ts";

/** Those of signals that are still there; they are read again. */
const FORGET_TRAITS = TRAITS.flatMap((trait) => [
  `${trait} = iif(${trait}_at <= ?2, ${trait}, NULL)`,
  `${trait}_at = iif(${trait}_at <= ?2, ${trait}_at, 0)`,
]).join(", ");

const THEIRS = `signals WHERE seq IN (${rowsOf(SIGNALS, "?1")})`;

/** Times, links and traits; the score is always kept current. What comes from signals deleted since, stays. */
export function recount(sql: SqlStorage, personId: number): void {
  const keptUntil = deletedUntilMs(sql);
  sql.exec(
    `UPDATE people SET
       (first_seen, last_seen) = (SELECT
          iif(people.first_seen <= ?2, people.first_seen, ifnull(min(received_at), people.first_seen)),
          iif(people.last_seen <= ?2, people.last_seen, ifnull(max(received_at), people.last_seen))
        FROM ${THEIRS}),
       ${FORGET_TRAITS}
     WHERE id = ?1`,
    personId,
    keptUntil,
  );
  sql.exec(
    `UPDATE identities SET linked_at = ifnull((SELECT max(received_at) FROM ${THEIRS} AND signals.kind = 'identify'
         AND iif(identities.kind = 'user_id', user_id, anonymous_id) = identities.value), linked_at)
     WHERE person_id = ?1`,
    personId,
  );
  const people = new People(sql, []);
  const rows = sql.exec<{ payload: string; received_at: number; ordinal: number }>(
    `SELECT payload, received_at, ordinal FROM ${THEIRS} AND payload IS NOT NULL`,
    personId,
  );
  for (const { payload, received_at, ordinal } of rows) {
    const { traits } = normalise(JSON.parse(payload) as JsonObject, undefined);
    people.enrich(personId, traits, { receivedAtMs: received_at, ordinal });
    people.seen(personId, received_at);
  }
  people.write();
}
