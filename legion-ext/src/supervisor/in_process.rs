//! Children as further agent sessions of this process, made through the host (04 §3).
//!
//! One value per session that launches. It holds its children by name, the pool of the process holds the slots. No
//! lock is held across an await; what a task works on is the [`Child`] itself and never a name looked up again, so that
//! nothing meant for one child reaches its successor (ORC-183).

mod child;
mod spawn;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use host_abi::{
    AbiError,
    error::codes,
    ops::{ChildAbort, ChildDispose, ChildKill, ChildPrompt, DeliverAs, GetChildStats, LogLevel},
};
use tokio_util::sync::CancellationToken;

use super::{
    ABORTED_BY_PARENT, CHILD_RETIRED, ChildStats, Disposition, InFlightTool, RetireOptions, SettleResult, SpawnHandle,
    SpawnInput, SpawnObserver, Supervisor, TIMED_OUT,
    activity::ActivityBoard,
    pool::{Ask, ParentKey, Pool},
    unknown,
};
use crate::{
    context::spawn_scoped,
    core::admission::{
        AdmissionVerdict, InProcessAdmissionCounts, InProcessLimits, Inflight, evaluate_in_process_admission,
    },
    error::{Code, Result, SubagentError},
    host::SessionHost,
};

use child::{Child, State};

/// How long a disposal may take before the slot is freed all the same (SUP-56).
pub const DISPOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The in-process children of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct InProcess(Arc<Inner>);

/// What the children of a session have in common.
#[expect(missing_debug_implementations, reason = "handed in once and taken apart")]
pub struct InProcessDeps {
    /// The host, for the session that launches.
    pub host: SessionHost,
    pub pool: Arc<Pool>,
    pub activity: Arc<ActivityBoard>,
    pub parent: ParentKey,
    /// Nesting depth of the session that launches, 0 for the root.
    pub depth: u32,
    pub observer: Arc<dyn SpawnObserver>,
}

struct Inner {
    deps: InProcessDeps,
    registry: Mutex<Registry>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").field("parent", &self.deps.parent).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Registry {
    children: HashMap<String, Entry>,
    /// Spawns of this session; a rolled-back one is taken off again (SUP-43).
    spawned: u32,
}

enum Entry {
    Here(Arc<Child>),
    /// Retired or rolled back; its name is free.
    Gone,
}

impl InProcess {
    pub fn new(deps: InProcessDeps) -> Self {
        Self(Arc::new(Inner { deps, registry: Mutex::default() }))
    }

    /// Whose children these are, for the pool.
    pub fn parent(&self) -> &ParentKey {
        &self.0.deps.parent
    }

    /// Children that this session has started so far.
    pub fn spawn_count(&self) -> u32 {
        self.0.lock().spawned
    }

    /// What a launch would be judged by now; changes nothing (SUP-49).
    pub fn admission_counts(&self, name: &str, limits: InProcessLimits) -> InProcessAdmissionCounts {
        let spawned = self.spawn_count();
        self.0.counts(name, limits, spawned)
    }

    /// The verdict on a launch now; changes nothing (SUP-49).
    pub fn preflight_admission(&self, name: &str, limits: InProcessLimits) -> AdmissionVerdict {
        evaluate_in_process_admission(&self.admission_counts(name, limits), Inflight::default())
    }

    fn here(&self, name: &str) -> Result<Arc<Child>> {
        match self.0.lock().children.get(name) {
            Some(Entry::Here(child)) => Ok(Arc::clone(child)),
            Some(Entry::Gone) | None => Err(unknown(name)),
        }
    }

    /// The child and the host's id of it. A child that is still starting is waited for.
    async fn accepted(&self, name: &str) -> Result<(Arc<Child>, String)> {
        let child = self.here(name)?;
        child.until(|stage| stage.state != State::Starting).await;
        let id = child.id.get().cloned().filter(|_| child.is_alive()).ok_or_else(|| unknown(name))?;
        Ok((child, id))
    }

    async fn send(&self, name: &str, text: &str, deliver_as: DeliverAs) -> Result<Disposition> {
        let (child, id) = self.accepted(name).await?;
        let prompt = ChildPrompt { child: id, text: text.to_owned(), deliver_as: Some(deliver_as) };
        let answer =
            self.0.deps.host.request(&prompt).await.map_err(|error| self.0.host_fault(&child, "prompt", error))?;
        child.takes(answer.run);
        Ok(disposition(answer.disposition))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<'a>(&'a self, name: &'a str, limits: InProcessLimits, spawn_count: u32) -> Ask<'a> {
        let deps = &self.deps;
        Ask { parent: &deps.parent, name, depth: deps.depth, spawn_count, limits, tree: None }
    }

    fn counts(&self, name: &str, limits: InProcessLimits, spawned: u32) -> InProcessAdmissionCounts {
        self.deps.pool.counts(&self.ask(name, limits, spawned))
    }

    /// An error of the host about a child. One that says that the child is gone takes the child off.
    fn host_fault(&self, child: &Arc<Child>, what: &str, error: AbiError) -> SubagentError {
        if is_gone(&error) {
            self.finish(child, State::Exited, SettleResult::abnormal(format!("child session ended: {error}")));
            return unknown(&child.name);
        }
        SubagentError::new(Code::Internal, format!("failed to {what} '{}': {error}", child.name))
    }

    /// The end of a child, whichever way it came: waiters settle, the name and the slot are free. Only the first end
    /// counts.
    fn finish(&self, child: &Arc<Child>, state: State, settled: SettleResult) {
        debug_assert!(state.is_end());
        if !child.end_as(state, settled) {
            return;
        }
        {
            let mut registry = self.lock();
            if let Some(entry @ Entry::Here(_)) = registry.children.get_mut(&child.name)
                && matches!(entry, Entry::Here(known) if Arc::ptr_eq(known, child))
            {
                *entry = Entry::Gone;
            }
        }
        self.deps.activity.forget(&child.session_file);
        child.release_slot(state);
    }

    /// Disposes of a child, whatever it is doing, within [`DISPOSE_TIMEOUT`].
    async fn dispose(&self, child: &Child) {
        let Some(id) = child.id.get() else { return };
        let dispose = ChildDispose { child: id.clone() };
        let failed = match tokio::time::timeout(DISPOSE_TIMEOUT, self.deps.host.request(&dispose)).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) if is_gone(&error) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", DISPOSE_TIMEOUT.as_secs()),
        };
        let line = format!("disposing of child '{}' failed: {failed}; its slot is free", child.name);
        self.deps.host.log(LogLevel::Warn, &line);
        self.deps.host.post(&ChildKill { child: id.clone() });
    }
}

#[async_trait::async_trait]
impl Supervisor for InProcess {
    async fn spawn_child(&self, input: SpawnInput) -> Result<SpawnHandle> {
        spawn::spawn(&self.0, input).await
    }

    async fn prompt(&self, name: &str, text: &str) -> Result<Disposition> {
        self.send(name, text, DeliverAs::Steer).await
    }

    async fn steer(&self, name: &str, text: &str) -> Result<Disposition> {
        self.send(name, text, DeliverAs::Steer).await
    }

    async fn follow_up(&self, name: &str, text: &str) -> Result<Disposition> {
        self.send(name, text, DeliverAs::FollowUp).await
    }

    async fn abort(&self, name: &str) -> Result<()> {
        let (child, id) = self.accepted(name).await?;
        let answer = self.0.deps.host.request(&ChildAbort { child: id }).await;
        answer.map(drop).map_err(|error| self.0.host_fault(&child, "abort", error))
    }

    async fn wait_settled(
        &self,
        name: &str,
        timeout: Option<Duration>,
        cancel: Option<&CancellationToken>,
    ) -> Result<SettleResult> {
        let child = self.here(name)?;
        let settled = async { child.until(|stage| !stage.state.is_busy()).await.settled };
        let expired = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = async {
            match cancel {
                Some(cancel) => cancel.cancelled().await,
                None => std::future::pending().await,
            }
        };
        Ok(tokio::select! {
            biased;
            () = cancelled => SettleResult::unsettled(ABORTED_BY_PARENT),
            settled = settled => settled,
            () = expired => SettleResult::unsettled(TIMED_OUT),
        })
    }

    async fn next_turn(&self, name: &str) -> Result<()> {
        let child = self.here(name)?;
        child.until(|stage| stage.state != State::Idle).await;
        Ok(())
    }

    fn is_alive(&self, name: &str) -> bool {
        self.here(name).is_ok()
    }

    fn state(&self, name: &str) -> Option<&'static str> {
        match self.0.lock().children.get(name)? {
            Entry::Here(child) => Some(child.state().as_str()),
            Entry::Gone => Some(State::Retired.as_str()),
        }
    }

    async fn stats(&self, name: &str) -> Option<ChildStats> {
        let child = self.here(name).ok()?;
        let stats = self.0.deps.host.request(&GetChildStats { child: child.id.get()?.clone() }).await.ok()?;
        Some(ChildStats {
            tokens_in: stats.tokens_in,
            tokens_out: stats.tokens_out,
            cost_usd: stats.cost_usd,
            idle: stats.idle,
            last_event_at: stats.last_event_at,
        })
    }

    fn in_flight_tool(&self, name: &str) -> Option<InFlightTool> {
        self.here(name).ok()?.activity.now().in_flight_tool()
    }

    async fn retire_child(&self, name: &str, _options: RetireOptions) -> Result<()> {
        let child = match self.0.lock().children.get(name) {
            Some(Entry::Here(child)) => Arc::clone(child),
            Some(Entry::Gone) => return Ok(()),
            None => return Err(unknown(name)),
        };
        let first = child.begin_end();
        if first && child.state() != State::Starting {
            let (inner, child) = (Arc::clone(&self.0), Arc::clone(&child));
            // A task of its own, so that a caller that goes away leaves no half-retired child.
            spawn_scoped(async move {
                inner.dispose(&child).await;
                inner.finish(&child, State::Retired, SettleResult::abnormal(CHILD_RETIRED));
            });
        }
        // The end of a spawn on its way is its own roll-back, which sees the mark of `begin_end`.
        child.until(|stage| stage.state.is_end()).await;
        Ok(())
    }
}

fn disposition(answer: host_abi::ops::Disposition) -> Disposition {
    match answer {
        host_abi::ops::Disposition::Started => Disposition::Started,
        host_abi::ops::Disposition::Queued => Disposition::Queued,
        host_abi::ops::Disposition::Handled => Disposition::Handled,
        host_abi::ops::Disposition::Appended => Disposition::Unknown,
    }
}

/// Whether the host says that the child, or the whole session, is not there any more.
fn is_gone(error: &AbiError) -> bool {
    error.code == codes::NO_CHILD || error.code == codes::SCOPE_GONE
}

#[cfg(test)]
mod tests;
