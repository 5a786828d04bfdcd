//! What a session can be asked, each with its acknowledgement.

use host_abi::AbiError;
use host_abi::ops::{self, DeliverAs, Idle, Prompted, Sent};
use serde_json::Value;
use tokio::sync::oneshot;

use super::LastAnswer;

pub type Ack<T> = oneshot::Sender<T>;

#[derive(Debug)]
pub enum Command {
    Text {
        text: String,
        /// As the gate `input` names it.
        source: &'static str,
        to: TextTo,
        ack: Ack<Result<Prompted, AbiError>>,
    },
    Send {
        message: ops::SendMessage,
        ack: Option<Ack<Result<Sent, AbiError>>>,
    },
    AppendEntry {
        entry: ops::AppendEntry,
        ack: Ack<Result<(), AbiError>>,
    },
    SetActiveTools {
        tools: Vec<String>,
        ack: Ack<()>,
    },
    Abort {
        drop_queue: bool,
    },
    /// Ends the run and begins no other.
    EndRuns,
    WaitIdle {
        run: Option<u64>,
        ack: Ack<Result<Idle, AbiError>>,
    },
    Compact {
        ack: Ack<Result<(), AbiError>>,
    },
    Entries {
        query: ops::GetEntries,
        ack: Ack<Vec<Value>>,
    },
    Messages {
        limit: Option<u32>,
        ack: Ack<Vec<Value>>,
    },
    LastAnswer {
        ack: Ack<LastAnswer>,
    },
    Close {
        ack: Option<Ack<()>>,
    },
}

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTo {
    /// It begins a run, or is queued as said, as steering when nothing is said.
    Prompt(Option<DeliverAs>),
    /// As steering; kept by an idle session.
    Steer,
    /// As a follow-up; kept by an idle session.
    FollowUp,
}
