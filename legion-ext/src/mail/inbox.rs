//! A blocked call takes the mailbox of its own node (08 §4).

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{HOLD_POLL_MS, Mailroom, Postman, holds::HoldGuard, text::handed_over};
use crate::{
    clock,
    core::mail::{Delivery, DeliveryChange, MAIL_DELIVERY_CLAIM_LEASE_MS},
    ledger::{LResult, LegionDb, messages, nodes},
    orchestrator::ports::{Hold, Inbox, Taken},
};

/// Most mails that one call takes (MAIL-30).
const MOST_PER_TAKE: usize = 100;

/// The mailbox of one session, for its orchestrator, which the room itself holds on to.
pub struct RoomInbox(pub Weak<Mailroom>);

impl Inbox for RoomInbox {
    fn hold(&self) -> Box<dyn Hold> {
        match self.0.upgrade() {
            Some(room) => Box::new(room.hold()),
            None => Box::new(NoMail),
        }
    }
}

impl Mailroom {
    /// Keeps the postman away from the session's own node.
    pub(super) fn hold(self: &Arc<Self>) -> RoomHold {
        let open = self.join().map(|postman| {
            let guard = postman.holds.begin(&self.tree.node_id());
            // The postman polls for mail of other processes only while someone holds.
            postman.nudge();
            (postman, guard)
        });
        RoomHold { room: Arc::clone(self), open, taken: Vec::new() }
    }
}

/// The mailbox of a session that is gone.
struct NoMail;

#[async_trait::async_trait]
impl Hold for NoMail {
    async fn arrived(&mut self) {
        std::future::pending().await
    }

    async fn take(&mut self, _: usize) -> Taken {
        Taken::default()
    }

    fn returned(&mut self, _: &str) {}
}

/// An open hold. Mail that was taken and not returned goes back into the mailbox when it is dropped.
pub struct RoomHold {
    room: Arc<Mailroom>,
    /// Absent in a session without a ledger, which gets no mail.
    open: Option<(Arc<Postman>, HoldGuard)>,
    taken: Vec<i64>,
}

#[async_trait::async_trait]
impl Hold for RoomHold {
    async fn arrived(&mut self) {
        let Some((postman, guard)) = &self.open else { return std::future::pending().await };
        let notify = guard.notify();
        loop {
            let told = notify.notified();
            let there = postman.db().read(|conn| messages::count_for_recipient(conn, guard.node(), Delivery::Pending));
            if there.is_ok_and(|count| count > 0) {
                return;
            }
            // The poll is a net for a wake-up that a busy postman is late with.
            let _ = tokio::time::timeout(Duration::from_millis(HOLD_POLL_MS * 8), told).await;
        }
    }

    async fn take(&mut self, max_bytes: usize) -> Taken {
        let Some((postman, guard)) = &self.open else { return Taken::default() };
        let taken = take_pending_mail(postman.db(), guard.node(), max_bytes).await.unwrap_or_default();
        self.taken.extend(taken.mail.iter().map(|mail| mail.id));
        taken
    }

    fn returned(&mut self, tool_call_id: &str) {
        let taken = std::mem::take(&mut self.taken);
        if !taken.is_empty() {
            self.room.lock().mail.entry(tool_call_id.to_owned()).or_default().extend(taken);
        }
    }
}

impl Drop for RoomHold {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if !taken.is_empty() {
            let room = Arc::clone(&self.room);
            self.room.act(async move { room.redeliver(taken).await });
        }
    }
}

/// MAIL-30: in id order, at most a hundred and as many bytes as fit; the first one always. One that another holder has
/// claimed ends the take, so that order is kept.
pub async fn take_pending_mail(db: &LegionDb, node: &str, max_bytes: usize) -> LResult<Taken> {
    let node = node.to_owned();
    let now = clock::now_ms();
    db.write_async(move |tx| {
        let inbox = messages::for_recipient(tx, &node, Delivery::Pending, MOST_PER_TAKE)?;
        let mut taken = Taken::default();
        let mut bytes = 0;
        for message in inbox.messages {
            let text = handed_over(&message, &nodes::require(tx, &message.from_node)?);
            if !taken.mail.is_empty() && bytes + text.text.len() > max_bytes {
                break;
            }
            let Some(claim) = messages::claim_for_delivery(tx, message.id, now, MAIL_DELIVERY_CLAIM_LEASE_MS)? else {
                break;
            };
            let accept = DeliveryChange::Accept;
            messages::transition_delivery(tx, message.id, Delivery::Pending, accept, Some(&claim), now)?;
            bytes += text.text.len();
            taken.mail.push(text);
        }
        taken.left = messages::count_for_recipient(tx, &node, Delivery::Pending)? as usize;
        Ok(taken)
    })
    .await
}
