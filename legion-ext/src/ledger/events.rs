//! The append-only log of what happened to nodes, messages and budgets (06 §3).

use rusqlite::params;
use serde_json::{Map, Value};

use super::db::{Conn, Tx};
use super::error::{LResult, LedgerError};
use crate::core::events::EventType;

/// Rows read per poll (LED-53).
pub const EVENT_POLL_LIMIT: usize = 500;

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// Rises, and is never used twice.
    pub id: i64,
    pub node_id: String,
    pub kind: EventType,
    /// By the table of LED-46; empty where none was stored.
    pub data: Map<String, Value>,
    /// Milliseconds since the epoch.
    pub ts: i64,
}

/// The data of an event: the pairs that have a value (absent rather than null).
pub fn event_data<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Appends an event and returns its id; the node must exist.
pub fn append(tx: &Tx<'_>, node_id: &str, kind: EventType, data: &Map<String, Value>, now: i64) -> LResult<i64> {
    let text = serde_json::to_string(data).map_err(|error| LedgerError::BadRow {
        table: "events",
        id: "(new)".to_owned(),
        why: error.to_string(),
    })?;
    tx.insert(
        "INSERT INTO events (node_id, type, data, ts) VALUES (?1, ?2, ?3, ?4)",
        params![node_id, kind.as_str(), text, now],
    )
}

/// Events after `cursor` in id order, at most `limit`; an unreadable row fails the call (LED-50).
pub fn read_events_after(conn: &Conn, cursor: i64, limit: usize) -> LResult<Vec<EventRow>> {
    raw_after(conn, cursor, limit)?.into_iter().map(RawEvent::into_row).collect()
}

/// The last `limit` events of a node, oldest first; an unreadable row fails the call.
pub fn last_of_node(conn: &Conn, node_id: &str, limit: usize) -> LResult<Vec<EventRow>> {
    let mut rows = conn.rows(
        "SELECT id, node_id, type, data, ts FROM events WHERE node_id = ?1 ORDER BY id DESC LIMIT ?2",
        params![node_id, sql_limit(limit)],
        RawEvent::map,
    )?;
    rows.reverse();
    rows.into_iter().map(RawEvent::into_row).collect()
}

/// The id of the newest event, 0 without any.
pub fn last_id(conn: &Conn) -> LResult<i64> {
    conn.number("SELECT coalesce(max(id), 0) FROM events", [])
}

/// A cursor over new events that passes over what it cannot read (LED-51).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPoller {
    cursor: i64,
}

impl EventPoller {
    /// Starts at the newest event: history is not replayed.
    pub fn at_end(conn: &Conn) -> LResult<Self> {
        Ok(Self { cursor: last_id(conn)? })
    }

    /// Starts behind the event with this id.
    pub const fn after(cursor: i64) -> Self {
        Self { cursor }
    }

    /// The id of the last row that was passed.
    pub const fn cursor(&self) -> i64 {
        self.cursor
    }

    /// The next rows that can be read. One that cannot be is reported once, by id, and never again; a failed query
    /// keeps the cursor.
    pub fn poll(&mut self, conn: &Conn, mut report: impl FnMut(i64, &LedgerError)) -> LResult<Vec<EventRow>> {
        let mut rows = Vec::new();
        for raw in raw_after(conn, self.cursor, EVENT_POLL_LIMIT)? {
            self.cursor = raw.id;
            match raw.into_row() {
                Ok(row) => rows.push(row),
                Err(error) => report(self.cursor, &error),
            }
        }
        Ok(rows)
    }
}

struct RawEvent {
    id: i64,
    node_id: String,
    kind: String,
    data: Option<String>,
    ts: i64,
}

impl RawEvent {
    fn map(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        // A column of a foreign type is a damaged row like any other: read what is there as text.
        let text = |index| -> rusqlite::Result<Option<String>> {
            Ok(match row.get_ref(index)? {
                rusqlite::types::ValueRef::Null => None,
                rusqlite::types::ValueRef::Text(bytes) | rusqlite::types::ValueRef::Blob(bytes) => {
                    Some(String::from_utf8_lossy(bytes).into_owned())
                }
                rusqlite::types::ValueRef::Integer(n) => Some(n.to_string()),
                rusqlite::types::ValueRef::Real(n) => Some(n.to_string()),
            })
        };
        Ok(Self {
            id: row.get(0)?,
            node_id: text(1)?.unwrap_or_default(),
            kind: text(2)?.unwrap_or_default(),
            data: text(3)?,
            ts: row.get(4).unwrap_or_default(),
        })
    }

    fn into_row(self) -> LResult<EventRow> {
        let bad = |why: String| LedgerError::BadRow { table: "events", id: self.id.to_string(), why };
        let kind = EventType::parse(&self.kind).ok_or_else(|| bad(format!("unknown type '{}'", self.kind)))?;
        let data = match self.data.as_deref() {
            None => Map::new(),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| bad(format!("data is not a JSON object: {error}")))?
            }
        };
        Ok(EventRow { id: self.id, node_id: self.node_id, kind, data, ts: self.ts })
    }
}

fn raw_after(conn: &Conn, cursor: i64, limit: usize) -> LResult<Vec<RawEvent>> {
    conn.rows(
        "SELECT id, node_id, type, data, ts FROM events WHERE id > ?1 ORDER BY id LIMIT ?2",
        params![cursor, sql_limit(limit)],
        RawEvent::map,
    )
}

/// A limit as SQLite takes it.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
