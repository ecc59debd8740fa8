/** The Worker, its Durable Objects with a backup of each moment that a test requests. */
import { env } from "cloudflare:workers";
import { shiftAlarms } from "../../src/dev/worker/shift-alarms.ts";
import * as real from "../../src/index.ts";

/** Zero, unless `npm run at` started this run. */
export const clockAheadMs = Number((env as { CLOCK_AHEAD_MS?: string }).CLOCK_AHEAD_MS ?? 0);

export class QuotaCounter extends real.QuotaCounter {
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(withBackups(ctx), bindings);
  }
}

export class SignalStore extends real.SignalStore {
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(withBackups(ctx), bindings);
  }
}

export class Destinations extends real.Destinations {
  constructor(ctx: DurableObjectState, bindings: Env) {
    super(withBackups(ctx), bindings);
  }
}

export default real.default;

/** A copy of an object's tables and values: a bookmark of the platform's point-in-time recovery, which the local runtime lacks. */
interface Copy {
  atMs: number;
  /** The statements that create tables and indexes, and the rows of each table. */
  schema: string[];
  tables: { name: string; columns: string[]; rows: SqlStorageValue[][] }[];
  values: [string, unknown][];
}

interface Backups {
  copies: Copy[];
  /** The copy that the object loads at its next start. */
  armed: Copy | null;
}

const all = new Map<string, Backups>();

function backupsOf(ctx: DurableObjectState): Backups {
  const id = ctx.id.toString();
  const known = all.get(id) ?? { copies: [], armed: null };
  all.set(id, known);
  return known;
}

function copyOf({ storage }: DurableObjectState): Copy {
  const { sql, kv } = storage;
  const objects = sql
    .exec<{ type: string; name: string; sql: string }>(
      "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type DESC",
    )
    .toArray();
  return {
    atMs: Date.now(),
    schema: objects.map((object) => object.sql),
    tables: objects
      .filter(({ type }) => type === "table")
      .map(({ name }) => {
        const cursor = sql.exec(`SELECT * FROM "${name}"`);
        return { name, columns: cursor.columnNames, rows: [...cursor.raw()] };
      }),
    values: [...kv.list()],
  };
}

function restore({ storage }: DurableObjectState, { schema, tables, values }: Copy): void {
  const { sql, kv } = storage;
  const names = sql
    .exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )
    .toArray();
  storage.transactionSync(() => {
    for (const { name } of names) sql.exec(`DROP TABLE "${name}"`);
    for (const statement of schema) sql.exec(statement);
    for (const { name, columns, rows } of tables) {
      const marks = columns.map(() => "?").join(", ");
      for (const row of rows) sql.exec(`INSERT INTO "${name}" (${columns.join(", ")}) VALUES (${marks})`, ...row);
    }
    for (const [key] of Array.from(kv.list())) kv.delete(key);
    for (const [key, value] of values) kv.put(key, value);
  });
}

/** Gives a starting object the platform's backups, and the state that it was restored to. */
function withBackups(ctx: DurableObjectState): DurableObjectState {
  const backups = backupsOf(ctx);
  if (backups.armed !== null) restore(ctx, backups.armed);
  backups.armed = null;
  shiftAlarms(ctx.storage, clockAheadMs);
  const bookmarkOf = (copy: Copy): string => String(backups.copies.push(copy) - 1);
  Object.assign(ctx.storage, {
    getCurrentBookmark: async () => bookmarkOf(copyOf(ctx)),
    getBookmarkForTime: async (atMs: number) => {
      // The latest by the clock, which may have gone back since.
      const before = backups.copies.filter((copy) => copy.atMs <= atMs);
      const latest = before.findLast((copy) => copy.atMs === Math.max(...before.map((earlier) => earlier.atMs)));
      if (latest === undefined) throw new Error("there is no backup of that time");
      return String(backups.copies.indexOf(latest));
    },
    onNextSessionRestoreBookmark: async (bookmark: string) => {
      const copy = backups.copies[Number(bookmark)];
      if (copy === undefined) throw new Error("there is no such bookmark");
      const undo = bookmarkOf(copyOf(ctx));
      backups.armed = copy;
      return undo;
    },
  });
  return ctx;
}
