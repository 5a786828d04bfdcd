//! Tests of run directories.

mod burst;
mod owner;
mod record;
mod results;
mod store;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Map;
use tempfile::TempDir;

use super::*;

fn fresh() -> (TempDir, RunDir) {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::of(root.path(), "r-0000000a");
    dir.create().unwrap();
    (root, dir)
}

fn record(dir: &RunDir) -> RunRecord {
    RunRecord {
        version: RUN_RECORD_VERSION,
        run_id: dir.run_id(),
        cwd: "/w".into(),
        created_at: "2026-01-01T00:00:00.000Z".into(),
        updated_at: "2026-01-01T00:00:00.000Z".into(),
        closed_at: None,
        owner: Owner::this_process(),
        root_session_file: Some("/s/root.jsonl".into()),
        herdr: Herdr { supervisor: "rpc".into(), node_id: "root".into(), unknown: Map::new() },
        lineage: Lineage {
            root_run_id: dir.run_id(),
            root_run_dir: dir.path().to_owned(),
            parent_run_id: None,
            parent_node_id: None,
            depth: 0,
            team: None,
            unknown: Map::new(),
        },
        budget: Budget { spawned: 0, max_spawns: None, max_depth: 4, unknown: Map::new() },
        children: Vec::new(),
        unknown: Map::new(),
    }
}

fn child(name: &str, state: ChildState) -> ChildRecord {
    ChildRecord::new(name, "worker", "task", state, "inprocess", format!("/s/{name}.jsonl"), "2026-01-01T00:00:00.000Z")
}

fn stored(dir: &RunDir) -> RunRecord {
    match read_run_record(dir).unwrap() {
        ReadRecord::Record(record) => *record,
        other => panic!("{other:?}"),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
