//! The one writer of decisions: launch, admit, collect, wait, take down.
//!
//! A tool call comes in as a [`command::Command`] and goes out as a [`report::Report`]. The orchestrator knows no wire
//! names and no texts of the tool surface, and never talks to a child except through its supervisor.
//!
//! ```text
//! Launch ─▶ plan ─▶ admit (slot) ─▶ name ─▶ reserve (ledger) ─▶ start (supervisor) ─▶ watch ─▶ record ─▶ recycle
//!                                                                                       │
//! Collect, Wait, launch with async: false ── look at the child's stage ◀────────────────┘
//! ```
//!
//! Every child has one watch, whoever waits for it: so an interrupted call loses nothing, and two calls that collect
//! one child see one collection (ORC-92, ORC-102). No lock is held across an await; the ledger is written first, then
//! the world is changed.

mod acceptance;
pub mod child_context;
pub mod claim;
pub mod command;
mod definitions;
mod family;
pub mod kid;
mod launch;
pub mod outside;
mod plan;
pub mod ports;
mod project;
pub mod report;
mod roles;
mod run;
mod shared;
mod spec;
mod start;
mod takedown;
mod takeover;
mod wait;
mod watch;

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use host_abi::ops::{ExtensionEntry, ListExtensions, LogLevel};
use tokio::sync::{OnceCell, watch as watch_channel};

pub use family::{Active, LiveChild};
pub use shared::Shared;
pub use takedown::Drain;

use self::{
    command::{CallCx, Command},
    definitions::Loaded,
    kid::Kids,
    ports::Ports,
    report::Report,
    run::Run,
};
use crate::{
    cards::DefinitionRoots,
    context::{ProcessEnv, SessionContext},
    core::admission::ROOT_PARENT_KEY,
    error::{Code, Result, SubagentError},
    host::SessionHost,
    ledger::LegionDb,
    settings::Settings,
    supervisor::{InProcess, InProcessDeps, ParentKey, SpawnObserver, Supervisor},
};

/// What an orchestrator is made of.
#[derive(Debug, Clone)]
pub struct OrchestratorDeps {
    pub host: SessionHost,
    pub context: Arc<SessionContext>,
    pub shared: Arc<Shared>,
    /// The host's user directory.
    pub agent_dir: PathBuf,
}

/// The children of one agent, from launch to end. It outlives a session that is rebuilt (ABI-3).
pub struct Orchestrator {
    me: Weak<Self>,
    host: SessionHost,
    context: RwLock<Arc<SessionContext>>,
    shared: Arc<Shared>,
    agent_dir: PathBuf,
    ports: OnceLock<Ports>,
    in_process: InProcess,
    supervisor: Arc<dyn Supervisor>,
    /// Made at the first launch, or when a former one is found (ORC-177).
    run: OnceCell<Arc<Run>>,
    /// A child session's view of the tree's ledger, whether or not it ever launches.
    child_ledger: OnceLock<LegionDb>,
    /// The parent session's extensions, asked for once (INH-12).
    extensions: OnceCell<Vec<ExtensionEntry>>,
    kids: Kids,
    book: Mutex<Book>,
    /// Rises with every change of any child.
    changes: watch_channel::Sender<u64>,
    /// The session is shutting down, or is being taken down: nothing starts any more (ORC-180).
    closed: AtomicBool,
}

/// Small facts that change under one lock.
#[derive(Debug, Default)]
struct Book {
    /// Names of all records and ledger rows of this session's children (ORC-9).
    names: HashSet<String>,
    /// Children started by this session, and those on their way (ORC-175).
    spawned: u32,
    /// Roles whose lost worktree was warned about (ORC-32).
    demoted: HashSet<String>,
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator").field("node", &self.node_id()).finish_non_exhaustive()
    }
}

impl Orchestrator {
    pub fn new(deps: OrchestratorDeps) -> Arc<Self> {
        let OrchestratorDeps { host, context, shared, agent_dir } = deps;
        let label = match context.identity.child() {
            None => ROOT_PARENT_KEY.to_owned(),
            Some(scope) => scope.node_id.clone(),
        };
        let in_process = InProcess::new(InProcessDeps {
            host: host.clone(),
            pool: Arc::clone(&shared.pool),
            activity: Arc::clone(&shared.activity),
            parent: ParentKey { session: context.agent_id.clone(), label },
            depth: context.identity.depth(),
            observer: Arc::new(Logger(host.clone())),
        });
        let orchestrator = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            supervisor: Arc::new(in_process.clone()),
            host,
            context: RwLock::new(Arc::clone(&context)),
            shared,
            agent_dir,
            ports: OnceLock::new(),
            in_process,
            run: OnceCell::new(),
            child_ledger: OnceLock::new(),
            extensions: OnceCell::new(),
            kids: Kids::default(),
            book: Mutex::default(),
            changes: watch_channel::Sender::new(0),
            closed: AtomicBool::new(false),
        });
        if let Some(scope) = context.identity.child() {
            orchestrator.shared.add_session(scope.session_file.as_ref(), &orchestrator);
        }
        orchestrator
    }

    /// Mailbox and notices of the layers above; the first ones stay.
    pub fn connect(&self, ports: Ports) {
        // A second connection would be a fault of the caller; the first one keeps working.
        let _ = self.ports.set(ports);
    }

    /// The agent's session was rebuilt (ABI-3): its run goes on under the new transcript.
    pub fn rebind(&self, context: Arc<SessionContext>) {
        if let Some(run) = self.run.get() {
            let session_file = context.session_file.clone();
            run.store.update(|record| record.root_session_file = session_file);
        }
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = context;
    }

    /// Carries out one command. Never fails as a whole: a refusal is a report too (ORC-7).
    pub async fn run(&self, command: Command, cx: &CallCx) -> Report {
        if cx.cancel.is_cancelled() {
            return Report { interrupted: true, run_id: self.run_id(), ..Report::default() };
        }
        self.recover().await;
        let mut report = match command {
            Command::Launch(launch) => self.launch(launch, cx).await,
            Command::Collect(collect) => self.collect(collect, cx).await,
            Command::Wait(wait) => self.wait(wait, cx).await,
            Command::Status(query) => match self.project(&query) {
                Ok(projection) => Report { body: report::Body::Status(projection), ..Report::default() },
                Err(error) => Report { refused: Some(error), ..Report::default() },
            },
            Command::List(query) => self.list(query).await,
            Command::TakeDown(take_down) => self.take_down(take_down).await,
        };
        report.run_id = self.run_id();
        report
    }

    /// Opens the run that an earlier session of this transcript left, if there is one and it is not open yet
    /// (ORC-172). Called at attach and before each command.
    pub async fn recover(&self) {
        if self.run.initialized() || !run::former_exists(&self.context()) {
            return;
        }
        if let Err(error) = self.open_run().await {
            self.host.log(LogLevel::Warn, &format!("legion: the former run was not taken over: {error}"));
        }
    }

    /// The session's own node.
    pub fn node_id(&self) -> String {
        self.context().identity.node_id().to_owned()
    }

    pub fn context(&self) -> Arc<SessionContext> {
        Arc::clone(&self.context.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn run_id(&self) -> Option<String> {
        self.run.get().map(|run| run.id())
    }

    /// The session's run directory, once there is one.
    pub fn run_dir(&self) -> Option<PathBuf> {
        self.run.get().map(|run| run.dir.path().to_owned())
    }

    /// The tree's ledger: of a root once its run is there, of a child always.
    pub fn ledger(&self) -> Option<LegionDb> {
        if let Some(run) = self.run.get() {
            return Some(run.db.clone());
        }
        if let Some(db) = self.child_ledger.get() {
            return Some(db.clone());
        }
        let context = self.context();
        let scope = context.identity.child()?;
        match run::child_ledger(scope.db_path.as_ref()) {
            Ok(db) => Some(self.child_ledger.get_or_init(|| db).clone()),
            Err(error) => {
                self.host.log(LogLevel::Warn, &format!("legion: {error}"));
                None
            }
        }
    }

    /// The settings as they stand; broken ones leave the last good ones in force (SET-3).
    pub fn settings(&self) -> Arc<Settings> {
        self.definitions().settings.last_good
    }

    /// The session's own transcript.
    pub fn session_file(&self) -> Option<PathBuf> {
        let context = self.context();
        context.session_file.clone().or_else(|| Some(PathBuf::from(&context.identity.child()?.session_file)))
    }

    /// Told of every change of any child.
    pub fn changes(&self) -> watch_channel::Receiver<u64> {
        self.changes.subscribe()
    }

    fn roots(&self) -> DefinitionRoots {
        definitions::roots(&self.context(), &self.agent_dir, &ProcessEnv)
    }

    /// Cards and settings as they stand on disk; their fresh warnings go to the person (CARD-81).
    fn definitions(&self) -> Loaded {
        let (loaded, fresh) = self.shared.load(&self.roots());
        for warning in fresh {
            self.host.warn(warning);
        }
        loaded
    }

    /// The run, opened or made.
    async fn open_run(&self) -> Result<Arc<Run>> {
        let run = self
            .run
            .get_or_try_init(|| async {
                let limits = self.settings().legion.max_depth;
                let run = Arc::new(run::open(&self.context(), &self.host, limits)?);
                self.restore(&run).await?;
                Ok::<_, SubagentError>(run)
            })
            .await?;
        Ok(Arc::clone(run))
    }

    /// The parent session's extensions: asked for once, and empty when the host cannot tell (INH-12).
    async fn inherited_extensions(&self) -> &[ExtensionEntry] {
        let ask = || async {
            match self.host.request(&ListExtensions {}).await {
                Ok(answer) => answer.extensions,
                Err(error) => {
                    self.host.warn(format!("legion: children inherit no extensions: {error}"));
                    Vec::new()
                }
            }
        };
        self.extensions.get_or_init(ask).await
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn this(&self) -> Arc<Self> {
        self.me.upgrade().expect("a method runs on a living value")
    }

    fn tell_settled(&self, name: &str) {
        if let Some(ports) = self.ports.get() {
            ports.outbox.settled(name);
        }
    }

    /// ORC-6: the error for a name that has no record.
    fn unknown_child(&self, name: &str) -> SubagentError {
        const SHOWN: usize = 10;
        let mut known: Vec<String> = self.known_names();
        known.sort_by_key(|known| strsim::levenshtein(known, name));
        known.truncate(SHOWN);
        let text = match known.as_slice() {
            [] => format!("unknown child '{name}'"),
            known => format!("unknown child '{name}'; known: {}", known.join(", ")),
        };
        SubagentError::new(Code::NotFound, text)
    }

    /// Names of the session's children, in launch order.
    fn known_names(&self) -> Vec<String> {
        let mut names: Vec<String> = match self.run.get() {
            Some(run) => run.store.record().children.iter().map(|child| child.name.clone()).collect(),
            None => Vec::new(),
        };
        names.extend(self.kids.lock().keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
        names
    }
}

/// Puts what a supervisor tells beside its answers into the log.
struct Logger(SessionHost);

impl SpawnObserver for Logger {
    fn refused(&self, name: &str, message: &str) {
        self.0.log(LogLevel::Info, &format!("child '{name}': {message}"));
    }
}

#[cfg(test)]
mod tests;
