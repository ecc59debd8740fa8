/** The object's tables. */
export function createTables(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
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
      failures INTEGER NOT NULL,     -- attempts that have failed since one succeeded
      not_before_ms INTEGER NOT NULL, -- nothing is sent before, while attempts fail
      delivered_ms INTEGER,          -- when a delivery last arrived, to within a minute
      dropped INTEGER NOT NULL       -- events that were given up because too much waited
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS old_secrets (destination_id TEXT NOT NULL, secret TEXT NOT NULL, ends_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, secret)) WITHOUT ROWID;

    -- Ids of events that were taken over, so that each is taken over once.
    CREATE TABLE IF NOT EXISTS notifications_seen (id TEXT PRIMARY KEY) WITHOUT ROWID;
    -- Events that some delivery carries. Without data: it was about a person who was deleted.
    CREATE TABLE IF NOT EXISTS notifications (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      type TEXT NOT NULL,
      time_ms INTEGER NOT NULL,
      data TEXT
    );
    CREATE TABLE IF NOT EXISTS deliveries (
      destination_id TEXT NOT NULL,
      id TEXT NOT NULL,
      event_id TEXT NOT NULL,        -- of its first event: the webhook-id
      type TEXT NOT NULL,
      lane INTEGER NOT NULL,         -- of LANES
      events TEXT NOT NULL,          -- the numbers of its events, a JSON list; it grows until somebody takes the delivery
      bytes INTEGER NOT NULL,        -- of its events, and some for its rows
      state TEXT NOT NULL,
      end_reason TEXT,
      due_ms INTEGER,                -- when it is to be sent; null: it no longer waits
      taken_ms INTEGER,              -- when the consumer began the attempt that is under way; null: none is
      attempt INTEGER NOT NULL,      -- number of the next attempt, or of the one under way, from 1
      failed INTEGER NOT NULL,       -- attempts that have failed since the delivery was last asked for
      attempts TEXT NOT NULL,        -- how the attempts ended, a JSON list
      answers_hidden INTEGER NOT NULL, -- 1: a person whom it told of was deleted, so no answer to it is kept
      created_ms INTEGER NOT NULL,
      PRIMARY KEY (destination_id, id)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (destination_id, lane, due_ms) WHERE due_ms IS NOT NULL;

    CREATE TABLE IF NOT EXISTS key_notices (key_id TEXT NOT NULL, notice TEXT NOT NULL, of TEXT NOT NULL,
      PRIMARY KEY (key_id, notice)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS deleted_people (email_hash TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
    -- Destinations that were switched off, until the activity log says so.
    CREATE TABLE IF NOT EXISTS switched_off (destination_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, detail TEXT NOT NULL)
      WITHOUT ROWID;
  `);
}
