//! One agent session: a task that owns the message list, the tools and the loop of its runs (NAT-1).
//!
//! ```text
//!  operations ──Command──▶ inbox ─▶ actor ─▶ RunState (decides)
//!                                    │  ▲        │ Steps
//!                                    ▼  └─ Done ─┴─▶ work: one model request, batch, gate or wait
//!                               SessionFile, Teller (extensions, viewers)
//! ```
//!
//! The inbox is unbounded: posts must not block (ABI-2), each is bounded by ABI-11, and every other sender
//! waits for its acknowledgement. Nothing here knows of children, hosts or operations.

pub mod compaction;
pub mod event;
pub mod gates;
pub mod prompt;
pub mod run_state;
pub mod shared;
pub mod toolset;

mod actor;
mod command;
mod convert;
mod model_call;
mod request;
mod tool_batch;

use std::sync::{Arc, OnceLock};

use host_abi::AbiError;
use host_abi::ops::{self, DeliverAs, Idle, Prompted, Sent};
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc, oneshot};

use self::actor::Actor;
use self::command::{Ack, Command, TextTo};
use self::compaction::CompactionPolicy;
use self::event::Teller;
use self::gates::Gates;
use self::prompt::PromptSource;
use self::run_state::Policy;
use self::shared::{Identity, Live, Shared};
use self::toolset::ToolSet;
use crate::provider::ModelRegistry;
use crate::session_file::SessionFile;
use crate::tools::HostEnv;

/// A session, as the rest of the host sees it.
#[derive(Debug)]
pub struct Session {
    pub shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<Command>,
    /// There once the extensions are attached.
    started: OnceLock<(Arc<Teller>, Gates)>,
    shutdown: OnceCell<()>,
}

/// The other end of a session that is not running yet.
#[derive(Debug)]
pub struct Inbox(mpsc::UnboundedReceiver<Command>);

/// What a session runs on.
#[derive(Debug)]
pub struct Parts {
    pub file: SessionFile,
    pub tools: ToolSet,
    pub prompt: PromptSource,
    pub policy: Policy,
    pub compaction: CompactionPolicy,
    pub models: ModelRegistry,
    pub env: Arc<HostEnv>,
}

impl Session {
    /// A session that takes commands from now on and acts on them once it [starts](Session::start).
    pub fn new(identity: Identity, live: Live) -> (Arc<Session>, Inbox) {
        let (inbox, commands) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(identity, live));
        let session = Session { shared, inbox, started: OnceLock::new(), shutdown: OnceCell::new() };
        (Arc::new(session), Inbox(commands))
    }

    /// Starts the task. The extensions in `teller` are attached.
    pub fn start(&self, inbox: Inbox, teller: Arc<Teller>, parts: Parts, runtime: &tokio::runtime::Handle) {
        let gates = Gates::new(Arc::clone(&teller), Arc::clone(&self.shared));
        let actor = Actor::new(inbox.0, Arc::clone(&self.shared), Arc::clone(&teller), gates.clone(), parts);
        // A session starts once; a second start would find the inbox gone already.
        let _ = self.started.set((teller, gates));
        runtime.spawn(actor.run());
    }

    pub fn scope(&self) -> u64 {
        self.shared.identity.scope
    }

    /// What tells its events; absent while its extensions are being attached.
    pub fn teller(&self) -> Option<&Arc<Teller>> {
        self.started.get().map(|(teller, _)| teller)
    }

    /// A text for the session (ABI-57). Answers at acceptance.
    pub async fn prompt(
        &self,
        text: String,
        source: &'static str,
        deliver: Option<DeliverAs>,
    ) -> Result<Prompted, AbiError> {
        self.text(text, source, TextTo::Prompt(deliver)).await
    }

    /// A text before the next model request; an idle session keeps it for its next prompt.
    pub async fn steer(&self, text: String) -> Result<Prompted, AbiError> {
        self.text(text, "extension", TextTo::Steer).await
    }

    /// A text after the run's pending work; an idle session keeps it for its next prompt.
    pub async fn follow_up(&self, text: String) -> Result<Prompted, AbiError> {
        self.text(text, "extension", TextTo::FollowUp).await
    }

    async fn text(&self, text: String, source: &'static str, to: TextTo) -> Result<Prompted, AbiError> {
        self.ask(|ack| Command::Text { text, source, to, ack }).await?
    }

    /// A custom message (ABI-56).
    pub async fn send(&self, message: ops::SendMessage) -> Result<Sent, AbiError> {
        self.ask(|ack| Command::Send { message, ack: Some(ack) }).await?
    }

    /// The same without an answer.
    pub fn post(&self, message: ops::SendMessage) {
        // A session that is gone takes nothing.
        let _ = self.inbox.send(Command::Send { message, ack: None });
    }

    /// An entry outside the model's context.
    pub async fn append_entry(&self, entry: ops::AppendEntry) -> Result<(), AbiError> {
        self.ask(|ack| Command::AppendEntry { entry, ack }).await?
    }

    pub async fn set_active_tools(&self, tools: Vec<String>) -> Result<(), AbiError> {
        self.ask(|ack| Command::SetActiveTools { tools, ack }).await
    }

    /// Ends the run, if there is one. Does not wait for its end.
    pub fn abort(&self, drop_queue: bool) {
        // A session that is gone has no run.
        let _ = self.inbox.send(Command::Abort { drop_queue });
    }

    /// Ends the run, if there is one, and begins no other: the session is about to be closed.
    pub fn end_runs(&self) {
        let _ = self.inbox.send(Command::EndRuns);
    }

    /// Answers when `run` has ended; without one, when the session is idle.
    pub async fn wait_idle(&self, run: Option<u64>) -> Result<Idle, AbiError> {
        self.ask(|ack| Command::WaitIdle { run, ack }).await?
    }

    /// Compacts the context; ends an active run first.
    pub async fn compact(&self) -> Result<(), AbiError> {
        self.ask(|ack| Command::Compact { ack }).await?
    }

    /// Entries of the branch behind `since`, oldest first.
    pub async fn entries(&self, query: ops::GetEntries) -> Result<Vec<Value>, AbiError> {
        self.ask(|ack| Command::Entries { query, ack }).await
    }

    /// The last `limit` messages of the context.
    pub async fn messages(&self, limit: Option<u32>) -> Result<Vec<Value>, AbiError> {
        self.ask(|ack| Command::Messages { limit, ack }).await
    }

    /// The session's last answer: its text, and the error of one that failed or was aborted.
    pub async fn last_answer(&self) -> Result<LastAnswer, AbiError> {
        self.ask(|ack| Command::LastAnswer { ack }).await
    }

    /// Asks the `session_shutdown` gates, once for all callers; the caller bounds the wait.
    pub async fn ask_shutdown(&self, reason: &str) {
        if let Some((_, gates)) = self.started.get() {
            self.shutdown.get_or_init(|| gates.session_shutdown(reason)).await;
        }
    }

    /// Ends the task and what it does; answers when it has ended.
    pub async fn close(&self) {
        // A task that is gone already needs no end.
        let _ = self.ask(|ack| Command::Close { ack: Some(ack) }).await;
    }

    /// The same without waiting.
    pub fn close_soon(&self) {
        let _ = self.inbox.send(Command::Close { ack: None });
    }

    async fn ask<T>(&self, command: impl FnOnce(Ack<T>) -> Command) -> Result<T, AbiError> {
        let (ack, answer) = oneshot::channel();
        let gone = || AbiError::scope_gone(self.scope());
        self.inbox.send(command(ack)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

/// The last answer of a session's model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastAnswer {
    /// Absent for an answer without text, and where there is no answer.
    pub text: Option<String>,
    /// Why it failed or was aborted.
    pub error: Option<String>,
}
