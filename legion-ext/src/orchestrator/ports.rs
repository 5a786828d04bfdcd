//! What the orchestrator needs of the layers above it, as traits that those implement.

use std::sync::Arc;

use super::report::MailText;

/// The mailbox of this agent's own node while a call blocks (08 §4).
pub trait Inbox: Send + Sync {
    /// Keeps the postman away from this node until the guard is dropped; holds nest.
    fn hold(&self) -> Box<dyn Hold>;
}

/// An open hold. Dropping it ends it, on every way out of the call (MAIL-29).
#[async_trait::async_trait]
pub trait Hold: Send {
    /// Resolves when there is mail to take. Cancel-safe.
    async fn arrived(&mut self);
    /// Takes mail in id order within `max_bytes` of text; the first one always fits (MAIL-30).
    async fn take(&mut self, max_bytes: usize) -> Taken;
    /// The result that carried the mail reached the model, or was dropped (MAIL-33).
    fn returned(&mut self, tool_call_id: &str);
}

/// Mail that a blocked call took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    pub mail: Vec<MailText>,
    /// Mails that stay PENDING.
    pub left: usize,
}

/// Told of every recorded round; it announces what is owed at the next run boundary (08 §5).
pub trait Outbox: Send + Sync {
    /// A round of `name` was recorded, or a child ended without one.
    fn settled(&self, name: &str);
}

/// An outbox and an inbox.
#[derive(Clone)]
pub struct Ports {
    pub inbox: Arc<dyn Inbox>,
    pub outbox: Arc<dyn Outbox>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ports")
    }
}
