//! Nodes whose owner is gone: found by index, failed once (06 §5).

use rusqlite::params;
use serde_json::json;

use super::db::{Conn, Tx};
use super::error::LResult;
use super::events::{self, event_data};
use super::nodes::{self, NodeRow, Report, live, map_node, node_columns, update_node};
use crate::core::events::EventType;
use crate::core::naming::ROOT;
use crate::core::node_status::NodeChange;

/// Live nodes, the root not among them, that nobody has touched for `stale_ms`. Whether a supervisor of this process
/// holds one, or its process lives, is for the caller to ask (LED-58).
pub fn orphan_candidates(conn: &Conn, now: i64, stale_ms: i64) -> LResult<Vec<NodeRow>> {
    conn.rows(
        concat!(
            "SELECT ",
            node_columns!("n"),
            " FROM nodes n WHERE n.status IN ",
            live!(),
            " AND n.updated_at <= ?1 AND n.id <> 'root'"
        ),
        [now.saturating_sub(stale_ms)],
        map_node,
    )
}

/// S11: fails the node if it still is live and stale, and returns it as it was; `None` when there is nothing to do any
/// more, so that each node is converged once (LED-59).
///
/// A run that is taken over passes a `stale_ms` of 0: its dead owner's nodes need not wait (ORC-172).
pub fn converge_orphan(tx: &Tx<'_>, node_id: &str, now: i64, stale_ms: i64) -> LResult<Option<NodeRow>> {
    let Some((row, age)) = stale_row(tx, node_id, now, stale_ms)? else {
        return Ok(None);
    };
    let detected = event_data([("staleMs", json!(age)), ("detectedAt", json!(now))]);
    events::append(tx, &row.id, EventType::OrphanDetected, &detected, now)?;
    abandon(tx, &row, "no_active_supervisor", age, now)?;
    Ok(Some(row))
}

/// S12: startup hygiene gives up on a node that has been live on paper for `stale_ms`; `None` when it is not.
pub fn abandon_stale(tx: &Tx<'_>, node_id: &str, now: i64, stale_ms: i64) -> LResult<Option<NodeRow>> {
    let Some((row, age)) = stale_row(tx, node_id, now, stale_ms)? else {
        return Ok(None);
    };
    abandon(tx, &row, "hygiene", age, now)?;
    Ok(Some(row))
}

fn stale_row(conn: &Conn, node_id: &str, now: i64, stale_ms: i64) -> LResult<Option<(NodeRow, i64)>> {
    if node_id == ROOT {
        return Ok(None);
    }
    let Some(row) = nodes::get(conn, node_id)? else {
        return Ok(None);
    };
    let age = now.saturating_sub(row.updated_at).max(0);
    Ok((row.status.is_live() && age >= stale_ms).then_some((row, age)))
}

fn abandon(tx: &Tx<'_>, row: &NodeRow, reason: &str, age: i64, now: i64) -> LResult<()> {
    let data = event_data([("reason", json!(reason)), ("staleMs", json!(age))]);
    update_node(tx, row, NodeChange::Abandon, Some(Report { kind: EventType::NodeAbandoned, data: &data }), now)?;
    Ok(())
}

/// Whether any node of the tree is live at all; costs one look at the index.
pub fn any_live(conn: &Conn) -> LResult<bool> {
    let sql = concat!("SELECT EXISTS (SELECT 1 FROM nodes WHERE status IN ", live!(), " AND id <> ?1)");
    Ok(conn.number(sql, params![ROOT])? != 0)
}
