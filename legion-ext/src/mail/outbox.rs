//! Completion notices: what a session is owed, told at its run boundaries (08 §5).

use host_abi::{
    gates::CustomMessage,
    ops::{DeliverAs, SendMessage},
};
use serde_json::{Value, json};

use super::tree::Tree;
use crate::{clock, host::SessionHost, ledger::artifacts, orchestrator::report::Settled};

/// Type of the messages that carry notices (NTF-1).
pub const NOTIFY_TYPE: &str = "subagent-notify";

/// Every notice begins with this line, so that the model does not take it for the user (NTC-2).
pub const NOTICE_MARK: &str = "▣ legion · automatic completion notice (not a message from the user)";

/// Text and `details` of the blocks of a notice; made by the tool surface, which owns the words of results.
pub type NoticeBlocks = fn(&[Settled]) -> (String, Vec<Value>);

/// A notice that is ready to go, and the results it tells of.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub message: CustomMessage,
    artifacts: Vec<i64>,
}

/// Everything that `tree`'s session is owed and may be told now; `None` when that is nothing (NTC-3, NTC-5).
pub fn owed(tree: &dyn Tree, blocks: NoticeBlocks) -> Result<Option<Notice>, crate::ledger::LedgerError> {
    let Some(db) = tree.ledger() else { return Ok(None) };
    let mut artifacts = Vec::new();
    let mut rounds = Vec::new();
    for owed in db.undelivered(&tree.node_id())? {
        if let Some(settled) = tree.recorded(&owed.artifact) {
            artifacts.push(owed.artifact.id);
            rounds.push(settled);
        }
    }
    if rounds.is_empty() {
        return Ok(None);
    }
    let (text, children) = blocks(&rounds);
    let message = CustomMessage {
        custom_type: NOTIFY_TYPE.to_owned(),
        content: format!("{NOTICE_MARK}\n{text}"),
        display: true,
        details: Some(json!({ "schema": "legion.notice/1", "kind": "completion", "children": children })),
    };
    Ok(Some(Notice { message, artifacts }))
}

impl Notice {
    /// Records that the host took it (NTC-6). A crash before this repeats the notice, and loses none.
    pub async fn taken(self, tree: &dyn Tree) -> Result<(), crate::ledger::LedgerError> {
        let Some(db) = tree.ledger() else { return Ok(()) };
        let consumer = tree.node_id();
        db.write_async(move |tx| artifacts::mark_notified(tx, &self.artifacts, &consumer, clock::now_ms())).await
    }
}

/// Sends what is owed as one message. `wake` is false at the boundary of an aborted turn (NTC-22).
///
/// # Errors
/// What could not be sent or recorded stays owed, and the next boundary tries again.
pub async fn flush(tree: &dyn Tree, host: &SessionHost, blocks: NoticeBlocks, wake: bool) -> Result<bool, String> {
    let Some(notice) = owed(tree, blocks).map_err(|error| error.to_string())? else { return Ok(false) };
    let message = SendMessage {
        message: notice.message.clone(),
        deliver_as: Some(DeliverAs::FollowUp),
        trigger_turn: Some(wake),
    };
    host.request(&message).await.map_err(|error| error.to_string())?;
    notice.taken(tree).await.map_err(|error| error.to_string())?;
    Ok(true)
}
