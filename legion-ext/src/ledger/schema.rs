//! The schema of `legion.db` and the way to it from every older version.
//!
//! Versions: 1 has the four base tables; 2 has the same tables, with five values of `messages.delivered` instead of
//! three (the 1 of an old file reads as ACCEPTED); 3 adds `artifacts` and `consumptions`.

use std::path::Path;

use rusqlite::Connection;

use super::error::{LResult, LedgerError};

/// The schema version this build writes (LED-9).
pub const LEGION_DB_USER_VERSION: i64 = 3;

const BASE_TABLES: &str = "
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
";

const RESULT_TABLES: &str = "
CREATE TABLE IF NOT EXISTS artifacts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  node_id TEXT NOT NULL REFERENCES nodes(id),
  parent_id TEXT NOT NULL REFERENCES nodes(id),
  name TEXT NOT NULL, round INTEGER NOT NULL,
  path TEXT NOT NULL, bytes INTEGER NOT NULL, created_at INTEGER NOT NULL,
  UNIQUE (node_id, round)
);
CREATE TABLE IF NOT EXISTS consumptions (
  artifact_id INTEGER NOT NULL REFERENCES artifacts(id) ON DELETE CASCADE,
  consumer_id TEXT NOT NULL REFERENCES nodes(id),
  read_bytes INTEGER NOT NULL DEFAULT 0, notified_at INTEGER,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (artifact_id, consumer_id)
);
CREATE INDEX IF NOT EXISTS idx_artifacts_parent      ON artifacts(parent_id, id);
CREATE INDEX IF NOT EXISTS idx_consumptions_consumer ON consumptions(consumer_id);
";

/// Version reached and the statements that reach it from the one before.
const STEPS: [(i64, &str); 3] = [(1, BASE_TABLES), (2, ""), (3, RESULT_TABLES)];

/// Columns without which no statement works (LED-13).
const REQUIRED_COLUMNS: [(&str, &[&str]); 6] = [
    (
        "nodes",
        &[
            "id",
            "parent_id",
            "name",
            "role",
            "kind",
            "depth",
            "run_id",
            "session_file",
            "worktree_path",
            "model",
            "team",
            "status",
            "phase",
            "phase_since",
            "rework_count",
            "contract_path",
            "task_summary",
            "created_at",
            "updated_at",
        ],
    ),
    ("events", &["id", "node_id", "type", "data", "ts"]),
    ("usage", &["node_id", "tokens_in", "tokens_out", "cost_usd", "updated_at"]),
    (
        "messages",
        &[
            "id",
            "from_node",
            "to_node",
            "subject",
            "body",
            "kind",
            "urgency",
            "delivered",
            "delivered_at",
            "created_at",
        ],
    ),
    ("artifacts", &["id", "node_id", "parent_id", "name", "round", "path", "bytes", "created_at"]),
    ("consumptions", &["artifact_id", "consumer_id", "read_bytes", "notified_at", "updated_at"]),
];

pub(super) fn user_version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings a file of any older version to the current one; running it again changes nothing (LED-10).
///
/// Each step is a transaction that looks at the version again, so of two processes only one makes it (LED-11). A crash
/// between two steps leaves a file of the lower version, and the next opening goes on from there.
pub(super) fn migrate(conn: &mut Connection) -> rusqlite::Result<()> {
    let mut version = user_version(conn)?;
    for (reached, ddl) in STEPS {
        if version >= reached {
            continue;
        }
        let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        version = user_version(&tx)?;
        if version < reached {
            tx.execute_batch(ddl)?;
            tx.pragma_update(None, "user_version", reached)?;
            version = reached;
        }
        tx.commit()?;
    }
    Ok(())
}

/// Refuses a file that lacks a column this build needs, naming the first one.
pub(super) fn check_columns(conn: &Connection, path: &Path) -> LResult<()> {
    for (table, columns) in REQUIRED_COLUMNS {
        let mut info = conn.prepare(&format!("PRAGMA table_info({table})"))?;
        let present = info.query_map([], |row| row.get::<_, String>(1))?.collect::<Result<Vec<_>, _>>()?;
        if let Some(column) = columns.iter().find(|column| !present.iter().any(|name| name == *column)) {
            return Err(LedgerError::MissingColumn { path: path.to_owned(), table, column });
        }
    }
    Ok(())
}
