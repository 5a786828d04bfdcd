//! Session files: pi's JSONL version 3, read and written so that either program can go on with the
//! other's session.
//!
//! [`SessionFile`] is the only writer of a session's entries in this process. It does not guard against a
//! second process that writes the same file.

mod context;
mod entry;
mod file;
mod message;

pub use context::{Context, context_of, model_messages};
pub use entry::{Compaction, Entry, EntryBody, Header, Replacement, SESSION_VERSION};
pub use file::{HeaderSpec, SessionFile, SessionFileError, default_session_dir};
pub use message::{
    AssistantMessage, BashExecutionMessage, Block, BranchSummaryMessage, CompactionSummaryMessage, Content, Cost,
    CustomMessage, Extra, Message, StopReason, SystemMessage, ToolCall, ToolResultMessage, Usage, UserMessage,
    blocks_text,
};

#[cfg(test)]
mod tests;
