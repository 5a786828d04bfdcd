CREATE TABLE IF NOT EXISTS nodes (
  id TEXT PRIMARY KEY,
  parent_id TEXT REFERENCES nodes(id),
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  kind TEXT NOT NULL DEFAULT 'pi',
  depth INTEGER NOT NULL,
  run_id TEXT, session_file TEXT, worktree_path TEXT, model TEXT, team TEXT,
  status TEXT NOT NULL, phase TEXT, phase_since INTEGER,
  rework_count INTEGER NOT NULL DEFAULT 0,
  contract_path TEXT, task_summary TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  node_id TEXT NOT NULL REFERENCES nodes(id),
  type TEXT NOT NULL, data TEXT, ts INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS usage (
  node_id TEXT PRIMARY KEY REFERENCES nodes(id),
  tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  from_node TEXT NOT NULL REFERENCES nodes(id),
  to_node TEXT NOT NULL REFERENCES nodes(id),
  subject TEXT NOT NULL, body TEXT NOT NULL,
  kind TEXT NOT NULL, urgency TEXT NOT NULL,
  delivered INTEGER NOT NULL DEFAULT 0, delivered_at INTEGER,
  created_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_nodes_parent   ON nodes(parent_id, status);
CREATE INDEX IF NOT EXISTS idx_nodes_status   ON nodes(status, updated_at);
CREATE INDEX IF NOT EXISTS idx_events_node    ON events(node_id, id);
CREATE INDEX IF NOT EXISTS idx_events_type_ts ON events(type, ts);
CREATE INDEX IF NOT EXISTS idx_messages_inbox ON messages(delivered, to_node, id);
CREATE INDEX IF NOT EXISTS idx_messages_rate  ON messages(from_node, created_at);
