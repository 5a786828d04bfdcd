//! Rows of `nodes`: reading them, counting them, keeping their heartbeat, and the one way to change a status.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Row, params};
use serde_json::{Map, Value};

use super::db::{Conn, Tx, unsigned};
use super::error::{LResult, LedgerError};
use super::events;
use super::usage::UsageRow;
use crate::core::events::EventType;
use crate::core::naming::ROOT;
use crate::core::node_status::{IllegalTransition, NodeChange, NodeStatus, next_status};

/// Levels below a node that [`get_subtree`] returns by default (LED-42).
pub const DEFAULT_SUBTREE_MAX_DEPTH: u32 = 64;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    pub id: String,
    /// `None` for the root only.
    pub parent_id: Option<String>,
    pub name: String,
    pub role: String,
    /// Always `pi`.
    pub kind: String,
    /// 0 for the root.
    pub depth: u32,
    pub run_id: Option<String>,
    /// The transcript, and the only resume credential (LED-29).
    pub session_file: Option<PathBuf>,
    pub worktree_path: Option<PathBuf>,
    pub model: Option<String>,
    /// `None` is the default team.
    pub team: Option<String>,
    pub status: NodeStatus,
    pub phase: Option<String>,
    pub phase_since: Option<i64>,
    pub rework_count: u32,
    pub contract_path: Option<PathBuf>,
    pub task_summary: Option<String>,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// Milliseconds since the epoch; read only as an age (LED-45).
    pub updated_at: i64,
}

/// A node in its tree, with what it has used so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SubtreeRow {
    pub node: NodeRow,
    /// Levels below the node that was asked for; 0 for that node.
    pub level: u32,
    pub usage: UsageRow,
}

/// The status column as a list for SQL.
macro_rules! live {
    () => {
        "('starting', 'running', 'blocked')"
    };
}
pub(super) use live;

macro_rules! node_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".id, ",
            $table,
            ".parent_id, ",
            $table,
            ".name, ",
            $table,
            ".role, ",
            $table,
            ".kind, ",
            $table,
            ".depth, ",
            $table,
            ".run_id, ",
            $table,
            ".session_file, ",
            $table,
            ".worktree_path, ",
            $table,
            ".model, ",
            $table,
            ".team, ",
            $table,
            ".status, ",
            $table,
            ".phase, ",
            $table,
            ".phase_since, ",
            $table,
            ".rework_count, ",
            $table,
            ".contract_path, ",
            $table,
            ".task_summary, ",
            $table,
            ".created_at, ",
            $table,
            ".updated_at"
        )
    };
}
pub(super) use node_columns;

/// Number of columns in `node_columns!`.
const NODE_COLUMNS: usize = 19;

pub(super) fn map_node(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
    let path =
        |index| -> rusqlite::Result<Option<PathBuf>> { Ok(row.get::<_, Option<String>>(index)?.map(PathBuf::from)) };
    let status: String = row.get(11)?;
    let status = NodeStatus::parse(&status).ok_or_else(|| {
        let why = format!("unknown status '{status}'");
        rusqlite::Error::FromSqlConversionFailure(11, rusqlite::types::Type::Text, why.into())
    })?;
    Ok(NodeRow {
        id: row.get(0)?,
        parent_id: row.get(1)?,
        name: row.get(2)?,
        role: row.get(3)?,
        kind: row.get(4)?,
        depth: row.get(5)?,
        run_id: row.get(6)?,
        session_file: path(7)?,
        worktree_path: path(8)?,
        model: row.get(9)?,
        team: row.get(10)?,
        status,
        phase: row.get(12)?,
        phase_since: row.get(13)?,
        rework_count: row.get(14)?,
        contract_path: path(15)?,
        task_summary: row.get(16)?,
        created_at: row.get(17)?,
        updated_at: row.get(18)?,
    })
}

/// The node with this id.
pub fn get(conn: &Conn, id: &str) -> LResult<Option<NodeRow>> {
    conn.row(concat!("SELECT ", node_columns!("n"), " FROM nodes n WHERE n.id = ?1"), [id], map_node)
}

/// The node with this id, or [`LedgerError::UnknownNode`].
pub fn require(conn: &Conn, id: &str) -> LResult<NodeRow> {
    get(conn, id)?.ok_or_else(|| LedgerError::UnknownNode(id.to_owned()))
}

/// Whether there is a row for `id`; with the child's id this tells whether a name is taken in the ledger (ORC-9).
pub fn exists(conn: &Conn, id: &str) -> LResult<bool> {
    Ok(conn.number("SELECT EXISTS (SELECT 1 FROM nodes WHERE id = ?1)", [id])? != 0)
}

/// The direct children of a node in creation order.
pub fn children(conn: &Conn, parent_id: &str) -> LResult<Vec<NodeRow>> {
    conn.rows(
        concat!("SELECT ", node_columns!("n"), " FROM nodes n WHERE n.parent_id = ?1 ORDER BY n.rowid"),
        [parent_id],
        map_node,
    )
}

/// The direct children with status `running` of all `parents`: those whose usage is polled (LED-55).
pub fn running_children(conn: &Conn, parents: &[&str]) -> LResult<Vec<NodeRow>> {
    conn.rows(
        concat!(
            "SELECT ",
            node_columns!("n"),
            " FROM json_each(?1) p CROSS JOIN nodes n WHERE n.parent_id = p.value AND n.status = 'running'"
        ),
        [json_list(parents)],
        map_node,
    )
}

/// The node and what is below it, at most `max_depth` levels: the node first, each parent right before its children,
/// siblings in creation order. Ends at the cap also where `parent_id` values form a loop (LED-42).
pub fn get_subtree(conn: &Conn, id: &str, max_depth: u32) -> LResult<Vec<SubtreeRow>> {
    let rows = conn.rows(
        concat!(
            "WITH RECURSIVE tree(id, key, level) AS (
               SELECT id, rowid, 0 FROM nodes WHERE id = ?1
               UNION ALL
               SELECT c.id, c.rowid, t.level + 1 FROM tree t CROSS JOIN nodes c ON c.parent_id = t.id
                WHERE t.level < ?2
               ORDER BY 3 DESC, 2
             )
             SELECT ",
            node_columns!("n"),
            ", t.key, t.level, coalesce(u.tokens_in, 0), coalesce(u.tokens_out, 0), coalesce(u.cost_usd, 0)
               FROM tree t CROSS JOIN nodes n ON n.rowid = t.key LEFT JOIN usage u ON u.node_id = n.id"
        ),
        params![id, max_depth],
        |row| {
            let key: i64 = row.get(NODE_COLUMNS)?;
            let usage = UsageRow {
                tokens_in: unsigned(row, NODE_COLUMNS + 2)?,
                tokens_out: unsigned(row, NODE_COLUMNS + 3)?,
                cost_usd: row.get(NODE_COLUMNS + 4)?,
            };
            Ok((key, SubtreeRow { node: map_node(row)?, level: row.get(NODE_COLUMNS + 1)?, usage }))
        },
    )?;
    let mut seen = HashSet::with_capacity(rows.len());
    Ok(rows.into_iter().filter(|(key, _)| seen.insert(*key)).map(|(_, row)| row).collect())
}

/// Children of `parent_id` that hold a slot (LED-43).
pub fn count_live_children(conn: &Conn, parent_id: &str) -> LResult<u32> {
    let sql = concat!("SELECT count(*) FROM nodes WHERE parent_id = ?1 AND status IN ", live!());
    conn.number(sql, [parent_id]).map(count)
}

/// Nodes of the tree that hold a slot, the root not counted (LED-43).
pub fn count_active_nodes(conn: &Conn) -> LResult<u32> {
    let live = conn.number(concat!("SELECT count(*) FROM nodes WHERE status IN ", live!()), [])?;
    let root =
        conn.number(concat!("SELECT EXISTS (SELECT 1 FROM nodes WHERE id = ?1 AND status IN ", live!(), ")"), [ROOT])?;
    Ok(count(live - root))
}

/// How many nodes there are per status, the root not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusCounts {
    pub live: u32,
    pub settled: u32,
    pub failed: u32,
    pub retired: u32,
}

/// Counts the tree by status.
pub fn count_by_status(conn: &Conn) -> LResult<StatusCounts> {
    let of = |status: &str| conn.number("SELECT count(*) FROM nodes WHERE status = ?1", [status]);
    let root = get(conn, ROOT)?.map(|row| row.status);
    let without_root =
        |status: NodeStatus| -> LResult<u32> { Ok(count(of(status.as_str())? - i64::from(root == Some(status)))) };
    Ok(StatusCounts {
        live: count_active_nodes(conn)?,
        settled: without_root(NodeStatus::Settled)?,
        failed: without_root(NodeStatus::Failed)?,
        retired: without_root(NodeStatus::Retired)?,
    })
}

/// How young a heartbeat is left alone: a quarter of the time after which a node counts as orphaned (LED-57).
pub const fn heartbeat_interval_ms(orphan_stale_ms: i64) -> i64 {
    orphan_stale_ms / 4
}

/// Whether [`heartbeat_node`] would write anything; costs one statement and no lock.
pub fn heartbeat_is_due(conn: &Conn, ids: &[&str], now: i64, orphan_stale_ms: i64) -> LResult<bool> {
    let due = conn.number(
        concat!(
            "SELECT EXISTS (SELECT 1 FROM json_each(?1) i CROSS JOIN nodes n
              WHERE n.id = i.value AND n.status IN ",
            live!(),
            " AND n.updated_at <= ?2)"
        ),
        params![json_list(ids), now.saturating_sub(heartbeat_interval_ms(orphan_stale_ms))],
    )?;
    Ok(due != 0)
}

/// Sets `updated_at` of the live nodes among `ids`, in one statement, and returns how many it touched (LED-44). A row
/// younger than a quarter of `orphan_stale_ms` is left alone, a terminal one is never revived.
pub fn heartbeat_node(tx: &Tx<'_>, ids: &[&str], now: i64, orphan_stale_ms: i64) -> LResult<usize> {
    tx.execute(
        concat!(
            "UPDATE nodes SET updated_at = ?2 WHERE id IN (SELECT value FROM json_each(?1)) AND status IN ",
            live!(),
            " AND updated_at <= ?3"
        ),
        params![json_list(ids), now, now.saturating_sub(heartbeat_interval_ms(orphan_stale_ms))],
    )
}

/// What goes with a status change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report<'a> {
    pub kind: EventType,
    pub data: &'a Map<String, Value>,
}

/// The status of `node` after `change`, or an error that names the node and both ends (LED-38).
pub(super) fn legal(node_id: &str, from: Option<NodeStatus>, change: NodeChange) -> LResult<Option<NodeStatus>> {
    let allowed = (node_id == ROOT) == change.is_of_root();
    let next = if allowed { next_status(from, change) } else { Err(IllegalTransition { from, change }) };
    next.map_err(|source| LedgerError::IllegalStatus { node: node_id.to_owned(), source })
}

/// The one way to change the status of a row that stays: checks the change, writes it and its event (LED-38).
pub(super) fn update_node(
    tx: &Tx<'_>,
    node: &NodeRow,
    change: NodeChange,
    report: Option<Report<'_>>,
    now: i64,
) -> LResult<NodeStatus> {
    let Some(next) = legal(&node.id, Some(node.status), change)? else {
        let source = IllegalTransition { from: Some(node.status), change };
        return Err(LedgerError::IllegalStatus { node: node.id.clone(), source });
    };
    tx.execute("UPDATE nodes SET status = ?2, updated_at = ?3 WHERE id = ?1", params![node.id, next.as_str(), now])?;
    if let Some(report) = report {
        events::append(tx, &node.id, report.kind, report.data, now)?;
    }
    Ok(next)
}

/// Ids as a JSON array, the one parameter of a set-based statement.
pub(super) fn json_list(ids: &[&str]) -> String {
    serde_json::to_string(ids).expect("strings serialise")
}

/// A path as it is stored.
pub(super) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(super) fn count(n: i64) -> u32 {
    u32::try_from(n.max(0)).unwrap_or(u32::MAX)
}
