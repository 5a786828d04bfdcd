//! What mail needs to know of one session's children, and the one thing it does to them.

use std::{path::PathBuf, sync::Arc};

use crate::{
    error::SubagentError,
    ledger::{LegionDb, artifacts::ArtifactRow},
    orchestrator::report::{Settled, Snapshot},
    settings::Settings,
    supervisor::Disposition,
};

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

    /// Gives a child a text after its pending work; an idle one begins a turn with it.
    async fn deliver(&self, name: &str, text: &str) -> Result<Disposition, SubagentError>;

    /// A recorded round, as the notice shows it; `None` while the child runs a new round (NTC-5).
    fn recorded(&self, artifact: &ArtifactRow) -> Option<Settled>;

    /// Children whose end the session may wait for: launching, working, blocked, or after an interim turn.
    fn active(&self) -> Vec<Active>;

    /// What a waiting call would say of an active child whose budget has passed.
    fn snapshot(&self, name: &str) -> Option<Snapshot>;
}

/// A child that mail can be handed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChild {
    pub name: String,
    pub node_id: String,
    pub session_file: PathBuf,
    /// Its row is terminal for mail unless it waits for a team of its own (MAIL-12).
    pub has_live_children: bool,
}

/// A child that is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    pub name: String,
    /// End of its waiting budget in milliseconds since the epoch, if it has one (ORC-81).
    pub budget_ends_at: Option<i64>,
}
