//! Waiting, interruption, take-downs and the end of the session.

use host_abi::AbiError;

use super::*;
use crate::{
    core::{events::EventType, outcome::ExecutionStatus},
    ledger::events::last_of_node,
    runs::ChildState,
    supervisor::fake::{OnPrompt, assistant, user},
};

fn cancelled_cx() -> (CallCx, CancellationToken) {
    let cancel = CancellationToken::new();
    (CallCx { cancel: cancel.clone(), ..cx() }, cancel)
}

fn collect(name: &str, timeout_ms: Option<u64>) -> Command {
    Command::Collect(Collect { names: vec![name.into()], timeout_ms, page: None })
}

/// ORC-81 … ORC-88, part of 03-T12: the deadline while the transcript grows, and while it does not; a transient failure and its
/// recovery; the second collect is the same round.
#[tokio::test(start_paused = true)]
async fn a_collect_deadline_kills_nobody() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    let child = world.fake.prompted("w").await;

    let before = tokio::time::Instant::now();
    let report = root.go(collect("w", Some(60_000))).await;
    assert_eq!(before.elapsed(), 61 * SECOND, "one period, and the look at growth");
    assert_eq!(lines(&report), ["running w (collect deadline reached; the child is still running)"]);
    assert!(report.timed_out && !report.interrupted);
    let Item::Running(snapshot) = &report.items[0] else { panic!() };
    // `extend` and `steer` are not in this build: what is offered is what is taken.
    assert_eq!(snapshot.decisions, [report::Decision::Stop, report::Decision::ForceStop]);
    assert_eq!(snapshot.extend_ms, 1_800_000);

    // Growing: three periods at most.
    let before = tokio::time::Instant::now();
    let (report, ()) = tokio::join!(root.go(collect("w", Some(10_000))), async {
        for _ in 0..100 {
            tokio::time::sleep(SECOND / 2).await;
            child.append(&user("more"));
        }
    });
    assert!(report.timed_out);
    assert_eq!(before.elapsed().as_secs(), 50);
    let run = root.run.get().unwrap();
    assert_eq!(run.store.child("w").unwrap().round, 0);
    assert!(!run.dir.artifacts("w").exists() && world.fake.living() == ["w"]);

    // A lost connection that the host tries again is no end.
    child.append(&assistant("", "error", Some("fetch failed")));
    world.host.answer::<host_abi::ops::GetChildStats>(|_, _| {
        Ok(host_abi::ops::ChildStats { idle: false, ..Default::default() })
    });
    child.idle();
    let (report, ()) = tokio::join!(root.go(collect("w", None)), async {
        tokio::time::sleep(5 * SECOND).await;
        child.append(&assistant("recovered", "stop", None));
        world.host.answer::<host_abi::ops::GetChildStats>(|_, _| {
            Ok(host_abi::ops::ChildStats { idle: true, ..Default::default() })
        });
    });
    assert_eq!(lines(&report), ["success w r1: recovered"]);
    assert!(settled(&report, 0).first_delivery);
    let again = root.go(collect("w", None)).await;
    assert_eq!(lines(&again), ["success w r1: recovered"]);
    assert!(!settled(&again, 0).first_delivery);
    assert_eq!(run.store.child("w").unwrap().round, 1);
}

/// ORC-92
#[tokio::test]
async fn two_collects_of_one_child_share_one_collection() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    let (one, two, ()) = tokio::join!(root.collect_one("w"), root.collect_one("W"), async {
        let child = world.fake.prompted("w").await;
        settle_tasks().await;
        child.reply("once");
    });
    assert_eq!((lines(&one), lines(&two)), (vec!["success w r1: once".into()], vec!["success w r1: once".to_owned()]));
    assert!(settled(&one, 0).first_delivery != settled(&two, 0).first_delivery);
    assert_eq!(*world.told.lock().unwrap(), ["w"]);
}

/// ORC-97 … ORC-104, part of 03-T14
#[tokio::test]
async fn an_interruption_ends_the_waiting_only() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("a")), item("worker", Some("b"))]).await;
    world.fake.prompted("a").await.reply("a is done");
    root.collect_one("a").await;

    let wait = Command::Wait(Wait { names: vec!["a".into(), "b".into()], timeout_ms: None });
    let vexillatio = Launch {
        dispatch: Dispatch::Vexillatio,
        items: vec![item("scout", Some("v"))],
        run_async: Some(false),
        timeout_ms: None,
    };
    let inline = Launch { run_async: Some(false), ..launch(vec![item("worker", Some("c"))]) };
    let calls = [wait, collect("b", None), Command::Launch(inline), Command::Launch(vexillatio)];
    for (n, call) in calls.into_iter().enumerate() {
        let (cx, cancel) = cancelled_cx();
        let (report, ()) = tokio::join!(root.run(call, &cx), async {
            match n {
                2 => drop(world.fake.prompted("c").await),
                3 => drop(world.fake.prompted("v").await),
                _ => {}
            }
            settle_tasks().await;
            cancel.cancel();
        });
        assert!(report.interrupted && !report.timed_out, "{n}");
        let still: &[&str] = match n {
            0 | 1 => &["b"],
            2 => &["c"],
            _ => &["v"],
        };
        assert_eq!(report.still_running, still);
        if n == 0 {
            assert_eq!(lines(&report), ["success a r1: a is done"]);
        }
        // Already cancelled: nothing is looked at.
        let report = root.run(collect("b", None), &cx).await;
        assert!(report.interrupted && report.items.is_empty());
    }
    assert_eq!(world.fake.living(), ["b", "c", "v"]);
    assert_eq!(world.mail.open(), 0);
    // The watches go on: later ends are told once each, and collected.
    world.told.lock().unwrap().clear();
    for name in ["b", "c", "v"] {
        world.fake.get(name).unwrap().reply("late");
        assert_eq!(lines(&root.collect_one(name).await), [format!("success {name} r1: late")]);
    }
    assert_eq!(*world.told.lock().unwrap(), ["b", "c", "v"]);
}

/// ORC-98: a launch on its way goes on in the background.
#[tokio::test]
async fn an_interrupted_launch_goes_on() {
    let world = World::new();
    let root = world.root();
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let (cx, cancel) = cancelled_cx();
    let (report, ()) = tokio::join!(root.run(Command::Launch(launch(vec![item("worker", Some("w"))])), &cx), async {
        world.host.until("child.prompt", 1).await;
        cancel.cancel();
    });
    assert!(report.interrupted);
    assert_eq!(report.still_running, ["w"]);
    assert_eq!(root.look().children[0].state, "launching");
    let child = world.fake.get("w").unwrap();
    child.answer_prompt(Ok(()));
    let (report, ()) = tokio::join!(root.collect_one("w"), async {
        root.kids.get("w").unwrap().until(|stage| stage.life == kid::Life::Live).await;
        child.reply("done");
    });
    assert_eq!(lines(&report), ["success w r1: done"]);
}

/// ORC-93, ORC-94, ORC-96, 03-T15
#[tokio::test(start_paused = true)]
async fn wait_covers_all_or_the_named_and_ends_early_on_mail() {
    let world = World::new();
    let root = world.root();
    assert_eq!(root.wait_all().await.body, report::Body::NothingToWaitFor);
    root.start_async(vec![item("worker", Some("a")), item("worker", Some("b")), item("worker", Some("c"))]).await;
    let child = |name: &str| world.fake.get(name).unwrap();

    let (report, ()) =
        tokio::join!(root.go(Command::Wait(Wait { names: vec!["A".into()], timeout_ms: None })), async {
            settle_tasks().await;
            child("a").reply("a");
        });
    assert_eq!(lines(&report), ["success a r1: a"]);

    // Timeout: the decisions, and no failure.
    let report = root.go(Command::Wait(Wait { names: vec![], timeout_ms: Some(5_000) })).await;
    assert!(report.timed_out);
    assert_eq!(report.items.len(), 2);
    assert!(report.items.iter().all(|item| matches!(item, Item::Running(_))));
    assert_eq!(world.mail.open(), 0);

    // Mail: what is there, who still runs, and the hold released.
    let (report, ()) = tokio::join!(root.wait_all(), async {
        settle_tasks().await;
        assert_eq!(world.mail.open(), 1);
        child("b").reply("b");
        root.kids.get("b").unwrap().until_done().await;
        world.mail.put("which file?");
    });
    assert_eq!(lines(&report), ["success b r1: b"]);
    assert_eq!((report.mail.len(), report.still_running.clone()), (1, vec!["c".to_owned()]));
    assert!(!report.timed_out && !report.interrupted);
    assert_eq!(world.mail.open(), 0);
    assert_eq!(*world.mail.returned.lock().unwrap(), ["call"]);

    let unknown = root.go(Command::Wait(Wait { names: vec!["cc".into()], timeout_ms: None })).await;
    assert_eq!(lines(&unknown), ["x cc: unknown child 'cc'; known: c, a, b"]);
    let (report, ()) = tokio::join!(root.wait_all(), async {
        settle_tasks().await;
        child("c").reply("c");
    });
    assert_eq!(lines(&report), ["success c r1: c"]);
    assert_eq!(root.wait_all().await.body, report::Body::NothingToWaitFor);
}

/// LINE-10
#[tokio::test(start_paused = true)]
async fn a_blocking_call_tells_its_progress_once_a_second() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let cx = CallCx { progress: Arc::new(move |progress| sink.lock().unwrap().push(progress)), ..cx() };
    root.run(Command::Wait(Wait { names: vec![], timeout_ms: Some(3_500) }), &cx).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[0].targets[0].name.as_str(), seen[0].targets[0].state.as_str()), ("w", "working"));
}

/// ORC-73, ORC-113, ORC-116, ORC-118, ORC-120, LED-75, NTC-13, part of 03-T18
#[tokio::test]
async fn a_stop_wins_over_a_wait_and_leaves_no_result() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("a")), item("worker", Some("b")), item("worker", Some("c"))]).await;
    world.fake.prompted("a").await.reply("kept");
    root.collect_one("a").await;

    let (waited, stopped) = tokio::join!(root.collect_one("b"), async {
        settle_tasks().await;
        root.stop(&["b"]).await
    });
    assert_eq!(lines(&stopped), ["down b Stopped also []"]);
    assert_eq!(lines(&waited), ["aborted b r0: "]);
    assert_eq!(settled(&waited, 0).reason.as_deref(), Some("child retired"));
    assert_eq!(root.status_of("root/b"), "retired");
    let run = root.run.get().unwrap();
    let record = run.store.child("b").unwrap();
    assert_eq!((record.state, record.round, record.retired_at.is_some()), (ChildState::Retired, 0, true));
    assert!(run.dir.session_file("b").exists() && !run.dir.artifacts("b").exists());
    assert!(run.db.undelivered("root").unwrap().iter().all(|owed| owed.artifact.name != "b"));

    // Of a finished child a retire is a no-op, and its status stays (ORC-113).
    let retire = |names: Vec<String>| {
        Command::TakeDown(TakeDown { target: Target::Names(names), wording: TakeDownWording::Retire, force: false })
    };
    let report = root.go(retire(vec!["a".into(), "b".into(), "ghost".into()])).await;
    assert_eq!(
        lines(&report),
        [
            "down a AlreadyRetired also []",
            "down b AlreadyRetired also []",
            "x ghost: unknown child 'ghost'; known: a, b, c"
        ]
    );
    assert_eq!(root.status_of("root/a"), "settled");
    let all = TakeDown { target: Target::All, wording: TakeDownWording::Stop, force: true };
    assert_eq!(lines(&root.go(Command::TakeDown(all.clone())).await), ["down c ForceStopped also []"]);
    assert_eq!(lines(&root.go(Command::TakeDown(all)).await), Vec::<String>::new());
    assert!(world.fake.living().is_empty());
    assert_eq!(world.shared.pool.active(), 0);
    let events = run.db.read(|conn| last_of_node(conn, "root/c", 10)).unwrap();
    assert_eq!(events.iter().filter(|event| event.kind == EventType::NodeRetired).count(), 1);
}

/// ORC-179, part of 03-T31: a stop during a slow acceptance, and between two candidates.
#[tokio::test(start_paused = true)]
async fn a_stop_cancels_a_launch_on_its_way() {
    let world = World::new();
    world.card("flaky", "model: fake/first\nfallbackModels: [fake/second, fake/third]");
    let root = world.root();
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let spawn = |name: &'static str| {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.start_async(vec![item("flaky", Some(name))]).await })
    };
    let slow = spawn("slow");
    world.host.until("child.prompt", 1).await;
    assert_eq!(lines(&root.stop(&["slow"]).await), ["down slow Stopped also []"]);
    assert_eq!(lines(&slow.await.unwrap()), ["x slow: stopped before it started"]);
    assert_eq!((root.status_of("root/slow").as_str(), world.shared.pool.active()), ("retired", 0));
    assert_eq!(root.run.get().unwrap().store.child("slow").unwrap().state, ChildState::Retired);
    assert!(world.fake.living().is_empty());

    // The first candidate is being rolled back when the stop comes: no further attempt.
    world.fake.plan(|_| Plan {
        prompt: OnPrompt::Fail(AbiError::host("no key")),
        dispose_hangs: true,
        ..Plan::default()
    });
    let between = spawn("between");
    world.host.until("child.dispose", 2).await;
    assert_eq!(lines(&root.stop(&["between"]).await), ["down between Stopped also []"]);
    assert_eq!(lines(&between.await.unwrap()), ["x between: stopped before it started"]);
    assert_eq!(world.host.calls(Some("child.prompt")).len(), 2);
    assert_eq!(root.status_of("root/between"), "retired");

    // A name that was used before is as it was.
    replies(&world.fake);
    root.start_sync(vec![item("worker", Some("old"))]).await;
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let again = {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.start_async(vec![item("worker", Some("old"))]).await })
    };
    world.host.until("child.prompt", 4).await;
    root.stop(&["old"]).await;
    assert_eq!(lines(&again.await.unwrap()), ["x old: stopped before it started"]);
    assert_eq!((root.status_of("root/old").as_str(), world.shared.pool.active()), ("settled", 0));
    assert_eq!(root.book().spawned, 1);
}

/// ORC-114, part of 03-T19: the slot and the name are free when the collect returns.
#[tokio::test]
async fn a_collect_frees_slot_and_name_before_it_returns() {
    let world = World::new();
    let root = world.root();
    replies(&world.fake);
    for round in 0..5 {
        let report = root.start_sync((0..8).map(|_| item("scout", None)).collect()).await;
        assert!(report.items.iter().all(|item| matches!(item, Item::Settled(_))), "{round}: {:?}", lines(&report));
    }
    assert_eq!((world.shared.pool.active(), world.fake.living().len()), (0, 0));
    assert_eq!(root.look().live(), 0);
}

/// ORC-167, ORC-168, ORC-180, part of 03-T25, part of 03-T35
#[tokio::test(start_paused = true)]
async fn a_shutdown_drains_then_retires_and_starts_nothing_more() {
    let world = World::new();
    let root = world.root();
    let mut patient = launch(vec![item("worker", Some("quick")), item("worker", Some("slow"))]);
    patient.timeout_ms = Some(60_000);
    root.go(Command::Launch(patient)).await;
    let cut = CancellationToken::new();
    let ((), ()) = tokio::join!(root.shutdown(Drain::Until { cut: cut.clone() }), async {
        tokio::time::sleep(SECOND).await;
        world.fake.get("quick").unwrap().reply("in time");
        root.kids.get("quick").unwrap().until_done().await;
        tokio::time::sleep(SECOND).await;
        cut.cancel();
    });
    assert_eq!((root.status_of("root/quick"), root.status_of("root/slow")), ("settled".into(), "retired".into()));
    assert_eq!(root.status_of("root"), "settled");
    let printed = world.host.calls(Some("print"));
    assert_eq!(printed[0].input["line"], "legion: drain ended; retiring 1 children (slow)");
    assert!(world.fake.living().is_empty());
    let refused = root.start_async(vec![item("worker", None)]).await.refused.unwrap();
    assert_eq!((refused.code, refused.message.as_str()), (Code::Disabled, "session is shutting down"));
    let record = std::fs::read_to_string(root.run_dir().unwrap().join("run.json")).unwrap();
    assert!(record.contains("\"closedAt\"") && record.contains("\"retired\""));
}

/// ORC-180: a launch on its way is cancelled, and nobody lives afterwards.
#[tokio::test]
async fn a_launch_that_races_with_the_shutdown_does_not_live() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("live"))]).await;
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let launching = {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.start_async((0..4).map(|_| item("worker", None)).collect()).await })
    };
    world.host.until("child.prompt", 5).await;
    root.shutdown(Drain::Skip).await;
    let report = launching.await.unwrap();
    assert!(lines(&report).iter().all(|line| line.ends_with("stopped before it started")), "{:?}", lines(&report));
    assert!(world.fake.living().is_empty());
    assert_eq!((world.shared.pool.active(), root.look().live()), (0, 0));
}

/// ORC-183, part of 03-T38: a launch of a name whose take-down runs waits for its end.
#[tokio::test(start_paused = true)]
async fn a_name_waits_for_the_end_of_its_take_down() {
    let world = World::new();
    let root = world.root();
    world.fake.plan(|_| Plan { dispose_hangs: true, ..Plan::default() });
    root.start_async(vec![item("worker", Some("w"))]).await;
    let first = world.fake.prompted("w").await;
    let stopping = {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.stop(&["w"]).await })
    };
    root.kids.get("w").unwrap().until(|stage| stage.life == kid::Life::Ending).await;
    world.fake.plan(|_| Plan::default());
    let report = root.start_async(vec![item("worker", Some("w"))]).await;
    assert_eq!(lines(&report), ["> w (worker)"]);
    assert_eq!(lines(&stopping.await.unwrap()), ["down w Stopped also []"]);
    let second = world.fake.get("w").unwrap();
    assert_ne!(first.id, second.id);
    second.reply("second life");
    assert_eq!(lines(&root.collect_one("w").await), ["success w r1: second life"]);
}

/// ORC-182, part of 03-T37: a text to a child whose turn has just ended waits for the record.
#[tokio::test]
async fn mail_to_a_child_waits_for_the_record_of_its_turn() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    let child = world.fake.prompted("w").await;
    assert_eq!(root.deliver("w", "a mail").await.unwrap(), crate::supervisor::Disposition::Queued);
    assert_eq!(child.prompts(), ["work as worker", "a mail"]);
    assert_eq!(root.live_children().len(), 1);
    child.reply("the first result");
    let late = root.deliver("w", "too late").await.unwrap_err();
    assert_eq!(late.message, "child 'w' is not running; use continue to resume it");
    assert_eq!(lines(&root.collect_one("w").await), ["success w r1: the first result"]);
    assert_eq!(root.deliver("x", "y").await.unwrap_err().code, Code::NotFound);
    assert_eq!(child.prompts().len(), 2);
}

/// SUP-44, ORC-108: a turn that failed after acceptance is a failed child with the reason of its settle.
#[tokio::test]
async fn a_broken_turn_is_a_failed_result() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    let child = world.fake.prompted("w").await;
    child.append(&assistant("half of it", "error", Some("the stream broke")));
    child.fail_wait(AbiError::host("the stream broke"));
    let report = root.collect_one("w").await;
    assert_eq!(lines(&report), ["failed w r1: half of it"]);
    let reason = settled(&report, 0).reason.clone().unwrap();
    assert_eq!(reason, "the stream broke; child turn failed: the stream broke");
    assert_eq!(root.status_of("root/w"), "failed");
    assert_eq!(settled(&report, 0).status, ExecutionStatus::Failed);
    assert!(world.fake.living().is_empty());
}

/// SUP-3: a child whose session vanished is recorded from its transcript, and holds nothing.
#[tokio::test]
async fn a_vanished_child_is_judged_by_its_transcript() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    world.fake.prompted("w").await.fail_wait(AbiError::no_child("child-0"));
    let report = root.collect_one("w").await;
    assert_eq!(lines(&report), ["aborted w r1: "]);
    assert!(settled(&report, 0).reason.as_deref().unwrap().starts_with("missing reply; child session ended"));
    assert_eq!((root.status_of("root/w").as_str(), world.shared.pool.active()), ("retired", 0));
    assert_eq!(root.look().live(), 0);
}
