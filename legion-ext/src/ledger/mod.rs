//! `legion.db`, the authority for a tree: who exists, in which state, who owes whom a message or a result (part 06).
//!
//! The only module that names SQLite. Every function takes a [`Conn`] (reads) or a [`Tx`] (reads that feed writes, and
//! writes) and the time; it decides nothing: which change is legal stands in `core`. Row change and event are written
//! in one transaction (LED-19), so a crash leaves both or neither.

mod db;
mod error;
mod schema;

pub mod artifacts;
pub mod events;
pub mod launch;
pub mod messages;
pub mod nodes;
pub mod orphans;
pub mod settle;
pub mod usage;

use std::path::{Path, PathBuf};

pub use db::{Conn, LegionDb, OpenMode, Tx, open_legion_db};
pub use error::{LResult, LedgerError};
pub use schema::LEGION_DB_USER_VERSION;

/// How long a write waits for another process before it fails with [`LedgerError::Busy`] (LED-21).
pub const BUSY_TIMEOUT_MS: u64 = 5000;

/// Where the ledger of a tree is: in the root run's directory. The only place that builds this path (LED-1).
pub fn legion_db_path(root_run_dir: &Path) -> PathBuf {
    root_run_dir.join("legion.db")
}

#[cfg(test)]
mod tests;
