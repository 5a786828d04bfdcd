//! child-guard in live children: budgets, bash rules, timeouts (part 10).

use host_abi::ops::Stream;
use serde_json::{Value, json};
use tests::{
    legion_world::{Live, Project, Reply, custom, results},
    libraries::library,
};

/// The results of a child's calls, in their order.
fn results_of(project: &Project, child: &str) -> Vec<Reply> {
    results(&project.transcript(child))
}

/// A script in which every child makes these calls, one for each request, and then reports.
fn calls_one_by_one(calls: &[Value]) -> String {
    json!({ "rules": [{ "turns": turns(calls) }] }).to_string()
}

fn turns(calls: &[Value]) -> Vec<Value> {
    calls.iter().map(|call| json!({ "calls": [call] })).chain([json!({ "text": "that is all" })]).collect()
}

fn bash(command: &str) -> Value {
    json!({ "tool": "bash", "arguments": { "command": command } })
}

async fn launch(live: &Live, agent: &str, name: &str) -> Reply {
    live.subagent(json!({ "agent": agent, "name": name, "task": "go", "async": false })).await
}

/// GUARD-40 … GUARD-42, GUARD-90, GUARD-91, ORC-107, part of 10-T8 (renewals come with `continue`).
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_budget_ends_the_run() {
    let project = Project::new();
    project.card("kid", "tools: read\ntoolBudget: { hard: 5 }");
    project.file("a.txt", "alpha\n");
    let read = json!({ "tool": "read", "arguments": { "path": "a.txt" } });
    let live = project.session(&calls_one_by_one(&vec![read; 9]));
    let reply = launch(&live, "kid", "k").await;
    assert!(reply.text.starts_with("✗ k (kid) failed (terminated during tool call)"), "{}", reply.text);

    let results = results_of(&project, "k");
    assert_eq!(results.len(), 6);
    assert!(results[..5].iter().all(|result| !result.is_error && result.text.contains("alpha")));
    let refusal = "tool budget exhausted (5/5 tool calls in this round); 'read' was not run. Report what is done and what remains.";
    assert_eq!(results[5].bad(), refusal);
    let soft = custom(&project.transcript("k"), "legion-guard");
    let text = "[child-guard] 4 of 5 tool calls used in this round. Finish the current step and report; calls after 5 are refused.";
    assert_eq!(soft, [text]);
    let told: Vec<usize> = (1..=6).filter(|n| said(&live, "k", *n).contains(&text.to_owned())).collect();
    assert_eq!(told, [5, 6], "from the request after the fourth call on");
    assert_eq!(live.model.of("k").len(), 6);
    assert_eq!(project.ledger().state("k"), "failed");
    live.end().await;
}

/// The guard's messages in a child's n-th request.
fn said(live: &Live, child: &str, n: usize) -> Vec<String> {
    custom(&live.model.of(child)[n - 1].messages, "legion-guard")
}

/// GUARD-50 … GUARD-53, GUARD-92, GUARD-93, 10-T11.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_budget_ends_the_run_unless_it_ends_in_text() {
    let project = Project::new();
    project.card("kid", "tools: read\nturnBudget: { hard: 3 }");
    project.file("a.txt", "alpha\n");
    let live = project.session(
        r"
rules:
  - match: { name: calls }
    repeat: last
    turns: [{ text: I look., calls: [{ tool: read, arguments: { path: a.txt } }] }]
  - match: { name: ends, request: '1-2' }
    repeat: last
    turns: [{ calls: [{ tool: read, arguments: { path: a.txt } }] }]
  - match: { name: ends }
    turns: [{ text: 'In time.' }]
",
    );
    let cut = launch(&live, "kid", "calls").await;
    assert!(cut.text.starts_with("✗ calls (kid) failed (terminated during tool call)"), "{}", cut.text);
    let results = results_of(&project, "calls");
    assert_eq!(results.len(), 3);
    let refusal = "turn budget exhausted (turn 3 of 3); 'read' was not run. Report what is done and what remains.";
    assert_eq!((results[0].is_error, results[1].is_error, results[2].bad()), (false, false, refusal));
    assert_eq!(live.model.of("calls").len(), 3);
    let soft = "[child-guard] turn 2 of 3 in this round. Finish and report; tool calls are refused from turn 3 on.";
    assert_eq!(custom(&project.transcript("calls"), "legion-guard"), [soft]);

    let whole = launch(&live, "kid", "ends").await;
    assert!(whole.good().starts_with("✓ ends (kid) success"), "{}", whole.text);
    assert!(whole.text.contains("\nIn time."), "{}", whole.text);
    live.end().await;
}

/// GUARD-40, part of 10-T12: a turn that a notice wakes has a fresh budget; a retry inside a run has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_woken_round_has_a_fresh_budget_and_a_retry_has_not() {
    let project = Project::new();
    project.card("lead", "tools: read\nallowNestedSubagents: true\ntoolBudget: { hard: 2 }");
    project.card("kid", "tools: read\ntoolBudget: { hard: 2 }");
    project.file("a.txt", "alpha\n");
    let live = project.session(
        r"
rules:
  - match: { role: lead, request: 1 }
    turns:
      - calls:
          - { tool: subagent, arguments: { agent: scout, name: helper, task: help } }
          - { tool: read, arguments: { path: a.txt } }
  - match: { role: lead, request: 2 }
    turns: [{ text: I wait. }]
  - match: { role: scout }
    turns: [{ untilFile: go, text: helped }]
  - match: { role: lead, request: '3-4' }
    repeat: last
    turns: [{ calls: [{ tool: read, arguments: { path: a.txt } }] }]
  - match: { role: lead }
    turns: [{ text: 'All four calls ran.' }]

  - match: { role: kid, request: '1-2' }
    repeat: last
    turns: [{ calls: [{ tool: read, arguments: { path: a.txt } }], error: { status: 503, body: busy, times: 1 } }]
  - match: { role: kid }
    repeat: last
    turns: [{ text: Trying more., calls: [{ tool: read, arguments: { path: a.txt } }] }]
",
    );
    live.subagent(json!({ "agent": "lead", "name": "l", "task": "lead" })).await.good();
    live.asked("l", 2).await;
    project.file("go", "");
    let reply = live.subagent(json!({ "action": "wait" })).await;
    assert!(reply.good().contains("All four calls ran."), "{}", reply.text);
    let results = results_of(&project, "l");
    assert!(results.len() == 4 && results.iter().all(|result| !result.is_error), "{results:#?}");

    let reply = launch(&live, "kid", "k").await;
    assert!(reply.text.starts_with("✗ k (kid) failed (terminated during tool call)"), "{}", reply.text);
    assert_eq!(live.model.of("k").len(), 5, "three turns, two of them asked twice");
    live.end().await;
}

/// GUARD-85 … GUARD-88, 10-T18: on the real `bash`.
#[tokio::test(flavor = "multi_thread")]
async fn bash_is_bounded_by_the_roles_timeout() {
    let project = Project::new();
    project.card("short", "tools: bash, read\ntoolTimeoutMs: 400");
    project.card("free", "tools: bash, read");
    project.file("a.txt", "alpha\n");
    let sleep = |timeout: Value| json!({ "tool": "bash", "arguments": { "command": "echo begun; sleep 60", "timeout": timeout } });
    let quick =
        |timeout: Value| json!({ "tool": "bash", "arguments": { "command": "echo quick", "timeout": timeout } });
    let calls = [
        bash("echo begun; sleep 60"),
        sleep(json!(0.2)),
        sleep(json!(50)),
        quick(json!(0)),
        quick(json!("soon")),
        bash("echo quick"),
        json!({ "tool": "read", "arguments": { "path": "a.txt" } }),
    ];
    // Without a limit the input stays as it is, and the host judges it alone.
    let unbounded = [sleep(json!(0.2)), quick(json!(-1)), quick(json!(50))];
    let rules = json!([{ "match": { "name": "s" }, "turns": turns(&calls) }, { "turns": turns(&unbounded) }]);
    let live = project.session(&json!({ "rules": rules }).to_string());
    let reply = launch(&live, "short", "s").await;
    assert!(reply.good().contains("that is all"), "the run goes on after each: {}", reply.text);
    let results = results_of(&project, "s");
    let bad: Vec<&str> = results[..5].iter().map(Reply::bad).collect();
    assert_eq!(bad[0], "begun\n\n\nCommand timed out after 0.4 seconds");
    assert_eq!(bad[1], "begun\n\n\nCommand timed out after 0.2 seconds");
    assert_eq!(bad[2], "begun\n\n\nCommand timed out after 0.4 seconds");
    assert_eq!(bad[3], "Invalid timeout: must be a positive number of seconds");
    assert!(bad[4].contains("timeout"), "the host's own error: {}", bad[4]);
    assert_eq!(results[5].good().trim_end(), "quick");
    assert!(results[6].good().contains("alpha"));

    launch(&live, "free", "f").await.good();
    let results = results_of(&project, "f");
    assert_eq!(results[0].bad(), "begun\n\n\nCommand timed out after 0.2 seconds");
    assert_eq!(results[1].bad(), "Invalid timeout: must be a positive number of seconds");
    assert_eq!(results[2].good().trim_end(), "quick");
    live.end().await;
}

/// GUARD-10, INH-10, 10-T19: an inherited extension rewrites a command first, and what it made of it is judged.
#[tokio::test(flavor = "multi_thread")]
async fn the_guard_judges_what_other_extensions_made_of_a_command() {
    let project = Project::new();
    project.card("kid", "tools: bash\nacceptance: { role: read-only }");
    project.file("keep.txt", "kept\n");
    let calls = [bash("run this: rm keep.txt"), bash("rm keep.txt"), bash("run this: cat keep.txt")];
    let live = project
        .session_with(&calls_one_by_one(&calls), |builder| builder.extension(library("rewrite_ext").to_string_lossy()));
    launch(&live, "kid", "k").await.good();
    let results = results_of(&project, "k");
    let refusal =
        "read-only role: 'rm keep.txt' is refused in bash (changes files). Describe the change instead of making it.";
    assert_eq!((results[0].bad(), results[1].bad()), (refusal, refusal));
    assert_eq!(results[2].good().trim_end(), "kept");
    assert_eq!(project.read("keep.txt"), "kept\n");
    live.end().await;
}

/// GUARD-60 … GUARD-64, GUARD-94, GUARD-95: the ledger of a live run is out of reach, for a writer too.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_ledger_is_out_of_reach_for_bash() {
    let project = Project::new();
    project.card("kid", "tools: bash\nacceptance: { role: writer }");
    let calls = [
        bash("cat .pi-subagents/runs/*/legion.db"),
        bash("sqlite3 $PI_LEGION_DB .dump"),
        bash("rm -rf .pi-subagents"),
        bash("mv .pi-subagents/runs ../elsewhere"),
        bash("mkdir -p out && touch out/x && rm -rf out && echo gone"),
    ];
    let live = project.session(&calls_one_by_one(&calls));
    launch(&live, "kid", "k").await.good();
    let results = results_of(&project, "k");
    let text = "bash may not read or write legion.db. Use legion_tree for the tree's state, or the grep tool to search for the text.";
    assert_eq!((results[0].bad(), results[1].bad()), (text, text));
    let holds = |path: &str| format!("bash may not remove or move '{path}': it holds this run's legion.db.");
    assert_eq!(results[2].bad(), holds(".pi-subagents"));
    assert_eq!(results[3].bad(), holds(".pi-subagents/runs"));
    assert_eq!(results[4].good().trim_end(), "gone");
    assert_eq!(project.ledger().state("k"), "settled");
    live.end().await;
}

/// F33, GUARD-70 … GUARD-74, GUARD-80, GUARD-82, BUND-3: the bundled scout is held to reading, as far as the guard's
/// boundary goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_scout_is_refused_writing() {
    let project = Project::new();
    project.file("a.txt", "alpha\n");
    let calls = [
        bash("cat > made.txt <<'END'\ntext\nEND"),
        bash("sed -i s/alpha/beta/ a.txt"),
        bash("git commit -am x"),
        json!({ "tool": "write", "arguments": { "path": "made.txt", "content": "x" } }),
        json!({ "tool": "subagent", "arguments": { "agent": "worker", "task": "write it for me" } }),
        json!({ "tool": "vexillatio", "arguments": { "task": "write it for me" } }),
        bash("grep -c alpha a.txt 2>/dev/null"),
        bash("echo by-a-program | awk '{ print > \"program.txt\" }'"),
    ];
    let live = project.session(&calls_one_by_one(&calls));
    let reply = live.call("vexillatio", json!({ "tasks": [{ "task": "look", "name": "s" }] })).await;
    assert!(reply.good().starts_with("✓ s (scout) success"), "{}", reply.text);
    let results = results_of(&project, "s");
    let refused = |n: usize, command: &str, why: &str| {
        let text = format!(
            "read-only role: '{command}' is refused in bash ({why}). Describe the change instead of making it."
        );
        assert_eq!(results[n].bad(), text);
    };
    refused(0, "cat > made.txt <<'END'", "writes to 'made.txt'");
    refused(1, "sed -i s/alpha/beta/ a.txt", "changes files");
    refused(2, "git commit -am x", "changes the repository");
    for (n, tool) in [(3, "write"), (4, "subagent"), (5, "vexillatio")] {
        assert_eq!(results[n].bad(), format!("Tool {tool} not found"), "it has no such tool");
    }
    assert_eq!(results[6].good().trim_end(), "1");
    // What a program does by itself is beyond the documented boundary (GUARD-80).
    assert_eq!((results[7].is_error, project.read("program.txt").as_str()), (false, "by-a-program\n"));
    assert!(!project.path("made.txt").exists());
    assert_eq!(project.read("a.txt"), "alpha\n");
    assert_eq!(live.console.lines(Stream::Err), [""; 0]);
    live.end().await;
}

/// GUARD-56: a child that calls a tool which it does not have, again and again, is not asked about, and ends all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_repeats_an_unknown_tool_ends() {
    let project = Project::new();
    project.card("kid", "tools: read\nturnBudget: { hard: 2 }");
    let live = project.session("rules: [{ repeat: last, turns: [{ calls: [{ tool: nonesuch, arguments: {} }] }] }]");
    let reply = launch(&live, "kid", "k").await;
    assert!(reply.text.starts_with("■ k (kid) aborted"), "{}", reply.text);
    assert!(live.model.of("k").len() <= 14, "{} requests", live.model.of("k").len());
    live.end().await;
}
