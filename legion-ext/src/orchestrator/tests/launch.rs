//! Launch lines, names, gates, starts and what a child is told.

use host_abi::{AbiError, ops};
use serde_json::json;

use super::*;
use crate::{
    cards::{AcceptanceLevel, AcceptanceRole, AcceptanceSpec},
    core::events::EventType,
    ledger::events::last_of_node,
    runs::ChildState,
    supervisor::fake::OnPrompt,
};

fn refusals(root: &Orchestrator) -> usize {
    let events = root.ledger().unwrap().read(|conn| last_of_node(conn, "root", 100)).unwrap();
    events.iter().filter(|event| event.kind == EventType::BudgetRefused).count()
}

/// ORC-16 … ORC-21, 03-T1
#[tokio::test]
async fn lines_come_in_item_order_and_a_failed_item_touches_no_other() {
    let world = World::new();
    let root = world.root();
    let report = root.start_async(vec![item("worker", Some("w"))]).await;
    assert_eq!(lines(&report), ["> w (worker)"]);
    assert!(report.background && report.refused.is_none() && report.run_id.is_some());
    assert_eq!((started(&report, 0).supervisor, started(&report, 0).node_id.as_str()), ("inprocess", "root/w"));

    world.fake.plan(|spec| match spec.name.as_str() {
        "b" => Plan { prompt: OnPrompt::Fail(AbiError::host("no key")), ..Plan::default() },
        _ => Plan::default(),
    });
    let mut empty = item("worker", Some("c"));
    empty.task = "  ".into();
    let nobody = LaunchItem { task: "x".into(), ..LaunchItem::default() };
    let items = vec![
        item("scout", Some("a")),
        item("scout", Some("b")),
        empty,
        item("ghost", None),
        nobody,
        item("scout", None),
    ];
    let report = root.start_async(items).await;
    assert_eq!(
        lines(&report),
        [
            "> a (scout)",
            "x b: no key",
            "x c: task is empty",
            "x ghost: unknown agent 'ghost'; available: centurion, scout, worker",
            "x : agent is required; available: centurion, scout, worker",
            "> scout-0 (scout)",
        ]
    );
    // Sync items are blocks, in item order, whatever the order of their ends.
    replies(&world.fake);
    let report = root.start_sync(vec![item("scout", Some("x")), item("ghost", None), item("scout", Some("y"))]).await;
    let unknown = "x ghost: unknown agent 'ghost'; available: centurion, scout, worker";
    assert_eq!(lines(&report), ["success x r1: x is done", unknown, "success y r1: y is done"]);
    assert!(!report.background);
}

/// ORC-8 … ORC-14, part of 03-T2
#[tokio::test]
async fn names_are_checked_allocated_and_free_again() {
    let world = World::new();
    let root = world.root();
    let report = root
        .start_async(vec![
            item("scout", Some("Lead")),
            item("scout", Some("lead")),
            item("scout", Some("1x")),
            item("scout", Some("all")),
            item("scout", None),
            item("scout", None),
        ])
        .await;
    assert_eq!(
        lines(&report),
        [
            "> lead (scout)",
            "x lead: child is already alive: 'lead'",
            "x 1x: invalid name '1x' (expected [a-z][a-z0-9_-]{0,31})",
            "x all: name 'all' is reserved",
            "> scout-0 (scout)",
            "> scout-1 (scout)",
        ]
    );
    let report = root.start_async(vec![item("scout", Some("scout-0"))]).await;
    assert_eq!(lines(&report), ["x scout-0: child is already alive: 'scout-0'"]);

    world.fake.prompted("lead").await.reply("first");
    root.collect_one("lead").await;
    // The dead name reuses node and transcript, and its rounds go on; an allocated name is never a used one.
    let again = root.start_async(vec![item("scout", Some("lead")), item("scout", None)]).await;
    assert_eq!(lines(&again), ["> lead (scout)", "> scout-2 (scout)"]);
    assert_eq!(started(&again, 0).session_file, started(&report_of(&root, "lead"), 0).session_file);
    world.fake.prompted("lead").await.reply("second");
    let report = root.collect_one("lead").await;
    assert_eq!(lines(&report), ["success lead r2: second"]);
    // Each round has its own usage.
    assert_eq!((settled(&report, 0).usage.input, settled(&report, 0).usage.output), (10, 5));

    // Launches in flight never get the same name.
    let (one, two) =
        tokio::join!(root.start_async(vec![item("worker", None)]), root.start_async(vec![item("worker", None)]));
    let mut names = [started(&one, 0).name.clone(), started(&two, 0).name.clone()];
    names.sort();
    assert_eq!(names, ["worker-0", "worker-1"]);
}

/// A launch report with the child's present facts, for comparisons.
fn report_of(root: &Orchestrator, name: &str) -> Report {
    let kid = root.kids.get(name).unwrap();
    let started = Started {
        name: kid.name.clone(),
        agent: kid.agent.name.clone(),
        node_id: kid.node_id.clone(),
        supervisor: "inprocess",
        model: None,
        thinking: None,
        session_file: kid.session_file.clone(),
        warnings: vec![],
    };
    Report { items: vec![Item::Started(started)], ..Report::default() }
}

/// ORC-32 … ORC-35, part of 03-T4
#[tokio::test]
async fn a_worktree_is_demoted_once_per_role_and_refused_for_a_centurion() {
    let world = World::new();
    world.card("digger", "worktree: true");
    let root = world.root();
    let report = root.start_async(vec![item("digger", None), item("digger", None), item("centurion", None)]).await;
    let demoted = "worktree is reserved for centurion; 'digger' runs without one";
    assert_eq!(started(&report, 0).warnings, [demoted]);
    assert_eq!(started(&report, 1).warnings, Vec::<String>::new());
    let Item::Refused { error, .. } = &report.items[2] else { panic!("{:?}", report.items[2]) };
    assert_eq!(error.code, Code::NotAvailable);
    assert!(error.message.ends_with("is not available in this build"), "{}", error.message);
    let mut plain = item("centurion", None);
    plain.worktree = Some(false);
    let report = root.start_async(vec![plain]).await;
    assert_eq!(lines(&report), ["> centurion-0 (centurion)"]);
    assert_eq!(root.row("root/centurion-0").unwrap().phase, None);
}

/// What this build does not have is refused by name, and nothing is made.
#[tokio::test]
async fn what_is_not_built_is_refused_clearly() {
    let world = World::new();
    world.card("centurion", "phases: [{id: a, next: [b]}, {id: b, terminal: true}]");
    world.card("preset", "preset: fast");
    world.card("team", "team: reds");
    let root = world.root();
    let report = root.start_async(vec![item("centurion", None), item("preset", None), item("team", None)]).await;
    for item in &report.items {
        let Item::Refused { error, .. } = item else { panic!("{item:?}") };
        assert!(
            error.code == Code::NotAvailable && error.message.ends_with(" is not available in this build"),
            "{error}"
        );
    }
    for subagents in [
        r#"{"team":"reds","teams":{"reds":{"members":["scout"]}}}"#,
        r#"{"modelScope":{"enforce":true,"allow":["a/*"]}}"#,
    ] {
        world.settings(subagents);
        let refused = root.start_async(vec![item("scout", None)]).await.refused.unwrap();
        assert!(refused.message.ends_with("is not available in this build"), "{refused}");
    }
    assert!(root.run_dir().is_none() && !world.project().join(".pi-subagents").exists());
}

/// SURF-5, SET-3, part of 02-T27
#[tokio::test]
async fn a_switch_and_broken_settings_refuse_launches_only() {
    let world = World::new();
    let root = world.root();
    root.start_async(vec![item("worker", Some("w"))]).await;
    world.settings(r#"{"enabled":false}"#);
    let refused = root.start_async(vec![item("worker", None)]).await.refused.unwrap();
    assert_eq!(refused.code, Code::Disabled);
    assert_eq!(refused.message, "subagents are off; /legion on enables them for this session");
    world.settings(r#"{"inprocess":{"maxActive":"many"}}"#);
    let refused = root.start_async(vec![item("worker", None)]).await.refused.unwrap();
    assert_eq!(refused.code, Code::InvalidParams);
    assert_eq!(root.look().live(), 1);
    world.fake.prompted("w").await.reply("done");
    assert_eq!(lines(&root.collect_one("w").await), ["success w r1: done"]);
}

/// ADM-12, ADM-23, ORC-64 … ORC-69, part of 03-T5: each gate with its text and code; one event for a refusal of the
/// ledger, none from the probe.
#[tokio::test]
async fn every_gate_has_its_text() {
    let world = World::new();
    world.settings(r#"{"inprocess":{"maxActive":100}}"#);
    let root = world.root();
    let report = root.start_async((0..12).map(|_| item("scout", None)).collect()).await;
    let passed = report.items.iter().filter(|item| matches!(item, Item::Started(_))).count();
    assert_eq!(passed, 8);
    let Item::Refused { error, .. } = &report.items[11] else { panic!() };
    assert_eq!(error.message, "inprocess maxChildrenPerNode reached for '<root>' (8/8)");
    assert_eq!((error.code, error.gate), (Code::BudgetExceeded, Some("inprocess.maxChildrenPerNode")));
    assert_eq!(refusals(&root), 0);

    let rows = [
        (
            r#"{"inprocess":{"maxChildrenPerNode":100}}"#,
            "inprocess maxActive reached (8/8); raise subagents.inprocess.maxActive to allow more",
            0,
        ),
        (
            r#"{"inprocess":{"maxSpawnsPerSession":8,"maxChildrenPerNode":100,"maxActive":100}}"#,
            "inprocess spawn budget exhausted (8/8); raise subagents.inprocess.maxSpawnsPerSession to allow more",
            0,
        ),
        (r#"{"inprocess":{"maxChildrenPerNode":0}}"#, "inprocess maxChildrenPerNode reached for '<root>' (8/0)", 0),
        (
            r#"{"maxSubagentSpawnsPerSession":8,"inprocess":{"maxChildrenPerNode":100,"maxActive":100}}"#,
            "subagent spawn budget exhausted (8/8); raise subagents.maxSubagentSpawnsPerSession to allow more",
            0,
        ),
        (
            r#"{"inprocess":{"maxChildrenPerNode":100,"maxActive":100}}"#,
            "legion launch refused (max_children_per_node): parent already has 8 live children; maxChildrenPerNode is 8",
            1,
        ),
        (
            r#"{"legion":{"maxChildrenPerNode":100,"maxActiveNodes":8},"inprocess":{"maxChildrenPerNode":100,"maxActive":100}}"#,
            "legion launch refused (max_active_nodes): tree already has 8 active nodes; maxActiveNodes is 8",
            2,
        ),
        (
            r#"{"legion":{"maxChildrenPerNode":0},"inprocess":{"maxChildrenPerNode":100,"maxActive":100}}"#,
            "legion launch refused (max_children_per_node): parent already has 8 live children; maxChildrenPerNode is 0",
            3,
        ),
    ];
    for (subagents, text, events) in rows {
        world.settings(subagents);
        let report = root.start_async(vec![item("scout", Some("late"))]).await;
        assert_eq!(lines(&report), [format!("x late: {text}")]);
        assert_eq!(refusals(&root), events, "{text}");
    }
    world.settings(r#"{"legion":{"maxDepth":1}}"#);
    let deep = Identity::Child(Box::new(deep_scope(&root, 1)));
    let child = world.attach("deep", deep);
    let report = child.start_async(vec![item("scout", None)]).await;
    let text =
        "subagent nesting limit reached (depth 1, max 1); raise maxSubagentDepth (at most 4) to allow deeper nesting";
    assert_eq!(lines(&report), [format!("x scout: {text}")]);

    // Nothing of the refused ones is left, and a free slot is a free slot.
    assert_eq!(world.shared.pool.active(), 8);
    assert_eq!(root.row("root/late"), None);
    world.settings("{}");
    world.fake.prompted("scout-3").await.reply("done");
    root.collect_one("scout-3").await;
    assert_eq!(lines(&root.start_async(vec![item("scout", Some("late"))]).await), ["> late (scout)"]);
}

fn deep_scope(root: &Orchestrator, depth: u32) -> ExtensionScope {
    let dir = root.run_dir().unwrap();
    ExtensionScope {
        schema: host_abi::scope::SCOPE_SCHEMA.into(),
        name: "deep".into(),
        role: "lead".into(),
        node_id: "root/deep".into(),
        db_path: dir.join("legion.db").display().to_string(),
        session_file: dir.join("deep.jsonl").display().to_string(),
        run_dir: dir.display().to_string(),
        root_run_dir: dir.display().to_string(),
        parent_path: vec!["root".into()],
        depth,
        spawn_mode: "inprocess".into(),
        team: None,
        acceptance_role: None,
        utility: false,
        budget: Some(host_abi::scope::ChildBudget { allow_nested: true, ..Default::default() }),
        phases: None,
    }
}

/// ORC-43, ORC-44, ORC-54, 03-T7
#[tokio::test]
async fn a_failure_after_the_reservation_leaves_what_the_rules_say() {
    let world = World::new();
    let root = world.root();
    let failing = || Plan { prompt: OnPrompt::Fail(AbiError::host("no key")), ..Plan::default() };

    // START_FAILED: a failed row with its event, no transcript, the name free, the start error for `collect`.
    world.fake.plan(move |_| failing());
    let report = root.start_async(vec![item("worker", Some("w"))]).await;
    assert_eq!(lines(&report), ["x w: no key"]);
    assert_eq!(root.status_of("root/w"), "failed");
    let run = root.run.get().unwrap();
    assert!(!run.dir.session_file("w").exists());
    assert_eq!(run.store.child("w").unwrap().state, ChildState::Exited);
    assert_eq!(lines(&root.collect_one("w").await), ["x w: no key"]);
    assert_eq!((world.shared.pool.active(), root.book().spawned), (0, 0));

    // A refusal after the reservation: as if the launch had never been tried.
    world.fake.plan(|_| Plan::default());
    world.settings(r#"{"inprocess":{"maxSpawnsPerSession":1}}"#);
    let report = root.start_async(vec![item("worker", Some("a")), item("worker", Some("b"))]).await;
    let refused = lines(&report).into_iter().filter(|line| line.starts_with('x')).count();
    assert_eq!(refused, 1);
    let gone = if root.row("root/a").is_none() { "a" } else { "b" };
    assert_eq!(root.row(&format!("root/{gone}")), None);
    assert!(run.store.child(gone).is_none() && !run.dir.session_file(gone).exists());
    assert!(root.kids.get(gone).is_none());

    // A name that is used again keeps its former status, record and transcript.
    world.settings("{}");
    replies(&world.fake);
    root.start_sync(vec![item("worker", Some("old"))]).await;
    world.fake.plan(move |_| failing());
    let report = root.start_async(vec![item("worker", Some("old"))]).await;
    assert_eq!(lines(&report), ["x old: no key"]);
    assert_eq!(root.status_of("root/old"), "settled");
    assert_eq!(
        (run.store.child("old").unwrap().round, run.store.child("old").unwrap().state),
        (1, ChildState::Retired)
    );
    assert!(run.dir.session_file("old").exists());
}

/// ORC-50 … ORC-53, FALL-1 … FALL-7, PIN-5, 03-T8, 04-T2 (its second half), part of 02-T23
#[tokio::test]
async fn the_next_model_is_tried_after_a_failed_start_only() {
    let world = World::new();
    world
        .card("flaky", "model: fake/first\nthinking: low\nfallbackModels: [fake/second, inherit, \"fake/third:high\"]");
    let root = world.root();
    let tried = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&tried);
    world.fake.plan(move |spec| {
        let model = spec.model.clone().unwrap();
        seen.lock().unwrap().push(format!("{}:{}", model.id, spec.thinking.clone().unwrap()));
        let prompt = match model.id.as_str() {
            "second" => OnPrompt::Accept,
            id => OnPrompt::Fail(AbiError::host(format!("{id} has no key"))),
        };
        Plan { prompt, ..Plan::default() }
    });
    let report = root.start_async(vec![item("flaky", Some("f"))]).await;
    assert_eq!(
        started(&report, 0).warnings,
        ["started on fallback model 'fake/second:low' ('fake/first:low' failed: first has no key)"]
    );
    assert_eq!(*tried.lock().unwrap(), ["first:low", "second:low"]);
    let record = root.run.get().unwrap().store.child("f").unwrap();
    assert_eq!((record.model.as_deref(), record.model_provider.as_deref()), (Some("fake/second:low"), None));
    assert_eq!(root.row("root/f").unwrap().model.as_deref(), Some("fake/second"));
    assert_eq!(world.fake.living(), ["f"]);
    assert_eq!(world.shared.pool.active(), 1);

    // A model named in the call is the only candidate.
    let mut named = item("flaky", Some("g"));
    named.model = Some("fake/first".into());
    assert_eq!(lines(&root.start_async(vec![named]).await), ["x g: first has no key"]);
    // All fail: each is named, and the name is free.
    world.fake.plan(|spec| {
        let text = format!("{} has no key", spec.model.clone().unwrap().id);
        Plan { prompt: OnPrompt::Fail(AbiError::host(text)), ..Plan::default() }
    });
    let report = root.start_async(vec![item("flaky", Some("h"))]).await;
    assert_eq!(
        lines(&report),
        ["x h: no model could be started: 'fake/first:low' failed: first has no key; \
          'fake/second:low' failed: second has no key; 'fake/third:high' failed: third has no key"]
    );
    // Candidate 0 records its provider, and a second launch of the name replays it.
    replies(&world.fake);
    root.start_sync(vec![item("flaky", Some("h"))]).await;
    assert_eq!(root.run.get().unwrap().store.child("h").unwrap().model_provider.as_deref(), Some("fake"));
    let before = world.host.calls(Some("models.resolve")).len();
    root.start_sync(vec![item("flaky", Some("h"))]).await;
    assert_eq!(world.host.calls(Some("models.resolve"))[before].input["provider"], json!("fake"));
}

/// FALL-3: no other refusal moves on to the next model.
#[tokio::test]
async fn a_refused_spawn_tries_no_other_model() {
    let world = World::new();
    world.card("flaky", "model: fake/first\nfallbackModels: [fake/second]");
    world.settings(r#"{"inprocess":{"maxSpawnsPerSession":1}}"#);
    let root = world.root();
    let report = root.start_async(vec![item("flaky", Some("a")), item("flaky", Some("b"))]).await;
    let spent = "inprocess spawn budget exhausted (1/1); raise subagents.inprocess.maxSpawnsPerSession to allow more";
    assert!(lines(&report).iter().any(|line| line.ends_with(spent)), "{:?}", lines(&report));
    assert_eq!(world.fake.made().len(), 1);
}

/// INH-1 … INH-6, SUP-24, SUP-25, SUP-30, ORC-46, ORC-48, part of 04-T25
#[tokio::test]
async fn a_child_gets_its_spec_and_its_identity() {
    let world = World::new();
    world.card(
        "sub",
        "tools: [read]\nsystemPromptMode: append\ninheritProjectContext: true\nmaxSubagentDepth: 3\ntoolBudget: 10\nacceptance: {level: attested, role: read-only}",
    );
    let root = world.root();
    let report = root.start_async(vec![item("sub", Some("s")), item("scout", Some("t"))]).await;
    assert_eq!(lines(&report), ["> s (sub)", "> t (scout)"]);
    let child = world.fake.prompted("s").await;
    assert_eq!(child.prompts(), ["work as sub"]);
    let spec = &child.spec;
    let prompt = spec.append_system_prompt.as_deref().unwrap();
    assert!(prompt.starts_with("You are a sub.\n\n") && prompt.contains("`s`, a sub dispatched by `root`"));
    assert!(spec.system_prompt.is_none() && spec.context_files && !spec.host_skills);
    assert_eq!(spec.tools.as_deref().unwrap(), ["read", "legion_mail", "legion_tree", "vexillatio"]);
    assert_eq!(spec.model, Some(ops::ModelRef { provider: "fake".into(), id: "parent".into() }));
    assert_eq!(spec.cwd, world.project().display().to_string());

    let run = root.run_dir().unwrap();
    let file = run.join("s.jsonl");
    assert_eq!(
        *child.scope(),
        json!({
            "schema": "legion.scope/1", "name": "s", "role": "sub", "nodeId": "root/s",
            "dbPath": run.join("legion.db").display().to_string(), "sessionFile": file.display().to_string(),
            "runDir": run.display().to_string(), "rootRunDir": run.display().to_string(), "parentPath": ["root"],
            "depth": 1, "spawnMode": "inprocess", "team": "default", "acceptanceRole": "read-only", "utility": false,
            "budget": { "maxDepth": 3, "allowNested": false, "maxToolCalls": 10, "toolSoft": 8, "toolBlock": "*" }
        })
    );
    let scout = world.fake.prompted("t").await;
    assert_eq!((&scout.scope()["name"], &scout.scope()["utility"]), (&json!("t"), &json!(true)));
    assert_ne!(scout.spec.agent_id, spec.agent_id);
    let tools = scout.spec.tools.clone().unwrap();
    assert!(!tools.contains(&"vexillatio".to_owned()) && tools.contains(&"legion_mail".to_owned()));
    // Host extensions are asked for once (INH-12).
    assert_eq!(world.host.calls(Some("extensions.list")).len(), 1);
}

/// ORC-177, ORC-38, ORC-176, LED-27, part of 03-T30, part of 03-T34
#[tokio::test]
async fn the_run_is_made_at_the_first_launch_and_is_private() {
    let world = World::new();
    let root = world.root();
    root.recover().await;
    assert_eq!(root.wait_all().await.body, report::Body::NothingToWaitFor);
    assert!(!world.project().join(".pi-subagents").exists() && root.ledger().is_none());
    root.start_async(vec![item("worker", Some("w"))]).await;
    let run = root.run_dir().unwrap();
    assert_eq!(root.run_id().unwrap(), crate::runs::root_run_id("session-root", 0));
    for (path, want) in [
        (run.clone(), 0o700),
        (run.join("w.jsonl"), 0o600),
        (run.join("run.json"), 0o600),
        (run.join("legion.db"), 0o600),
    ] {
        assert_eq!(mode(&path), want, "{}", path.display());
    }
    let row = root.row("root/w").unwrap();
    assert_eq!((row.team, row.depth, row.task_summary.as_deref()), (None, 1, Some("work as worker")));
    assert_eq!(root.status_of("root"), "running");
}

/// CARD-77, ORC-48, MODEL-11, part of 02-T17, part of 02-T29: step-level mistakes are `✗` lines.
#[tokio::test]
async fn acceptance_and_model_of_a_call_are_checked_per_item() {
    let world = World::new();
    world.card("heir", "model: inherit");
    world.card("careful", "acceptance: {level: attested, role: read-only}");
    world.host.answer::<ops::GetSessionInfo>(|_, _| Err(AbiError::host("no session")));
    let root = world.root();
    let mut loose = item("careful", Some("c"));
    loose.acceptance =
        Some(AcceptanceSpec { level: AcceptanceLevel::Attested, role: Some(AcceptanceRole::Writer), criteria: vec![] });
    let report = root.start_async(vec![item("heir", None), loose, item("worker", Some("w"))]).await;
    let text = "model 'inherit' for 'heir' needs a parent session model and there is none; \
                set subagents.defaultModel or pass an explicit model";
    assert_eq!(lines(&report), [format!("x heir: {text}").as_str(), "> c (careful)", "> w (worker)"]);
    assert_eq!(started(&report, 1).warnings, ["acceptance.role stays read-only (card)"]);
    assert_eq!(world.fake.prompted("c").await.scope()["acceptanceRole"], json!("read-only"));
    // Without any model the host's own default applies.
    assert_eq!(world.fake.prompted("w").await.spec.model, None);
}

/// ORC-75 … ORC-77, VEX-1, VEX-2
#[tokio::test]
async fn vexillatio_takes_utility_roles_and_returns_reports_in_task_order() {
    let world = World::new();
    let root = world.root();
    world.fake.plan(|spec| match spec.name.as_str() {
        "slow" => Plan::default(),
        name => Plan::replies(&format!("{name} saw it")),
    });
    let call = Launch {
        dispatch: Dispatch::Vexillatio,
        items: vec![item("scout", Some("slow")), item("scout", None), item("worker", None)],
        run_async: Some(false),
        timeout_ms: None,
    };
    let (report, ()) = tokio::join!(root.go(Command::Launch(call)), async {
        let slow = world.fake.prompted("slow").await;
        settle_tasks().await;
        slow.reply("at last");
    });
    assert_eq!(
        lines(&report),
        [
            "success slow r1: at last",
            "success scout-0 r1: scout-0 saw it",
            "x worker: 'worker' is not a utility agent; vexillatio takes: scout",
        ]
    );
}

/// PERF-4 in small: all children of one call are under way side by side, reserved in one transaction.
#[tokio::test]
async fn a_fan_out_serialises_nothing() {
    let world = World::new();
    world.settings(
        r#"{"legion":{"maxChildrenPerNode":200,"maxActiveNodes":200},"inprocess":{"maxChildrenPerNode":200,"maxActive":200}}"#,
    );
    let root = world.root();
    world.fake.plan(|_| Plan { prompt: OnPrompt::Hang, ..Plan::default() });
    let launching = {
        let root = Arc::clone(&root);
        spawn_scoped(async move { root.start_async((0..100).map(|_| item("scout", None)).collect()).await })
    };
    world.host.until("child.prompt", 100).await;
    assert_eq!(root.look().live(), 100);
    assert_eq!(world.shared.pool.active(), 100);
    for name in world.fake.made() {
        world.fake.get(&name).unwrap().answer_prompt(Ok(()));
    }
    let report = launching.await.unwrap();
    assert_eq!(report.items.iter().filter(|item| matches!(item, Item::Started(_))).count(), 100);
}
