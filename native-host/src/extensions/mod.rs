//! Extension libraries and the sessions they are attached to.
//!
//! A library is started once per process ([`library`]) and attached to each session that wants it
//! ([`attached`]). What it asks of the host comes through one port that finds the session by its scope
//! ([`scopes`]), so that several hosts may live in one process. [`call`] is the way of a call with an answer.

pub mod attached;
pub mod call;
pub mod library;
pub mod scopes;
pub mod tool;

pub use attached::{AttachError, Attached};
pub use library::Library;
pub use scopes::{ScopeOps, next_scope};
