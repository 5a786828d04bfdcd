//! Decisions without I/O, clock or async: state, event and time in, what to do out.
//!
//! Only std, serde and thiserror are used here, so everything is tested by tables and property tests.

pub mod admission;
pub mod budget;
pub mod caps;
pub mod display;
pub mod events;
pub mod hint;
pub mod liveness;
pub mod mail;
pub mod model;
pub mod naming;
pub mod near;
pub mod node_status;
pub mod outcome;
pub mod text;
pub mod usage;
