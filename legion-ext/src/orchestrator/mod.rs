//! The one writer of decisions: launch, admit, collect, wait, take down.
//!
//! A tool call comes in as a [`command::Command`] and goes out as a [`report::Report`]. The orchestrator knows no wire
//! names and no texts of the tool surface, and never talks to a child except through its supervisor.

pub mod command;
pub mod ports;
pub mod report;
