/**
 * Makes the tables of a Durable Object from the SQL that `npm run migrations` generates.
 *
 * Drizzle's migrator would do the same, but an isolate would load drizzle for it before it answers its first sender: some 35 ms. And it
 * is asynchronous, so no field of an object could read a table.
 */
const KEY = "tables";

export interface Migrations {
  journal: { entries: readonly { idx: number; tag: string }[] };
  /** SQL by `m` and the four digits of `idx`. */
  migrations: Readonly<Record<string, string>>;
}

/** Applies the migrations that the object does not have yet, in one transaction. Without new ones, it reads one number. */
export function makeTables(storage: DurableObjectStorage, { journal, migrations }: Migrations): void {
  const made = storage.kv.get<number>(KEY) ?? 0;
  const missing = journal.entries.slice(made);
  if (missing.length === 0) return;
  storage.transactionSync(() => {
    for (const { idx, tag } of missing) {
      const sql = migrations[`m${String(idx).padStart(4, "0")}`];
      if (sql === undefined) throw new Error(`the migration ${tag} is missing`);
      storage.sql.exec(sql);
    }
    storage.kv.put(KEY, journal.entries.length);
  });
}
