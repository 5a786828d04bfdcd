//! What can go wrong with the ledger, in the words of part 06.

use std::path::PathBuf;

use rusqlite::ffi;

use super::BUSY_TIMEOUT_MS;
use crate::core::mail::IllegalDelivery;
use crate::core::node_status::IllegalTransition;
use crate::core::outcome::ExecutionStatus;
use crate::error::{Code, SubagentError};

pub type LResult<T> = Result<T, LedgerError>;

/// A refused opening, a busy file, an illegal change or an unreadable row. Nothing half-written remains in any case.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("legion ledger not found: {}", .0.display())]
    NotFound(PathBuf),
    #[error("legion ledger at {} cannot be opened: {reason}", .path.display())]
    CannotOpen { path: PathBuf, reason: String },
    #[error("legion ledger requires WAL journal mode; got '{mode}' at {}", .path.display())]
    NotWal { path: PathBuf, mode: String },
    #[error("legion ledger at {} has schema version {version}; this build supports up to 3", .path.display())]
    NewerSchema { path: PathBuf, version: i64 },
    #[error("legion ledger at {} has schema version {version}; open its run once in a session to update it", .path.display())]
    OlderSchema { path: PathBuf, version: i64 },
    #[error("legion ledger at {} lacks column {table}.{column}", .path.display())]
    MissingColumn { path: PathBuf, table: &'static str, column: &'static str },
    #[error("legion ledger is busy ({BUSY_TIMEOUT_MS} ms)")]
    Busy,
    #[error("legion ledger at {} is open for reading only", .0.display())]
    ReadOnly(PathBuf),
    #[error("node '{node}': {source}")]
    IllegalStatus { node: String, source: IllegalTransition },
    #[error("mail #{id}: {source}")]
    IllegalDelivery { id: i64, source: IllegalDelivery },
    #[error("node '{node}' cannot settle as '{}'", .execution.as_str())]
    NotEnded { node: String, execution: ExecutionStatus },
    #[error("node '{0}' is not in the ledger")]
    UnknownNode(String),
    #[error("a row names a node, message or artifact that is not in the ledger")]
    ForeignKey,
    #[error("{table} row {id} is unreadable: {why}")]
    BadRow { table: &'static str, id: String, why: String },
    #[error("legion ledger failed: {0}")]
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        if is_busy(&error) {
            return Self::Busy;
        }
        match error.sqlite_error() {
            Some(sqlite) if sqlite.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Self::ForeignKey,
            Some(_) | None => Self::Sql(error),
        }
    }
}

impl From<LedgerError> for SubagentError {
    fn from(error: LedgerError) -> Self {
        Self::new(Code::Ledger, error.to_string())
    }
}

/// Whether another connection holds the lock.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
}
