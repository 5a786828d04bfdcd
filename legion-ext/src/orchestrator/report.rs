//! What the orchestrator answers: the way out, as values. `tools` makes text and `details` of it.

use std::path::PathBuf;

use crate::{
    core::{liveness::Liveness, outcome::ExecutionStatus},
    error::SubagentError,
};

/// Answer to any command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub run_id: Option<String>,
    /// In task order, whatever the order of events.
    pub items: Vec<Item>,
    /// The parent's turn ended while the call waited (ORC-99).
    pub interrupted: bool,
    /// A wait budget passed (ORC-86); not a failure.
    pub timed_out: bool,
    pub still_running: Vec<String>,
    /// Launches that an interruption took out of the queue.
    pub not_started: Vec<String>,
    /// Mail taken while the call blocked (MAIL-31), in id order.
    pub mail: Vec<MailText>,
    /// Mails that stay in the mailbox.
    pub mail_left: usize,
    /// Children go on after this call returned (LINE-6).
    pub background: bool,
    pub body: Body,
    /// The whole call was refused; nothing was started.
    pub refused: Option<SubagentError>,
}

/// What a report is about beside its items.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Body {
    #[default]
    Items,
    /// `no active children` (ORC-94).
    NothingToWaitFor,
    Status(Projection),
    Roles {
        roles: Vec<RoleView>,
        team: String,
        children: Vec<ChildView>,
        broken: Vec<String>,
    },
    /// A page of a stored result (CAP-5).
    Page {
        name: String,
        text: String,
        from: u64,
        to: u64,
        total: u64,
        read: Option<ReadMark>,
    },
}

/// A role that this session may launch (CMD-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleView {
    pub name: String,
    pub source: &'static str,
    pub description: String,
    /// Label of THINK-8, or why there is none.
    pub model: String,
    pub model_source: Option<&'static str>,
    /// `utility`, `disabled`, `worktree`, `phases`, `read-only`.
    pub flags: Vec<&'static str>,
}

/// One line or block of the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Started(Started),
    /// `✗ <label>: <message>`; `label` is the name, or the role where no name was given, or empty without either.
    Refused {
        label: String,
        error: SubagentError,
    },
    Settled(Box<Settled>),
    /// The wait ended first; decisions follow (ORC-86, ORC-87).
    Running(Box<Snapshot>),
    TakenDown(TakenDown),
}

/// A launched child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub name: String,
    pub agent: String,
    pub node_id: String,
    /// `inprocess`, `rpc`, `terminal`.
    pub supervisor: &'static str,
    pub model: Option<String>,
    pub thinking: Option<String>,
    pub session_file: PathBuf,
    pub warnings: Vec<String>,
}

/// A recorded round of a child.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    pub name: String,
    pub agent: String,
    pub node_id: String,
    pub status: ExecutionStatus,
    pub reason: Option<String>,
    pub round: u32,
    pub duration_ms: Option<u64>,
    pub usage: Usage,
    pub model: Option<String>,
    /// The whole text; the edge shortens it (CAP-2).
    pub text: String,
    pub artifact: Option<ArtifactRef>,
    /// Why the text could not be stored (CAP-7).
    pub unsaved: Option<String>,
    pub acceptance: Option<AcceptanceResult>,
    /// The verdict object that ended the text, if any.
    pub verdict: Option<bool>,
    /// Indented `⚠` lines: completion guard, failed recycle.
    pub warnings: Vec<String>,
    /// This call delivers the round for the first time (CAP-8).
    pub first_delivery: bool,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// Row of the ledger; absent when the registration failed.
    pub id: Option<i64>,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Bytes of an artifact that a caller has now seen (CAP-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadMark {
    pub artifact: i64,
    pub from: u64,
    pub to: u64,
}

/// `{level, status, pending[]}` (ORC-137).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptanceResult {
    pub level: &'static str,
    pub status: &'static str,
    pub pending: Vec<String>,
}

/// Tokens and cost of one child's rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cost_usd: f64,
}

/// A child that is still at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub name: String,
    pub agent: String,
    pub node_id: String,
    pub reason: String,
    pub turn: Option<u32>,
    /// Innermost tool and its time in milliseconds.
    pub tool: Option<(String, u64)>,
    pub quiet_ms: Option<u64>,
    /// Wait budget that `extend` would give, in milliseconds.
    pub extend_ms: u64,
    /// Decisions that this build takes, in the order of LINE-8.
    pub decisions: Vec<Decision>,
}

/// What the caller can do about a running child (DET-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Extend,
    SteerAgain,
    Stop,
    ForceStop,
}

/// A child that was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenDown {
    pub name: String,
    pub agent: String,
    pub node_id: String,
    pub how: TakenDownHow,
    /// Descendants, deepest first.
    pub also: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenDownHow {
    Retired,
    Stopped,
    ForceStopped,
    AlreadyRetired,
}

/// One mail, as the model reads it (MAIL-21).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailText {
    pub id: i64,
    pub from: String,
    pub kind: String,
    pub urgency: String,
    pub subject: String,
    pub text: String,
}

/// A look at the children and what is below them (LED-70).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Projection {
    /// Direct children in launch order.
    pub children: Vec<ChildView>,
    /// The caller's subtree, the caller first, parents before children; for `details.tree`.
    pub tree: Vec<NodeView>,
    /// The query named one child.
    pub single: bool,
    /// Lines of the transcript tail, when asked for.
    pub transcript: Option<Vec<String>>,
    pub all: bool,
}

impl Projection {
    /// Direct children that are live.
    pub fn live(&self) -> usize {
        self.children.iter().filter(|child| child.liveness == Liveness::Live).count()
    }
}

/// One direct child.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildView {
    pub name: String,
    pub agent: String,
    pub node_id: String,
    /// Label of STA-6.
    pub state: String,
    pub liveness: Liveness,
    pub supervisor: String,
    pub owner: Owner,
    pub quiet_ms: Option<u64>,
    pub turn: Option<u32>,
    pub tool: Option<(String, u64)>,
    /// Label of THINK-8.
    pub model: Option<String>,
    pub usage: Usage,
    pub session_file: Option<PathBuf>,
    pub execution: Option<ExecutionStatus>,
    pub reason: Option<String>,
    /// Its result was read to the end or announced.
    pub delivered: bool,
    pub round: u32,
}

/// The `owner:` line of STA-4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Live,
    PidGone,
    HeartbeatOld { age_ms: u64 },
    Unknown,
}

/// One node of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    pub id: String,
    pub parent_id: Option<String>,
    pub name: String,
    pub role: String,
    /// Label of LED-72.
    pub state: String,
    pub liveness: Liveness,
    pub phase: Option<String>,
    pub depth: u32,
    /// Model without thinking level (THINK-10).
    pub model: Option<String>,
    pub usage: Usage,
}

/// Partial result of a blocking call: one line per target (LINE-10).
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub targets: Vec<ProgressLine>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProgressLine {
    pub name: String,
    pub agent: String,
    pub state: String,
    pub tool: Option<(String, u64)>,
    pub elapsed_ms: u64,
}
