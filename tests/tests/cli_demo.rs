//! `legion demo`: the tour, whole, twice at once, interrupted and killed.

use std::path::{Path, PathBuf};

use host_abi::library_file_name;
use legion_ext::clock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tests::legion::{PATIENCE, Running, World, bytes_below};
use tests::libraries::target_dir;

/// The run of the tour at `dir`.
fn run_dir(dir: &Path) -> PathBuf {
    let runs = dir.join("repo/.pi-subagents/runs");
    let mut dirs = std::fs::read_dir(&runs).expect("the tour has runs").flatten().map(|entry| entry.path());
    dirs.next().expect("the tour has a run")
}

fn json(world: &World, args: &[&str]) -> Value {
    let ended = world.run(args.iter().chain(&["--json"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&ended.out).expect("the answer is JSON")
}

/// CLI-1: only what the models say is written beforehand; what the end tells is what is there.
#[test]
fn the_demo_mends_a_repository() {
    let world = World::new();
    let ended = world.run(["demo", "--fast", "--dir", "tour"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    let tour = world.home().join("tour").canonicalize().unwrap();
    let run = run_dir(&tour);

    assert!(ended.out.contains("Tests    10 passed, 6 failed → 17 passed, 0 failed"), "{}", ended.out);
    assert!(ended.out.contains("\n 8 files changed, "), "git tells the changes: {}", ended.out);
    assert!(ended.out.contains("\nLedger   14 nodes · "), "{}", ended.out);
    assert!(ended.out.contains(" events · 12 mails · 13 results · ↑"), "{}", ended.out);
    assert!(ended.out.contains("✉ fix-percent   to parent: question: What is"), "{}", ended.out);
    assert!(ended.out.contains("! readme        bash: read-only role: "), "child-guard is loaded: {}", ended.out);
    assert_eq!(ended.out.matches("\n  ✓ ").count(), 13, "{}", ended.out);
    let next = ended.out.lines().find(|line| line.ends_with(&format!("legion status {}", run.display()))).unwrap();
    let pasted = world.program(Path::new("sh"), ["-c", next]).output().unwrap();
    assert!(pasted.stdout.starts_with(b"Status \xc2\xb7 0 live children\n"), "{pasted:?}");
    assert!(!ended.out.contains('\u{1b}'), "a pipe gets plain lines");

    for name in ["fix-slug", "readme", "zero-total"] {
        assert!(run.join(format!("{name}.jsonl")).is_file() && run.join(format!("artifacts/{name}/r1.md")).is_file());
    }
    let homes: Vec<_> = std::fs::read_dir(world.home()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(homes.len(), 2, "nothing but the tour and the place for temporary files: {homes:?}");
}

/// CLI-1: two tours at once do not meet.
#[test]
fn two_demos_at_once_do_not_clash() {
    let world = World::new();
    let mut tours: Vec<Running> = (0..2).map(|_| Running::start(&mut world.command(["demo", "--fast"]))).collect();
    for tour in &mut tours {
        assert_eq!(tour.end().code(), Some(0), "{:#?}", tour.seen);
    }
    assert_eq!(std::fs::read_dir(world.temp()).unwrap().count(), 2, "each has a directory of its own, which stays");
}

/// CLI-1, CLI-4: what is there already is refused and left alone.
#[test]
fn a_directory_with_something_in_it_is_refused() {
    let world = World::new();
    std::fs::write(world.temp().join("mine"), "x").unwrap();
    let ended = world.run(["demo", "--fast", "--dir", "tmp"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""));
    assert_eq!(ended.err, format!("{} is not empty; choose a new directory\n", world.temp().display()));
    assert_eq!(bytes_below(&world.temp()).len(), 1);
}

/// CLI-4: without its extension there is no tour, and the message says which file is missing.
#[test]
fn a_missing_library_is_named() {
    let world = World::new();
    let alone = world.home().join("legion");
    let program = target_dir().join("legion");
    if std::fs::hard_link(&program, &alone).is_err() {
        std::fs::copy(&program, &alone).unwrap();
    }
    let ended = tests::legion::ended(&mut world.program(&alone, ["demo", "--fast", "--dir", "tour"]));
    assert_eq!(ended.code, Some(1), "{}", ended.out);
    assert!(ended.err.starts_with("the tour needs the extension, which did not load: "), "{}", ended.err);
    assert!(ended.err.contains(&library_file_name("legion_ext")), "{}", ended.err);
}

/// A tour at a pace to follow, and the first of its children whose result is recorded.
fn half_way(world: &World) -> (Running, String) {
    let mut tour = Running::start(&mut world.command(["demo", "--dir", "tour"]));
    let ended = tour.line(|line| line.starts_with("■ "));
    let name = ended.split_whitespace().nth(1).expect("the line names the child").to_owned();
    // The run is over a moment before its result is recorded.
    let deadline = clock::instant() + PATIENCE;
    while state(&json(world, &["tree", "tour/repo"]), &name) != "settled" {
        assert!(clock::instant() < deadline, "the result of {name} is not recorded");
    }
    (tour, name)
}

/// The state of a node in the answer of `legion tree`.
fn state(tree: &Value, name: &str) -> String {
    let nodes = tree["tree"].as_array().expect("the answer has a tree");
    let node = nodes.iter().find(|node| node["name"] == name).unwrap_or_else(|| panic!("no {name} in {tree}"));
    node["state"].as_str().expect("a node has a state").to_owned()
}

/// CLI-1, 11-T16: with an empty environment, and without one connection.
#[test]
fn run_and_demo_need_neither_key_nor_network() {
    let world = World::new();
    let ended = world.run(["run", "hello"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.starts_with("You said: hello"), "{}", ended.out);
    assert_eq!(world.run(["demo", "--fast"]).code, Some(0));

    let (tour, _) = half_way(&world);
    #[cfg(target_os = "linux")]
    assert_eq!(tour.network_sockets(), [""; 0]);
    drop(tour);
}

/// HOST-5, CLI-4, part of 11-T3: the children are taken down, nothing is left running, and the files stay.
#[test]
fn an_interrupted_demo_leaves_no_process() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let world = World::new();
        let (mut tour, _) = half_way(&world);
        let live = json(&world, &["status", "tour/repo"])["live"].as_u64().unwrap();
        assert!(live > 0, "the tour is at work");
        kill(Pid::from_raw(tour.pid()), signal).unwrap();
        assert_eq!(tour.end().code(), Some(130), "{:#?}", tour.seen);
        assert!(tour.seen.iter().any(|line| line.contains("legion status ")), "{:#?}", tour.seen);
        #[cfg(target_os = "linux")]
        assert_eq!(world.processes(), [""; 0]);
        let status = json(&world, &["status", "tour/repo"]);
        assert_eq!(status["live"], 0, "{status}");
    }
}

/// LED-19, LED-92, ORC-148: after `kill -9` in the middle of the demo the run is whole as far as it went.
#[test]
fn a_killed_demo_keeps_what_had_ended() {
    let world = World::new();
    let (mut tour, ended) = half_way(&world);
    kill(Pid::from_raw(tour.pid()), Signal::SIGKILL).unwrap();
    assert_eq!(tour.end().code(), None);

    let run = run_dir(&world.home().join("tour"));
    let run = run.to_str().unwrap();
    let status = world.run(["status", run]);
    assert_eq!((status.code, status.err.as_str()), (Some(0), ""));
    let tree = json(&world, &["tree", run]);
    assert_eq!(state(&tree, &ended), "settled", "{tree}");
    assert!(status.out.contains(&format!("✓ {ended} (")), "{}", status.out);
    let nodes = tree["tree"].as_array().unwrap();
    let settled: Vec<&str> =
        nodes.iter().filter(|node| node["state"] == "settled").map(|node| node["name"].as_str().unwrap()).collect();
    for name in &settled {
        let artifact = std::fs::read_to_string(Path::new(run).join(format!("artifacts/{name}/r1.md"))).unwrap();
        assert!(!artifact.is_empty(), "{name}");
    }
    assert!(json(&world, &["events", run]).as_array().unwrap().len() >= 12 + settled.len());
    assert!(!json(&world, &["mail", run]).as_array().unwrap().is_empty());

    let db = rusqlite::Connection::open(Path::new(run).join("legion.db")).unwrap();
    let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    let events = count("SELECT count(*) FROM events WHERE type = 'node_settled'");
    assert_eq!(count("SELECT count(*) FROM nodes WHERE status = 'settled'"), events, "row and event are one write");
    let mails = count("SELECT count(*) FROM events WHERE type = 'mail_sent'");
    assert_eq!(count("SELECT count(*) FROM messages"), mails, "row and event are one write");
}
