//! `legion status`, `tree`, `show`, `mail`, `events`, `usage`: a run seen from outside.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::legion::{Ended, World, bytes_below};

/// A world with the run of a finished tour.
fn finished() -> (World, PathBuf) {
    let world = World::new();
    let ended = world.run(["demo", "--fast", "--dir", "tour"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let runs = world.home().join("tour/repo/.pi-subagents/runs");
    let run = std::fs::read_dir(runs).expect("the tour has runs").flatten().next().expect("it has one").path();
    (world, run)
}

fn good(ended: &Ended) -> &str {
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    &ended.out
}

/// CLI-2, CLI-5, part of 11-T17: every command on a finished run, in both forms, and no byte is changed.
#[test]
fn a_finished_run_is_shown_and_left_alone() {
    let (world, run) = finished();
    // As the last close of its session leaves it: no WAL beside it.
    let sql = rusqlite::Connection::open(run.join("legion.db")).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(sql);
    let before = bytes_below(&run);
    assert!(before.iter().all(|(path, _)| !path.to_string_lossy().contains("legion.db-")));
    let look = |args: &[&str]| {
        let ended = world.run(args.iter().map(Path::new).chain([run.as_path()]));
        good(&ended).to_owned()
    };
    let json = |args: &[&str]| -> Value { serde_json::from_str(&look(&[args, &["--json"]].concat())).unwrap() };

    let status = look(&["status"]);
    assert!(status.starts_with("Status · 0 live children\nDead · 13\n✓ "), "{status}");
    assert!(status.contains("\n✓ fix-slug (worker) state=settled supervisor=inprocess\n  owner: "), "{status}");
    let status = json(&["status"]);
    assert_eq!((&status["schema"], &status["action"]), (&"legion.result/1".into(), &"status".into()));
    assert_eq!(status["children"].as_array().unwrap().len(), 13);

    let tree = look(&["tree"]);
    assert!(tree.starts_with("✓ root (root) settled\n  ✓ "), "{tree}");
    assert!(tree.contains("\n  ✓ readme (scout) settled scripted/"), "{tree}");
    assert_eq!(json(&["tree"])["tree"].as_array().unwrap().len(), 14);

    let show = look(&["show", "fix-slug", "--lines", "3"]);
    assert!(show.starts_with("✓ fix-slug (worker) state=settled"), "{show}");
    assert!(show.contains("\ntool legion_mail: ") && show.contains("\nassistant: Successfully replaced"), "{show}");
    assert_eq!(show, look(&["show", "root/fix-slug", "--lines", "3"]), "a node has a name and an id");
    assert_eq!(json(&["show", "fix-slug", "--lines", "3"])["transcript"].as_array().unwrap().len(), 3);

    let mail = look(&["mail"]);
    assert_eq!(mail.lines().count(), 12);
    let question =
        mail.lines().find(|line| line.contains("root/fix-percent → root question · action-needed ")).unwrap();
    assert!(question.starts_with('#') && question.ends_with(": What is the percentage of a total of 0?"), "{question}");
    let mails = json(&["mail"]);
    let ids: Vec<i64> = mails.as_array().unwrap().iter().map(|mail| mail["id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() == 12, "oldest first: {ids:?}");
    assert_eq!(mails[0]["kind"], "report");

    let events = look(&["events"]);
    assert!(events.lines().next().unwrap().contains(" node_launched {\"role\":"), "{events}");
    assert_eq!(json(&["events"]).as_array().unwrap().len(), events.lines().count());

    let usage = look(&["usage"]);
    assert_eq!(usage.lines().count(), 15, "fourteen nodes and the total: {usage}");
    assert!(usage.lines().last().unwrap().starts_with("total ↑"), "{usage}");
    assert!(json(&["usage"])[1]["usage"]["input"].as_u64().unwrap() > 0);

    assert_eq!(bytes_below(&run), before, "looking changes nothing");
}

/// CLI-2: a run is named by its directory, its id or its project, and needs no name in its project.
#[test]
fn a_run_is_found_from_its_project() {
    let (world, run) = finished();
    let id = run.file_name().unwrap().to_str().unwrap();
    let by_dir = good(&world.run([Path::new("tree"), run.as_path()])).to_owned();
    assert_eq!(good(&world.run(["tree", "tour/repo"])), by_dir);
    for args in [vec!["tree"], vec!["tree", id]] {
        let mut command = world.command(&args);
        command.current_dir(world.home().join("tour/repo"));
        assert_eq!(good(&tests::legion::ended(&mut command)), by_dir, "{args:?}");
    }
}

/// 11 bad input, CLI-4, part of 11-T17: what cannot be shown is named, and the exit code says so.
#[test]
fn what_is_no_run_or_damaged_is_named() {
    let (world, run) = finished();
    let tree = |run: &Path| world.run([Path::new("tree"), run]);
    let refused = |run: &Path, message: &str| {
        let ended = tree(run);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{message}");
        assert_eq!(ended.err.trim_end(), message);
    };
    let home = world.home().canonicalize().unwrap();
    for path in [world.temp(), home.join("none")] {
        refused(&path, &format!("not a run directory: {}", path.display()));
    }
    let none = world.run(["status"]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.starts_with("no run under ") && none.err.contains(".pi-subagents/runs; "), "{}", none.err);
    let unknown = world.run([Path::new("show"), Path::new("nobody"), &run]);
    assert_eq!((unknown.code, unknown.err.trim_end()), (Some(1), "no node 'nobody' in this run"));

    // A record that is damaged: the ledger still tells the tree.
    std::fs::write(run.join("run.json"), "{").unwrap();
    let ended = tree(&run);
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 14));
    assert!(ended.err.starts_with("warning: failed to read ") && ended.err.contains("run.json"), "{}", ended.err);
    assert_eq!(std::fs::read_to_string(run.join("run.json")).unwrap(), "{", "only its owner sets it aside");

    // A transcript that ends in the middle of a line, and has a line that is none.
    let transcript = run.join("fix-slug.jsonl");
    let mut text = std::fs::read_to_string(&transcript).unwrap();
    text.push_str("not json\n{\"type\":\"mess");
    std::fs::write(&transcript, text).unwrap();
    let show = world.run([Path::new("show"), Path::new("fix-slug"), &run]);
    assert_eq!(show.code, Some(0));
    assert!(show.out.contains("assistant: Successfully replaced"), "{}", show.out);

    let db = run.join("legion.db");
    for (version, what) in [(2, "open its run once in a session to update it"), (9, "this build supports up to 3")] {
        let sql = rusqlite::Connection::open(&db).unwrap();
        sql.pragma_update(None, "user_version", version).unwrap();
        drop(sql);
        let ended = tree(&run);
        assert_eq!(ended.code, Some(1), "version {version}");
        assert!(ended.err.contains(&format!("has schema version {version}; {what}")), "{}", ended.err);
    }
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(run.join(format!("legion.db{suffix}")));
    }
    std::fs::write(&db, "this is no database, but it is long enough to be looked at").unwrap();
    let ended = tree(&run);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("legion ledger at ") && ended.err.contains("cannot be opened"), "{}", ended.err);
}
