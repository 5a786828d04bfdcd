//! What all sessions of a host share, and the table of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use host_abi::info::{HostInfo, Mode};
use host_abi::ops::Stream;
use host_abi::{AbiError, LoadError};

use super::requests::Requests;
use crate::console::Console;
use crate::extensions::{Library, scopes};
use crate::ops;
use crate::provider::{ModelRegistry, ResolvedModel};
use crate::session::Session;
use crate::session::compaction::CompactionPolicy;
use crate::session::event::Bus;
use crate::session::run_state::Policy;
use crate::tools::{self, HostEnv, Tool};

/// How long the end of a session's task may take before its extensions are detached all the same.
const CLOSE_BOUND: Duration = Duration::from_secs(1);

/// A host: what it was started with, and its sessions.
pub struct Core {
    pub config: Config,
    pub models: ModelRegistry,
    pub default_model: ResolvedModel,
    pub env: Arc<HostEnv>,
    pub console: Arc<dyn Console>,
    pub bus: Arc<Bus>,
    pub runtime: tokio::runtime::Handle,
    pub requests: Requests,
    /// The built-in tools, which all sessions share.
    pub builtin: Vec<Arc<dyn Tool>>,
    legion: OnceLock<Result<Library, String>>,
    guard: OnceLock<Result<Library, String>>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    children: Mutex<HashMap<String, Child>>,
}

/// What a host was started with.
#[derive(Debug, Clone)]
pub struct Config {
    pub cwd: PathBuf,
    pub agent_dir: PathBuf,
    pub mode: Mode,
    pub project_trusted: bool,
    pub policy: Policy,
    pub compaction: CompactionPolicy,
    pub legion: LibraryAt,
    pub guard: LibraryAt,
    /// Where the two libraries are looked for: `PI_LEGION_LIB_DIR`, then beside the program.
    pub lib_dir: Option<PathBuf>,
    pub beside: PathBuf,
}

/// Where one of the two libraries that the host loads by itself is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LibraryAt {
    /// In the usual places (ABI-24).
    #[default]
    Find,
    At(PathBuf),
    /// Sessions run without it.
    Without,
}

/// A child session and the agent that made it.
#[derive(Debug, Clone)]
pub struct Child {
    pub session: Arc<Session>,
    pub owner: String,
}

impl Core {
    pub fn new(
        config: Config,
        models: ModelRegistry,
        default_model: ResolvedModel,
        env: Arc<HostEnv>,
        console: Arc<dyn Console>,
        runtime: tokio::runtime::Handle,
    ) -> Core {
        Core {
            config,
            models,
            default_model,
            env,
            console,
            bus: Arc::default(),
            runtime,
            requests: Requests::default(),
            builtin: tools::builtin_tools(),
            legion: OnceLock::new(),
            guard: OnceLock::new(),
            sessions: Mutex::default(),
            children: Mutex::default(),
        }
    }

    /// Answer of `host.info`.
    pub fn info(&self) -> HostInfo {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        HostInfo {
            name: "native-host".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: self.config.mode,
            has_ui: false,
            cwd: self.config.cwd.to_string_lossy().into_owned(),
            agent_dir: self.config.agent_dir.to_string_lossy().into_owned(),
            project_trusted: self.config.project_trusted,
            ops: names(&ops::offered()),
            events: names(host_abi::events::names::ALL),
            gates: names(host_abi::gates::names::ALL),
        }
    }

    /// A line for the person at the host (ABI-44): standard output is the protocol's in json and rpc mode.
    pub fn print(&self, stream: Stream, line: &str) {
        if stream == Stream::Err {
            tracing::warn!("{line}");
        }
        match self.config.mode {
            Mode::Print | Mode::Interactive => self.console.line(stream, line),
            Mode::Json | Mode::Rpc => self.console.line(Stream::Err, line),
        }
    }

    /// `legion-ext`; none where the host was started without it.
    pub fn legion(&self) -> Result<Option<Library>, String> {
        self.own_library(&self.legion, &self.config.legion, "legion_ext")
    }

    /// `child-guard`; none where the host was started without it.
    pub fn guard(&self) -> Result<Option<Library>, String> {
        self.own_library(&self.guard, &self.config.guard, "child_guard")
    }

    fn own_library(
        &self,
        cell: &OnceLock<Result<Library, String>>,
        at: &LibraryAt,
        name: &str,
    ) -> Result<Option<Library>, String> {
        let explicit = match at {
            LibraryAt::Without => return Ok(None),
            LibraryAt::Find => None,
            LibraryAt::At(path) => Some(path.as_path()),
        };
        let start = || -> Result<Library, LoadError> {
            let path = host_abi::find(name, explicit, self.config.lib_dir.as_deref(), &self.config.beside)?;
            Library::start(&path, path.to_string_lossy(), &self.info())
        };
        cell.get_or_init(|| start().map_err(|error| load_text(&error))).clone().map(Some)
    }

    /// Any other library, by its entry.
    pub fn library(&self, entry: &str, cwd: &Path) -> Result<Library, String> {
        let path = Library::resolve(entry, cwd)?;
        Library::start(&path, entry, &self.info()).map_err(|error| load_text(&error))
    }

    pub fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    pub fn add_session(&self, session: &Arc<Session>) {
        lock(&self.sessions).insert(session.scope(), Arc::clone(session));
    }

    /// Makes `session` a child of `owner` and names it.
    pub fn add_child(&self, session: &Arc<Session>, owner: &str) -> String {
        let id = format!("c{}", session.scope());
        lock(&self.children).insert(id.clone(), Child { session: Arc::clone(session), owner: owner.to_owned() });
        id
    }

    /// The child of this agent.
    pub fn child(&self, owner: &str, id: &str) -> Result<Arc<Session>, AbiError> {
        let children = lock(&self.children);
        let child = children.get(id).filter(|child| child.owner == owner);
        child.map(|child| Arc::clone(&child.session)).ok_or_else(|| AbiError::no_child(id))
    }

    /// The children of this agent, by id.
    pub fn children_of(&self, owner: &str) -> Vec<(String, Arc<Session>)> {
        let children = lock(&self.children);
        let own = children.iter().filter(|(_, child)| child.owner == owner);
        own.map(|(id, child)| (id.clone(), Arc::clone(&child.session))).collect()
    }

    /// Takes a session down: its task ends, its requests are answered with `SCOPE_GONE`, its extensions are
    /// detached. Its shutdown gates have been asked by then.
    pub async fn close(&self, session: &Session) {
        scopes::leave(session.scope());
        if tokio::time::timeout(CLOSE_BOUND, session.close()).await.is_err() {
            tracing::warn!(name = session.shared.identity.name, "the session's task does not end");
        }
        self.forget(session);
    }

    /// The same without waiting for the task.
    pub fn close_soon(&self, session: &Session) {
        scopes::leave(session.scope());
        session.close_soon();
        self.forget(session);
    }

    fn forget(&self, session: &Session) {
        session.shared.gone.cancel();
        lock(&self.sessions).remove(&session.scope());
        lock(&self.children).retain(|_, child| child.session.scope() != session.scope());
        if let Some(teller) = session.teller() {
            teller.session_end();
            teller.extensions.iter().for_each(|extension| extension.detach());
        }
    }

    /// Ends every session's run, asks its `session_shutdown` gates, both for at most `bound`, and takes all
    /// sessions down.
    pub async fn shut_down(&self, reason: &str, bound: Duration) {
        let sessions = self.sessions();
        let ended = join_all(sessions.iter().map(async |session| {
            session.end_runs();
            // One that is gone meanwhile is idle.
            let (_, _) = tokio::join!(session.ask_shutdown(reason), session.wait_idle(None));
        }));
        if tokio::time::timeout(bound, ended).await.is_err() {
            tracing::warn!("not every session came to its end within {} s", bound.as_secs());
        }
        join_all(sessions.iter().map(|session| self.close(session))).await;
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("config", &self.config).finish_non_exhaustive()
    }
}

fn load_text(error: &LoadError) -> String {
    if let Some(report) = error.full_report() {
        tracing::error!("{report}");
    }
    error.to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
