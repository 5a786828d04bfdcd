//! Run directories: the record of a run, who owns it, and the results it keeps (03 §17, §18, §21).
//!
//! The ledger is the authority for the tree; a run directory addresses sessions and allows a rebuild. Everything made
//! here may be read by its owner only.

pub mod artifacts;
mod files;
mod ids;
mod locate;
mod owner;
mod record;
mod store;

pub use files::RunDir;
pub use ids::{child_run_id, random_run_id, root_run_id};
pub use locate::{InUse, OpenedRun, RunIdentity, open_child_run, open_root_run};
pub use owner::{LockError, OwnerLock, owner_lives, process_start_ms};
pub use record::{
    AcceptanceRecord, Budget, ChildRecord, ChildState, ExecutionRecord, Herdr, Lineage, Owner, ProgressBaseline,
    RUN_RECORD_VERSION, ReadRecord, RunRecord, TerminalRef, Verdict, read_run_record,
};
pub use store::{RunStore, StoreError};

#[cfg(test)]
mod tests;
