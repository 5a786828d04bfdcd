//! Mail, holds and completion notices: how a session and its children hear of each other (part 08).
//!
//! ```text
//! child ── legion_mail ──▶ messages ── postman of the recipient's parent ──▶ recipient's session
//!                              └───── a call that blocks takes its own mailbox (holds)
//! child ends ─▶ artifact ─▶ outbox ── run boundary ──▶ parent's session
//! ```
//!
//! It decides nothing about children: it never stops, starts or renews one (NTC-24).

mod boundary;
pub mod holds;
mod inbox;
mod outbox;
mod postman;
pub mod text;
pub mod tree;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use host_abi::{events::Event, ops::LogLevel};
use tokio::sync::Notify;

pub use outbox::{NOTICE_MARK, NOTIFY_TYPE, NoticeBlocks};
pub use postman::{HOLD_POLL_MS, POSTMAN_INTERVAL_MS, Postman, Postmen};
pub use text::MAIL_TYPE;

use self::{
    text::{Draft, To},
    tree::Tree,
};
use crate::{
    clock,
    context::{Identity, SessionContext},
    error::{Code, Result, SubagentError},
    host::SessionHost,
    ledger::{
        LedgerError, artifacts,
        messages::{self, NewMail, Quota},
        nodes,
    },
    orchestrator::{
        ports,
        report::{ReadMark, Snapshot},
    },
};

/// What one mail room is made of.
#[derive(Clone)]
pub struct MailDeps {
    pub tree: Arc<dyn Tree>,
    pub host: SessionHost,
    pub context: Arc<SessionContext>,
    pub postmen: Arc<Postmen>,
    pub blocks: NoticeBlocks,
    pub budget_text: BudgetText,
}

impl std::fmt::Debug for MailDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailDeps").field("context", &self.context).finish_non_exhaustive()
    }
}

/// The blocks of children whose waiting budget has passed; made by the tool surface.
pub type BudgetText = fn(&[Snapshot]) -> String;

/// Mail and notices of one session.
pub struct Mailroom {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) host: SessionHost,
    context: Arc<SessionContext>,
    postmen: Arc<Postmen>,
    blocks: NoticeBlocks,
    budget_text: BudgetText,
    postman: Mutex<Option<Arc<Postman>>>,
    run: Mutex<Run>,
    /// A round was recorded, mail arrived, or a child's budget may have passed.
    news: Notify,
    /// Flushes and the recording of reads exclude each other (NTC-7).
    telling: tokio::sync::Mutex<()>,
}

/// The session's run, as far as boundaries need it.
#[derive(Debug, Default)]
struct Run {
    active: bool,
    /// By tool call: what its result showed, recorded when the host took the result (LED-80).
    reads: HashMap<String, Vec<ReadMark>>,
    /// Shown by results that the host took, not recorded yet.
    seen: Vec<ReadMark>,
    /// By tool call: mail that its result carried (MAIL-33).
    mail: HashMap<String, Vec<i64>>,
    /// Waiting budgets that were told already (MODE-3).
    budgets_told: HashMap<String, i64>,
}

impl std::fmt::Debug for Mailroom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailroom").field("node", &self.tree.node_id()).finish_non_exhaustive()
    }
}

/// What `legion_mail` answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMail {
    /// In the order of the recipients.
    pub sent: Vec<SentTo>,
    pub warning: Option<String>,
}

/// One row that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentTo {
    pub id: i64,
    /// Name of the recipient.
    pub to: String,
    pub node_id: String,
}

impl Mailroom {
    pub fn new(deps: MailDeps) -> Arc<Self> {
        let MailDeps { tree, host, context, postmen, blocks, budget_text } = deps;
        Arc::new(Self {
            tree,
            host,
            context,
            postmen,
            blocks,
            budget_text,
            postman: Mutex::default(),
            run: Mutex::default(),
            news: Notify::new(),
            telling: tokio::sync::Mutex::default(),
        })
    }

    /// What the orchestrator gets of this room.
    pub fn ports(self: &Arc<Self>) -> ports::Ports {
        ports::Ports {
            inbox: Arc::new(inbox::RoomInbox(Arc::downgrade(self))),
            outbox: Arc::new(Door(Arc::downgrade(self))),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self.context.identity, Identity::Root)
    }

    /// Whether a run of the session goes on.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().active
    }

    /// The session has a ledger now: its postman takes it into the rounds.
    pub fn join(self: &Arc<Self>) -> Option<Arc<Postman>> {
        let mut postman = self.postman.lock().unwrap_or_else(PoisonError::into_inner);
        if postman.is_none() {
            let joined = self.postmen.of(&self.tree.ledger()?);
            joined.join(self);
            *postman = Some(joined);
        }
        postman.clone()
    }

    /// One last look at the mail before the session goes: what its transcript shows is confirmed (MAIL-23), and what its
    /// model has read is recorded.
    pub async fn last_round(self: &Arc<Self>) {
        drop(self.tell().await);
        if let Some(postman) = self.join() {
            postman.tick(&[Arc::clone(self)], true, clock::now_ms()).await;
        }
    }

    /// The session is gone for good.
    pub fn detached(&self) {
        if let Some(postman) = self.postman.lock().unwrap_or_else(PoisonError::into_inner).take() {
            postman.leave(self);
        }
        self.postmen.tidy();
    }

    /// Sends a mail (MAIL-3, MAIL-7). Proves nothing about its delivery.
    ///
    /// # Errors
    /// `MAIL_NO_RECIPIENT`, `MAIL_RATE_LIMITED`, `LEDGER`; nothing is written then.
    pub async fn send(self: &Arc<Self>, draft: Draft) -> Result<SentMail> {
        let ledger = |error: LedgerError| SubagentError::new(Code::Ledger, error.to_string());
        let db = self.tree.ledger().ok_or_else(|| SubagentError::new(Code::Ledger, "this session has no ledger"))?;
        let warning = draft.warning();
        let own = self.tree.node_id();
        let limit = self.tree.settings().legion.mail_rate_per_5_min;
        let to = draft.to;
        let now = clock::now_ms();
        let sent = db
            .write_async(move |tx| {
                let targets = resolve_mail_targets(tx, &own, draft.to)?;
                let ids: Vec<&str> = targets.iter().map(|node| node.id.as_str()).collect();
                if ids.is_empty() {
                    return Ok(None);
                }
                let mail = NewMail {
                    from_node: &own,
                    to_nodes: &ids,
                    subject: &draft.subject,
                    body: &draft.body,
                    kind: draft.kind,
                    urgency: draft.urgency,
                };
                let sent = messages::send(tx, &mail, Quota::PerFiveMinutes(limit), now)?;
                Ok(Some(sent.map(|sent| sent.into_iter().zip(targets).collect::<Vec<_>>())))
            })
            .await
            .map_err(ledger)?;
        let rows = match sent {
            None => {
                let text = format!("no live recipient for '{}'", to.as_str());
                return Err(SubagentError::new(Code::MailNoRecipient, text));
            }
            Some(Err(refusal)) => return Err(SubagentError::new(Code::MailRateLimited, refusal.to_string())),
            Some(Ok(rows)) => rows,
        };
        if let Some(postman) = self.join() {
            for (_, node) in &rows {
                postman.holds.wake(&node.id);
            }
            postman.nudge();
        }
        let sent = rows.into_iter().map(|(id, node)| SentTo { id, to: node.name, node_id: node.id }).collect();
        Ok(SentMail { sent, warning })
    }

    /// What the result of a tool call showed; counts as read when the host took the result (LED-80).
    pub fn pend_reads(&self, tool_call_id: &str, reads: Vec<ReadMark>) {
        if !reads.is_empty() {
            self.lock().reads.entry(tool_call_id.to_owned()).or_default().extend(reads);
        }
    }

    /// An event of the session.
    pub fn on_event(self: &Arc<Self>, event: &Event) {
        // A root session has no ledger before its first launch.
        self.join();
        match event {
            Event::AgentStart => self.lock().active = true,
            Event::ToolExecutionEnd(end) => {
                let (reads, mail) = {
                    let mut run = self.lock();
                    (run.reads.remove(&end.tool_call_id), run.mail.remove(&end.tool_call_id))
                };
                // The mail stays ACCEPTED; the postman finds it in the transcript.
                drop(mail);
                if let Some(reads) = reads {
                    self.lock().seen.extend(reads);
                    let room = Arc::clone(self);
                    self.act(async move { drop(room.tell().await) });
                }
            }
            Event::AgentSettled(settled) => {
                let dropped: Vec<i64> = {
                    let mut run = self.lock();
                    run.active = false;
                    run.reads.clear();
                    run.mail.drain().flat_map(|(_, ids)| ids).collect()
                };
                let (room, wake) = (Arc::clone(self), !settled.aborted);
                self.act(async move {
                    room.redeliver(dropped).await;
                    room.flush(wake).await;
                    if let Some(postman) = room.join() {
                        postman.nudge();
                    }
                });
            }
            Event::SessionStart(_)
            | Event::AgentEnd
            | Event::TurnStart(_)
            | Event::TurnEnd(_)
            | Event::MessageEnd(_)
            | Event::MessageUpdate(_)
            | Event::MessageProgress
            | Event::ToolExecutionStart(_)
            | Event::SessionCompacted
            | Event::ModelChanged(_)
            | Event::ThemeChanged => {}
        }
    }

    fn act(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.postmen.spawner().within(Arc::clone(&self.context), work));
    }

    /// A round was recorded: an idle session is at a boundary and hears of it at once (NTC-4).
    async fn settled(self: Arc<Self>) {
        self.news.notify_waiters();
        self.join();
        if !self.lock().active {
            self.flush(true).await;
        }
    }

    async fn flush(&self, wake: bool) {
        let _telling = self.tell().await;
        if let Err(error) = outbox::flush(&*self.tree, &self.host, self.blocks, wake).await {
            self.host.log(LogLevel::Warn, &format!("legion: a completion notice stays due: {error}"));
        }
    }

    /// Begins to tell: what the model has seen by now is recorded first, so that nobody looks at what is owed before.
    async fn tell(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let telling = self.telling.lock().await;
        let seen = std::mem::take(&mut self.lock().seen);
        if !seen.is_empty() {
            self.record_reads(seen).await;
        }
        telling
    }

    async fn record_reads(&self, reads: Vec<ReadMark>) {
        let Some(db) = self.tree.ledger() else { return };
        let consumer = self.tree.node_id();
        let now = clock::now_ms();
        let done = db
            .write_async(move |tx| {
                for read in reads {
                    artifacts::record_read(tx, read.artifact, &consumer, read.from, read.to, now)?;
                }
                Ok(())
            })
            .await;
        if let Err(error) = done {
            self.host.log(LogLevel::Warn, &format!("legion: a read was not recorded: {error}; the result stays due"));
        }
    }

    /// Mail whose result never reached the model goes back into the mailbox (MAIL-33).
    async fn redeliver(&self, ids: Vec<i64>) {
        let Some(db) = self.tree.ledger().filter(|_| !ids.is_empty()) else { return };
        let now = clock::now_ms();
        let done = db
            .write_async(move |tx| {
                for id in ids {
                    messages::redeliver_mail(tx, id, now)?;
                }
                Ok(())
            })
            .await;
        if let Err(error) = done {
            self.host.log(LogLevel::Warn, &format!("legion: mail was not put back: {error}"));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// MAIL-3, MAIL-12: whom a word means, ended nodes left out.
fn resolve_mail_targets(tx: &crate::ledger::Tx<'_>, own: &str, to: To) -> crate::ledger::LResult<Vec<nodes::NodeRow>> {
    let row = nodes::require(tx, own)?;
    let live = |nodes: Vec<nodes::NodeRow>| nodes.into_iter().filter(|node| !node.status.is_terminal()).collect();
    Ok(match (to, &row.parent_id) {
        (To::Parent, Some(parent)) => live(vec![nodes::require(tx, parent)?]),
        (To::Children, _) => live(nodes::children(tx, own)?),
        (To::Squad, Some(parent)) => {
            live(nodes::children(tx, parent)?.into_iter().filter(|node| node.id != own).collect())
        }
        (To::Parent | To::Squad, None) => Vec::new(),
    })
}

/// The orchestrator's way to say that a round was recorded.
struct Door(std::sync::Weak<Mailroom>);

impl ports::Outbox for Door {
    fn settled(&self, _: &str) {
        if let Some(room) = self.0.upgrade() {
            let work = Arc::clone(&room).settled();
            room.act(work);
        }
    }
}

#[cfg(test)]
mod tests;
