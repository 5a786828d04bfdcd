//! The part of a launch that the ledger decides: the slot, the start, and the way back (ORC-39 … ORC-43).
//!
//! What a crash means: after [`reserve`] the row is `starting` and nothing runs, so the orphan scan fails it; after
//! [`mark_running`] the transcript is there and the child can be revived.

use std::path::Path;

use rusqlite::params;
use serde_json::{Value, json};

use super::db::{Conn, Tx};
use super::error::{LResult, LedgerError};
use super::events::{self, event_data};
use super::nodes::{self, NodeRow, Report, path_text, update_node};
use crate::core::budget::{BudgetRefusal, TreeCounts, TreeLimits, check_tree_budget};
use crate::core::events::EventType;
use crate::core::naming::{ROOT, node_id_for_child};
use crate::core::node_status::{EndStatus, NodeChange, NodeStatus};

/// Longest `task_summary`, in characters (LED-27).
const SUMMARY_CHARS: usize = 200;

/// A child that wants a slot.
#[derive(Debug, Clone, Copy)]
pub struct NewNode<'a> {
    pub parent_id: &'a str,
    /// Checked by [`crate::core::naming::check_child_name`].
    pub name: &'a str,
    pub role: &'a str,
    pub run_id: &'a str,
    pub session_file: &'a Path,
    /// Stored only when it is not `default` (TEAM-10).
    pub team: Option<&'a str>,
    /// The start phase of a declared machine, for a node that is new (ORC-31).
    pub phase: Option<&'a str>,
    /// The whole task; its first line is kept.
    pub task: &'a str,
}

/// Launches of this process that hold no row yet (ADM-21).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// With the same parent.
    pub fanout: u32,
    /// In the tree.
    pub active: u32,
}

/// The answer to a reservation.
#[derive(Debug, Clone, PartialEq)]
pub enum Reserve {
    Reserved(Reserved),
    /// No room; one `budget_refused` event says so (LED-47).
    Refused(BudgetRefusal),
    /// A live row has this name.
    Alive(NodeStatus),
}

/// A slot that is held by a `starting` row. Give it to [`mark_running`] or to [`roll_back`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a reservation that is neither started nor rolled back holds its slot"]
pub struct Reserved {
    pub node_id: String,
    pub depth: u32,
    /// The row as it was, when this revives a node.
    pub former: Option<Box<NodeRow>>,
}

/// Whether one more child of `parent_id` would be let in now. Writes nothing and authorises nothing (ADM-15, ADM-16).
pub fn probe(
    conn: &Conn,
    parent_id: &str,
    limits: &TreeLimits,
    pending: Pending,
) -> LResult<Result<(), BudgetRefusal>> {
    let parent_depth = nodes::get(conn, parent_id)?.map(|row| row.depth);
    let counts = TreeCounts {
        parent_depth,
        live_children: nodes::count_live_children(conn, parent_id)?.saturating_add(pending.fanout),
        active_nodes: nodes::count_active_nodes(conn)?.saturating_add(pending.active),
    };
    Ok(check_tree_budget(parent_id, &counts, limits))
}

/// Takes a slot: checks the budget and writes the `starting` row in the caller's transaction, so that of two processes
/// at the last slot one wins (LED-20). A terminal row of the same name is revived through the same check (S1).
pub fn reserve(tx: &Tx<'_>, node: &NewNode<'_>, limits: &TreeLimits, now: i64) -> LResult<Reserve> {
    let id = node_id_for_child(node.parent_id, node.name);
    let former = nodes::get(tx, &id)?;
    if let Some(row) = former.as_ref().filter(|row| row.status.is_live()) {
        return Ok(Reserve::Alive(row.status));
    }
    if let Err(refusal) = probe(tx, node.parent_id, limits, Pending::default())? {
        report_refusal(tx, node.parent_id, &refusal, now)?;
        return Ok(Reserve::Refused(refusal));
    }
    nodes::legal(&id, former.as_ref().map(|row| row.status), NodeChange::Reserve)?;
    let depth = nodes::require(tx, node.parent_id)?.depth + 1;
    let session_file = path_text(node.session_file);
    let team = node.team.filter(|team| *team != "default");
    let summary = summary(node.task);
    if former.is_some() {
        tx.execute(
            "UPDATE nodes SET status = 'starting', role = ?2, run_id = ?3, session_file = ?4, team = ?5,
                              task_summary = ?6, updated_at = ?7
              WHERE id = ?1",
            params![id, node.role, node.run_id, session_file, team, summary, now],
        )?;
    } else {
        tx.execute(
            "INSERT INTO nodes (id, parent_id, name, role, depth, run_id, session_file, team, status, phase,
                                phase_since, task_summary, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'starting', ?9, ?10, ?11, ?12, ?12)",
            params![
                id,
                node.parent_id,
                node.name,
                node.role,
                depth,
                node.run_id,
                session_file,
                team,
                node.phase,
                node.phase.map(|_| now),
                summary,
                now
            ],
        )?;
    }
    Ok(Reserve::Reserved(Reserved { node_id: id, depth, former: former.map(Box::new) }))
}

/// Why a node runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResumeReason {
    Continue,
    Resume,
    Unblocked,
    Woken,
}

impl ResumeReason {
    /// The `reason` of `node_resumed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Resume => "resume",
            Self::Unblocked => "unblocked",
            Self::Woken => "woken",
        }
    }
}

/// What the first real start of a child is known by.
#[derive(Debug, Clone, Copy)]
pub struct Started<'a> {
    /// `None`: a launch. `Continue` or `Resume`: a revival.
    pub resumed: Option<ResumeReason>,
    pub session_file: &'a Path,
    pub worktree_path: Option<&'a Path>,
    /// The model really used.
    pub model: Option<&'a str>,
    /// Stored only when it is not `default`.
    pub team: Option<&'a str>,
    /// The backend: `inprocess`, `rpc` or `terminal`.
    pub supervisor: &'a str,
}

/// S2: the child has started. Writes `node_launched`, or `node_resumed` for a revival (ORC-41).
pub fn mark_running(tx: &Tx<'_>, node_id: &str, started: &Started<'_>, now: i64) -> LResult<()> {
    let row = nodes::require(tx, node_id)?;
    let (kind, data) = match started.resumed {
        Some(reason) => (EventType::NodeResumed, event_data([("reason", json!(reason.as_str()))])),
        None => (
            EventType::NodeLaunched,
            event_data([
                ("role", json!(row.role)),
                ("model", json!(started.model)),
                ("supervisor", json!(started.supervisor)),
                ("sessionFile", json!(path_text(started.session_file))),
            ]),
        ),
    };
    update_node(tx, &row, NodeChange::Start, Some(Report { kind, data: &data }), now)?;
    tx.execute(
        "UPDATE nodes SET session_file = ?2, worktree_path = ?3, model = ?4, team = ?5 WHERE id = ?1",
        params![
            node_id,
            path_text(started.session_file),
            started.worktree_path.map(path_text),
            started.model,
            started.team.filter(|team| *team != "default")
        ],
    )?;
    Ok(())
}

/// How a launch failed after its reservation (ORC-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchFailure<'a> {
    /// It goes back to the queue or to the caller as if it had never been tried.
    Refused,
    /// `START_FAILED`, with its text.
    StartFailed(&'a str),
}

/// Takes a reservation back: a new row goes (S16) or fails (S3), a revived one is as it was (S17).
///
/// A new row that something refers to by now, such as a mail, cannot go and fails instead.
pub fn roll_back(tx: &Tx<'_>, reserved: &Reserved, failure: LaunchFailure<'_>, now: i64) -> LResult<()> {
    let row = nodes::require(tx, &reserved.node_id)?;
    if let Some(former) = &reserved.former {
        return restore(tx, &row, former, now);
    }
    let reason = match failure {
        LaunchFailure::Refused => {
            nodes::legal(&row.id, Some(row.status), NodeChange::Discard)?;
            match tx.execute("DELETE FROM nodes WHERE id = ?1", [&row.id]) {
                Ok(_) => return Ok(()),
                Err(LedgerError::ForeignKey) => "refused",
                Err(error) => return Err(error),
            }
        }
        LaunchFailure::StartFailed(reason) => reason,
    };
    let data = event_data([("execution", json!("failed")), ("reason", json!(reason)), ("round", json!(0))]);
    update_node(tx, &row, NodeChange::FailStart, Some(Report { kind: EventType::NodeFailed, data: &data }), now)?;
    Ok(())
}

/// S17, every column of the row.
fn restore(tx: &Tx<'_>, row: &NodeRow, former: &NodeRow, now: i64) -> LResult<()> {
    let ended = EndStatus::try_from(former.status)
        .expect("a revival starts from a terminal row, else the reservation says Alive");
    update_node(tx, row, NodeChange::Restore(ended), None, now)?;
    tx.execute(
        "UPDATE nodes SET role = ?2, run_id = ?3, session_file = ?4, worktree_path = ?5, model = ?6, team = ?7,
                          task_summary = ?8
          WHERE id = ?1",
        params![
            former.id,
            former.role,
            former.run_id,
            former.session_file.as_deref().map(path_text),
            former.worktree_path.as_deref().map(path_text),
            former.model,
            former.team,
            former.task_summary
        ],
    )?;
    Ok(())
}

/// On the parent, or on the root when the ledger does not know the parent; nowhere when there is no root either.
fn report_refusal(tx: &Tx<'_>, parent_id: &str, refusal: &BudgetRefusal, now: i64) -> LResult<()> {
    let data =
        event_data([("reason", json!(refusal.reason.as_str())), ("message", Value::from(refusal.message.as_str()))]);
    for id in [parent_id, ROOT] {
        if nodes::exists(tx, id)? {
            events::append(tx, id, EventType::BudgetRefused, &data, now)?;
            break;
        }
    }
    Ok(())
}

/// The task's first line with words in it, cut to 200 characters.
fn summary(task: &str) -> Option<String> {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(SUMMARY_CHARS).collect())
}
