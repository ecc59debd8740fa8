/** The signals that are to be erased with a person, each kind by an index of its own. */
import { AGAIN_PAGE_SIGNALS } from "../limits.ts";
import type { ErasureRow } from "./erasure.ts";
import type { VisitorId } from "./link.ts";
import { rowsOf, SIGNALS } from "./timelines.ts";

/** Set aside: nobody's, although it names somebody. One that names another email is that person's. */
const ASIDE = "signals.status IN ('held', 'duplicate')";
const OF_ID = "FROM json_each(?1) AS visitor CROSS JOIN signals";

const BY_PERSON = `${rowsOf(SIGNALS, "?1", "?2")} LIMIT ?2`;
const BY_EMAIL = `SELECT seq FROM signals WHERE email = ?1 AND ${ASIDE} LIMIT ?2`;
const BY_ID: Record<VisitorId["kind"], string[]> = {
  user_id: [
    `SELECT seq ${OF_ID} ON signals.user_id = visitor.value
       AND (signals.status = 'anonymous' OR signals.named_by = 'anonymous_id')
     WHERE +signals.status = 'anonymous' LIMIT ?2`,
    `SELECT seq ${OF_ID} ON signals.user_id = visitor.value AND ${ASIDE} WHERE email IS NULL LIMIT ?2`,
  ],
  anonymous_id: [
    `SELECT seq ${OF_ID} ON signals.anonymous_id = visitor.value AND signals.status = 'anonymous' LIMIT ?2`,
    `SELECT seq ${OF_ID} ON signals.anonymous_id = visitor.value AND ${ASIDE} WHERE email IS NULL LIMIT ?2`,
  ],
};

/** At most `limit`; `all` when there are no others. */
export function findSignals(
  sql: SqlStorage,
  job: ErasureRow,
  email: string,
  limit: number,
): { seqs: number[]; all: boolean } {
  const visitors = JSON.parse(job.visitors ?? "[]") as VisitorId[];
  const seqs = new Set<number>();
  const look = (query: string, by: SqlStorageValue): void => {
    if (seqs.size >= limit) return;
    for (const { seq } of sql.exec<{ seq: number }>(query, by, limit - seqs.size)) seqs.add(seq);
  };
  look(BY_PERSON, job.person_id);
  look(BY_EMAIL, email);
  for (const [kind, queries] of Object.entries(BY_ID)) {
    const values = JSON.stringify(visitors.filter((visitor) => visitor.kind === kind).map(({ value }) => value));
    for (const query of queries) look(query, values);
  }
  if (seqs.size >= limit) return { seqs: [...seqs], all: false };
  const dead = findDead(sql, job, [email, ...visitors.map(({ value }) => JSON.stringify(value))]);
  return { seqs: [...seqs, ...dead.seqs], all: dead.all };
}

/** Dead letters name nobody in a column of theirs: what they say is read, some at a time. They are few. */
function findDead(sql: SqlStorage, job: ErasureRow, texts: string[]): { seqs: number[]; all: boolean } {
  const seqs: number[] = [];
  let read = 0;
  const rows = sql.exec<{ seq: number; payload: string | null }>(
    `SELECT seq, payload FROM signals WHERE status = 'dead' AND status <> 'processed' AND seq > ? ORDER BY seq LIMIT ?`,
    job.dead_seq,
    AGAIN_PAGE_SIGNALS,
  );
  for (const { seq, payload } of rows) {
    read++;
    job.dead_seq = seq;
    const lower = payload?.toLowerCase() ?? "";
    if (texts.some((text) => lower.includes(text.toLowerCase()))) seqs.push(seq);
  }
  return { seqs, all: read < AGAIN_PAGE_SIGNALS };
}
