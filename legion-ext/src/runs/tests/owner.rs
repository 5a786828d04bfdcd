use std::path::PathBuf;

use super::*;
use crate::core::naming::is_run_id;

/// A project with a session file.
struct Project {
    root: TempDir,
}

impl Project {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn session(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        fs::write(&path, "{}").unwrap();
        path
    }

    fn open(&self, session_id: &str, session_file: Option<&Path>) -> OpenedRun {
        open_root_run(&RunIdentity { cwd: self.root.path(), session_id, session_file }).unwrap()
    }
}

/// The record of a new run, written as its owner writes it.
fn begin(run: &OpenedRun, session_file: &Path) {
    let record = RunRecord { root_session_file: Some(session_file.to_owned()), ..record(&run.dir) };
    RunStore::new(run.dir.clone(), record).flush().unwrap();
}

/// ORC-177, ORC-172: the former run is found by computing its id; a session without a file has none.
#[test]
fn a_session_finds_its_former_run() {
    let project = Project::new();
    let session = project.session("root.jsonl");
    let first = project.open("s-1", Some(&session));
    assert_eq!(first.dir.run_id(), root_run_id("s-1", 0));
    assert!(first.former.is_none() && first.in_use.is_none());
    begin(&first, &session);
    let run_id = first.dir.run_id();
    drop(first);

    let again = project.open("s-1", Some(&session));
    assert_eq!((again.dir.run_id(), again.former.unwrap().run_id), (run_id.clone(), run_id));
    assert_ne!(project.open("s-2", Some(&session)).dir.run_id(), again.dir.run_id());

    let ids: Vec<_> = (0..2).map(|_| project.open("s-1", None).dir.run_id()).collect();
    assert!(ids.iter().all(|id| is_run_id(id)));
    assert_ne!(ids[0], ids[1]);
}

/// ORC-177: a directory of another session is left to it.
#[test]
fn the_counter_passes_over_another_sessions_run() {
    let project = Project::new();
    let (mine, theirs) = (project.session("mine.jsonl"), project.session("theirs.jsonl"));
    let run = project.open("s-1", Some(&theirs));
    begin(&run, &theirs);
    drop(run);
    let run = project.open("s-1", Some(&mine));
    assert_eq!(run.dir.run_id(), root_run_id("s-1", 1));
    begin(&run, &mine);
    drop(run);
    let again = project.open("s-1", Some(&mine));
    assert_eq!((again.dir.run_id(), again.former.is_some()), (root_run_id("s-1", 1), true));
}

/// ORC-181: of two that want a run one gets it; the other works in a run of its own and says so.
#[test]
fn a_held_run_is_left_to_its_holder() {
    let project = Project::new();
    let session = project.session("root.jsonl");
    let holder = project.open("s-1", Some(&session));
    begin(&holder, &session);
    let other = project.open("s-1", Some(&session));
    let in_use = other.in_use.clone().unwrap();
    assert_eq!(in_use, InUse { run_id: holder.dir.run_id(), pid: std::process::id() });
    let text = format!(
        "run {} is in use by pid {}; this session uses run {}",
        holder.dir.run_id(),
        std::process::id(),
        other.dir.run_id()
    );
    assert_eq!(in_use.message(&other.dir.run_id()), text);
    assert_eq!(other.dir.run_id(), root_run_id("s-1", 1));
    assert_eq!(mode(&holder.dir.owner_lock()), 0o600);
}

/// ORC-173: a damaged record is set aside and reported; a new run begins beside it, and nothing of it is lost.
#[test]
fn a_damaged_run_is_reported_and_left() {
    let project = Project::new();
    let session = project.session("root.jsonl");
    let run = project.open("s-1", Some(&session));
    fs::write(run.dir.run_json(), "{ no json").unwrap();
    fs::write(run.dir.path().join("legion.db"), "rows").unwrap();
    let damaged = run.dir.clone();
    drop(run);
    let new = project.open("s-1", Some(&session));
    assert_eq!(new.dir.run_id(), root_run_id("s-1", 1));
    assert_eq!(new.quarantined.len(), 1);
    assert_eq!(new.quarantined[0].0, damaged.path().join("run.json.corrupt"));
    assert!(damaged.path().join("legion.db").exists());
    begin(&new, &session);
    drop(new);
    let again = project.open("s-1", Some(&session));
    assert_eq!((again.dir.run_id(), again.quarantined.len()), (root_run_id("s-1", 1), 0));
}

/// A maker that died before it wrote anything leaves a directory that is taken as new.
#[test]
fn an_untouched_directory_is_new() {
    let project = Project::new();
    let session = project.session("root.jsonl");
    drop(project.open("s-1", Some(&session)));
    let run = project.open("s-1", Some(&session));
    assert_eq!((run.dir.run_id(), run.former.is_none()), (root_run_id("s-1", 0), true));
}

/// ORC-42: a child's run lies beside the root's, under an id that its node gives.
#[test]
fn a_childs_run_lies_beside_the_roots() {
    let project = Project::new();
    let root = project.open("s-1", None);
    let id = child_run_id(&root.dir.run_id(), "root/centurion-0");
    assert_eq!(id, child_run_id(&root.dir.run_id(), "root/centurion-0"));
    assert_ne!(id, child_run_id(&root.dir.run_id(), "root/centurion-1"));
    assert!(is_run_id(&id));
    let dir = root.dir.beside(&id);
    assert_eq!(dir.path().parent(), root.dir.path().parent());
    let run = open_child_run(dir.clone()).unwrap().unwrap();
    assert!(run.former.is_none());
    RunStore::new(dir.clone(), record(&dir)).flush().unwrap();
    let held = open_child_run(dir.clone()).unwrap().unwrap_err();
    assert_eq!(held, InUse { run_id: id, pid: std::process::id() });
    drop(run);
    assert!(open_child_run(dir).unwrap().unwrap().former.is_some());
}

/// LED-91: a pid counts with its start time, so that a recycled one is another process.
#[test]
#[cfg(target_os = "linux")]
fn an_owner_is_known_by_pid_and_start() {
    let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let started_at = process_start_ms(sleeper.id()).unwrap();
    let owner = Owner { pid: sleeper.id(), started_at };
    assert!(owner_lives(&owner));
    assert!(owner_lives(&Owner { started_at: 0, ..owner }));
    assert!(!owner_lives(&Owner { started_at: started_at - 60_000, ..owner }));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(!owner_lives(&owner));
    assert!(!owner_lives(&Owner::this_process()), "this process is not another one");
    assert!((process_start_ms(std::process::id()).unwrap() - crate::clock::now_ms()).abs() < 86_400_000);
}

/// ORC-176, REL-6, half of 03-T30
#[test]
fn a_run_is_its_owners_alone() {
    let (root, dir) = fresh();
    dir.create().unwrap();
    let session = dir.create_session_file("w1").unwrap();
    fs::write(&session, "kept").unwrap();
    assert_eq!(dir.create_session_file("w1").unwrap(), session);
    assert_eq!(fs::read_to_string(&session).unwrap(), "kept");
    let artifact = artifacts::write_artifact(&dir, "w1", 1, "text").unwrap();
    artifacts::copy_output(&dir, "a/b.md", "text").unwrap();
    let project = root.path().join(".pi-subagents");
    assert_eq!(fs::read_to_string(project.join(".gitignore")).unwrap(), "*\n");
    let dirs = ["", "runs", "runs/r-0000000a", "runs/r-0000000a/artifacts/w1", "runs/r-0000000a/out/a"];
    for path in dirs {
        assert_eq!(mode(&project.join(path)), 0o700, "{path}");
    }
    for path in [&session, &artifact.path, &dir.out().join("a/b.md"), &project.join(".gitignore")] {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
}
