//! A process that is killed while it launches: this test binary runs itself again, with its part in the environment.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;
use crate::core::budget::TreeLimits;
use crate::ledger::launch::{self, NewNode, Reserve, Started};
use crate::ledger::{LegionDb, OpenMode, legion_db_path, nodes, open_legion_db, settle};

const DIR: &str = "LEGION_RUNS_TEST_DIR";

fn start(db: &LegionDb, store: &RunStore, name: &str) {
    let session_file = store.dir().create_session_file(name).unwrap();
    let node = NewNode {
        parent_id: "root",
        name,
        role: "worker",
        run_id: "r-0000000a",
        session_file: &session_file,
        team: None,
        phase: None,
        task: "t",
    };
    let room = TreeLimits { max_depth: 4, max_children_per_node: 100_000, max_active_nodes: 100_000 };
    store.put_child(child(name, ChildState::Launching));
    db.write(|tx| {
        let Reserve::Reserved(reserved) = launch::reserve(tx, &node, &room, 1)? else { panic!("no slot") };
        let started = Started {
            resumed: None,
            session_file: &session_file,
            worktree_path: None,
            model: None,
            team: None,
            supervisor: "inprocess",
        };
        launch::mark_running(tx, &reserved.node_id, &started, 1)
    })
    .unwrap();
    store.update_child(name, |child| child.state = ChildState::Working).unwrap();
}

/// Not a test of its own: launches until it is killed, and names each child that it has started.
#[test]
#[expect(clippy::disallowed_methods, reason = "a copy of the test binary is told its part by its environment")]
fn launching_in_another_process() {
    let Ok(dir) = std::env::var(DIR) else {
        return;
    };
    let dir = RunDir::at(PathBuf::from(dir));
    let db = open_legion_db(&legion_db_path(dir.path()), OpenMode::RootCreate).unwrap();
    db.write(|tx| settle::open_root(tx, "r-0000000a", None, 1)).unwrap();
    let store = RunStore::new(dir.clone(), record(&dir));
    let mut out = std::io::stderr().lock();
    for n in 0.. {
        let name = format!("w{n}");
        start(&db, &store, &name);
        writeln!(out, "started {name}").unwrap();
    }
}

/// 03-T36, ORC-148, ORC-61: killed in the burst, every child that was started is found through the ledger, whatever the
/// run file had of it (`store::a_burst_of_launches_makes_a_few_writes` counts the writes).
#[test]
fn children_of_a_killed_burst_are_in_the_ledger() {
    let (_root, dir) = fresh();
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::launching_in_another_process"), "--nocapture"])
        .env(DIR, dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let mut started = Vec::new();
    for line in lines.map(Result::unwrap) {
        started.extend(line.strip_prefix("started ").map(str::to_owned));
        if started.len() == 300 {
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    assert!(started.len() >= 300, "{}", started.len());

    let db = open_legion_db(&legion_db_path(dir.path()), OpenMode::RootCreate).unwrap();
    for name in &started {
        let row = db.read(|conn| nodes::require(conn, &format!("root/{name}"))).unwrap();
        assert_eq!(row.session_file, Some(dir.session_file(name)));
        assert!(dir.session_file(name).exists());
    }
    // What there is of the run file is whole.
    if dir.run_json().exists() {
        assert!(stored(&dir).children.len() <= started.len() + 1);
    }
}
