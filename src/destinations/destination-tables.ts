/** The object's tables. Each is written by one file, which says what its columns mean. */
export function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS destinations (
      id TEXT PRIMARY KEY,
      name TEXT NOT NULL,
      type TEXT NOT NULL,
      target TEXT NOT NULL,
      events TEXT NOT NULL,
      pages_url TEXT NOT NULL,
      state TEXT NOT NULL,
      disabled_reason TEXT,
      created_ms INTEGER NOT NULL,
      secret TEXT,
      failing_since_ms INTEGER,
      failing_last_ms INTEGER,
      delivered_ms INTEGER,
      dropped INTEGER NOT NULL,
      gathered_to INTEGER NOT NULL,
      gathered_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS old_secrets (destination_id TEXT NOT NULL, secret TEXT NOT NULL, ends_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, secret)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS events_seen (id TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS scored (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      signals INTEGER NOT NULL,
      data TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS messages (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      type TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      data TEXT
    );
    CREATE TABLE IF NOT EXISTS deliveries (
      id TEXT PRIMARY KEY,
      destination_id TEXT NOT NULL,
      message INTEGER NOT NULL,
      kind INTEGER NOT NULL,
      state TEXT NOT NULL,
      end_reason TEXT,
      due_ms INTEGER,
      attempt INTEGER NOT NULL,
      failed INTEGER NOT NULL,
      attempts TEXT NOT NULL,
      created_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (destination_id, kind, due_ms) WHERE due_ms IS NOT NULL;
    CREATE INDEX IF NOT EXISTS deliveries_latest ON deliveries (destination_id, id);
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS key_notices (key_id TEXT NOT NULL, notice TEXT NOT NULL, of TEXT NOT NULL,
      PRIMARY KEY (key_id, notice)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deleted_people (email_hash TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS switched_off (destination_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, detail TEXT NOT NULL)
      WITHOUT ROWID;
  `);
}
