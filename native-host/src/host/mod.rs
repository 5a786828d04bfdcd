//! A host as a program or a test holds it: one root session, its children, and the way down.
//!
//! Several hosts may live in one process; extension libraries are started once for all of them, and find the
//! right host by the scope of a session.

pub mod builder;
pub mod children;
pub mod core;
pub mod requests;
pub mod views;

mod context;
mod open;

use std::sync::Arc;
use std::time::Duration;

use host_abi::AbiError;
use host_abi::calls::{CommandInvocation, kinds};
use host_abi::ops::{Disposition, Idle};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::core::Core;
use crate::extensions::call::{Call, CallError, call};
use crate::session::event::HostEvent;
use crate::session::{LastAnswer, Session};

pub use self::builder::{HostBuilder, HostError};
pub use self::core::LibraryAt;
pub use self::views::Views;

/// The bound of a shutdown by a signal (HOST-5).
pub const SIGNAL_BOUND: Duration = Duration::from_secs(10);

/// What is left after the root's own drain may take this long.
const LEFT_BOUND: Duration = Duration::from_secs(5);

/// A running host.
#[derive(Debug)]
pub struct Host {
    core: Arc<Core>,
    root: Arc<Session>,
}

/// How a prompt of the root ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// The root's last text.
    pub text: Option<String>,
    /// Why the last answer failed or was aborted.
    pub error: Option<String>,
    pub aborted: bool,
}

impl Host {
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// The root session.
    pub fn root(&self) -> &Arc<Session> {
        &self.root
    }

    /// What its sessions share.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Events of all sessions of this host from now on.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<HostEvent> {
        self.core.bus.subscribe()
    }

    /// Gives the root a text and waits until it is idle again. `/name args` runs a command of an extension.
    pub async fn run_prompt(&self, text: &str) -> Result<RunOutcome, AbiError> {
        if self.run_command(text).await? {
            let Idle { aborted } = self.root.wait_idle(None).await?;
            return Ok(RunOutcome { aborted, ..RunOutcome::default() });
        }
        let prompted = self.root.prompt(text.to_owned(), "interactive", None).await?;
        if prompted.disposition == Disposition::Handled {
            return Ok(RunOutcome::default());
        }
        let Idle { aborted } = self.root.wait_idle(prompted.run).await?;
        self.outcome(aborted).await
    }

    /// The root's last answer.
    pub async fn outcome(&self, aborted: bool) -> Result<RunOutcome, AbiError> {
        let LastAnswer { text, error } = self.root.last_answer().await?;
        Ok(RunOutcome { text, error, aborted })
    }

    /// How the extensions of a session show what is theirs.
    pub fn views(&self, session: &Arc<Session>) -> Views {
        Views::new(Arc::clone(session))
    }

    /// Runs `text` as a command, if an extension of the root registered one of that name. Whether it did.
    async fn run_command(&self, text: &str) -> Result<bool, AbiError> {
        let Some(line) = text.strip_prefix('/') else { return Ok(false) };
        let (name, args) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let extensions = self.root.teller().map(|teller| teller.extensions.as_slice()).unwrap_or_default();
        let registers = |extension: &&Arc<crate::extensions::Attached>| {
            extension.registered.commands.iter().any(|command| command.name == name)
        };
        let Some(extension) = extensions.iter().find(registers) else { return Ok(false) };
        let payload = CommandInvocation { args: args.trim().to_owned(), ctx: self.root.shared.ctx() };
        let target = Call { kind: kinds::COMMAND, name, grace: Duration::ZERO };
        let never = CancellationToken::new();
        match call(extension, target, &payload, None, &never).await {
            Ok(_) | Err(CallError::Cancelled) => Ok(true),
            Err(CallError::Failed(error)) => Err(error),
        }
    }

    /// The normal end (MODE-4): the root's extensions are awaited without a bound, then what is left is taken
    /// down. Gives the end of the last run that the drain began, if it began any.
    pub async fn finish(&self) -> Option<RunOutcome> {
        let before = self.root.shared.live().runs;
        self.root.ask_shutdown("quit").await;
        let idle = self.root.wait_idle(None).await;
        let outcome = match idle {
            Ok(Idle { aborted }) if self.root.shared.live().runs > before => self.outcome(aborted).await.ok(),
            Ok(_) | Err(_) => None,
        };
        self.core.shut_down("quit", LEFT_BOUND).await;
        outcome
    }

    /// The end by a signal (HOST-5): runs are ended, every session's extensions are awaited for at most
    /// `bound`, and all sessions are taken down.
    pub async fn interrupt(&self, reason: &str, bound: Duration) {
        self.core.shut_down(reason, bound).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.core.sessions().iter().for_each(|session| self.core.close_soon(session));
    }
}
