//! What is known of a session outside its task: who it is, and its latest facts.
//!
//! The task is the only writer of [`Live`]; operations, gates and tools read it without waiting for the task.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use host_abi::info::{AttachSpec, Ctx, Mode};
use host_abi::ops::{ChildStats, ContextUsage, SessionInfo};
use host_abi::scope::ScopeJson;
use tokio_util::sync::CancellationToken;

use crate::provider::{ModelInfo, ThinkingLevel};
use crate::session_file::Usage;
use crate::tools::SessionEnv;

/// Who a session is; it never changes.
#[derive(Debug, Clone)]
pub struct Identity {
    pub scope: u64,
    /// The logical agent (ABI-3).
    pub agent_id: String,
    /// The child's own name; `root` for a first session.
    pub name: String,
    /// What scripts match by; the name where there is nothing better.
    pub role: String,
    /// Whether it is a first session, not made by `child.create`.
    pub root: bool,
    pub session_id: String,
    pub session_file: Option<PathBuf>,
    pub cwd: PathBuf,
    pub mode: Mode,
    pub project_trusted: bool,
    pub extension_scope: Option<ScopeJson>,
}

/// The latest facts of a session.
#[derive(Debug, Clone)]
pub struct Live {
    pub idle: bool,
    pub pending: u32,
    pub model: ModelInfo,
    pub thinking: ThinkingLevel,
    /// Active tools.
    pub tools: Vec<String>,
    /// Everything in the session, calls made by tools and summaries included.
    pub usage: Usage,
    /// Tokens of the last answer's request and answer.
    pub context_tokens: Option<u64>,
    pub runs: u64,
    /// Milliseconds since the Unix epoch.
    pub last_event_at: Option<i64>,
}

/// A session's identity and facts, shared by everything that acts in its name.
#[derive(Debug)]
pub struct Shared {
    pub identity: Identity,
    /// Cancelled when the session is gone.
    pub gone: CancellationToken,
    live: Mutex<Live>,
}

impl Shared {
    pub fn new(identity: Identity, live: Live) -> Shared {
        Shared { identity, gone: CancellationToken::new(), live: Mutex::new(live) }
    }

    pub fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tools, commands and gates are told.
    pub fn ctx(&self) -> Ctx {
        let (model, idle) = {
            let live = self.live();
            (live.model.model_ref().to_string(), live.idle)
        };
        let identity = &self.identity;
        Ctx {
            cwd: identity.cwd.to_string_lossy().into_owned(),
            mode: identity.mode,
            has_ui: false,
            session_id: identity.session_id.clone(),
            session_file: identity.file_text(),
            model: Some(model),
            idle,
        }
    }

    /// What commands of the session are told in their environment.
    pub fn session_env(&self) -> SessionEnv {
        let model = self.live().model.model_ref();
        SessionEnv {
            session_id: self.identity.session_id.clone(),
            session_file: self.identity.session_file.clone(),
            provider: Some(model.provider),
            model: Some(model.id),
        }
    }

    /// Answer of `session.info`.
    pub fn info(&self) -> SessionInfo {
        let live = self.live();
        SessionInfo {
            session_id: self.identity.session_id.clone(),
            session_file: self.identity.file_text(),
            model: Some(live.model.model_ref().to_string()),
            thinking: live.thinking.to_string(),
            idle: live.idle,
            pending_messages: live.pending,
            context_usage: live
                .context_tokens
                .map(|tokens| ContextUsage { tokens, context_window: live.model.context_window }),
            tools: live.tools.clone(),
        }
    }

    /// Answer of `child.stats`.
    pub fn stats(&self) -> ChildStats {
        let live = self.live();
        ChildStats {
            tokens_in: live.usage.input + live.usage.cache_write,
            tokens_out: live.usage.output,
            cache_read: live.usage.cache_read,
            cost_usd: live.usage.cost.total,
            idle: live.idle,
            runs: live.runs,
            last_event_at: live.last_event_at,
        }
    }
}

impl Identity {
    pub fn file_text(&self) -> Option<String> {
        self.session_file.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// The JSON of `attach`.
    pub fn attach_spec(&self) -> AttachSpec {
        AttachSpec {
            agent_id: self.agent_id.clone(),
            session_id: self.session_id.clone(),
            session_file: self.file_text(),
            cwd: self.cwd.to_string_lossy().into_owned(),
            mode: self.mode,
            has_ui: false,
            project_trusted: self.project_trusted,
            extension_scope: self.extension_scope.clone(),
        }
    }
}
