/**
 * The signals of an event, and the scoring signals of a mapping rule, by indexes that begin with the block of the row:
 * BLOCK_ROWS rows that follow each other. What is recorded at one time so lies in a few pages of the index. By event alone
 * each event has a place of its own there, and in a workspace of a million signals a batch would rewrite hundreds of
 * pages. Reading goes from block to block, past those that have nothing: a microsecond or two each, so that what is rare
 * in a store of ten million rows is found in some ten milliseconds.
 */

/** More would spread a batch over more pages of an index, fewer would make reading what is rare longer. */
export const BLOCK_ROWS = 2_048;
const MOST_BLOCKS = 64;
const FIRST_ROWS = 32;
const MOST_ROWS = 1_024;

/** What is found by an index on `row / BLOCK_ROWS, value`. Part of statements: never what was sent. */
export interface BlockIndex {
  table: string;
  row: string;
  value: string;
}

export const SIGNALS_BY_EVENT: BlockIndex = { table: "signals", row: "seq", value: "event" };
export const SCORES_BY_RULE: BlockIndex = { table: "scoring_signals", row: "id", value: "rule_id" };

interface Sought {
  value: string;
  /** Not looked at itself, and the others only on one side of it. */
  from: number;
  to: "earlier" | "later";
  /** The last that may be read, of what comes later. */
  until?: number;
  /** A condition on the row besides. */
  where?: string;
  /** At most so many; none: as many as there are. */
  limit?: number | undefined;
}

/** The rows of a value in their order, read as far as they are asked for. */
export function* rowsByBlock<Row extends Record<string, SqlStorageValue>>(
  sql: SqlStorage,
  index: BlockIndex,
  sought: Sought,
  columns: string[] = [],
): Generator<Row & { row: number }, undefined> {
  const { table, row, value } = index;
  const { until = Number.MAX_SAFE_INTEGER, where = "TRUE" } = sought;
  const [side, order] = sought.to === "later" ? [`> ?3 AND ${row} <= ?4`, "ASC"] : ["< ?3", "DESC"];
  const query = `SELECT ${[`${row} AS row`, ...columns].join(", ")} FROM ${table}
    WHERE ${row} / ${BLOCK_ROWS} = ?1 AND ${value} = ?2 AND ${row} ${side} AND ${where}
    ORDER BY ${row} ${order} LIMIT ?5`;
  let { from, limit: left = Number.POSITIVE_INFINITY } = sought;
  let atOnce = FIRST_ROWS;
  for (const number of blocksOf(sql, index, sought)) {
    for (;;) {
      const asked = Math.min(left, atOnce);
      const rows = sql.exec<Row & { row: number }>(query, number, sought.value, from, until, asked).toArray();
      yield* rows;
      left -= rows.length;
      if (left === 0) return;
      if (rows.length < asked) break;
      from = rows.at(-1)?.row ?? from;
      atOnce = Math.min(atOnce * 2, MOST_ROWS);
    }
  }
}

/** The blocks that have rows of the value, in their order. */
function* blocksOf(sql: SqlStorage, { table, row, value }: BlockIndex, sought: Sought): Generator<number> {
  const { from, to, until = Number.MAX_SAFE_INTEGER } = sought;
  const [least, greatest] = [`(SELECT min(${row}) FROM ${table})`, `(SELECT max(${row}) FROM ${table})`];
  const [first, next] =
    to === "later"
      ? [`max(?1, ${least})`, `n + 1 FROM blocks WHERE n < CAST(min(?2, ${greatest}) AS INTEGER) / ${BLOCK_ROWS}`]
      : [`min(?1, ${greatest})`, `n - 1 FROM blocks WHERE n > ${least} / ${BLOCK_ROWS}`];
  // Numbers are bound as REAL, and blocks are whole ones.
  const query = `WITH RECURSIVE blocks(n) AS (SELECT CAST(${first} AS INTEGER) / ${BLOCK_ROWS} UNION ALL SELECT ${next})
    SELECT n FROM blocks
    WHERE EXISTS (SELECT 1 FROM ${table} WHERE ${row} / ${BLOCK_ROWS} = n AND ${value} = ?3) LIMIT ?4`;
  let start = from;
  for (let atOnce = 1; ; atOnce = Math.min(atOnce * 2, MOST_BLOCKS)) {
    const found = sql.exec<{ n: number }>(query, start, until, sought.value, atOnce).toArray();
    for (const { n } of found) yield n;
    const last = found.at(-1)?.n ?? 0;
    if (found.length < atOnce || (last === 0 && to === "earlier")) return;
    start = to === "later" ? (last + 1) * BLOCK_ROWS : last * BLOCK_ROWS - 1;
  }
}
