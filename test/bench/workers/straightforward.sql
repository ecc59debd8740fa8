CREATE TABLE api_keys (
  key_hash TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  signal_limit INTEGER NOT NULL,
  deactivated_at TEXT
);
CREATE TABLE mapping_rules (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  rule TEXT NOT NULL
);
CREATE TABLE signals (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  event TEXT NOT NULL,
  source TEXT NOT NULL,
  email TEXT,
  payload TEXT NOT NULL,
  received_at TEXT NOT NULL
);
CREATE UNIQUE INDEX signals_content ON signals (workspace_id, content_hash);
CREATE INDEX signals_event ON signals (workspace_id, event);
CREATE TABLE people (
  workspace_id TEXT NOT NULL,
  email TEXT NOT NULL,
  company TEXT,
  title TEXT,
  score INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, email)
);
CREATE TABLE scoring_signals (
  signal_id TEXT NOT NULL,
  rule_id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  email TEXT NOT NULL,
  scoring_signal TEXT NOT NULL,
  points INTEGER NOT NULL,
  PRIMARY KEY (signal_id, rule_id)
);
