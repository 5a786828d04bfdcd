//! Live children: started, fed, awaited, interrupted and taken down, without policy (part 04).
//!
//! A supervisor gives a settle signal and never says what the result was: that is read from the transcript. It asks
//! neither cards nor settings: what a child is, and which limits hold, comes with each [`SpawnInput`]. One backend
//! exists, [`in_process`]; another one implements [`Supervisor`] and is chosen by [`SpawnInput::mode`].

pub mod activity;
#[cfg(test)]
pub(crate) mod fake;
pub mod in_process;
pub mod pool;

use std::{path::PathBuf, time::Duration};

use host_abi::ops::ChildSpec;
use tokio_util::sync::CancellationToken;

use crate::{
    core::admission::InProcessLimits,
    error::{Code, Result, SubagentError},
};

pub use activity::ActivityBoard;
pub use in_process::{InProcess, InProcessDeps};
pub use pool::{ParentKey, Pool, Reservation};

/// Where a child runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpawnMode {
    InProcess,
    Rpc,
    Terminal,
}

impl SpawnMode {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "inprocess",
            Self::Rpc => "rpc",
            Self::Terminal => "terminal",
        }
    }
}

/// What became of a text given to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It began a turn.
    Started,
    /// It waits in the child's queue.
    Queued,
    /// An input handler took it; no turn began.
    Handled,
    Unknown,
}

/// A child to start.
#[derive(Debug)]
pub struct SpawnInput {
    /// Unique within the parent's run.
    pub name: String,
    pub mode: SpawnMode,
    /// The first prompt.
    pub task: String,
    /// Complete but for `model` and `thinking` (INH-1 … INH-17); its `session_file` exists.
    pub child: ChildSpec,
    /// Reference for `models.resolve`; `None` leaves the model to the host.
    pub model: Option<String>,
    /// Provider pin (PIN-2).
    pub provider: Option<String>,
    pub thinking: Option<String>,
    pub limits: InProcessLimits,
    /// The slot that the admission probe took; without one the supervisor takes its own.
    pub reservation: Option<Reservation>,
    /// How long acceptance is awaited (SUP-41).
    pub start_timeout: Duration,
}

/// A child that was accepted, or is still starting after its start time ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnHandle {
    pub name: String,
    pub mode: SpawnMode,
    pub session_file: PathBuf,
    pub pid: Option<u32>,
    /// `provider/id`, as far as the host tells.
    pub model: Option<String>,
    /// Provider of the resolved model.
    pub provider: Option<String>,
    /// The effective level.
    pub thinking: Option<String>,
    /// Never a reason to fail (SUP-26).
    pub warnings: Vec<String>,
}

/// Why a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleResult {
    /// The turn is over; `false` for a timeout or a cancelled wait.
    pub settled: bool,
    /// The turn ended by a fault or by the end of the child.
    pub abnormal: bool,
    pub reason: Option<String>,
}

impl SettleResult {
    /// A turn that is fully over (SUP-2).
    pub const fn ok() -> Self {
        Self { settled: true, abnormal: false, reason: None }
    }

    /// A turn that ended by a fault (SUP-3).
    pub fn abnormal(reason: impl Into<String>) -> Self {
        Self { settled: true, abnormal: true, reason: Some(reason.into()) }
    }

    /// The turn goes on (SUP-4, SUP-5).
    pub fn unsettled(reason: &str) -> Self {
        Self { settled: false, abnormal: false, reason: Some(reason.to_owned()) }
    }
}

/// Settle reason of a child that was taken down (SUP-95).
pub const CHILD_RETIRED: &str = "child retired";
/// Reason of a wait that ran out (SUP-4).
pub const TIMED_OUT: &str = "timeout";
/// Reason of a wait that its caller gave up (SUP-5).
pub const ABORTED_BY_PARENT: &str = "aborted by parent";
/// What a launch ends with when it is stopped on its way (ORC-179).
pub const STOPPED_BEFORE_START: &str = "stopped before it started";

/// A tool that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlightTool {
    pub name: String,
    /// Milliseconds since the epoch.
    pub since: i64,
    /// 1 for a tool of the model, more for one that a tool called.
    pub depth: u32,
}

/// What a child has used, as its host tells.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChildStats {
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub cost_usd: f64,
    /// No turn is running and none is about to.
    pub idle: bool,
    /// Milliseconds since the epoch.
    pub last_event_at: Option<i64>,
}

/// How a child is taken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetireOptions {
    /// In-process it makes no difference (SUP-55).
    pub graceful: bool,
}

/// The children of one session (SUP-123). Every method on a name that the backend does not know fails with `NOT_FOUND`;
/// the read-only ones answer nothing instead (SUP-1).
#[async_trait::async_trait]
pub trait Supervisor: Send + Sync + std::fmt::Debug {
    /// Starts a child and returns at acceptance, not at the end of the turn (SUP-40). A launch that is dropped on the
    /// way is undone.
    ///
    /// # Errors
    /// `NAME_TAKEN`, `BUDGET_EXCEEDED`, `START_FAILED`; nothing of the child is left then.
    async fn spawn_child(&self, input: SpawnInput) -> Result<SpawnHandle>;

    /// Gives a text to the child; a busy one takes it before its next model request.
    async fn prompt(&self, name: &str, text: &str) -> Result<Disposition>;

    /// As [`Self::prompt`]; an idle child begins a turn with it (SUP-9).
    async fn steer(&self, name: &str, text: &str) -> Result<Disposition>;

    /// Gives a text to the child for after its pending work (SUP-9).
    async fn follow_up(&self, name: &str, text: &str) -> Result<Disposition>;

    /// Ends the child's turn and keeps its session and slot (SUP-8).
    async fn abort(&self, name: &str) -> Result<()>;

    /// Waits until the child's turn is fully over; at once for an idle child (SUP-2 … SUP-7). Cancel-safe.
    async fn wait_settled(
        &self,
        name: &str,
        timeout: Option<Duration>,
        cancel: Option<&CancellationToken>,
    ) -> Result<SettleResult>;

    /// Waits until a turn of the child is running, or the child is gone (SUP-124). Cancel-safe.
    async fn next_turn(&self, name: &str) -> Result<()>;

    fn is_alive(&self, name: &str) -> bool;

    /// The backend's own word for the child: `starting`, `running`, `idle`, `retired` or `exited`.
    fn state(&self, name: &str) -> Option<&'static str>;

    async fn stats(&self, name: &str) -> Option<ChildStats>;

    /// The innermost tool between its start and its end (SUP-11).
    fn in_flight_tool(&self, name: &str) -> Option<InFlightTool>;

    /// Takes the child down, whatever it is doing, and settles its waiters (SUP-122). A child that is gone already is
    /// no error (SUP-10).
    async fn retire_child(&self, name: &str, options: RetireOptions) -> Result<()>;
}

/// Told of what happens to spawns beside their answer.
pub trait SpawnObserver: Send + Sync {
    /// The child was not accepted within the start time; once per spawn (SUP-41).
    fn delayed(&self, name: &str, after: Duration) {
        let _ = (name, after);
    }

    /// A limit refused the spawn, or its accepted turn failed (SUP-44, SUP-48).
    fn refused(&self, name: &str, message: &str) {
        let _ = (name, message);
    }
}

/// An observer that wants to know nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl SpawnObserver for NoObserver {}

/// The error for a name that a backend does not know.
pub(crate) fn unknown(name: &str) -> SubagentError {
    SubagentError::new(Code::NotFound, format!("unknown child '{name}'"))
}
