/** A person as its signals make it, read again. For the rare case that one of them is taken away or moves in time. */
import { normalise } from "../domain/normalise.ts";
import type { JsonObject } from "../domain/signal.ts";
import { People } from "./people.ts";

/** Times, links and traits; the score is always kept current. */
export function recount(sql: SqlStorage, personId: number): void {
  sql.exec(
    `UPDATE people SET (first_seen, last_seen) =
       (SELECT ifnull(min(received_at), first_seen), ifnull(max(received_at), last_seen) FROM signals
        WHERE person_id = ?1), name = NULL, company = NULL, title = NULL, name_at = 0, company_at = 0, title_at = 0
     WHERE id = ?1`,
    personId,
  );
  sql.exec(
    `UPDATE identities SET linked_at = ifnull((SELECT max(received_at) FROM signals
       WHERE person_id = ?1 AND signals.kind = 'identify'
         AND iif(identities.kind = 'user_id', user_id, anonymous_id) = identities.value), linked_at)
     WHERE person_id = ?1`,
    personId,
  );
  const people = new People(sql, []);
  const rows = sql.exec<{ payload: string; received_at: number; ordinal: number }>(
    "SELECT payload, received_at, ordinal FROM signals WHERE person_id = ? AND payload IS NOT NULL",
    personId,
  );
  for (const { payload, received_at, ordinal } of rows) {
    const { traits } = normalise(JSON.parse(payload) as JsonObject, undefined);
    people.enrich(personId, traits, { receivedAtMs: received_at, ordinal });
    people.seen(personId, received_at);
  }
  people.write();
}
