//! What mail needs to know of one session's children, and the one thing it does to them.

use std::{path::PathBuf, sync::Arc};

use crate::{
    error::SubagentError,
    ledger::{LegionDb, artifacts::ArtifactRow},
    orchestrator::{
        Orchestrator,
        report::{Settled, Snapshot},
    },
    settings::Settings,
    supervisor::Disposition,
};

pub use crate::orchestrator::{Active, LiveChild};

/// One session's place in the tree; its orchestrator, or a fake in tests.
#[async_trait::async_trait]
pub trait Tree: Send + Sync {
    /// The session's own node.
    fn node_id(&self) -> String;

    /// The tree's ledger; absent before the first launch of a root session, or when it cannot be opened.
    fn ledger(&self) -> Option<LegionDb>;

    fn settings(&self) -> Arc<Settings>;

    /// The session's own transcript, for the confirmation of mail to root.
    fn session_file(&self) -> Option<PathBuf>;

    /// Direct children that their supervisor holds as alive.
    fn live_children(&self) -> Vec<LiveChild>;

    /// Nodes whose heartbeat this session keeps: of its live children and of launches on their way (LED-57).
    fn held_nodes(&self) -> Vec<String>;

    /// Gives a child a text after its pending work; an idle one begins a turn with it.
    async fn deliver(&self, name: &str, text: &str) -> Result<Disposition, SubagentError>;

    /// A recorded round, as the notice shows it; `None` while the child runs a new round (NTC-5).
    fn recorded(&self, artifact: &ArtifactRow) -> Option<Settled>;

    /// Children whose end the session may wait for: launching, working, blocked, or after an interim turn.
    fn active(&self) -> Vec<Active>;

    /// What a waiting call would say of an active child whose budget has passed.
    fn snapshot(&self, name: &str) -> Option<Snapshot>;
}

#[async_trait::async_trait]
impl Tree for Orchestrator {
    fn node_id(&self) -> String {
        Self::node_id(self)
    }

    fn ledger(&self) -> Option<LegionDb> {
        Self::ledger(self)
    }

    fn settings(&self) -> Arc<Settings> {
        Self::settings(self)
    }

    fn session_file(&self) -> Option<PathBuf> {
        Self::session_file(self)
    }

    fn live_children(&self) -> Vec<LiveChild> {
        Self::live_children(self)
    }

    fn held_nodes(&self) -> Vec<String> {
        Self::held_nodes(self)
    }

    async fn deliver(&self, name: &str, text: &str) -> Result<Disposition, SubagentError> {
        Self::deliver(self, name, text).await
    }

    fn recorded(&self, artifact: &ArtifactRow) -> Option<Settled> {
        Self::recorded(self, artifact)
    }

    fn active(&self) -> Vec<Active> {
        Self::active(self)
    }

    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        Self::snapshot(self, name)
    }
}
