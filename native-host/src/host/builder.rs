//! Puts a host together and brings its root session up.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_abi::AbiError;
use host_abi::info::Mode;
use host_abi::ops::{ModelRef, Stream};

use super::Host;
use super::context;
use super::core::{Config, Core, LibraryAt};
use super::open::{OpenSpec, Opened, open};
use crate::console::{Console, StdConsole};
use crate::context_files::{Loaded, Settings, TrustQuestion, project_trusted};
use crate::env::Env;
use crate::provider::scripted::{self, ScriptedProvider};
use crate::provider::{ModelQuery, ModelRegistry, Provider, ResolveError, ResolvedModel, ThinkingLevel};
use crate::session::run_state::{Policy, RetryPolicy};
use crate::session::toolset::ToolChoice;
use crate::session_file::{HeaderSpec, SessionFile, SessionFileError, default_session_dir};

/// What a host is to be. Everything has a default but the environment, which the caller reads or makes up.
#[derive(Default)]
pub struct HostBuilder {
    env: Env,
    cwd: Option<PathBuf>,
    agent_dir: Option<PathBuf>,
    mode: Option<Mode>,
    script: Option<PathBuf>,
    providers: Vec<Arc<dyn Provider>>,
    model: Option<String>,
    thinking: Option<ThinkingLevel>,
    session: SessionAt,
    tools: ToolChoice,
    system_prompt: Option<String>,
    lib_dir: Option<PathBuf>,
    legion: LibraryAt,
    guard: LibraryAt,
    extensions: Vec<String>,
    approve: Option<bool>,
    retry: Option<RetryPolicy>,
    console: Option<Arc<dyn Console>>,
}

/// Where the root's session is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum SessionAt {
    /// A new file where pi keeps the sessions of the directory.
    #[default]
    New,
    /// Exactly this file, new or not.
    File(PathBuf),
    Memory,
}

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("no directory {}", .0.display())]
    NoDirectory(PathBuf),
    #[error(transparent)]
    Script(#[from] scripted::LoadError),
    #[error(transparent)]
    Model(#[from] ResolveError),
    #[error(transparent)]
    Session(#[from] SessionFileError),
    #[error("failed to start the session: {0}")]
    Start(AbiError),
    #[error("a host needs a tokio runtime around it")]
    NoRuntime,
}

impl HostBuilder {
    /// The environment of the process, or one of the caller's making. An empty one keeps commands hermetic.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// The working directory; the environment's when absent.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The user directory; the environment's when absent.
    pub fn agent_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.agent_dir = Some(dir.into());
        self
    }

    /// [`Mode::Print`] when absent.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// A script to answer from, instead of the built-in one.
    pub fn script(mut self, path: impl Into<PathBuf>) -> Self {
        self.script = Some(path.into());
        self
    }

    /// Another provider; with one given, the scripted provider is there only with a [`script`](Self::script).
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// `provider/id` or `id`, with `:level` at the end or not.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = Some(level);
        self
    }

    /// The root's session file: begun when absent or empty, else continued.
    pub fn session_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.session = SessionAt::File(path.into());
        self
    }

    /// Keeps the root's session in memory only.
    pub fn no_session_file(mut self) -> Self {
        self.session = SessionAt::Memory;
        self
    }

    /// The root's tools; the default ones when absent.
    pub fn tools(mut self, names: &[&str]) -> Self {
        self.tools.only = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// Replaces the host's own system prompt of the root.
    pub fn system_prompt(mut self, text: impl Into<String>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Where `legion-ext` and `child-guard` are; wins over the environment.
    pub fn lib_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.lib_dir = Some(dir.into());
        self
    }

    /// Another library in the place of `legion-ext`, or none.
    pub fn legion(mut self, at: LibraryAt) -> Self {
        self.legion = at;
        self
    }

    /// Another library in the place of `child-guard`, or none.
    pub fn guard(mut self, at: LibraryAt) -> Self {
        self.guard = at;
        self
    }

    /// No session has `legion-ext` or `child-guard`.
    pub fn no_legion(self) -> Self {
        self.legion(LibraryAt::Without).guard(LibraryAt::Without)
    }

    /// One more extension of the root; children have it when their spec names it.
    pub fn extension(mut self, entry: impl Into<String>) -> Self {
        self.extensions.push(entry.into());
        self
    }

    /// Trusts the project, or does not; its files and the settings decide when absent.
    pub fn approve(mut self, approve: bool) -> Self {
        self.approve = Some(approve);
        self
    }

    /// Repetition of failed model requests; the settings' when absent.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Where lines for the person go; standard output and error when absent.
    pub fn console(mut self, console: Arc<dyn Console>) -> Self {
        self.console = Some(console);
        self
    }

    /// Starts the host inside the present tokio runtime. Extensions that the root does without are named on
    /// the console.
    pub fn build(self) -> Result<Host, HostError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| HostError::NoRuntime)?;
        let cwd = self.env.cwd.join(self.cwd.clone().unwrap_or_default());
        let cwd = cwd.canonicalize().map_err(|_| HostError::NoDirectory(cwd))?;
        let agent_dir = self.agent_dir.clone().unwrap_or_else(|| self.env.agent_dir());
        let tools_env = Arc::new(self.env.for_tools());
        let (project_trusted, doubt) = project_trusted(TrustQuestion {
            cwd: &cwd,
            agent_dir: &agent_dir,
            home: tools_env.home(),
            command_line: self.approve,
            default: Settings::load(&agent_dir, None).value.default_project_trust,
        });
        let Loaded { value: settings, warnings } = Settings::load(&agent_dir, project_trusted.then_some(cwd.as_path()));
        let policy = context::policy(&settings);
        let compaction = context::compaction(&settings);
        let models = self.models()?;
        let default_model = default_model(&models, &settings, self.model.as_deref(), self.thinking)?;
        let file = self.open_file(&agent_dir, &cwd)?;
        let mode = self.mode.unwrap_or(Mode::Print);
        let config = Config {
            // A directory that was asked for is the only place: a typo must not load another build.
            beside: match &self.lib_dir {
                Some(asked) => asked.clone(),
                None => self.env.executable.parent().unwrap_or(Path::new("")).to_owned(),
            },
            lib_dir: self.lib_dir.or(self.env.lib_dir.clone()),
            policy: Policy { retry: self.retry.unwrap_or(policy.retry), ..policy },
            compaction,
            cwd: cwd.clone(),
            agent_dir,
            mode,
            project_trusted,
            legion: self.legion,
            guard: self.guard,
        };
        let console = self.console.unwrap_or_else(|| Arc::new(StdConsole));
        host_abi::fence::install_host_hook();
        // An explicit model also changes the model of a resumed session.
        let model = self.model.as_ref().map(|_| default_model.info.model_ref());
        let core = Arc::new(Core::new(config, models, default_model, tools_env, console, runtime));
        warnings.into_iter().chain(doubt).for_each(|warning| core.print(Stream::Err, &warning));
        let spec = OpenSpec {
            agent_id: root_agent_id(),
            name: "root".to_owned(),
            role: "root".to_owned(),
            root: true,
            mode,
            prompt: context::of_root(&core, &cwd, self.system_prompt),
            cwd,
            file,
            choice: self.tools,
            model: model.map(|model| ModelRef { provider: model.provider, id: model.id }),
            thinking: self.thinking,
            extensions: self.extensions,
            extension_scope: None,
        };
        let Opened { session, warning, errors } = open(&core, spec).map_err(HostError::Start)?;
        for line in warning.into_iter().chain(errors) {
            core.print(Stream::Err, &line);
        }
        Ok(Host { core, root: session })
    }

    fn models(&self) -> Result<ModelRegistry, scripted::LoadError> {
        let mut providers = self.providers.clone();
        match &self.script {
            Some(path) => providers.push(Arc::new(ScriptedProvider::from_file(path)?)),
            None if providers.is_empty() => providers.push(Arc::new(ScriptedProvider::embedded())),
            None => {}
        }
        Ok(ModelRegistry::new(providers))
    }

    fn open_file(&self, agent_dir: &Path, cwd: &Path) -> Result<SessionFile, SessionFileError> {
        let header = HeaderSpec { cwd: cwd.to_owned(), id: None, parent: None };
        match &self.session {
            SessionAt::New => SessionFile::create_in(&default_session_dir(agent_dir, cwd), &header),
            SessionAt::File(path) => SessionFile::open(&self.env.cwd.join(path), &header),
            SessionAt::Memory => Ok(SessionFile::in_memory(&header)),
        }
    }
}

/// Libraries are shared by all hosts of a process and know an agent by its id (ABI-3), so each host's root has its own.
fn root_agent_id() -> String {
    static HOSTS: AtomicU64 = AtomicU64::new(1);
    format!("root#{}", HOSTS.fetch_add(1, Ordering::Relaxed))
}

/// The model that was asked for, else the settings' one, else the first that can be asked.
fn default_model(
    models: &ModelRegistry,
    settings: &Settings,
    asked: Option<&str>,
    thinking: Option<ThinkingLevel>,
) -> Result<ResolvedModel, ResolveError> {
    let thinking = thinking.or(settings.default_thinking.filter(|_| asked.is_none_or(|model| !model.contains(':'))));
    if let Some(model) = asked {
        return models.resolve(&ModelQuery { model: model.to_owned(), provider: None, thinking });
    }
    let preferred = settings.default_model.as_ref().map(|model| ModelQuery {
        model: model.clone(),
        provider: settings.default_provider.clone(),
        thinking,
    });
    // A script on the command line stands in for the models of the settings.
    if let Some(Ok(model)) = preferred.map(|query| models.resolve(&query)) {
        return Ok(model);
    }
    let first = models.list().into_iter().find(|model| model.has_credentials);
    let model = first.map(|model| model.model_ref().to_string()).unwrap_or_default();
    models.resolve(&ModelQuery { model, provider: None, thinking })
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder").field("cwd", &self.cwd).field("mode", &self.mode).finish_non_exhaustive()
    }
}
