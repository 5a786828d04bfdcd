//! What a `bash` command would do, as far as its text tells (10 §7): whether it touches the ledger, and whether it
//! changes files or the repository.
//!
//! A discipline layer, no sandbox. Nothing here reads a file, an environment or a clock; paths are compared as text.

mod args;
mod git;
mod invocation;
mod ledger;
mod read_only;
mod split;
mod verdict;

pub use ledger::{LedgerHit, classify_ledger};
pub use read_only::classify_read_only;
pub use verdict::{ReadOnlyVerdict, Why};

#[cfg(test)]
mod tests;
