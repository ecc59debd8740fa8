/** Deactivated keys (design §5): a key is in here before its deactivation returns, and never leaves. */
export class RevokedKeys {
  readonly #sql: SqlStorage;
  readonly #ids = new Set<string>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS revoked_keys (key_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID");
    for (const row of sql.exec<{ key_id: string }>("SELECT key_id FROM revoked_keys")) this.#ids.add(row.key_id);
  }

  get ids(): ReadonlySet<string> {
    return this.#ids;
  }

  /** Returns how many of the keys were not revoked before. */
  add(keyIds: readonly string[], atMs: number): number {
    const news = keyIds.filter((keyId) => !this.#ids.has(keyId));
    this.#sql.exec("INSERT OR IGNORE INTO revoked_keys SELECT value, ? FROM json_each(?)", atMs, JSON.stringify(news));
    for (const keyId of news) this.#ids.add(keyId);
    return news.length;
  }
}
