//! One child of this process, as its parent's orchestrator knows it: whether it lives, and what its turn has come to.
//!
//! The run record says the same to other processes and later sessions; this is what waiting calls look at.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::report::{AcceptanceResult, ArtifactRef, Usage};
use crate::{
    cards::{AcceptanceSpec, AgentConfig},
    core::outcome::ExecutionStatus,
    error::SubagentError,
};

/// A child that was launched in this process.
#[derive(Debug)]
pub struct Kid {
    pub name: String,
    pub node_id: String,
    pub session_file: PathBuf,
    pub agent: Arc<AgentConfig>,
    pub acceptance: AcceptanceSpec,
    /// Milliseconds since the epoch.
    pub launched_at: i64,
    /// Wait budget of one round in milliseconds; `None` is no limit (ORC-81).
    pub budget_ms: Option<u64>,
    stage: watch::Sender<Stage>,
    /// Begin of the present round, milliseconds since the epoch.
    round_began: AtomicU64,
    /// Whether a tool result has carried the last round (CAP-8).
    delivered: AtomicBool,
    /// Every change of any child of the session.
    changes: watch::Sender<u64>,
}

/// Where a child is.
#[derive(Debug, Clone)]
pub struct Stage {
    pub life: Life,
    pub turn: Turn,
    /// The recorded child stays alive (the exceptions of ORC-114).
    pub kept: bool,
    /// The last turn that ended.
    pub last: Option<Arc<Round>>,
    /// Why the child never started.
    pub start_error: Option<SubagentError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its launch is on its way.
    Launching,
    Live,
    /// A take-down has begun.
    Ending,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A turn is running, or about to.
    Working,
    /// The turn is over, and the child waits for work of its own (ORC-178).
    Interim,
    /// The turn is over and is being recorded.
    Recording,
    /// The turn is over and recorded.
    Recorded,
}

/// A turn that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    pub status: ExecutionStatus,
    pub reason: Option<String>,
    /// 0 for a turn that left no result, such as one that its parent ended (LED-75).
    pub round: u32,
    pub duration_ms: Option<u64>,
    /// Of this round alone.
    pub usage: Usage,
    pub model: Option<String>,
    pub artifact: Option<ArtifactRef>,
    /// The text, while it is nowhere else: with the error of the failed write (CAP-7).
    pub unsaved: Option<(String, String)>,
    pub acceptance: Option<AcceptanceResult>,
    pub verdict: Option<bool>,
    pub warnings: Vec<String>,
}

/// What a new [`Kid`] is made of.
#[derive(Debug)]
pub struct NewKid {
    pub name: String,
    pub node_id: String,
    pub session_file: PathBuf,
    pub agent: Arc<AgentConfig>,
    pub acceptance: AcceptanceSpec,
    pub launched_at: i64,
    pub budget_ms: Option<u64>,
    pub changes: watch::Sender<u64>,
}

impl Kid {
    pub fn new(new: NewKid) -> Self {
        let stage = Stage { life: Life::Launching, turn: Turn::Working, kept: false, last: None, start_error: None };
        Self {
            name: new.name,
            node_id: new.node_id,
            session_file: new.session_file,
            agent: new.agent,
            acceptance: new.acceptance,
            launched_at: new.launched_at,
            budget_ms: new.budget_ms,
            stage: watch::Sender::new(stage),
            round_began: AtomicU64::new(u64::try_from(new.launched_at).unwrap_or_default()),
            delivered: AtomicBool::new(false),
            changes: new.changes,
        }
    }

    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    pub fn life(&self) -> Life {
        self.stage.borrow().life
    }

    pub fn turn(&self) -> Turn {
        self.stage.borrow().turn
    }

    pub fn last(&self) -> Option<Arc<Round>> {
        self.stage.borrow().last.clone()
    }

    /// Launching, or alive, or on its way down.
    pub fn is_up(&self) -> bool {
        self.life() != Life::Dead
    }

    /// Its parent may wait for it: launching, working, or after an interim turn.
    pub fn is_active(&self) -> bool {
        let stage = self.stage.borrow();
        stage.life != Life::Dead && stage.turn != Turn::Recorded
    }

    /// The label of the fact "in memory" (LED-62), and of STA-6.
    pub fn label(&self) -> &'static str {
        let stage = self.stage.borrow();
        match (stage.life, stage.turn) {
            (Life::Launching, _) => "launching",
            (Life::Dead, _) => "retired",
            (Life::Live | Life::Ending, Turn::Working | Turn::Recording) => "working",
            (Life::Live | Life::Ending, Turn::Interim) => "awaiting",
            (Life::Live | Life::Ending, Turn::Recorded) => "idle",
        }
    }

    /// Changes the stage, and wakes whoever waits for it when `change` says so.
    pub fn modify(&self, change: impl FnOnce(&mut Stage) -> bool) -> bool {
        let changed = self.stage.send_if_modified(change);
        if changed {
            self.changes.send_modify(|n| *n += 1);
        }
        changed
    }

    /// Waits for a stage. Cancel-safe.
    pub async fn until(&self, wanted: impl FnMut(&Stage) -> bool) {
        let mut stage = self.stage.subscribe();
        // The sender is `self`, so the wait cannot fail.
        let _ = stage.wait_for(wanted).await;
    }

    /// Whether a take-down has begun or is over.
    pub fn is_ending(&self) -> bool {
        matches!(self.life(), Life::Ending | Life::Dead)
    }

    /// The present round begins at `now`.
    pub fn begin_round(&self, now: i64) {
        self.round_began.store(u64::try_from(now).unwrap_or_default(), Ordering::Release);
    }

    /// Begin of the present round, milliseconds since the epoch.
    pub fn round_began(&self) -> i64 {
        i64::try_from(self.round_began.load(Ordering::Acquire)).unwrap_or(i64::MAX)
    }

    /// End of the waiting budget of the present round, if there is one.
    pub fn budget_ends_at(&self) -> Option<i64> {
        let budget = i64::try_from(self.budget_ms?).unwrap_or(i64::MAX);
        Some(self.round_began().saturating_add(budget))
    }

    /// A turn ended; the next tool result that carries it is its first delivery.
    pub fn settled(&self, round: Arc<Round>) {
        self.delivered.store(false, Ordering::Release);
        self.modify(|stage| {
            stage.turn = Turn::Recorded;
            stage.last = Some(round);
            true
        });
    }

    /// The recorded child is not recycled.
    pub fn keep(&self) {
        self.modify(|stage| {
            stage.kept = true;
            true
        });
    }

    /// Nothing is left to wait for: its turn is recorded and the child recycled or kept, or it is gone.
    pub fn is_done(&self) -> bool {
        let stage = self.stage.borrow();
        stage.life == Life::Dead || (stage.turn == Turn::Recorded && stage.kept)
    }

    /// Waits until [`Self::is_done`]. Cancel-safe.
    pub async fn until_done(&self) {
        self.until(|stage| stage.life == Life::Dead || (stage.turn == Turn::Recorded && stage.kept)).await;
    }

    /// Whether this is the first time that the last round is delivered.
    pub fn deliver(&self) -> bool {
        !self.delivered.swap(true, Ordering::AcqRel)
    }
}

/// The children of a session by name: the newest one of each.
#[derive(Debug, Default)]
pub struct Kids(Mutex<indexmap::IndexMap<String, Arc<Kid>>>);

impl Kids {
    pub fn get(&self, name: &str) -> Option<Arc<Kid>> {
        self.lock().get(name).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Kid>> {
        self.lock().values().cloned().collect()
    }

    pub fn lock(&self) -> std::sync::MutexGuard<'_, indexmap::IndexMap<String, Arc<Kid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
