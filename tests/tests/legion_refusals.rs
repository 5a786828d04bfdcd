//! What is refused before anything starts: switches, settings, cards, roles, parameters. Nothing is left behind.

use serde_json::{Value, json};
use tests::legion_world::{Live, Project};

const HELD: &str = "rules: [{ turns: [{ untilFile: 'go-{{name}}', text: '{{name}} is done' }] }]";

const OFF: &str = "✗ subagents are off; /legion on enables them for this session";

fn kid(name: &str) -> Value {
    json!({ "agent": "kid", "name": name, "task": "t" })
}

async fn control_actions_work(live: &Live) {
    for call in [json!({ "action": "status" }), json!({ "action": "list" }), json!({ "action": "stop", "all": true })] {
        live.subagent(call).await.good();
    }
    assert_eq!(live.subagent(json!({ "action": "wait" })).await.good(), "no active children");
}

/// ORC-5, SURF-5, SET-10, SET-3, SET-1, SET-2, DISC-10, 02-T27, part of 09-T3: a switch or a fault in the settings refuses
/// launches and nothing else, whenever it comes.
#[tokio::test(flavor = "multi_thread")]
async fn settings_refuse_launches_and_keep_control() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.settings(json!({ "enabled": false }));
    let live = project.session(HELD);
    for (tool, call) in [("subagent", kid("a")), ("vexillatio", json!({ "task": "look" }))] {
        let reply = live.call(tool, call).await;
        assert_eq!((reply.bad(), &reply.details["error"]["code"]), (OFF, &json!("DISABLED")), "{tool}");
    }
    control_actions_work(&live).await;
    assert!(project.is_untouched());

    project.settings(json!({}));
    let file = project.path(".pi/settings.json").display().to_string();
    let faults = [
        (json!({ "enabled": false }).to_string(), OFF.to_owned()),
        ("{ not json".to_owned(), format!("✗ {file}: ")),
        (r#"{ "subagents": 7 }"#.to_owned(), format!("✗ {file}: subagents: expected an object, got 7")),
        (
            r#"{ "subagents": { "inprocess": { "maxActive": 0 } } }"#.to_owned(),
            format!("✗ {file}: subagents.inprocess.maxActive: expected a positive integer, got 0"),
        ),
    ];
    for (number, (text, message)) in faults.into_iter().enumerate() {
        let [collected, stopped] = ["collected", "stopped"].map(|name| format!("{name}{number}"));
        project.settings(json!({}));
        for name in [&collected, &stopped] {
            live.subagent(kid(name)).await.good();
        }
        match text.starts_with(r#"{"enabled"#) {
            true => project.settings(json!({ "enabled": false })),
            false => drop(project.file(".pi/settings.json", &text)),
        }
        let refused = live.subagent(kid("more")).await;
        assert!(refused.bad().starts_with(&message), "{}", refused.text);
        let status = live.subagent(json!({ "action": "status" })).await;
        assert!(status.good().starts_with("Status · 2 live children\n"), "{}", status.text);
        project.file(&format!("go-{collected}"), "");
        let reply = live.subagent(json!({ "action": "collect", "name": collected })).await;
        assert!(reply.good().contains(&format!("{collected} is done")), "{}", reply.text);
        let reply = live.subagent(json!({ "action": "stop", "name": stopped })).await;
        assert_eq!(reply.good(), format!("Stopped {stopped}"));
    }
    live.end().await;
}

/// SET-3, SET-1, part of 03-T34: a fault that is there from the start.
#[tokio::test(flavor = "multi_thread")]
async fn broken_settings_leave_nothing_behind() {
    let project = Project::new();
    project.file(".pi/settings.json", r#"{ "subagents": { "legion": { "maxDepth": "four" } } }"#);
    let live = project.session(HELD);
    let reply = live.subagent(json!({ "agent": "worker", "task": "t" })).await;
    let file = project.path(".pi/settings.json").display().to_string();
    assert_eq!(reply.bad(), format!("✗ {file}: subagents.legion.maxDepth: expected a positive integer, got \"four\""));
    control_actions_work(&live).await;
    live.end().await;
    assert!(project.is_untouched());
}

/// CARD-4 … CARD-6, DISC-12, DISC-6, ORC-16, ORC-22, SUB-4, VEX-1, part of 02-T5: a broken card costs its own role alone,
/// and an unknown one is named with what there is.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_card_blocks_its_role_alone() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.card("typo", "maxRenewal: 3\ntols: read");
    project.card("worker", "timeoutMs: soon");
    project.card("budget", "toolBudget: { hard: 0 }");
    let live = project.session("rules: [{ turns: [{ text: done }] }]");
    let card = |name: &str| project.path(&format!(".pi/agents/{name}.md")).display().to_string();

    let mut texts = Vec::new();
    for (role, starts, also) in [
        ("typo", format!("✗ typo: {}: unknown frontmatter key", card("typo")), "did you mean 'maxRenewals'?"),
        ("worker", format!("✗ worker: {}", card("worker")), "timeoutMs"),
        ("budget", format!("✗ budget: {}", card("budget")), "toolBudget"),
        ("kidd", "✗ kidd: unknown agent 'kidd'; available: ".to_owned(), "centurion, kid, scout"),
    ] {
        let reply = live.subagent(json!({ "agent": role, "task": "t" })).await;
        assert!(reply.bad().starts_with(&starts) && reply.text.contains(also), "{}", reply.text);
        texts.push(reply.text);
    }
    let reply = live.call("vexillatio", json!({ "agent": "kid", "task": "t" })).await;
    assert_eq!(reply.bad(), "✗ kid: 'kid' is not a utility agent; vexillatio takes: scout");
    assert!(project.is_untouched(), "{texts:#?}");

    // Beside one that works, only the broken one does not start.
    let tasks =
        json!([{ "agent": "typo", "task": "t" }, { "agent": "kid", "task": "t" }, { "agent": "nobody", "task": "t" }]);
    let reply = live.subagent(json!({ "tasks": tasks, "async": false })).await;
    let lines = reply.good().lines().collect::<Vec<_>>();
    assert!(lines[0].starts_with("✗ typo: ") && reply.text.contains("✓ kid-0 (kid) success"), "{}", reply.text);
    assert!(lines.last().unwrap().starts_with("✗ nobody: unknown agent 'nobody'"), "{}", reply.text);
    // Mended, it works in the same session.
    project.card("typo", "maxRenewals: 3");
    let reply = live.subagent(json!({ "agent": "typo", "task": "t", "async": false })).await;
    assert!(reply.good().starts_with("✓ typo-0 (typo) success"), "{}", reply.text);
    live.end().await;
}

/// SUB-2, SUB-4, SUB-5, SUB-14, ORC-2, ORC-3, ORC-8, ORC-9, ORC-11, DET-4, 09-T21 in a live session, the bad-input rows of
/// 09: what is wrong with a call is said, and nothing was started.
#[tokio::test(flavor = "multi_thread")]
async fn bad_calls_start_nothing() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let live = project.session("rules: [{ turns: [{ text: done }] }]");
    let t = || json!([{ "task": "t" }]);
    let cases = [
        (json!({ "agent": "kid", "taskss": t() }), "✗ unknown parameter 'taskss'; did you mean 'tasks'?"),
        (json!({ "agent": "kid", "task": "t", "Model": "x" }), "✗ unknown parameter 'Model'; did you mean 'model'?"),
        (json!({ "agent": "kid", "task": "t", "phase": "x" }), "✗ unknown parameter 'phase'; did you mean 'phases'?"),
        (
            json!({ "agent": "kid", "tasks": [{ "task": "t", "nam": "x" }] }),
            "✗ unknown parameter 'tasks[0].nam'; did you mean 'name'?",
        ),
        (
            json!({ "agent": "kid", "task": "t", "cmd": 1 }),
            "✗ unknown parameter 'cmd'; subagent takes: action, agent, task, tasks, ",
        ),
        (
            json!({ "agent": "kid", "task": "t", "acceptance": { "rol": "writer" } }),
            "✗ unknown parameter 'acceptance.rol'; did you mean 'role'?",
        ),
        (json!({ "agent": "kid", "task": "t", "tasks": t() }), "✗ give task or tasks, not both"),
        (json!({ "agent": "kid" }), "✗ launch needs task or tasks"),
        (json!({ "agent": "kid", "task": "  " }), "✗ task is empty"),
        (json!({ "agent": "kid", "tasks": [{ "task": "t" }, { "task": "" }] }), "✗ tasks[1]: task is empty"),
        (json!({ "agent": "kid", "tasks": t(), "name": "x" }), "✗ name applies to a single task; set tasks[].name"),
        (json!({ "task": "t" }), "✗ agent is required; available: centurion, kid, scout, worker"),
        (
            json!({ "agent": "kid", "task": "t", "name": "7up" }),
            "✗ 7up: invalid name '7up' (expected [a-z][a-z0-9_-]{0,31})",
        ),
        (json!({ "agent": "kid", "task": "t", "name": "ROOT" }), "✗ root: name 'root' is reserved"),
        (json!({ "agent": "kid", "task": "t", "name": "all" }), "✗ all: name 'all' is reserved"),
        (json!({ "agent": "kid", "task": "t", "force": true }), "✗ force is only valid with action \"stop\""),
        (json!({ "action": "wait", "async": true }), "✗ async is only valid with action \"launch\""),
        (json!({ "action": "stop", "all": true, "worktree": true }), "✗ worktree is only valid with action \"launch\""),
        (json!({ "action": "collect" }), "✗ collect needs name or names"),
        (json!({ "action": "retire" }), "✗ retire needs name"),
        (json!({ "action": "stop" }), "✗ stop needs name, names or all: true"),
        (json!({ "action": "status", "view": "transcript" }), "✗ view \"transcript\" needs name"),
        (json!({ "action": "collect", "name": "a" }), "✗ a: unknown child 'a'"),
        (
            json!({ "action": "continue", "name": "a", "message": "go on" }),
            "✗ action 'continue' is not available in this build",
        ),
        (
            json!({ "agent": "centurion", "task": "t", "phases": [{}] }),
            "✗ parameter 'phases' is not available in this build",
        ),
        (
            json!({ "agent": "centurion", "task": "t" }),
            "✗ centurion: 'centurion' asks for a git worktree (pass worktree: false to run it in this directory); a worktree is not available in this build",
        ),
    ];
    for (call, text) in cases {
        let reply = live.subagent(call.clone()).await;
        assert!(reply.bad().starts_with(text), "{call}: {}", reply.text);
        assert_eq!(reply.details["ok"], false, "{call}");
    }
    // What a schema says the host refuses by itself.
    for (call, field) in [
        (json!({ "action": "renew", "name": "a" }), "action"),
        (json!({ "agent": "kid", "task": 7 }), "task"),
        (json!({ "action": "wait", "timeoutMs": 0 }), "timeoutMs"),
        (json!({ "agent": "kid", "tasks": [] }), "tasks"),
    ] {
        let reply = live.subagent(call.clone()).await;
        assert!(reply.bad().contains(field), "{call}: {}", reply.text);
    }
    for (call, text) in [
        (
            json!({ "task": "t", "name": "x" }),
            "✗ unknown parameter 'name'; vexillatio takes: task, tasks, agent, model, timeoutMs",
        ),
        (json!({ "taskk": "t" }), "✗ unknown parameter 'taskk'; did you mean 'task'?"),
    ] {
        let reply = live.call("vexillatio", call.clone()).await;
        assert_eq!(reply.bad(), text, "{call}");
    }
    assert!(project.is_untouched(), "nothing was started");
    assert_eq!(live.host.core().sessions().len(), 1);

    // Ignored parameters are told, and the call goes on; so it is with names that meet in one call.
    let reply = live.subagent(json!({ "action": "wait", "lines": 3 })).await;
    assert_eq!(reply.good(), "no active children\n⚠ ignored: lines (not used by action 'wait')");
    let twice = json!([{ "task": "t", "name": "x" }, { "task": "t", "name": "X" }]);
    let reply = live.subagent(json!({ "agent": "kid", "tasks": twice, "async": false })).await;
    assert!(reply.good().contains("\n✗ x: child is already alive: 'x'"), "{}", reply.text);
    let reply = live.subagent(json!({ "agent": "kid", "task": "t", "name": "w", "worktree": true })).await;
    assert_eq!(
        reply.lines()[..2],
        ["▶ w (kid) supervisor=inprocess", "  ⚠ w: worktree is reserved for centurion; 'kid' runs without one"]
    );
    live.end().await;
}
