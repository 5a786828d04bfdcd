//! A session's children as mail and notices need them (08 §2 … §5, MODE-3).

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{
    Orchestrator,
    kid::{Kid, Life, Turn},
    report::{Settled, Snapshot},
    wait::DEADLINE_REASON,
};
use crate::{
    core::naming::normalize_name,
    error::{Result, SubagentError},
    ledger::artifacts::ArtifactRow,
    supervisor::Disposition,
};

/// A child that mail can be handed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChild {
    pub name: String,
    pub node_id: String,
    pub session_file: PathBuf,
    /// It waits for a team of its own (MAIL-12).
    pub has_live_children: bool,
}

/// A child that is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    pub name: String,
    /// End of its waiting budget in milliseconds since the epoch, if it has one (ORC-81).
    pub budget_ends_at: Option<i64>,
}

/// How long a text waits for the record of a turn that has ended, at a time, and how often: a child that its host calls
/// idle and that nobody records has not begun yet.
const RECORD_WAIT: Duration = Duration::from_secs(1);
const RECORD_LOOKS: u32 = 10;

impl Orchestrator {
    /// Direct children that their supervisor holds as alive, in launch order.
    pub fn live_children(&self) -> Vec<LiveChild> {
        let live = self.kids.all().into_iter().filter(|kid| kid.life() == Life::Live);
        live.map(|kid| LiveChild {
            has_live_children: self.shared.session(&kid.session_file).is_some_and(|session| session.has_up()),
            name: kid.name.clone(),
            node_id: kid.node_id.clone(),
            session_file: kid.session_file.clone(),
        })
        .collect()
    }

    /// Nodes of children that are alive or on their way: those that a heartbeat is for (LED-57).
    pub fn held_nodes(&self) -> Vec<String> {
        self.kids.all().into_iter().filter(|kid| kid.is_up()).map(|kid| kid.node_id.clone()).collect()
    }

    /// Children whose end the session may wait for: launching, working, or after an interim turn.
    pub fn active(&self) -> Vec<Active> {
        let active = self.kids.all().into_iter().filter(|kid| kid.is_active());
        active.map(|kid| Active { name: kid.name.clone(), budget_ends_at: kid.budget_ends_at() }).collect()
    }

    /// Whether [`Self::active`] has anybody.
    pub fn has_active(&self) -> bool {
        self.kids.lock().values().any(|kid| kid.is_active())
    }

    fn has_up(&self) -> bool {
        self.kids.lock().values().any(|kid| kid.is_up())
    }

    /// What a waiting call would say of an active child whose budget has passed.
    pub fn snapshot(&self, name: &str) -> Option<Snapshot> {
        let kid = self.kids.get(&normalize_name(name)).filter(|kid| kid.is_active())?;
        Some(self.snapshot_of(&kid, DEADLINE_REASON))
    }

    /// Gives a child a text after its pending work; an idle one begins a turn with it. A turn that has ended is recorded
    /// first (ORC-182).
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown child, `INVALID_PARAMS` for one that does not run (ORC-70), or the host's error.
    pub async fn deliver(&self, name: &str, text: &str) -> Result<Disposition> {
        let name = normalize_name(name);
        let kid = match self.kids.get(&name) {
            Some(kid) => kid,
            None => return Err(self.dead_or_unknown(&name)),
        };
        self.until_open(&kid).await;
        if kid.life() != Life::Live {
            return Err(self.dead_or_unknown(&name));
        }
        self.supervisor.follow_up(&name, text).await
    }

    /// Waits until a text cannot end up before the record of the turn that it follows.
    async fn until_open(&self, kid: &Kid) {
        kid.until(|stage| stage.life != Life::Launching).await;
        for _ in 0..RECORD_LOOKS {
            // Recorded and not kept is on its way to be recycled.
            kid.until(|stage| {
                stage.life != Life::Live || matches!(stage.turn, Turn::Working | Turn::Interim) || stage.kept
            })
            .await;
            if kid.life() != Life::Live || kid.turn() != Turn::Working {
                return;
            }
            // A turn that is over for the host and not yet for its watch is about to be recorded.
            if !self.supervisor.stats(&kid.name).await.is_some_and(|stats| stats.idle) {
                return;
            }
            let seen = kid.until(|stage| stage.life != Life::Live || stage.turn != Turn::Working);
            let _ = tokio::time::timeout(RECORD_WAIT, seen).await;
        }
    }

    fn dead_or_unknown(&self, name: &str) -> SubagentError {
        if self.kids.get(name).is_some() || self.run.get().is_some_and(|run| run.store.child(name).is_some()) {
            let text = format!("child '{name}' is not running; use continue to resume it");
            return SubagentError::invalid(text);
        }
        self.unknown_child(name)
    }

    /// A registered round, as a notice shows it; `None` while the child is in a new round (NTC-5), and for a round that
    /// is not of this session's children.
    pub fn recorded(&self, artifact: &ArtifactRow) -> Option<Settled> {
        if artifact.parent_id != self.node_id() {
            return None;
        }
        let kid: Option<Arc<Kid>> = self.kids.get(&artifact.name).filter(|kid| kid.node_id == artifact.node_id);
        if let Some(kid) = kid {
            if kid.is_active() {
                return None;
            }
            if let Some(round) = kid.last().filter(|round| round.round == artifact.round) {
                // A notice carries no usage to the host's totals; the first tool result does (CAP-8).
                return Some(self.settled_of(&kid, &round, Vec::new()));
            }
        }
        Some(self.settled_of_artifact(artifact))
    }
}
