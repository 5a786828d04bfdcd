//! The edge where a model's tool call comes in: arguments -> question, answer -> text and `details`.
//!
//! It decides nothing about children; every call ends in one question to the orchestrator or the mailroom.

mod action;
mod check;
pub mod docs;
pub mod params;
pub mod playbook;
pub mod render;
pub mod schema;

pub use action::Action;
pub use schema::registrations;
