//! The held end of a root session without a screen (MODE-3), and its way down (MODE-4).

use std::{sync::Arc, time::Duration};

use host_abi::{
    gates::{AgentBeforeSettle, AgentBeforeSettleAnswer, CustomMessage},
    ops::LogLevel,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{HOLD_POLL_MS, Mailroom, NOTICE_MARK, NOTIFY_TYPE, outbox, text::mail_message};
use crate::{
    clock,
    orchestrator::{ports::Hold as _, report::Snapshot},
};

/// Bytes of mail that one continued boundary carries; the rest comes with the next.
const BOUNDARY_MAIL_BYTES: usize = 40 * 1024;

impl Mailroom {
    /// Holds the end of the run while children are at work, until there is something to tell. What is there already is
    /// told, whether or not anybody is still at work.
    pub async fn before_settle(
        self: &Arc<Self>,
        _: AgentBeforeSettle,
        cancel: &CancellationToken,
    ) -> AgentBeforeSettleAnswer {
        if !self.context.holds_boundary() {
            return AgentBeforeSettleAnswer::default();
        }
        let mut hold = self.hold();
        loop {
            // Registered before the looks below, so that news between look and wait is not missed.
            let news = self.news.notified();
            if let Some(message) = self.owed_now().await {
                return go_on(vec![message]);
            }
            let active = self.tree.active();
            let taken = hold.take(BOUNDARY_MAIL_BYTES).await;
            if !taken.mail.is_empty() {
                // A gate has no tool call; its answer is what carries the mail.
                hold.returned("");
                self.lock().mail.remove("");
                return go_on(taken.mail.iter().map(mail_message).collect());
            }
            let now = clock::now_ms();
            if let Some(message) = self.passed_budgets(now) {
                return go_on(vec![message]);
            }
            if active.is_empty() && taken.left == 0 {
                return AgentBeforeSettleAnswer::default();
            }
            let mail = async {
                match taken.left {
                    0 => hold.arrived().await,
                    // Another holder has claimed it: it is on its way into the session, or free again soon.
                    _ => tokio::time::sleep(Duration::from_millis(HOLD_POLL_MS)).await,
                }
            };
            let next_budget = active.iter().filter_map(|child| child.budget_ends_at).filter(|at| *at > now).min();
            let budget = async {
                match next_budget {
                    Some(at) => tokio::time::sleep(Duration::from_millis(u64::try_from(at - now).unwrap_or(0))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return AgentBeforeSettleAnswer::default(),
                () = news => {}
                () = mail => {}
                () = budget => {}
            }
        }
    }

    /// The notice that is due, counted as told: the answer of the gate carries it.
    async fn owed_now(&self) -> Option<CustomMessage> {
        let _telling = self.tell().await;
        let notice = match outbox::owed(&*self.tree, self.blocks) {
            Ok(notice) => notice?,
            Err(error) => {
                self.host.log(LogLevel::Warn, &format!("legion: a completion notice stays due: {error}"));
                return None;
            }
        };
        let message = notice.message.clone();
        if let Err(error) = notice.taken(&*self.tree).await {
            self.host.log(LogLevel::Warn, &format!("legion: a completion notice may come twice: {error}"));
        }
        Some(message)
    }

    /// One message for the children whose waiting budget has passed and was not told yet.
    fn passed_budgets(&self, now: i64) -> Option<CustomMessage> {
        let mut snapshots = Vec::new();
        for child in self.tree.active() {
            let Some(ends_at) = child.budget_ends_at.filter(|at| *at <= now) else { continue };
            let told = self.lock().budgets_told.insert(child.name.clone(), ends_at);
            if told != Some(ends_at) {
                snapshots.extend(self.tree.snapshot(&child.name));
            }
        }
        if snapshots.is_empty() {
            return None;
        }
        Some(CustomMessage {
            custom_type: NOTIFY_TYPE.to_owned(),
            content: format!("{NOTICE_MARK}\n{}", (self.budget_text)(&snapshots)),
            display: true,
            details: Some(json!({
                "schema": "legion.notice/1",
                "kind": "stall",
                "children": snapshots.iter().map(|child: &Snapshot| json!({ "name": child.name, "agent": child.agent })).collect::<Vec<_>>(),
            })),
        })
    }
}

fn go_on(messages: Vec<CustomMessage>) -> AgentBeforeSettleAnswer {
    AgentBeforeSettleAnswer { messages, continue_run: true }
}
