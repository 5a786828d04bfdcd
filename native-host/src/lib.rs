//! A headless agent host: sessions, tools, providers and the ABI for extensions.
//!
//! [`host::Host`] is the way in: it brings a root session up, and the session's extensions do the rest. Imports
//! point downwards only: `cli`, `demo`, `modes`, `host` and `ops`, `session`, `extensions`, then the leaves.

pub mod cli;
pub mod console;
pub mod context_files;
pub mod demo;
pub mod env;
pub mod extensions;
pub mod host;
pub mod modes;
pub mod ops;
pub mod provider;
pub mod session;
pub mod session_file;
pub mod tools;
