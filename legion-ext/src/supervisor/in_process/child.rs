//! One in-process child: its state, its turns and its end.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use host_abi::ops::ChildWaitIdle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    super::{SettleResult, activity::ChildActivity, pool::Slot},
    Inner, is_gone,
};

/// SUP-51. Every state but the two ends holds the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Running,
    Idle,
    Retired,
    /// A spawn that failed, or a session that went away by itself.
    Exited,
}

impl State {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Retired => "retired",
            Self::Exited => "exited",
        }
    }

    pub(super) const fn is_end(self) -> bool {
        matches!(self, Self::Retired | Self::Exited)
    }

    pub(super) const fn is_busy(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// What the end of the present turn is awaited by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Accepted, but the host has not named the run yet.
    Unnamed,
    Run(u64),
    /// A turn that the child began by itself.
    UntilIdle,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    pub state: State,
    target: Target,
    /// Highest run that took a text of ours.
    last_run: u64,
    /// How the last turn ended; meaningful while the child is not busy.
    pub settled: SettleResult,
}

#[derive(Debug)]
pub(super) struct Child {
    pub name: String,
    pub session_file: PathBuf,
    /// The host's id, once the session is made.
    pub id: OnceLock<String>,
    pub activity: Arc<ChildActivity>,
    stage: watch::Sender<Stage>,
    slot: Mutex<Option<Slot>>,
    /// Cancelled when a take-down begins.
    ending: CancellationToken,
}

impl Child {
    pub(super) fn new(name: String, session_file: PathBuf, activity: Arc<ChildActivity>, slot: Slot) -> Self {
        let settled = SettleResult::ok();
        let stage = Stage { state: State::Starting, target: Target::Unnamed, last_run: 0, settled };
        Self {
            name,
            session_file,
            id: OnceLock::new(),
            activity,
            stage: watch::Sender::new(stage),
            slot: Mutex::new(Some(slot)),
            ending: CancellationToken::new(),
        }
    }

    pub(super) fn state(&self) -> State {
        self.stage.borrow().state
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.state().is_end()
    }

    /// Waits for a stage. The sender lives as long as the child, so the wait cannot fail.
    pub(super) async fn until(&self, wanted: impl FnMut(&Stage) -> bool) -> Stage {
        let mut stage = self.stage.subscribe();
        let reached = stage.wait_for(wanted).await.map(|stage| stage.clone());
        reached.unwrap_or_else(|_| self.stage.borrow().clone())
    }

    /// Marks that a take-down began; only the first caller gets `true`.
    pub(super) fn begin_end(&self) -> bool {
        let first = !self.ending.is_cancelled();
        self.ending.cancel();
        first
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// Resolves when a take-down begins.
    pub(super) async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// The first prompt was accepted: by name of its run, or not named yet.
    pub(super) fn accepted(&self, target: Target) {
        self.stage.send_if_modified(|stage| {
            if !stage.state.is_busy() {
                return false;
            }
            stage.state = State::Running;
            stage.target = target;
            if let Target::Run(run) = target {
                stage.last_run = run;
            }
            true
        });
    }

    /// A text went into `run`: a later run than any before is a turn that begins.
    pub(super) fn takes(&self, run: Option<u64>) {
        let Some(run) = run else { return };
        self.stage.send_if_modified(|stage| {
            if stage.state.is_end() || run <= stage.last_run {
                return false;
            }
            stage.last_run = run;
            stage.state = State::Running;
            stage.target = Target::Run(run);
            true
        });
    }

    /// The turn that `target` stands for is over.
    pub(super) fn settle(&self, target: Target, settled: SettleResult) {
        self.stage.send_if_modified(|stage| {
            if stage.state.is_end() || stage.target != target {
                return false;
            }
            stage.state = State::Idle;
            stage.settled = settled;
            true
        });
    }

    /// A turn that nobody here asked for, as the child's session tells.
    fn woke(&self) {
        self.stage.send_if_modified(|stage| {
            let idle = stage.state == State::Idle;
            if idle {
                stage.state = State::Running;
                stage.target = Target::UntilIdle;
            }
            idle
        });
    }

    /// The end; `false` when it had come already.
    pub(super) fn end_as(&self, state: State, settled: SettleResult) -> bool {
        self.ending.cancel();
        self.stage.send_if_modified(|stage| {
            let first = !stage.state.is_end();
            if first {
                stage.state = state;
                stage.settled = settled;
            }
            first
        })
    }

    pub(super) fn release_slot(&self, state: State) {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(slot) = slot {
            slot.release(state.as_str());
        }
    }
}

/// Follows the turns of an accepted child to its end.
pub(super) async fn follow(inner: Arc<Inner>, child: Arc<Child>) {
    let guard = PanicGuard { inner: Arc::clone(&inner), child: Arc::clone(&child) };
    tokio::select! {
        () = child.ending() => {}
        () = turns(&inner, &child) => {}
    }
    drop(guard);
}

async fn turns(inner: &Arc<Inner>, child: &Arc<Child>) {
    let Some(id) = child.id.get() else { return };
    let mut activity = child.activity.subscribe();
    let mut seen = 0;
    loop {
        let idle = child.until(|stage| stage.state == State::Idle || stage.target != Target::Unnamed).await;
        if idle.state.is_end() {
            return;
        }
        if idle.state == State::Idle {
            tokio::select! {
                _ = child.until(|stage| stage.state != State::Idle) => {}
                woken = activity.wait_for(|now| now.running && now.begun > seen) => {
                    if woken.is_err() {
                        return;
                    }
                    drop(woken);
                    child.woke();
                }
            }
            continue;
        }
        let run = match idle.target {
            Target::Run(run) => Some(run),
            Target::Unnamed | Target::UntilIdle => None,
        };
        let settled = match inner.deps.host.request(&ChildWaitIdle { child: id.clone(), run }).await {
            Ok(_) => SettleResult::ok(),
            Err(error) if is_gone(&error) => {
                let reason = SettleResult::abnormal(format!("child session ended: {error}"));
                inner.finish(child, State::Exited, reason);
                return;
            }
            Err(error) => SettleResult::abnormal(format!("child turn failed: {error}")),
        };
        seen = activity.borrow_and_update().begun;
        child.settle(idle.target, settled);
    }
}

/// Settles a child whose follower panicked, so that nobody waits for it in vain (SUP-59).
struct PanicGuard {
    inner: Arc<Inner>,
    child: Arc<Child>,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = SettleResult::abnormal("child turn failed: a fault of the supervisor");
            self.inner.finish(&self.child, State::Exited, reason);
        }
    }
}
