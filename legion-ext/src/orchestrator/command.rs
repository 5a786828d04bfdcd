//! What a caller asks of the orchestrator, parsed and checked: the way in.
//!
//! `tools` turns arguments into a [`Command`]; nothing below knows of schemas or wire names.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{cards::AcceptanceSpec, core::model::ThinkingLevel};

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Launch(Launch),
    Collect(Collect),
    Wait(Wait),
    Status(StatusQuery),
    List(ListQuery),
    TakeDown(TakeDown),
}

/// Start children (ORC-16 … ORC-23).
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    pub dispatch: Dispatch,
    /// In the order of the call; never empty.
    pub items: Vec<LaunchItem>,
    /// The call's `async`; absent: the card's.
    pub run_async: Option<bool>,
    /// Wait budget in milliseconds; absent: ORC-81.
    pub timeout_ms: Option<u64>,
}

/// Which tool launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// `subagent`: every role of the roster.
    Subagent,
    /// `vexillatio`: utility roles only, collected inline (VEX-1, ORC-75 … ORC-80).
    Vexillatio,
}

/// One child to start. Values are trimmed, and blank ones gave way to the call's own (MODEL-4, SUB-3).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchItem {
    pub agent: Option<String>,
    pub task: String,
    /// Lower-cased, not yet checked (ORC-8).
    pub name: Option<String>,
    pub model: Option<String>,
    pub thinking: Option<ThinkingLevel>,
    pub worktree: Option<bool>,
    pub acceptance: Option<AcceptanceSpec>,
}

/// Wait for results, or read on in one (ORC-83 … ORC-92).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collect {
    /// Never empty.
    pub names: Vec<String>,
    pub timeout_ms: Option<u64>,
    /// Only with a single name (CAP-5).
    pub page: Option<Page>,
}

/// A piece of a stored result, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub offset: u64,
    pub limit: u64,
}

/// Block until children settle (ORC-93, ORC-94).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Empty: all active children.
    pub names: Vec<String>,
    pub timeout_ms: Option<u64>,
}

/// State of one or all children; changes nothing (STA-1 … STA-9).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusQuery {
    pub name: Option<String>,
    /// Finished children too.
    pub all: bool,
    /// Transcript lines to append.
    pub transcript_lines: Option<usize>,
}

/// Roles and children (CMD-10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListQuery {
    pub scope: CardScope,
}

/// Where roles are looked for (DISC-11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CardScope {
    User,
    Project,
    #[default]
    Both,
}

/// End children (ORC-116 … ORC-122).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeDown {
    pub target: Target,
    pub wording: TakeDownWording,
    /// The hard chain.
    pub force: bool,
}

/// Whom a take-down means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Names(Vec<String>),
    /// Every live child of the run.
    All,
}

/// `retire` and `stop` do the same and say it differently (LINE-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeDownWording {
    Retire,
    Stop,
}

/// What a call brings along from the host.
#[derive(Clone)]
pub struct CallCx {
    /// The host's `toolCallId`; reads are recorded when this call ended uncancelled (LED-80).
    pub tool_call_id: String,
    pub cancel: CancellationToken,
    /// Partial results while the call blocks (LINE-10).
    pub progress: Arc<dyn Fn(super::report::Progress) + Send + Sync>,
}

impl std::fmt::Debug for CallCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallCx").field("tool_call_id", &self.tool_call_id).finish_non_exhaustive()
    }
}
