//! Reader of pi session files (JSONL, version 3): what a transcript says about turns, usage and mail.
//!
//! It only reads. A file is read once and then followed: a later look costs what the file gained (PERF-8). Damaged
//! lines are passed over and counted; the active branch is the parent chain of the last entry.

mod branch;
mod line;
mod tail;
mod view;

pub use branch::{MailText, SessionFacts};
pub use tail::{Growth, TranscriptTail, read_session};
pub use view::{TRANSCRIPT_VIEW_BYTES, TranscriptView, transcript_tail};

#[cfg(test)]
mod tests;
