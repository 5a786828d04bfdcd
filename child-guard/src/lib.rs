//! `child-guard`, the extension that every child session is loaded with: it keeps the child to its tool and turn
//! budgets, keeps `bash` away from the ledger, keeps `bash` from writing for a read-only role, and bounds each `bash`
//! call in time.
//!
//! It is a discipline layer, no sandbox. It registers no tool, command, widget or renderer, has no runtime and no
//! timer, and opens no file. [`state`] and [`bash`] decide and are pure; `guard` tells the host.

pub mod bash;
mod env;
mod guard;
mod identity;
mod messages;
pub mod state;

pub use guard::{ChildGuard, info, init};

host_abi::export_extension!(info = info, init = init);
