//! The main job: a parent sends a team, every child works with real tools and mails, and everything comes back.

use std::collections::HashMap;

use serde_json::{Value, json};
use tests::legion_world::{Project, custom, results, spoken, transcript};

const TWELVE: usize = 12;

/// A project with twelve files to look at, and the calls that send twelve children to them.
fn twelve(extra: &str) -> (Project, String) {
    let project = Project::new();
    for n in 0..TWELVE {
        project.file(&format!("src/part{n}.txt"), &format!("first line\nthe word is w{n}x\nlast line\n"));
    }
    let item = |n| format!("{{ name: kid-{n}, task: 'Find the word in src/part{n}.txt' }}");
    let tasks: Vec<String> = (0..TWELVE).map(item).collect();
    (project, format!("{{ tasks: [{}]{extra} }}", tasks.join(", ")))
}

/// Each child asks its model together with the eleven others, uses a tool, mails its parent, and reports.
const CHILDREN: &str = r"
  - match: { task: 'word in (?<file>\S+)', request: 1 }
    turns:
      - barrier: { name: all, count: 12 }
        calls: [{ tool: grep, arguments: { pattern: 'the word is', path: '{{match.file}}' } }]
  - match: { tool: grep }
    turns:
      - calls:
          - tool: legion_mail
            arguments: { to: parent, subject: 'from {{name}}', body: 'I read {{last_result | /w\d+x/}}.' }
  - match: { tool: legion_mail }
    turns: [{ text: '{{name}} found {{result.grep | /w\d+x/}}' }]
";

/// Cards whose children have `grep`, and one that is a utility.
fn cards(project: &Project) {
    project.card("finder", "tools: grep");
    project.card("seeker", "tools: grep\nutility: true");
}

/// Every result and every mail of the twelve.
fn holds_all(told: &str) {
    for n in 0..TWELVE {
        assert!(told.contains(&format!("kid-{n} found w{n}x")), "the result of kid-{n} in:\n{told}");
        assert!(told.contains(&format!("Subject: from kid-{n}\n\nI read w{n}x.")), "the mail of kid-{n} in:\n{told}");
    }
}

/// Twelve ended children, one settlement and one mail each.
fn ledger_is_right(project: &Project) {
    let ledger = project.ledger();
    assert_eq!(ledger.nodes.len(), TWELVE + 1);
    for n in 0..TWELVE {
        let name = format!("kid-{n}");
        assert_eq!(ledger.state(&name), "settled");
        let mut events = ledger.events_of(&name);
        // Delivery may be seen before or after the end of the sender.
        events.sort_unstable();
        assert_eq!(events, ["mail_delivered", "mail_sent", "node_launched", "node_settled"], "{name}");
        assert_eq!(project.artifact(&name, 1), format!("kid-{n} found w{n}x"));
    }
    assert_eq!(ledger.mails.len(), TWELVE);
    assert!(
        ledger.mails.iter().all(|mail| mail["to"] == "root" && mail["state"] == "DELIVERED"),
        "{:#?}",
        ledger.mails
    );
}

/// HOST-4, ORC-16, ORC-19, NTC-4, MODE-3, 11-T6, part of 11-T2: the whole chain in the `legion` program.
#[test]
fn twelve_children_work_at_once_and_everything_comes_back() {
    let (project, launch) = twelve("");
    cards(&project);
    let script = format!(
        r"
rules:
  - match: {{ role: root, request: 1 }}
    turns: [{{ text: I send twelve., calls: [{{ tool: subagent, arguments: {{ agent: finder, {} }} }}] }}]
  - match: {{ role: root }}
    repeat: last
    turns: [{{ text: 'Heard:

{{{{prompt}}}}' }}]
{CHILDREN}",
        launch.trim_start_matches('{').trim_end_matches('}')
    );
    let session = project.world.home().join("session.jsonl");
    let ended = project.run("Find all words.", &script, &["--session", session.to_str().unwrap()]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
    assert!(ended.out.starts_with("Heard:\n"), "{}", ended.out);

    let messages = transcript(&session);
    holds_all(&spoken(&messages));
    let launched = &results(&messages)[0];
    assert_eq!(launched.text.matches("▶ kid-").count(), TWELVE, "{}", launched.text);
    assert!(launched.text.ends_with("\nchildren run in the background; a notice arrives when they finish"));
    let notices = custom(&messages, "subagent-notify").join("\n");
    for n in 0..TWELVE {
        assert_eq!(notices.matches(&format!("kid-{n} found w{n}x")).count(), 1, "kid-{n} is told once");
    }
    ledger_is_right(&project);
}

/// HOST-4, ORC-20, MAIL-20: the results in one call, in the order of its tasks; mail comes behind it.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_children_are_waited_for_in_one_call() {
    let (project, launch) = twelve(", agent: finder, async: false");
    cards(&project);
    one_blocking_call(&project, "subagent", &launch).await;
}

/// HOST-4, ORC-75, ORC-77, VEX-2: the same by `vexillatio`.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_utility_children_report_in_order() {
    let (project, launch) = twelve(", agent: seeker");
    cards(&project);
    one_blocking_call(&project, "vexillatio", &launch).await;
}

async fn one_blocking_call(project: &Project, tool: &str, arguments: &str) {
    let script = format!(
        r"
rules:
  - match: {{ role: root, request: 1 }}
    turns: [{{ calls: [{{ tool: {tool}, arguments: {arguments} }}] }}]
  - match: {{ role: root }}
    repeat: last
    turns: [{{ text: All is here. }}]
{CHILDREN}"
    );
    let printed = project.print("Find all words.", &script).await;
    assert_eq!(printed.outcome.text.as_deref(), Some("All is here."), "{:?}", printed.outcome);
    assert_eq!(printed.complaints, [""; 0]);

    let messages = printed.last_request().messages;
    holds_all(&spoken(&messages));
    let report = &results(&messages)[0];
    let headers = report.text.lines().filter(|line| line.starts_with("✓ kid-"));
    let names: Vec<&str> = headers.filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(names, (0..TWELVE).map(|n| format!("kid-{n}")).collect::<Vec<_>>());
    assert_eq!(report.details["results"].as_array().map(Vec::len), Some(TWELVE));
    assert_eq!(custom(&messages, "subagent-notify"), [""; 0], "what was read is not announced");
    ledger_is_right(project);
}

/// ADM-7, ADM-10, ADM-15, ADM-23, ORC-16, ORC-68, part of 03-T5: over a limit the answer is the gate's own text, and the
/// others run. No queue in this build.
#[test]
fn what_is_over_a_limit_is_refused_and_the_others_run() {
    let fanout = "inprocess maxChildrenPerNode reached for '<root>' (8/8)";
    let active = "inprocess maxActive reached (2/2); raise subagents.inprocess.maxActive to allow more";
    let rows =
        "legion launch refused (max_children_per_node): parent already has 3 live children; maxChildrenPerNode is 3";
    let nodes = "legion launch refused (max_active_nodes): tree already has 5 active nodes; maxActiveNodes is 5";
    let roomy = json!({ "maxChildrenPerNode": 100, "maxActive": 100 });
    let cases = [
        (json!({}), fanout, 8, "inprocess.maxChildrenPerNode"),
        (json!({ "inprocess": { "maxActive": 2 } }), active, 2, "inprocess.maxActive"),
        (json!({ "legion": { "maxChildrenPerNode": 3 }, "inprocess": roomy }), rows, 3, "ledger.maxChildrenPerNode"),
        (
            json!({ "legion": { "maxChildrenPerNode": 100, "maxActiveNodes": 5 }, "inprocess": roomy }),
            nodes,
            5,
            "ledger.maxActiveNodes",
        ),
    ];
    for (settings, text, runs, gate) in cases {
        let (project, launch) = twelve(", agent: finder");
        cards(&project);
        project.file(".pi/settings.json", &json!({ "subagents": settings }).to_string());
        let script = format!(
            r"
rules:
  - match: {{ role: root, request: 1 }}
    turns: [{{ calls: [{{ tool: subagent, arguments: {launch} }}] }}]
  - match: {{ role: root }}
    repeat: last
    turns: [{{ text: Done. }}]
  - match: {{ role: finder }}
    turns: [{{ barrier: {{ name: all, count: {runs} }}, text: '{{{{name}}}} is done' }}]
"
        );
        let session = project.world.home().join("session.jsonl");
        let ended = project.run("go", &script, &["--session", session.to_str().unwrap()]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{gate}: {}", ended.out);
        let messages = transcript(&session);
        let reply = &results(&messages)[0];
        let lines = reply.good().lines();
        let expected = (0..TWELVE).map(|n| match n < runs {
            true => format!("▶ kid-{n} (finder) supervisor=inprocess"),
            false => format!("✗ kid-{n}: {text}"),
        });
        assert_eq!(lines.take(TWELVE).collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{gate}");
        let refused: Vec<&Value> = children(&reply.details).filter(|child| child.get("error").is_some()).collect();
        assert_eq!(refused.len(), TWELVE - runs);
        assert!(
            refused.iter().all(|child| child["error"]["code"] == "BUDGET_EXCEEDED" && child["error"]["gate"] == gate)
        );
        let told = spoken(&messages);
        assert!((0..runs).all(|n| told.contains(&format!("kid-{n} is done"))), "{told}");
        let ledger = project.ledger();
        let written = if gate.starts_with("ledger") { TWELVE - runs } else { 0 };
        assert_eq!((ledger.nodes.len(), ledger.count("budget_refused")), (runs + 1, written), "{gate}");
    }
}

fn children(details: &Value) -> impl Iterator<Item = &Value> {
    details["children"].as_array().into_iter().flatten()
}

/// ABI-9, SUP-30, GUARD-18, 10-T21, part of 04-T8: who a child is it learns from its own scope, whatever runs beside it,
/// and what its commands see of it is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_children_each_see_their_own_identity() {
    let project = Project::new();
    project.card("one", "tools: bash");
    let live = project.session(
        r"
rules:
  - match: { role: one, request: 1 }
    turns:
      - barrier: { name: all, count: 64 }
        calls:
          - { tool: legion_tree, arguments: {} }
          - { tool: bash, arguments: { command: 'env -0 | sort -z | tr \\0 \\n; cat /proc/$PPID/environ | tr \\0 \\n' } }
  - match: { role: one }
    turns: [{ barrier: { name: done, count: 64 }, text: '{{name}}: {{result.legion_tree}}' }]
",
    );
    let tasks: Vec<Value> =
        (0..64).map(|n| json!({ "task": format!("be number {n}"), "name": format!("n{n}") })).collect();
    let reply = live.subagent(json!({ "agent": "one", "tasks": tasks, "async": false })).await;
    reply.good();
    let mut files = HashMap::new();
    for n in 0..64 {
        let name = format!("n{n}");
        let own = project.artifact(&name, 1);
        assert_eq!(own, format!("{name}: ● {name} (one) running scripted/echo"), "its subtree is itself alone");
        let request = live.model.of(&name).pop().unwrap();
        assert!(request.system_prompt.contains(&format!("You are `{name}`, a one dispatched by `root`.")));
        let env = results(&request.messages).pop().unwrap();
        let env = env.good();
        for variable in ["PI_LEGION", "PI_SUBAGENT", "legion.db", &format!("/{name}#")] {
            assert!(!env.contains(variable), "{variable} in the environment of {name}:\n{env}");
        }
        let file = env.lines().find_map(|line| line.strip_prefix("PI_SESSION_FILE=")).unwrap().to_owned();
        assert!(file.ends_with(&format!("/{name}.jsonl")), "{file}");
        assert_eq!(files.insert(file, name), None);
    }
    live.end().await;
}

/// ORC-42, ORC-64, ORC-65, ORC-178, SUP-30, part of 03-T26: four levels deep, each parent hears once, and there is
/// no fifth level.
#[tokio::test(flavor = "multi_thread")]
async fn a_team_of_four_levels_reports_once_per_level() {
    let project = Project::new();
    for level in 1..=4 {
        project.card(&format!("level{level}"), "allowNestedSubagents: true\ntools: read");
    }
    project.file("deep.txt", "treasure\n");
    let mut script = "rules:\n".to_owned();
    for level in 1..=4 {
        let below = level + 1;
        let role = if below <= 4 { format!("level{below}") } else { "scout".to_owned() };
        script += &format!(
            r"
  - match: {{ role: level{level}, request: 1 }}
    turns:
      - calls:
          - {{ tool: subagent, arguments: {{ agent: {role}, name: below{level}, task: 'dig at {below}' }} }}
          - {{ tool: read, arguments: {{ path: deep.txt }} }}
  - match: {{ role: level{level}, prompt: '▣ legion' }}
    turns: [{{ text: 'level {level} heard [{{{{prompt | /(level \d .*)/}}}}]' }}]
"
        );
    }
    // The deepest one reports what it was told; the others end their turn while their team works.
    script += r"
  - match: { role: level4 }
    turns: [{ text: 'level 4 was told {{result.subagent}} and read {{result.read | /\w+/}}' }]
  - match: { role: [level1, level2, level3] }
    repeat: last
    turns: [{ text: I wait for my team. }]
";
    let live = project.session(&script);
    let launched = live.subagent(json!({ "agent": "level1", "name": "top", "task": "dig" })).await;
    assert_eq!(launched.lines()[0], "▶ top (level1) supervisor=inprocess");
    let reply = live.subagent(json!({ "action": "wait" })).await;
    let refusal = "✗ below4: subagent nesting limit reached (depth 4, max 4); raise maxSubagentDepth (at most 4) to allow deeper nesting";
    let deepest = format!("level 4 was told {refusal} and read treasure");
    let told = format!("level 1 heard [level 2 heard [level 3 heard [{deepest}]]]");
    assert!(reply.good().contains(&told), "{}", reply.text);

    let chain = [("top", "root"), ("below1", "top"), ("below2", "below1"), ("below3", "below2")];
    let ledger = project.ledger();
    assert_eq!(ledger.nodes.len(), 5, "{:#?}", ledger.nodes);
    for (depth, (name, parent)) in (1..).zip(chain) {
        let node = ledger.nodes.iter().find(|node| node["name"] == name).unwrap();
        let above = ledger.nodes.iter().find(|node| node["id"] == node["parentId"] || node["name"] == parent).unwrap();
        assert_eq!((&node["depth"], &node["parentId"]), (&json!(depth), &above["id"]), "{name}");
        assert_eq!(ledger.state(name), "settled");
        assert_eq!(ledger.events_of(name), ["node_launched", "node_settled"], "one result of {name}");
    }
    assert_eq!(ledger.count("budget_refused"), 0);
    // Each parent but the root was woken once, with the whole result of the level below.
    for name in ["top", "below1", "below2"] {
        let request = live.model.of(name).pop().unwrap();
        let notices = custom(&request.messages, "subagent-notify");
        assert_eq!(notices.len(), 1, "{name}: {notices:#?}");
        assert!(!notices[0].contains("I wait for my team."), "{name} is not told of interim turns: {notices:#?}");
    }
    live.idle().await;
    assert_eq!(live.notices().await, [""; 0], "the root read the result in its wait");
    live.end().await;
}

/// ORC-178, NTC-4, LED-77, 03-T32: a lead ends its turn while its team works and is woken twice; its own parent hears of
/// it once, with its last words.
#[tokio::test(flavor = "multi_thread")]
async fn a_lead_is_woken_twice_and_reports_once() {
    let project = Project::new();
    project.card("lead", "tools: read\nallowNestedSubagents: true");
    project.card("kid", "tools: read");
    let live = project.session(
        r"
rules:
  - match: { role: lead, request: 1 }
    turns:
      - calls:
          - tool: subagent
            arguments:
              agent: kid
              tasks: [{ name: 'first-{{name}}', task: t }, { name: 'second-{{name}}', task: t }]
  - match: { role: lead, request: 2 }
    turns: [{ text: Nothing yet. }]
  - match: { role: lead, prompt: 'first-\w+ is done' }
    turns: [{ text: Half of it. }]
  - match: { role: lead, prompt: 'second-\w+ is done' }
    turns: [{ text: 'All of it, says {{name}}.' }]
  - match: { role: kid }
    turns: [{ untilFile: 'go-{{name}}', text: '{{name}} is done' }]
",
    );
    let tasks = json!([{ "name": "awaited", "task": "t" }, { "name": "announced", "task": "t" }]);
    live.subagent(json!({ "agent": "lead", "tasks": tasks })).await.good();
    let leads = ["awaited", "announced"];
    for lead in leads {
        // Its first turn has ended, and it is told of by nobody.
        live.asked(lead, 2).await;
        project.file(&format!("go-first-{lead}"), "");
        live.asked(lead, 3).await;
        let below = live.subagent(json!({ "action": "status", "name": lead })).await;
        assert!(below.good().contains(&format!("second-{lead} (kid) state=running")), "it works on: {}", below.text);
    }
    let wait = json!({ "action": "wait", "name": "awaited" });
    let (reply, _) = live.blocking("subagent", wait, || drop(project.file("go-second-awaited", ""))).await;
    assert!(reply.good().starts_with("✓ awaited (lead) success") && reply.text.contains("\nAll of it, says awaited."));
    project.file("go-second-announced", "");
    live.told("All of it, says announced.").await;
    live.idle().await;
    let told = spoken(&live.messages().await);
    for lead in leads {
        assert_eq!(told.matches(&format!("All of it, says {lead}.")).count(), 1, "{told}");
        assert!(!told.contains("Nothing yet.") && !told.contains("Half of it."), "{told}");
        assert_eq!(project.artifact(lead, 1), format!("All of it, says {lead}."));
        assert!(!project.run_dir().join(format!("artifacts/{lead}/r2.md")).exists());
        assert_eq!(live.model.of(lead).len(), 4, "two turns of its own and two that notices began");
    }
    let ledger = project.ledger();
    for lead in leads {
        assert_eq!(ledger.events_of(lead), ["node_launched", "node_settled"]);
        for below in ["first", "second"].map(|name| format!("{name}-{lead}")) {
            assert_eq!(
                (ledger.state(&below), ledger.events_of(&below)),
                ("settled", vec!["node_launched", "node_settled"])
            );
        }
    }
    live.end().await;
}

/// ORC-49, ORC-76, SURF-1, SURF-4, PLAY-3, part of 03-T26, part of 09-T1: a worker sends scouts, and which tools a child
/// has follows from what it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_sends_scouts_and_each_has_its_own_tools() {
    let project = Project::new();
    project.card("lead", "tools: read\nallowNestedSubagents: true");
    project.file("a.txt", "alpha\n");
    let live = project.session(
        r"
rules:
  - match: { role: worker, request: 1 }
    turns: [{ calls: [{ tool: vexillatio, arguments: { tasks: [{ task: look, name: s0 }, { task: look, name: s1 }] } }] }]
  - match: { role: worker }
    turns: [{ text: 'The scouts say: {{last_result}}' }]
  - match: { role: scout, request: 1 }
    turns: [{ barrier: { name: scouts, count: 2 }, calls: [{ tool: read, arguments: { path: a.txt } }] }]
  - match: { role: scout }
    turns: [{ text: '{{name}} read {{last_result | /\w+/}}' }]
  - match: { role: lead }
    turns: [{ text: led }]
",
    );
    let tasks = json!([{ "agent": "worker", "name": "w", "task": "t" }, { "agent": "lead", "name": "l", "task": "t" }]);
    let reply = live.subagent(json!({ "tasks": tasks, "async": false })).await;
    let report = project.artifact("w", 1);
    assert!(report.contains("s0 read alpha") && report.contains("s1 read alpha"), "{report}");
    assert!(reply.good().contains("s0 read alpha"), "{}", reply.text);
    let tools = |name: &str| {
        let request = live.model.of(name).remove(0);
        request.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    let own = ["subagent", "vexillatio", "legion_mail", "legion_tree", "legion_phase"];
    let legion = |name: &str| tools(name).into_iter().filter(|tool| own.contains(&tool.as_str())).collect::<Vec<_>>();
    assert_eq!(legion("w"), ["vexillatio", "legion_mail", "legion_tree"]);
    assert_eq!(legion("l"), ["subagent", "vexillatio", "legion_mail", "legion_tree"]);
    assert_eq!(legion("s0"), ["legion_mail", "legion_tree"], "a utility child is a leaf");
    assert!(!tools("s0").iter().any(|tool| ["write", "edit"].contains(&tool.as_str())), "{:?}", tools("s0"));
    let root: Vec<String> = live.root.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(
        root.iter().any(|tool| tool == "subagent") && !root.iter().any(|tool| tool.starts_with("legion_")),
        "{root:?}"
    );
    let ledger = project.ledger();
    let scout = ledger.nodes.iter().find(|node| node["name"] == "s0").unwrap();
    assert_eq!((&scout["parentId"], &scout["depth"]), (&json!("root/w"), &json!(2)));
    live.end().await;
}

/// ORC-175, ADM-17, F11, part of 03-T7: every way to end gives its slot back, a start that failed as well.
#[tokio::test(flavor = "multi_thread")]
async fn slots_are_given_back_however_a_child_ends() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.settings(json!({ "legion": { "maxChildrenPerNode": 2 }, "inprocess": { "maxChildrenPerNode": 2 } }));
    let live = project.session(
        r"
rules:
  - match: { task: silent }
    turns: [{ silence: {}, text: never }]
  - match: { task: fails }
    turns: [{ text: never, error: { status: 400, body: no } }]
  - match: { task: works }
    turns: [{ text: done }]
",
    );
    let kid = |name: String, task: &str| json!({ "agent": "kid", "name": name, "task": task });
    for round in 0..4 {
        let both =
            json!({ "tasks": [kid(format!("a{round}"), "works"), kid(format!("b{round}"), "fails")], "async": false });
        assert_eq!(live.subagent(both).await.good().matches("(kid) ").count(), 2);
        let silent = json!({ "tasks": [kid(format!("c{round}"), "silent"), kid(format!("d{round}"), "silent")] });
        assert_eq!(live.subagent(silent).await.good().matches('▶').count(), 2);
        let third = live.subagent(kid(format!("e{round}"), "works")).await;
        assert_eq!(third.bad(), format!("✗ e{round}: inprocess maxChildrenPerNode reached for '<root>' (2/2)"));
        live.subagent(json!({ "action": "stop", "all": true, "force": round % 2 == 0 })).await.good();
        let lost = json!({ "agent": "kid", "name": format!("f{round}"), "task": "works", "model": "nowhere/none" });
        let lost = live.subagent(lost).await;
        assert!(lost.bad().starts_with(&format!("✗ f{round}: ")), "{}", lost.text);
        assert_eq!(lost.details["children"][0]["error"]["code"], "START_FAILED");
    }
    assert_eq!(live.host.core().sessions().len(), 1);
    let ledger = project.ledger();
    assert_eq!(ledger.state("f0"), "failed");
    assert_eq!(ledger.events_of("f0"), ["node_failed"]);
    assert!(!ledger.nodes.iter().any(|node| node["name"] == "e0"), "a refused launch has no row");
    live.end().await;
}
