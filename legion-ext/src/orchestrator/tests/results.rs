//! Outcomes, records, results, status, and runs that are opened again.

use serde_json::json;

use super::*;
use crate::{
    cards::{AcceptanceLevel, AcceptanceSpec, Criterion, Evidence},
    core::{events::EventType, liveness::Liveness, outcome::ExecutionStatus},
    ledger::{artifacts, events::last_of_node, usage},
    runs::{ChildState, RunRecord},
    supervisor::fake::{append, assistant, user},
};

fn page(name: &str, offset: u64, limit: u64) -> Command {
    Command::Collect(Collect {
        names: vec![name.into()],
        timeout_ms: None,
        page: Some(command::Page { offset, limit }),
    })
}

/// ORC-110, ORC-154, ORC-155, LED-39, LED-74, part of 03-T11
#[tokio::test]
async fn an_outcome_becomes_status_event_usage_and_result() {
    let world = World::new();
    let root = world.root();
    let rows = [
        ("ok", assistant("fine", "stop", None), ExecutionStatus::Success, "settled", EventType::NodeSettled),
        ("cut", assistant("half", "length", None), ExecutionStatus::Truncated, "failed", EventType::NodeFailed),
        ("err", assistant("", "error", Some("bad request")), ExecutionStatus::Failed, "failed", EventType::NodeFailed),
        ("esc", assistant("", "aborted", None), ExecutionStatus::Aborted, "retired", EventType::NodeRetired),
        ("odd", assistant("?", "sensitive", None), ExecutionStatus::Unknown, "retired", EventType::NodeRetired),
    ];
    for (name, entry, status, row, event) in rows {
        root.start_async(vec![item("worker", Some(name))]).await;
        world.fake.prompted(name).await.end(&entry);
        let report = root.collect_one(name).await;
        let settled = settled(&report, 0);
        assert_eq!((settled.status, settled.round), (status, 1), "{name}");
        assert_eq!((settled.usage.input, settled.usage.output, settled.usage.cost_usd), (10, 5, 0.2));
        let id = format!("root/{name}");
        assert_eq!(root.status_of(&id), row, "{name}");
        let db = root.ledger().unwrap();
        let events = db.read(|conn| last_of_node(conn, &id, 10)).unwrap();
        let ends: Vec<_> = events.iter().filter(|e| e.kind != EventType::NodeLaunched).collect();
        assert_eq!((ends.len(), ends[0].kind), (1, event));
        assert_eq!(ends[0].data["round"], json!(1));
        let total = db.read(|conn| usage::get(conn, &id)).unwrap();
        assert_eq!((total.tokens_in, total.tokens_out), (10, 5));
        let artifact = settled.artifact.clone().unwrap();
        assert_eq!(std::fs::read_to_string(&artifact.path).unwrap(), settled.text);
        assert_eq!(mode(&artifact.path), 0o600);
        assert!(artifact.id.is_some());
    }
    let owed: Vec<String> =
        root.ledger().unwrap().undelivered("root").unwrap().into_iter().map(|owed| owed.artifact.name).collect();
    assert_eq!(owed, ["ok", "cut", "err", "esc", "odd"]);
}

/// ORC-90, ORC-91, CAP-5, CAP-6, LED-76, part of 03-T21
#[tokio::test]
async fn a_long_result_is_read_page_by_page() {
    let world = World::new();
    let root = world.root();
    let text: String = (0..10_000).map(|n| format!("{n} é\n")).collect();
    let said = text.clone();
    world.fake.plan(move |_| Plan::replies(&said));
    root.start_sync(vec![item("worker", Some("w"))]).await;
    let (mut read, mut offset) = (String::new(), 0);
    let artifact = loop {
        let report = root.go(page("w", offset, 5_000)).await;
        let report::Body::Page { text, from, to, total, read: mark, .. } = report.body else { panic!("{report:?}") };
        let mark = mark.unwrap();
        assert_eq!((mark.from, mark.to), (from, to));
        read.push_str(&text);
        offset = to;
        if to == total {
            break mark.artifact;
        }
    };
    assert_eq!(read, text);
    let db = root.ledger().unwrap();
    assert_eq!(db.undelivered("root").unwrap().len(), 1, "a page is read when the host took it, not when it was made");
    db.write(|tx| artifacts::record_read(tx, artifact, "root", 0, text.len() as u64, 1)).unwrap();
    assert!(db.undelivered("root").unwrap().is_empty());
    let end = root.go(page("w", 1 << 40, 10)).await;
    assert!(matches!(end.body, report::Body::Page { from, to, total, .. } if from == to && to == total));
    // Nothing of it starts another round.
    assert_eq!(root.run.get().unwrap().store.child("w").unwrap().round, 1);

    world.fake.plan(|_| Plan::default());
    root.start_async(vec![item("worker", Some("x"))]).await;
    root.stop(&["x"]).await;
    let none = root.go(page("x", 0, 10)).await.refused.unwrap();
    assert_eq!(none.message, "child 'x' has no stored result");
}

/// ORC-109, CARD-49, part of 03-T27
#[tokio::test]
async fn an_empty_report_is_asked_for_once() {
    let world = World::new();
    world.card("quiet", "completionGuard: false");
    let root = world.root();
    root.start_async(vec![item("worker", Some("late")), item("worker", Some("mute")), item("quiet", Some("q"))]).await;
    let late = world.fake.prompted("late").await;
    late.reply("");
    until_prompts(&late, 2).await;
    assert_eq!(late.prompts()[1], watch::ASK_FOR_REPORT);
    late.reply("here it is");
    assert_eq!(lines(&root.collect_one("late").await), ["success late r1: here it is"]);

    let mute = world.fake.prompted("mute").await;
    mute.reply("");
    until_prompts(&mute, 2).await;
    mute.reply(" ");
    let report = root.collect_one("mute").await;
    assert_eq!((settled(&report, 0).status, settled(&report, 0).round), (ExecutionStatus::Success, 1));
    assert_eq!(settled(&report, 0).warnings, ["reported nothing"]);
    assert_eq!(mute.prompts().len(), 2);

    let quiet = world.fake.prompted("q").await;
    quiet.reply("");
    let report = root.collect_one("q").await;
    assert_eq!((settled(&report, 0).warnings.len(), quiet.prompts().len()), (0, 1));
}

async fn until_prompts(child: &FakeChild, n: usize) {
    while child.prompts().len() < n {
        tokio::task::yield_now().await;
    }
}

/// ORC-137, ORC-138, ORC-142, PHM-44, part of 03-T17
#[tokio::test]
async fn the_verdict_decides_the_acceptance() {
    let world = World::new();
    let root = world.root();
    let criterion = Criterion {
        id: "c1".into(),
        text: "tests pass".into(),
        evidence: Evidence::VerificationOutput,
        command: Some("cargo test".into()),
        required: true,
    };
    let mut asked = item("worker", Some("a"));
    asked.acceptance = Some(AcceptanceSpec { level: AcceptanceLevel::Verified, role: None, criteria: vec![criterion] });
    world.fake.plan(|spec| match spec.name.as_str() {
        "a" => Plan::replies("done\n```json\n{\"ok\": true}\n```"),
        "b" => Plan::replies("{\"ok\": false, \"reason\": \"red\"}"),
        _ => Plan::replies("looks good"),
    });
    let report = root
        .start_sync(vec![asked, item("worker", Some("b")), item("worker", Some("c")), item("scout", Some("d"))])
        .await;
    let of = |at: usize| {
        let acceptance = settled(&report, at).acceptance.clone()?;
        Some((acceptance.level, acceptance.status, acceptance.pending))
    };
    assert_eq!(of(0), Some(("attested", "accepted", vec!["tests pass".into()])));
    assert_eq!(of(1), Some(("attested", "rejected", vec![])));
    assert_eq!(of(2), Some(("attested", "pending", vec![])));
    assert_eq!(of(3), None);
    assert_eq!(settled(&report, 1).verdict, Some(false));
    assert!(!root.run.get().unwrap().store.child("b").unwrap().verdict.unwrap().ok);
    assert_eq!(root.status_of("root/b"), "settled");
}

/// CARD-29, ORC-157, part of 03-T30
#[tokio::test]
async fn an_output_is_copied_and_never_leaves_the_run() {
    let world = World::new();
    world.card("writer", "output: plan.md");
    let root = world.root();
    replies(&world.fake);
    root.start_sync(vec![item("writer", Some("w"))]).await;
    let out = root.run_dir().unwrap().join("out/plan.md");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "w is done");
    std::fs::remove_file(&out).unwrap();
    std::os::unix::fs::symlink(world.dir.path().join("elsewhere"), &out).unwrap();
    let report = root.start_sync(vec![item("writer", Some("x"))]).await;
    assert!(settled(&report, 0).warnings[0].contains("leads out of the run directory"));
    assert!(!world.dir.path().join("elsewhere").exists());
}

/// ORC-158, CAP-7: a result that cannot be written is returned all the same, and its round is not used up.
#[tokio::test]
async fn a_result_that_cannot_be_saved_is_not_lost() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    std::fs::write(root.run_dir().unwrap().join("artifacts"), "in the way").unwrap();
    world.fake.prompted("w").await.reply("precious");
    let report = root.collect_one("w").await;
    assert_eq!(lines(&report), ["success w r0: precious"]);
    assert!(settled(&report, 0).unsaved.is_some() && settled(&report, 0).artifact.is_none());
    assert_eq!(root.status_of("root/w"), "settled");
}

/// ORC-71, ORC-6, LED-71, STA-2 … STA-8
#[tokio::test]
async fn status_tells_live_and_dead_apart_and_changes_nothing() {
    let world = World::new();
    let root = world.root();
    assert_eq!(root.look(), Projection { all: true, ..Projection::default() });
    root.start_async(vec![item("worker", Some("a")), item("scout", Some("b"))]).await;
    world.fake.prompted("a").await.reply("done");
    root.collect_one("a").await;
    let calls = world.host.calls(None).len();
    let look = root.look();
    let facts: Vec<_> = look
        .children
        .iter()
        .map(|child| {
            (child.name.as_str(), child.state.as_str(), child.liveness, child.delivered, child.supervisor.as_str())
        })
        .collect();
    assert_eq!(
        facts,
        [("a", "settled", Liveness::Dead, false, "inprocess"), ("b", "working", Liveness::Live, false, "inprocess")]
    );
    assert_eq!(look.live(), 1);
    assert_eq!((look.children[0].execution, look.children[0].round), (Some(ExecutionStatus::Success), 1));
    assert_eq!(look.children[1].model.as_deref(), Some("fake/parent"));
    assert_eq!((look.children[0].usage.input, look.children[0].usage.output), (10, 5));
    let tree: Vec<_> = look.tree.iter().map(|node| (node.id.as_str(), node.state.as_str())).collect();
    assert_eq!(tree, [("root", "running"), ("root/a", "settled"), ("root/b", "running")]);
    for _ in 0..100 {
        assert_eq!(root.look().tree, look.tree);
    }
    assert_eq!(world.host.calls(None).len(), calls);

    let query = StatusQuery { name: Some("A".into()), transcript_lines: Some(5), ..StatusQuery::default() };
    let one = root.project(&query).unwrap();
    assert!(one.single && one.children.len() == 1);
    assert_eq!(one.transcript.unwrap(), ["user: work as worker", "assistant: done"]);
    let unknown = root.project(&StatusQuery { name: Some("c".into()), ..StatusQuery::default() }).unwrap_err();
    assert_eq!((unknown.code, unknown.message.as_str()), (Code::NotFound, "unknown child 'c'; known: a, b"));
}

/// CMD-10
#[tokio::test]
async fn a_list_has_the_roles_and_the_children() {
    let world = World::new();
    world.card("off", "disabled: true");
    world.card("mine", "model: fake/big:high");
    std::fs::write(world.project().join(".pi/agents/bad.md"), "---\nname: bad\nshade: blue\n---\n").unwrap();
    let root = world.root();
    root.start_async(vec![item("scout", Some("s"))]).await;
    let list = |scope| root.go(Command::List(command::ListQuery { scope }));
    let report::Body::Roles { roles, children, broken, team } = list(command::CardScope::Both).await.body else {
        panic!()
    };
    let names: Vec<_> = roles.iter().map(|role| (role.name.as_str(), role.source)).collect();
    assert_eq!(names, [("centurion", "bundled"), ("mine", "project"), ("scout", "bundled"), ("worker", "bundled")]);
    assert_eq!((roles[1].model.as_str(), roles[1].model_source), ("fake/big:high", Some("frontmatter")));
    assert_eq!(roles[2].flags, ["utility", "read-only"]);
    assert_eq!((children[0].name.as_str(), broken.len(), team.as_str()), ("s", 1, "default"));
    let report::Body::Roles { roles, .. } = list(command::CardScope::Project).await.body else { panic!() };
    assert_eq!(roles.len(), 1);
}

/// ORC-172, ORC-122, CLI-2, part of 03-T33
#[test]
fn a_run_of_a_dead_process_is_taken_over() {
    let world = World::new();
    // The runtime dies with its watches, as with a process that is killed.
    let process = tokio::runtime::Runtime::new().unwrap();
    let dir = process.block_on(leave_three_behind(&world));
    drop(process);
    let mut record: RunRecord = serde_json::from_slice(&std::fs::read(dir.join("run.json")).unwrap()).unwrap();
    record.owner.pid = u32::MAX - 1;
    std::fs::write(dir.join("run.json"), serde_json::to_vec(&record).unwrap()).unwrap();

    // From outside: ended results are there, the rest has a dead owner.
    let outside = outside::project(&dir).unwrap();
    let states: Vec<_> =
        outside.children.iter().map(|child| (child.name.as_str(), child.state.as_str(), child.liveness)).collect();
    assert_eq!(
        states,
        [("told", "settled", Liveness::Dead), ("ended", "failed", Liveness::Dead), ("cut", "failed", Liveness::Dead)]
    );
    assert_eq!(outside.children[1].owner, report::Owner::PidGone);
    assert_eq!(outside.tree.len(), 4);
    assert_eq!(outside.tree[0].liveness, Liveness::Dead);

    let world = World { dir: world.dir, ..World::new() };
    tokio::runtime::Runtime::new().unwrap().block_on(find_them_again(&world, &dir));
}

/// One child whose result was recorded, one whose turn ended unrecorded, one in the middle of its work.
async fn leave_three_behind(world: &World) -> PathBuf {
    let root = world.root();
    root.start_async(vec![item("worker", Some("told")), item("worker", Some("ended")), item("worker", Some("cut"))])
        .await;
    world.fake.prompted("told").await.reply("told");
    root.collect_one("told").await;
    // Its last turn ended, and nobody recorded it.
    append(&world.fake.get("ended").unwrap().session_file(), &assistant("finished just in time", "stop", None));
    append(&world.fake.get("cut").unwrap().session_file(), &user("and then"));
    let run = root.run.get().unwrap();
    run.store.flush().unwrap();
    run.dir.path().to_owned()
}

async fn find_them_again(world: &World, dir: &Path) {
    let root = world.root();
    root.recover().await;
    assert_eq!(root.run_dir().unwrap(), dir);
    let report = root.go(Command::Collect(Collect {
        names: vec!["told".into(), "ended".into(), "cut".into()],
        timeout_ms: None,
        page: None,
    }));
    assert_eq!(
        lines(&report.await),
        ["success told r1: told", "success ended r1: finished just in time", "aborted cut r0: "]
    );
    assert_eq!(root.status_of("root/ended"), "settled");
    assert_eq!(root.status_of("root/cut"), "failed");
    assert_eq!(root.run.get().unwrap().store.child("cut").unwrap().state, ChildState::Exited);
    let owed: Vec<_> = root.ledger().unwrap().undelivered("root").unwrap();
    assert_eq!(owed.len(), 2);
    let notice = root.recorded(&owed[1].artifact).unwrap();
    assert_eq!((notice.name.as_str(), notice.text.as_str()), ("ended", "finished just in time"));
    // Slots and names: the dead hold no slot, and their names go on.
    assert_eq!(root.look().live(), 0);
    assert_eq!(lines(&root.start_async(vec![item("worker", Some("cut"))]).await), ["> cut (worker)"]);
    world.fake.prompted("cut").await.reply("second try");
    assert_eq!(lines(&root.collect_one("cut").await), ["success cut r1: second try"]);
}

/// ORC-181, part of 03-T33: of two sessions on one transcript one takes the run, and the other says so.
#[tokio::test]
async fn a_run_that_is_held_is_left_alone() {
    let world = World::new();
    let one = world.root();
    one.start_async(vec![item("worker", Some("w"))]).await;
    let two = world.root();
    two.start_async(vec![item("worker", Some("w"))]).await;
    assert_ne!(one.run_id(), two.run_id());
    let printed: Vec<_> = world.host.calls(Some("print"));
    let line = printed[0].input["line"].as_str().unwrap();
    let (first, second) = (one.run_id().unwrap(), two.run_id().unwrap());
    assert_eq!(
        line,
        format!("legion: run {first} is in use by pid {}; this session uses run {second}", std::process::id())
    );
}
