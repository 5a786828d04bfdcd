//! Children that are parents.

use host_abi::events::{AgentSettled, Event};

use super::*;
use crate::core::liveness::Liveness;

const LEAD: &str = "allowNestedSubagents: true\nmaxSubagentDepth: 3";

/// 03-T26, ORC-42, ORC-46 … ORC-49, ADM-7: identity, depth and budgets per level; a utility child is a leaf.
#[tokio::test]
async fn each_level_has_its_own_place() {
    let world = World::new();
    world.card("lead", LEAD);
    world.card("second", "allowNestedSubagents: true\nmaxSubagentDepth: 9\ntoolBudget: 5");
    let root = world.root();
    root.start_async(vec![item("lead", Some("l"))]).await;
    let lead_child = world.fake.prompted("l").await;
    let lead = world.session_of(&lead_child);
    assert_eq!(lead.node_id(), "root/l");
    assert!(lead.ledger().is_some() && lead.run_id().is_none());

    let report = lead.start_async(vec![item("second", Some("x")), item("scout", Some("y"))]).await;
    assert_eq!(lines(&report), ["> x (second)", "> y (scout)"]);
    let own_run = crate::runs::child_run_id(&root.run_id().unwrap(), "root/l");
    assert_eq!(lead.run_id().unwrap(), own_run);
    assert_eq!(lead.run_dir().unwrap().parent(), root.run_dir().unwrap().parent());
    let scope = world.fake.prompted("x").await;
    let scope = scope.scope();
    assert_eq!(scope["nodeId"], "root/l/x");
    assert_eq!((scope["depth"].as_u64(), &scope["parentPath"]), (Some(2), &serde_json::json!(["root", "root/l"])));
    // A session's own depth bounds what its children may do.
    assert_eq!((scope["budget"]["maxDepth"].as_u64(), scope["budget"]["maxToolCalls"].as_u64()), (Some(3), Some(5)));
    assert_eq!(root.row("root/l/x").unwrap().depth, 2);

    let second = world.session_of(&world.fake.get("x").unwrap());
    assert_eq!(lines(&second.start_async(vec![item("scout", Some("z"))]).await), ["> z (scout)"]);
    let own = second.start_async(vec![item("second", None)]).await;
    assert_eq!(lines(&own), ["x second: a 'second' cannot dispatch its own role"]);
    // A utility child launches nothing.
    let leaf = world.session_of(&world.fake.get("y").unwrap());
    assert_eq!(leaf.start_async(vec![item("worker", None)]).await.refused.unwrap().code, Code::InvalidParams);
    let vexillatio =
        Launch { dispatch: Dispatch::Vexillatio, items: vec![item("scout", None)], run_async: None, timeout_ms: None };
    assert!(leaf.go(Command::Launch(vexillatio)).await.refused.is_some());
    // Root sees the whole tree, and every level its own part of it.
    let look = root.look();
    assert_eq!(look.live(), 1);
    assert!(look.tree.iter().all(|node| node.liveness == Liveness::Live));
    assert_eq!(
        look.tree.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(),
        ["root", "root/l", "root/l/x", "root/l/x/z", "root/l/y"]
    );
    assert_eq!(lead.look().children.len(), 2);
    // A descendant is known by its unique name or its id (ORC-15).
    let deep = root.project(&StatusQuery { name: Some("z".into()), ..StatusQuery::default() }).unwrap();
    assert_eq!((deep.children[0].node_id.as_str(), deep.children[0].liveness), ("root/l/x/z", Liveness::Live));

    // The fourth level is the last, whatever a card says; the fifth is refused by its text.
    world.card("third", "allowNestedSubagents: true\nmaxSubagentDepth: 9");
    let deep = ExtensionScope { depth: 4, ..ExtensionScope::parse(scope).unwrap() };
    let fourth = world.attach(
        "fourth",
        Identity::Child(Box::new(ExtensionScope {
            budget: Some(host_abi::scope::ChildBudget { allow_nested: true, ..Default::default() }),
            ..deep
        })),
    );
    let text =
        "subagent nesting limit reached (depth 4, max 4); raise maxSubagentDepth (at most 4) to allow deeper nesting";
    assert_eq!(lines(&fourth.start_async(vec![item("third", None)]).await), [format!("x third: {text}")]);
}

/// 04-T26, ORC-15, SUP-123: equal names under two parents.
#[tokio::test]
async fn equal_names_reach_the_right_child() {
    let world = World::new();
    world.card("lead", LEAD);
    let root = world.root();
    root.start_async(vec![item("lead", Some("a")), item("lead", Some("b"))]).await;
    let a = world.session_of(&world.fake.prompted("a").await);
    let b = world.session_of(&world.fake.prompted("b").await);
    a.start_async(vec![item("worker", Some("worker-0"))]).await;
    let under_a = world.fake.prompted("worker-0").await;
    b.start_async(vec![item("worker", Some("worker-0"))]).await;
    let under_b = world.fake.get("worker-0").unwrap();
    assert_ne!(under_a.session_file(), under_b.session_file());
    assert_eq!(world.shared.pool.active(), 4);

    a.deliver("worker-0", "for a").await.unwrap();
    b.deliver("worker-0", "for b").await.unwrap();
    assert_eq!((under_a.prompts()[1].as_str(), under_b.prompts()[1].as_str()), ("for a", "for b"));
    under_b.reply("b's result");
    assert_eq!(lines(&b.collect_one("worker-0").await), ["success worker-0 r1: b's result"]);
    assert_eq!((a.look().live(), b.look().live()), (1, 0));
    let ambiguous = root.project(&StatusQuery { name: Some("worker-0".into()), ..StatusQuery::default() }).unwrap_err();
    assert_eq!(ambiguous.message, "'worker-0' is ambiguous: root/a/worker-0, root/b/worker-0");
    assert_eq!(lines(&a.stop(&["worker-0"]).await), ["down worker-0 Stopped also []"]);
    assert_eq!(
        (root.status_of("root/a/worker-0"), root.status_of("root/b/worker-0")),
        ("retired".into(), "settled".into())
    );
    assert_eq!(world.shared.pool.active(), 2);
}

/// ORC-117, ORC-170, ORC-180, part of 03-T18: descendants first, and nobody is launched below a take-down.
#[tokio::test]
async fn a_take_down_begins_at_the_leaves() {
    let world = World::new();
    world.card("lead", LEAD);
    world.card("second", "allowNestedSubagents: true");
    let root = world.root();
    root.start_async(vec![item("lead", Some("l"))]).await;
    let lead = world.session_of(&world.fake.prompted("l").await);
    lead.start_async(vec![item("second", Some("m")), item("worker", Some("n"))]).await;
    let second = world.session_of(&world.fake.prompted("m").await);
    second.start_async(vec![item("worker", Some("o")), item("worker", Some("p"))]).await;

    // A descendant is reached by its unique name, and by its id.
    assert_eq!(lines(&root.stop(&["p"]).await), ["down p Stopped also []"]);
    assert_eq!(lines(&root.stop(&["root/l/m/q"]).await), ["x root/l/m/q: unknown child 'root/l/m/q'; known: l"]);
    let report = root.stop(&["l"]).await;
    assert_eq!(lines(&report), [r#"down l Stopped also ["o", "m", "n"]"#]);
    let disposed: Vec<String> = world
        .host
        .calls(Some("child.dispose"))
        .iter()
        .map(|call| call.input["child"].as_str().unwrap().to_owned())
        .collect();
    let place = |name: &str| disposed.iter().position(|id| *id == world.fake.get(name).unwrap().id).unwrap();
    assert!(place("o") < place("m") && place("m") < place("l") && place("n") < place("l"));
    for id in ["root/l", "root/l/m", "root/l/n", "root/l/m/o"] {
        assert_eq!(root.status_of(id), "retired");
    }
    let refused = lead.start_async(vec![item("worker", None)]).await.refused.unwrap();
    assert_eq!(refused.message, "session is shutting down");
    assert_eq!((world.shared.pool.active(), world.fake.living().len()), (0, 0));
}

/// ORC-178, part of 03-T32: an interim turn is nobody's result; the parent gets one, at the end.
#[tokio::test(start_paused = true)]
async fn a_team_gives_one_result() {
    let world = World::new();
    world.card("lead", LEAD);
    let root = world.root();
    root.start_async(vec![item("lead", Some("l"))]).await;
    let child = world.fake.prompted("l").await;
    let lead = world.session_of(&child);
    let note = |event: &Event| world.shared.activity.note(&lead.context(), event, 1);
    note(&Event::AgentStart);
    lead.start_async(vec![item("worker", Some("x")), item("worker", Some("y"))]).await;
    let waiting = {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.wait_all().await })
    };
    note(&Event::AgentSettled(AgentSettled { aborted: false }));
    child.reply("I wait for my workers");
    root.kids.get("l").unwrap().until(|stage| stage.turn == kid::Turn::Interim).await;
    assert_eq!(root.look().children[0].state, "awaiting");
    assert_eq!(root.status_of("root/l"), "running");

    for (name, last) in [("x", false), ("y", true)] {
        world.fake.get(name).unwrap().reply(&format!("{name}'s part"));
        lead.collect_one(name).await;
        // The lead's own notice wakes it, and is marked sent.
        let db = lead.ledger().unwrap();
        let owed: Vec<i64> = db.undelivered("root/l").unwrap().iter().map(|owed| owed.artifact.id).collect();
        assert_eq!(owed.len(), 1);
        child.begin_run("▣ legion · a notice");
        db.write(|tx| crate::ledger::artifacts::mark_notified(tx, &owed, "root/l", 1)).unwrap();
        note(&Event::AgentStart);
        root.kids.get("l").unwrap().until(|stage| stage.turn == kid::Turn::Working).await;
        assert!(!waiting.is_finished());
        note(&Event::AgentSettled(AgentSettled { aborted: false }));
        child.reply(if last { "the team is done" } else { "one to go" });
        if !last {
            root.kids.get("l").unwrap().until(|stage| stage.turn == kid::Turn::Interim).await;
        }
    }
    assert_eq!(lines(&waiting.await.unwrap()), ["success l r1: the team is done"]);
    assert_eq!(root.run.get().unwrap().store.child("l").unwrap().round, 1);
    assert_eq!(world.told.lock().unwrap().iter().filter(|name| *name == "l").count(), 1);
    assert_eq!(root.ledger().unwrap().undelivered("root").unwrap().len(), 1);
}

/// ORC-178: children that somebody else took down wake nobody; their parent's turn is judged all the same.
#[tokio::test(start_paused = true)]
async fn an_interim_turn_whose_work_vanished_is_judged() {
    let world = World::new();
    world.card("lead", LEAD);
    let root = world.root();
    root.start_async(vec![item("lead", Some("l"))]).await;
    let child = world.fake.prompted("l").await;
    let lead = world.session_of(&child);
    lead.start_async(vec![item("worker", Some("x"))]).await;
    child.reply("I wait");
    root.kids.get("l").unwrap().until(|stage| stage.turn == kid::Turn::Interim).await;
    lead.stop(&["x"]).await;
    assert_eq!(lines(&root.collect_one("l").await), ["success l r1: I wait"]);
}

/// SUP-8, ORC-114, LED-13 … S13: an aborted turn of a lead with live children is recorded, and the child kept.
#[tokio::test]
async fn an_aborted_lead_with_live_children_is_kept() {
    let world = World::new();
    world.card("lead", LEAD);
    let root = world.root();
    root.start_async(vec![item("lead", Some("l"))]).await;
    let child = world.fake.prompted("l").await;
    let lead = world.session_of(&child);
    lead.start_async(vec![item("worker", Some("x"))]).await;
    child.end(&crate::supervisor::fake::assistant("", "aborted", None));
    assert_eq!(lines(&root.collect_one("l").await), ["aborted l r1: "]);
    assert_eq!((root.status_of("root/l").as_str(), root.look().children[0].state.as_str()), ("retired", "idle"));
    assert_eq!(world.fake.living(), ["l", "x"]);
    // A text wakes it: the row runs again (S13), and its next turn is a round of its own.
    root.deliver("l", "go on").await.unwrap();
    root.kids.get("l").unwrap().until(|stage| stage.turn == kid::Turn::Working).await;
    lead.stop(&["x"]).await;
    child.reply("done after all");
    root.kids.get("l").unwrap().until_done().await;
    assert_eq!(lines(&root.collect_one("l").await), ["success l r2: done after all"]);
    assert_eq!(root.status_of("root/l"), "settled");
}

/// 04-T27: a child whose shutdown hangs, one in the middle of `wait`, and one in a tool call; retire is bounded.
#[tokio::test(start_paused = true)]
async fn a_retire_is_bounded_whatever_the_child_does() {
    let world = World::new();
    world.card("lead", LEAD);
    let root = world.root();
    world.fake.plan(|spec| Plan { dispose_hangs: spec.name == "hangs", ..Plan::default() });
    root.start_async(vec![item("worker", Some("hangs")), item("lead", Some("waits")), item("worker", Some("tool"))])
        .await;
    let waiting_child = world.fake.prompted("waits").await;
    let lead = world.session_of(&waiting_child);
    lead.start_async(vec![item("worker", Some("below"))]).await;
    let inner = spawn_scoped(async move { lead.wait_all().await });
    settle_tasks().await;
    let before = tokio::time::Instant::now();
    let report = root.stop(&["hangs", "waits", "tool"]).await;
    assert_eq!(
        lines(&report),
        ["down hangs Stopped also []", r#"down waits Stopped also ["below"]"#, "down tool Stopped also []"]
    );
    assert!(before.elapsed() <= crate::supervisor::in_process::DISPOSE_TIMEOUT + SECOND, "{:?}", before.elapsed());
    assert_eq!(lines(&inner.await.unwrap()), ["aborted below r0: "]);
    assert_eq!(world.shared.pool.active(), 0);
}
