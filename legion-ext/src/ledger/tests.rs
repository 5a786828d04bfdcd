//! Tests of the ledger: on temporary files, and for races on real processes.

mod log;
mod mail;
mod opening;
mod plans;
mod processes;
mod results;
mod statuses;
mod tree;

use std::path::Path;

use tempfile::TempDir;

use super::launch::{self, NewNode, Reserve, Reserved, Started};
use super::nodes::NodeRow;
use super::settle::{self, Settlement};
use super::{LResult, LegionDb, OpenMode, Tx, legion_db_path, nodes, open_legion_db};
use crate::core::budget::TreeLimits;
use crate::core::naming::{ROOT, node_id_for_child};
use crate::core::outcome::ExecutionStatus;

const NOW: i64 = 1_700_000_000_000;

/// No gate refuses.
const ROOMY: TreeLimits = TreeLimits { max_depth: 100, max_children_per_node: 100_000, max_active_nodes: 100_000 };

/// A ledger in a directory of its own, with a root.
fn fresh() -> (TempDir, LegionDb) {
    let dir = tempfile::tempdir().unwrap();
    let db = open_legion_db(&legion_db_path(dir.path()), OpenMode::RootCreate).unwrap();
    db.write(|tx| settle::open_root(tx, "r-00000001", Some(Path::new("/s/root.jsonl")), NOW)).unwrap();
    (dir, db)
}

fn new_node<'a>(parent_id: &'a str, name: &'a str) -> NewNode<'a> {
    NewNode {
        parent_id,
        name,
        role: "worker",
        run_id: "r-00000001",
        session_file: Path::new("/s/child.jsonl"),
        team: None,
        phase: None,
        task: "look around",
    }
}

fn reserve(tx: &Tx<'_>, parent: &str, name: &str) -> LResult<Reserved> {
    match launch::reserve(tx, &new_node(parent, name), &ROOMY, NOW)? {
        Reserve::Reserved(reserved) => Ok(reserved),
        other => panic!("no slot for {parent}/{name}: {other:?}"),
    }
}

fn started() -> Started<'static> {
    Started {
        resumed: None,
        session_file: Path::new("/s/child.jsonl"),
        worktree_path: None,
        model: Some("cb/x"),
        team: None,
        supervisor: "inprocess",
    }
}

/// A running child; returns its id.
fn run(tx: &Tx<'_>, parent: &str, name: &str) -> LResult<String> {
    let reserved = reserve(tx, parent, name)?;
    launch::mark_running(tx, &reserved.node_id, &started(), NOW)?;
    Ok(reserved.node_id)
}

fn ended(node_id: &str, execution: ExecutionStatus) -> Settlement<'_> {
    Settlement { node_id, execution, reason: None, round: 1, usage: None }
}

fn row(db: &LegionDb, id: &str) -> NodeRow {
    db.read(|conn| nodes::require(conn, id)).unwrap()
}

/// Types and data of every event of a node, oldest first.
fn events_of(db: &LegionDb, id: &str) -> Vec<(String, serde_json::Value)> {
    db.read(|conn| super::events::last_of_node(conn, id, 1000))
        .unwrap()
        .into_iter()
        .map(|event| (event.kind.as_str().to_owned(), event.data.into()))
        .collect()
}

/// Writes a status past the rules, to stand for what another build left.
fn force_status(tx: &Tx<'_>, id: &str, status: &str) {
    tx.raw().execute("UPDATE nodes SET status = ?2 WHERE id = ?1", [id, status]).unwrap();
}

fn child(name: &str) -> String {
    node_id_for_child(ROOT, name)
}
