//! Who is running: the identity of a session, carried in a task-local.
//!
//! Identity comes from the `extensionScope` of `attach`, or, in a session that has none, from the environment of a
//! subprocess child; from nowhere else (ABI-14). Nothing spawns but through here, because a bare spawn loses the
//! task-local (ABI-9). This is also the one place that reads the process environment.

use std::{path::PathBuf, sync::Arc};

use host_abi::{
    info::{AttachSpec, Mode},
    scope::{Env, ExtensionScope, vars},
};
use tokio::{runtime::Handle, task::JoinHandle};

/// One attached session and whose it is.
#[derive(Debug, Clone)]
pub struct SessionContext {
    /// The logical agent; it outlives a session that is rebuilt.
    pub agent_id: String,
    pub session_id: String,
    pub session_file: Option<PathBuf>,
    pub cwd: PathBuf,
    pub mode: Mode,
    pub has_ui: bool,
    pub project_trusted: bool,
    pub identity: Identity,
}

/// Place in the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Identity {
    /// The session of the person at the host: owner of the ledger row `root`.
    Root,
    /// A child with its place in the ledger.
    Child(Box<ExtensionScope>),
}

/// Ledger id of the root session.
pub const ROOT_NODE: &str = "root";

impl Identity {
    pub fn child(&self) -> Option<&ExtensionScope> {
        match self {
            Self::Root => None,
            Self::Child(scope) => Some(scope),
        }
    }

    pub fn node_id(&self) -> &str {
        self.child().map_or(ROOT_NODE, |scope| &scope.node_id)
    }

    /// 0 for the root.
    pub fn depth(&self) -> u32 {
        self.child().map_or(0, |scope| scope.depth)
    }

    /// The role that a child's card names; root has none.
    pub fn role(&self) -> Option<&str> {
        self.child().map(|scope| scope.role.as_str())
    }

    /// A read-only leaf that `vexillatio` dispatched.
    pub fn utility(&self) -> bool {
        self.child().is_some_and(|scope| scope.utility)
    }

    /// Whether this session may launch children (09 §1).
    pub fn may_launch(&self) -> bool {
        match self {
            Self::Root => true,
            Self::Child(scope) => !scope.utility && scope.budget.as_ref().is_some_and(|budget| budget.allow_nested),
        }
    }
}

impl SessionContext {
    /// The context of an attach whose identity is known.
    pub fn new(spec: AttachSpec, identity: Identity) -> Self {
        Self {
            agent_id: spec.agent_id,
            session_id: spec.session_id,
            session_file: spec.session_file.map(PathBuf::from),
            cwd: PathBuf::from(spec.cwd),
            mode: spec.mode,
            has_ui: spec.has_ui,
            project_trusted: spec.project_trusted,
            identity,
        }
    }

    /// Whether this root session holds its end while children run (MODE-3).
    pub fn holds_boundary(&self) -> bool {
        matches!(self.identity, Identity::Root) && matches!(self.mode, Mode::Print | Mode::Json)
    }
}

tokio::task_local! {
    static CURRENT: Arc<SessionContext>;
}

/// The context that this task runs in, if it was spawned through here.
pub fn current() -> Option<Arc<SessionContext>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Spawns within the context of the running task. Without one the task has none either.
#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub fn spawn_scoped<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match current() {
        Some(context) => tokio::spawn(CURRENT.scope(context, future)),
        None => tokio::spawn(future),
    }
}

/// The extension's runtime, for those who are not on it: the host's threads and the work of the process.
#[derive(Debug, Clone)]
pub struct Spawner(Handle);

impl Spawner {
    pub fn new(runtime: Handle) -> Self {
        Self(runtime)
    }

    /// Spawns within `context`.
    pub fn within<F>(&self, context: Arc<SessionContext>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn(CURRENT.scope(context, future))
    }

    /// Spawns work of the process itself, which has no identity.
    pub fn detached<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawn(future)
    }
}

/// Runs blocking work on a thread that may block, within the context of the running task.
pub fn spawn_blocking_scoped<T, F>(work: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    match current() {
        Some(context) => tokio::task::spawn_blocking(move || CURRENT.sync_scope(context, work)),
        None => tokio::task::spawn_blocking(work),
    }
}

/// Starts a thread for work of the process itself, which has no identity and needs no runtime.
pub fn thread_for_process(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Runs `future` within `context`, in the task that awaits it.
pub async fn within<F: Future>(context: Arc<SessionContext>, future: F) -> F::Output {
    CURRENT.scope(context, future).await
}

/// The process environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnv;

impl Env for ProcessEnv {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// What the environment says of a session without an `extensionScope`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvClaim {
    /// Neither variable is set: not a child.
    None,
    /// Both are set; the ledger decides whether the claim holds (LED-30).
    Node { db: PathBuf, node_id: String },
    /// Only one of the two is set (LED-31).
    Partial { missing: &'static str },
}

/// Reads the claim of a subprocess child.
pub fn env_claim(env: &dyn Env) -> EnvClaim {
    let set = |name| env.var(name).filter(|value: &String| !value.trim().is_empty());
    match (set(vars::DB), set(vars::NODE_ID)) {
        (None, None) => EnvClaim::None,
        (Some(db), Some(node_id)) => EnvClaim::Node { db: PathBuf::from(db), node_id },
        (Some(_), None) => EnvClaim::Partial { missing: vars::NODE_ID },
        (None, Some(_)) => EnvClaim::Partial { missing: vars::DB },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_claim_needs_both_variables() {
        assert_eq!(env_claim(&env(&[])), EnvClaim::None);
        assert_eq!(env_claim(&env(&[(vars::DB, "/x")])), EnvClaim::Partial { missing: vars::NODE_ID });
        assert_eq!(
            env_claim(&env(&[(vars::NODE_ID, "root/a"), (vars::DB, " ")])),
            EnvClaim::Partial { missing: vars::DB }
        );
        assert_eq!(
            env_claim(&env(&[(vars::DB, "/x"), (vars::NODE_ID, "root/a")])),
            EnvClaim::Node { db: "/x".into(), node_id: "root/a".into() }
        );
    }
}
