//! What happens to a node after its start: blocked, settled, retired, failed with its team, woken; and the root's own
//! beginning and end (06 §2.3).

use std::path::Path;

use rusqlite::params;
use serde_json::{Map, Value, json};

use super::db::{Conn, Tx};
use super::error::{LResult, LedgerError};
use super::events::event_data;
use super::launch::ResumeReason;
use super::nodes::{self, NodeRow, Report, live, path_text, update_node};
use super::usage::{self, UsageRow};
use crate::core::events::EventType;
use crate::core::naming::ROOT;
use crate::core::node_status::{EndStatus, NodeChange, NodeStatus};
use crate::core::outcome::ExecutionStatus;

/// The role whose node fails with its team (LED-40).
const TEAM_ROLE: &str = "centurion";
/// The reason of that failure.
pub const ALL_CHILDREN_FAILED: &str = "all_children_failed";

/// A turn that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Settlement<'a> {
    pub node_id: &'a str,
    /// Neither `running` nor `blocked`.
    pub execution: ExecutionStatus,
    pub reason: Option<&'a str>,
    /// The artifact round of this turn; 0 where none was written.
    pub round: u32,
    /// Totals of the whole transcript; `None` when they could not be read.
    pub usage: Option<UsageRow>,
}

/// What a settlement did to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Status and event are written.
    Written(NodeStatus),
    /// The row had ended already; only the usage was looked at.
    Kept(NodeStatus),
}

/// Writes status, event and usage of an ended turn in the caller's transaction (S6 … S8, LED-39).
///
/// Repeated, it changes nothing. A node that had been given up as an orphan takes its real outcome (S14). A team all of
/// whose children failed does not become `settled` by a good turn of its own (LED-41).
pub fn record_settled(tx: &Tx<'_>, settlement: &Settlement<'_>, now: i64) -> LResult<Settled> {
    let row = nodes::require(tx, settlement.node_id)?;
    let Some(end) = settlement.execution.end_status() else {
        return Err(LedgerError::NotEnded { node: row.id, execution: settlement.execution });
    };
    if let Some(reading) = &settlement.usage {
        usage::record(tx, &row.id, reading, now)?;
    }
    let (end, reason) = if end == EndStatus::Settled && all_children_failed(tx, &row)? {
        (EndStatus::Failed, Some(ALL_CHILDREN_FAILED))
    } else {
        (end, settlement.reason)
    };
    let change = if row.status.is_live() {
        NodeChange::Settle(end)
    } else if row.status == NodeStatus::Failed && was_abandoned(tx, &row.id)? {
        NodeChange::SettleAbandoned(end)
    } else {
        return Ok(Settled::Kept(row.status));
    };
    let data = end_data(settlement.execution, reason, settlement.round);
    let report = Report { kind: end_event(end), data: &data };
    update_node(tx, &row, change, Some(report), now).map(Settled::Written)
}

/// S9: taken down by its parent. A terminal row is left as it is and answers `false` (LED-38).
pub fn retire(tx: &Tx<'_>, node_id: &str, reason: &str, round: u32, now: i64) -> LResult<bool> {
    let row = nodes::require(tx, node_id)?;
    if row.status.is_terminal() {
        return Ok(false);
    }
    let data = end_data(ExecutionStatus::Aborted, Some(reason), round);
    update_node(tx, &row, NodeChange::Retire, Some(Report { kind: EventType::NodeRetired, data: &data }), now)?;
    Ok(true)
}

/// S4: the child waits for the answer to a dialog.
pub fn mark_blocked(tx: &Tx<'_>, node_id: &str, reason: &str, now: i64) -> LResult<()> {
    let row = nodes::require(tx, node_id)?;
    let data = event_data([("reason", json!(reason))]);
    update_node(tx, &row, NodeChange::Block, Some(Report { kind: EventType::NodeBlocked, data: &data }), now)?;
    Ok(())
}

/// S5: the dialog was answered, or the child is active again.
pub fn mark_unblocked(tx: &Tx<'_>, node_id: &str, now: i64) -> LResult<()> {
    resume(tx, node_id, NodeChange::Unblock, ResumeReason::Unblocked, now)
}

/// S13: a settled child that is still alive began a new turn, such as one woken by mail.
pub fn mark_woken(tx: &Tx<'_>, node_id: &str, now: i64) -> LResult<()> {
    resume(tx, node_id, NodeChange::Wake, ResumeReason::Woken, now)
}

fn resume(tx: &Tx<'_>, node_id: &str, change: NodeChange, reason: ResumeReason, now: i64) -> LResult<()> {
    let row = nodes::require(tx, node_id)?;
    let data = event_data([("reason", json!(reason.as_str()))]);
    update_node(tx, &row, change, Some(Report { kind: EventType::NodeResumed, data: &data }), now)?;
    Ok(())
}

/// What keeps the team failure net from firing (LED-40).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TeamActivity {
    pub turn_in_flight: bool,
    pub launch_queued: bool,
}

/// S10: fails a team all of whose children failed; answers whether it did.
pub fn fail_team_if_all_children_failed(tx: &Tx<'_>, node_id: &str, activity: TeamActivity, now: i64) -> LResult<bool> {
    let row = nodes::require(tx, node_id)?;
    if activity.turn_in_flight
        || activity.launch_queued
        || row.status == NodeStatus::Failed
        || !all_children_failed(tx, &row)?
    {
        return Ok(false);
    }
    let data = event_data([("reason", json!(ALL_CHILDREN_FAILED))]);
    update_node(tx, &row, NodeChange::FailTeam, Some(Report { kind: EventType::NodeFailed, data: &data }), now)?;
    Ok(true)
}

/// Marks a failed child as dealt with in a phase, which keeps the team failure net from counting it.
pub fn mark_handled(tx: &Tx<'_>, node_id: &str, by: &str, phase: &str, now: i64) -> LResult<()> {
    let data = event_data([("by", json!(by)), ("phase", json!(phase))]);
    super::events::append(tx, node_id, EventType::NodeHandled, &data, now).map(drop)
}

/// Inserts the root row, or sets it running again when the run is opened later (LED-24, S18).
pub fn open_root(tx: &Tx<'_>, run_id: &str, session_file: Option<&Path>, now: i64) -> LResult<()> {
    let session_file = session_file.map(path_text);
    match nodes::get(tx, ROOT)? {
        Some(row) => {
            update_node(tx, &row, NodeChange::OpenRoot, None, now)?;
            tx.execute("UPDATE nodes SET session_file = ?2 WHERE id = ?1", params![ROOT, session_file])?;
        }
        None => {
            nodes::legal(ROOT, None, NodeChange::OpenRoot)?;
            tx.execute(
                "INSERT INTO nodes (id, name, role, depth, run_id, session_file, status, created_at, updated_at)
                 VALUES (?1, ?1, ?1, 0, ?2, ?3, 'running', ?4, ?4)",
                params![ROOT, run_id, session_file, now],
            )?;
        }
    }
    Ok(())
}

/// S15: the clean end of the root, after all its children ended. A root that has ended is left alone.
pub fn close_root(tx: &Tx<'_>, now: i64) -> LResult<()> {
    let row = nodes::require(tx, ROOT)?;
    if row.status.is_terminal() {
        return Ok(());
    }
    let counts = nodes::count_by_status(tx)?;
    let data = event_data([
        ("settled", json!(counts.settled)),
        ("failed", json!(counts.failed)),
        ("retired", json!(counts.retired)),
    ]);
    update_node(tx, &row, NodeChange::CloseRoot, Some(Report { kind: EventType::TreeFinalized, data: &data }), now)?;
    Ok(())
}

fn end_event(end: EndStatus) -> EventType {
    match end {
        EndStatus::Settled => EventType::NodeSettled,
        EndStatus::Failed => EventType::NodeFailed,
        EndStatus::Retired => EventType::NodeRetired,
    }
}

fn end_data(execution: ExecutionStatus, reason: Option<&str>, round: u32) -> Map<String, Value> {
    event_data([("execution", json!(execution.as_str())), ("reason", json!(reason)), ("round", json!(round))])
}

/// The fact of LED-40: a team with children, all of them failed and none dealt with.
fn all_children_failed(conn: &Conn, row: &NodeRow) -> LResult<bool> {
    if row.role != TEAM_ROLE {
        return Ok(false);
    }
    let failed =
        conn.number("SELECT EXISTS (SELECT 1 FROM nodes WHERE parent_id = ?1 AND status = 'failed')", [&row.id])?;
    if failed == 0 {
        return Ok(false);
    }
    let spared = conn.number(
        concat!(
            "SELECT EXISTS (SELECT 1 FROM nodes WHERE parent_id = ?1 AND status IN ",
            live!(),
            ") OR EXISTS (SELECT 1 FROM nodes WHERE parent_id = ?1 AND status IN ('settled', 'retired'))
               OR EXISTS (SELECT 1 FROM nodes c JOIN events e ON e.node_id = c.id AND e.type = 'node_handled'
                           WHERE c.parent_id = ?1 AND c.status = 'failed')"
        ),
        [&row.id],
    )?;
    Ok(spared == 0)
}

/// Whether the last thing that happened to the node's status was being given up.
fn was_abandoned(conn: &Conn, node_id: &str) -> LResult<bool> {
    let last: Option<String> = conn.row(
        "SELECT type FROM events
          WHERE node_id = ?1 AND type IN ('node_launched', 'node_resumed', 'node_blocked', 'node_settled',
                                          'node_failed', 'node_retired', 'node_abandoned')
          ORDER BY id DESC LIMIT 1",
        [node_id],
        |row| row.get(0),
    )?;
    Ok(last.as_deref() == Some(EventType::NodeAbandoned.as_str()))
}
