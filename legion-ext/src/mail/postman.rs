//! One postman per process and ledger (08 §3).
//!
//! ```text
//! every 2 s, and at once when mail was sent in this process:
//!   heartbeat → confirm ACCEPTED → deliver PENDING → bounce to ended nodes → usage → orphans
//! ```
//!
//! Each step asks the ledger once for all sessions of the process, so an idle tree costs the same for 3 nodes and for
//! 1,000. A step that fails is told once and does not stop the next ones.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use host_abi::ops::{DeliverAs, LogLevel, SendMessage};
use tokio::{sync::Notify, time::MissedTickBehavior};

use super::{
    Mailroom,
    holds::Holds,
    text::{handed_over, mail_matches_user_text, mail_message},
    tree::LiveChild,
};
use crate::{
    clock,
    context::Spawner,
    core::mail::{Delivery, DeliveryChange, MAIL_DELIVERY_CLAIM_LEASE_MS, Urgency},
    ledger::{
        LResult, LegionDb,
        messages::{self, Claim, MessageRow},
        nodes, orphans, usage,
    },
    session::TranscriptTail,
    supervisor::Disposition,
};

/// Time between two ticks (08, table of constants).
pub const POSTMAN_INTERVAL_MS: u64 = 2000;

/// How often mail of other processes is looked for while a call holds its mailbox.
pub const HOLD_POLL_MS: u64 = 250;

/// After its own pause of this length a postman lets others heartbeat before it looks for orphans (LED-61).
const PAUSE_MS: i64 = 10_000;

/// The postmen of this process, by ledger.
#[derive(Debug)]
pub struct Postmen {
    spawner: Spawner,
    by_ledger: Mutex<HashMap<PathBuf, Arc<Postman>>>,
}

impl Postmen {
    pub fn new(spawner: Spawner) -> Self {
        Self { spawner, by_ledger: Mutex::default() }
    }

    /// Where mail does its work.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// The postman of this ledger; begins its rounds with its first member.
    pub fn of(&self, db: &LegionDb) -> Arc<Postman> {
        let mut postmen = self.by_ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let postman = postmen.entry(db.path().to_owned()).or_insert_with(|| {
            let postman = Arc::new(Postman::over(db.clone()));
            let rounds = Arc::downgrade(&postman);
            drop(self.spawner.detached(rounds_of(rounds)));
            postman
        });
        Arc::clone(postman)
    }

    /// Forgets the postmen that nobody is a member of.
    pub fn tidy(&self) {
        let mut postmen = self.by_ledger.lock().unwrap_or_else(PoisonError::into_inner);
        postmen.retain(|_, postman| !postman.members().is_empty());
    }
}

/// The postman of one ledger.
pub struct Postman {
    db: LegionDb,
    pub holds: Arc<Holds>,
    members: Mutex<Vec<Weak<Mailroom>>>,
    /// Mail was sent in this process, or a hold began.
    nudge: Arc<Notify>,
    state: tokio::sync::Mutex<State>,
}

impl std::fmt::Debug for Postman {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postman").field("ledger", &self.db.path()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    /// Transcripts in which mail is looked for, or usage is read.
    tails: HashMap<PathBuf, TranscriptTail>,
    reported: HashSet<String>,
    usage_at: i64,
    last_tick: i64,
    orphans_not_before: i64,
}

async fn rounds_of(postman: Weak<Postman>) {
    let mut interval = tokio::time::interval(Duration::from_millis(POSTMAN_INTERVAL_MS));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Waiting must not keep the postman, and with it the ledger, open.
        let Some((nudge, held)) = postman.upgrade().map(|here| (Arc::clone(&here.nudge), here.holds.any())) else {
            return;
        };
        let full = tokio::select! {
            _ = interval.tick() => true,
            () = nudge.notified() => false,
            () = tokio::time::sleep(Duration::from_millis(HOLD_POLL_MS)), if held => false,
        };
        let Some(here) = postman.upgrade() else { return };
        here.tick(&here.members(), full, clock::now_ms()).await;
    }
}

impl Postman {
    fn over(db: LegionDb) -> Self {
        Self { db, holds: Arc::default(), members: Mutex::default(), nudge: Arc::default(), state: Default::default() }
    }

    /// Takes a session into the rounds; it leaves by being dropped.
    pub fn join(&self, member: &Arc<Mailroom>) {
        self.lock().push(Arc::downgrade(member));
    }

    /// Takes a session out.
    pub fn leave(&self, member: &Mailroom) {
        self.lock().retain(|known| known.upgrade().is_some_and(|known| !std::ptr::eq(&*known, member)));
    }

    /// Looks at the mail at once.
    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    pub fn db(&self) -> &LegionDb {
        &self.db
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Mailroom>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> Vec<Arc<Mailroom>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// One round. `full` is the tick; otherwise only mail is looked at.
    pub async fn tick(&self, members: &[Arc<Mailroom>], full: bool, now: i64) {
        let mut state = self.state.lock().await;
        let Some(settings) = members.first().map(|member| member.tree.settings()) else { return };
        let children: Vec<(Arc<Mailroom>, LiveChild)> = members
            .iter()
            .flat_map(|member| member.tree.live_children().into_iter().map(|child| (Arc::clone(member), child)))
            .collect();
        let orphan_stale_ms = i64::try_from(settings.legion.orphan_stale_ms).unwrap_or(i64::MAX);
        let root = members.iter().find(|member| member.is_root());

        if full {
            if state.last_tick != 0 && now - state.last_tick > PAUSE_MS {
                state.orphans_not_before = now + PAUSE_MS;
            }
            state.last_tick = now;
            let mut held: Vec<String> = members.iter().flat_map(|member| member.tree.held_nodes()).collect();
            held.extend(root.map(|_| crate::context::ROOT_NODE.to_owned()));
            let done = self.heartbeat(held, orphan_stale_ms, now).await;
            self.report(&mut state, members, "heartbeat", done);
            let done = self.confirm(&mut state, &children, root, now).await;
            self.report(&mut state, members, "mail confirmation", done);
        }
        let done = self.deliver(&mut state, &children, root, now).await;
        self.report(&mut state, members, "mail delivery", done);
        if full {
            if root.is_some() {
                let done = self.bounce(&children, now).await;
                self.report(&mut state, members, "mail bounce", done);
            }
            if now - state.usage_at >= i64::try_from(settings.legion.usage_poll_ms).unwrap_or(i64::MAX) {
                state.usage_at = now;
                let done = self.usage(&mut state, members, now).await;
                self.report(&mut state, members, "usage", done);
            }
            if root.is_some() && now >= state.orphans_not_before {
                let done = self.orphans(&children, orphan_stale_ms, now).await;
                self.report(&mut state, members, "orphan scan", done);
            }
        }
    }

    /// Tells a failure once per step and text.
    fn report(&self, state: &mut State, members: &[Arc<Mailroom>], step: &str, done: LResult<()>) {
        let Err(error) = done else { return };
        let text = format!("legion: {step} failed: {error}; it is tried again");
        if state.reported.insert(text.clone())
            && let Some(member) = members.first()
        {
            member.host.log(LogLevel::Warn, &text);
        }
    }

    /// LED-57
    async fn heartbeat(&self, ids: Vec<String>, stale: i64, now: i64) -> LResult<()> {
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        if !self.db.read(|conn| nodes::heartbeat_is_due(conn, &names, now, stale))? {
            return Ok(());
        }
        self.db
            .write_async(move |tx| {
                let names: Vec<&str> = ids.iter().map(String::as_str).collect();
                nodes::heartbeat_node(tx, &names, now, stale).map(drop)
            })
            .await
    }

    /// MAIL-22 … MAIL-24: looks for accepted mail in what the recipients' transcripts gained.
    async fn confirm(
        &self,
        state: &mut State,
        children: &[(Arc<Mailroom>, LiveChild)],
        root: Option<&Arc<Mailroom>>,
        now: i64,
    ) -> LResult<()> {
        let inbox = self.db.read(|conn| messages::in_state(conn, Delivery::Accepted))?;
        let mut changes = Vec::new();
        for message in inbox.messages {
            let live = transcript_of(&message.to_node, children, root);
            // Of a recipient that ended, one last look decides (MAIL-23); the root's postman takes it for all.
            let ended = match (&live, root) {
                (None, Some(_)) => self
                    .db
                    .read(|conn| nodes::get(conn, &message.to_node))?
                    .filter(|node| node.status.is_terminal())
                    .and_then(|node| node.session_file),
                _ => None,
            };
            let Some(file) = live.as_ref().or(ended.as_ref()) else { continue };
            if self.in_transcript(state, file, &message)? {
                changes.push((message.id, DeliveryChange::Confirm));
            } else if ended.is_some() && !state.tails.get(file).is_some_and(|tail| tail.facts().parsed.has_content) {
                // Unreadable or gone: tried again, never bounced (MAIL-24).
            } else if ended.is_some() {
                changes.push((message.id, DeliveryChange::BounceTerminal));
            }
        }
        let live: HashSet<&Path> = children.iter().map(|(_, child)| child.session_file.as_path()).collect();
        let own = root.and_then(|root| root.tree.session_file());
        state.tails.retain(|file, _| live.contains(file.as_path()) || own.as_deref() == Some(file));
        if changes.is_empty() {
            return Ok(());
        }
        self.db
            .write_async(move |tx| {
                for (id, change) in changes {
                    messages::transition_delivery(tx, id, Delivery::Accepted, change, None, now)?;
                }
                Ok(())
            })
            .await
    }

    fn in_transcript(&self, state: &mut State, file: &Path, message: &MessageRow) -> LResult<bool> {
        let tail = state.tails.entry(file.to_owned()).or_insert_with(|| TranscriptTail::new(file));
        if tail.poll().is_err() {
            // An unreadable transcript confirms nothing and bounces nothing (MAIL-24).
            return Ok(false);
        }
        let sender = self.db.read(|conn| nodes::require(conn, &message.from_node))?;
        let text = handed_over(message, &sender).text;
        Ok(tail.facts().mail_texts.iter().any(|seen| mail_matches_user_text(&text, &seen.text)))
    }

    /// MAIL-19, MAIL-20: hands pending mail over, in id order per recipient.
    async fn deliver(
        &self,
        state: &mut State,
        children: &[(Arc<Mailroom>, LiveChild)],
        root: Option<&Arc<Mailroom>>,
        now: i64,
    ) -> LResult<()> {
        let inbox = self.db.read(|conn| messages::in_state(conn, Delivery::Pending))?;
        let mut stopped: HashSet<String> = HashSet::new();
        for message in inbox.messages {
            let to = message.to_node.clone();
            if stopped.contains(&to) {
                continue;
            }
            if self.holds.is_held(&to) {
                self.holds.wake(&to);
                stopped.insert(to);
                continue;
            }
            let recipient = children.iter().find(|(_, child)| child.node_id == to);
            let done = match (recipient, root.filter(|_| to == crate::context::ROOT_NODE)) {
                (Some((member, child)), _) => self.hand_to_child(state, member, child, &message, now).await?,
                (None, Some(root)) => self.hand_to_root(state, root, &message, now).await?,
                // Someone else's child.
                (None, None) => false,
            };
            if !done {
                stopped.insert(to);
            }
        }
        Ok(())
    }

    async fn claim(&self, id: i64, now: i64) -> LResult<Option<Claim>> {
        self.db.write_async(move |tx| messages::claim_for_delivery(tx, id, now, MAIL_DELIVERY_CLAIM_LEASE_MS)).await
    }

    async fn change(&self, claim: Claim, change: DeliveryChange) -> LResult<()> {
        let now = clock::now_ms();
        self.db
            .write_async(move |tx| {
                messages::transition_delivery(tx, claim.message_id, Delivery::Pending, change, Some(&claim), now)
                    .map(drop)
            })
            .await
    }

    /// A row that was claimed before may have been sent before a crash (MAIL-19): looked for first.
    async fn sent_before(
        &self,
        state: &mut State,
        file: Option<&Path>,
        message: &MessageRow,
        now: i64,
    ) -> LResult<bool> {
        let (Some(_), Some(file)) = (message.delivered_at, file) else { return Ok(false) };
        if !self.in_transcript(state, file, message)? {
            return Ok(false);
        }
        let id = message.id;
        self.db
            .write_async(move |tx| {
                messages::transition_delivery(tx, id, Delivery::Pending, DeliveryChange::Confirm, None, now).map(drop)
            })
            .await?;
        Ok(true)
    }

    /// Whether the next mail of this recipient may follow.
    async fn hand_to_child(
        &self,
        state: &mut State,
        member: &Arc<Mailroom>,
        child: &LiveChild,
        message: &MessageRow,
        now: i64,
    ) -> LResult<bool> {
        let (recipient, sender) = self
            .db
            .read(|conn| Ok((nodes::require(conn, &message.to_node)?, nodes::require(conn, &message.from_node)?)))?;
        if self.sent_before(state, Some(&child.session_file), message, now).await? {
            return Ok(true);
        }
        let Some(claim) = self.claim(message.id, now).await? else { return Ok(false) };
        if recipient.status.is_terminal() && !child.has_live_children {
            self.change(claim, DeliveryChange::BounceTerminal).await?;
            return Ok(true);
        }
        let text = handed_over(message, &sender).text;
        match member.tree.deliver(&child.name, &text).await {
            Ok(Disposition::Handled) => {
                self.change(claim, DeliveryChange::BounceIntercepted).await?;
                Ok(true)
            }
            Ok(Disposition::Started | Disposition::Queued | Disposition::Unknown) => {
                self.change(claim, DeliveryChange::Accept).await?;
                Ok(true)
            }
            Err(error) => {
                self.give_back(state, member, message, claim, &error.to_string()).await?;
                Ok(false)
            }
        }
    }

    async fn hand_to_root(
        &self,
        state: &mut State,
        root: &Arc<Mailroom>,
        message: &MessageRow,
        now: i64,
    ) -> LResult<bool> {
        // A call of this run that blocks could not take what the host had queued for the run's end.
        if root.is_busy() {
            return Ok(false);
        }
        let sender = self.db.read(|conn| nodes::require(conn, &message.from_node))?;
        if self.sent_before(state, root.tree.session_file().as_deref(), message, now).await? {
            return Ok(true);
        }
        let Some(claim) = self.claim(message.id, now).await? else { return Ok(false) };
        let sent = root.host.request(&mail_to_root(message, &sender)).await;
        match sent {
            Ok(_) => {
                self.change(claim, DeliveryChange::Accept).await?;
                Ok(true)
            }
            Err(error) => {
                self.give_back(state, root, message, claim, &error.to_string()).await?;
                Ok(false)
            }
        }
    }

    /// A failed send keeps the mail pending and is told once per message (MAIL-15, MAIL-25).
    async fn give_back(
        &self,
        state: &mut State,
        member: &Arc<Mailroom>,
        message: &MessageRow,
        claim: Claim,
        error: &str,
    ) -> LResult<()> {
        if state.reported.insert(format!("mail {}", message.id)) {
            let text = format!(
                "legion: mail #{} to {} could not be handed over: {error}; it is tried again",
                message.id, message.to_node
            );
            member.host.log(LogLevel::Warn, &text);
        }
        self.db.write_async(move |tx| messages::release_delivery_claim(tx, claim)).await
    }

    /// Mail to nodes that ended, anywhere in the tree (08 §3, step 5).
    async fn bounce(&self, children: &[(Arc<Mailroom>, LiveChild)], now: i64) -> LResult<()> {
        let inbox = self.db.read(messages::pending_to_terminal)?;
        let awaiting = |node: &str| children.iter().any(|(_, child)| child.node_id == node && child.has_live_children);
        let ids: Vec<i64> = inbox
            .messages
            .iter()
            .filter(|message| message.to_node != crate::context::ROOT_NODE && !awaiting(&message.to_node))
            .map(|message| message.id)
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.db
            .write_async(move |tx| {
                for id in ids {
                    messages::transition_delivery(
                        tx,
                        id,
                        Delivery::Pending,
                        DeliveryChange::BounceTerminal,
                        None,
                        now,
                    )?;
                }
                Ok(())
            })
            .await
    }

    /// LED-55: one transaction for all rows of the process.
    async fn usage(&self, state: &mut State, members: &[Arc<Mailroom>], now: i64) -> LResult<()> {
        let parents: Vec<String> = members.iter().map(|member| member.tree.node_id()).collect();
        let names: Vec<&str> = parents.iter().map(String::as_str).collect();
        let running = self.db.read(|conn| nodes::running_children(conn, &names))?;
        let mut readings = Vec::new();
        for node in running {
            let Some(file) = node.session_file else { continue };
            let tail = state.tails.entry(file.clone()).or_insert_with(|| TranscriptTail::new(file));
            if tail.poll().is_ok() {
                let total = &tail.facts().usage;
                readings.push((node.id, usage::UsageRow::from(total)));
            }
        }
        if readings.is_empty() {
            return Ok(());
        }
        self.db
            .write_async(move |tx| {
                for (node, reading) in &readings {
                    usage::record(tx, node, reading, now)?;
                }
                Ok(())
            })
            .await
    }

    /// LED-58, LED-59
    async fn orphans(&self, children: &[(Arc<Mailroom>, LiveChild)], stale: i64, now: i64) -> LResult<()> {
        let held: HashSet<&str> = children.iter().map(|(_, child)| child.node_id.as_str()).collect();
        let candidates = self.db.read(|conn| orphans::orphan_candidates(conn, now, stale))?;
        let ids: Vec<String> =
            candidates.into_iter().map(|node| node.id).filter(|id| !held.contains(id.as_str())).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.db
            .write_async(move |tx| {
                for id in &ids {
                    orphans::converge_orphan(tx, id, now, stale)?;
                }
                Ok(())
            })
            .await
    }
}

/// MAIL-20: an idle root is woken by urgent mail only.
fn mail_to_root(message: &MessageRow, sender: &nodes::NodeRow) -> SendMessage {
    SendMessage {
        message: mail_message(&handed_over(message, sender)),
        deliver_as: Some(DeliverAs::FollowUp),
        trigger_turn: Some(message.urgency == Urgency::ActionNeeded),
    }
}

fn transcript_of(node: &str, children: &[(Arc<Mailroom>, LiveChild)], root: Option<&Arc<Mailroom>>) -> Option<PathBuf> {
    if node == crate::context::ROOT_NODE {
        return root?.tree.session_file();
    }
    children.iter().find(|(_, child)| child.node_id == node).map(|(_, child)| child.session_file.clone())
}
