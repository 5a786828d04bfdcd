//! How turns end: well, badly, by a broken or silent stream, or by the parent's own call (03 §12, §13).

use native_host::{provider::scripted, session::run_state::RetryPolicy};
use serde_json::{Value, json};
use tests::{
    legion_world::{Project, custom, results},
    libraries::library,
};

const NO_RETRY: RetryPolicy = RetryPolicy { max: 0, base_delay_ms: 0, max_delay_ms: 0 };

/// ORC-105, ORC-107, ORC-109, ORC-110, part of 03-T10, part of 03-T11, F4, F12, F13: one row per way to end.
#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_turn_has_its_outcome() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.card("mute", "tools: read\ncompletionGuard: false");
    let live = project.session_with(
        r"
rules:
  - match: { name: broken }
    turns: [{ text: Half a sentence that breaks, broken: { afterChars: 6, message: stream closed early } }]
  - match: { name: lost }
    turns: [{ text: never, error: { status: 500, body: the model fell over } }]
  - match: { name: unwritten, request: 7 }
    turns: [{ text: never }]
  - match: { name: toolfail, request: 1 }
    turns: [{ text: I look., calls: [{ tool: read, arguments: { path: none.txt } }] }]
  - match: { name: toolfail }
    turns: [{ text: 'There is no such file, and that is my answer.' }]
  - match: { name: long }
    turns: [{ text: So far so, stopReason: length }]
  - match: { name: aborted }
    turns: [{ text: Something, stopReason: aborted }]
  - match: { name: failing }
    turns: [{ text: Something, stopReason: error }]
  - match: { name: forgot, request: 1 }
    turns: [{ thinking: I am done. }]
  - match: { name: forgot, prompt: 'Your last message had no text' }
    turns: [{ text: 'Here is what I did.' }]
  - match: { name: [silentone, mute1] }
    repeat: last
    turns: [{ thinking: Nothing to say. }]
  - match: { name: early, request: 1 }
    turns: [{ text: The answer is early., calls: [{ tool: read, arguments: { path: none.txt } }] }]
  - match: { name: early }
    turns: [{ thinking: Said already. }]
",
        |builder| builder.retry(NO_RETRY),
    );
    let table = [
        ("broken", "kid", "✗ broken (kid) failed (stream closed early)", "Half a"),
        ("lost", "kid", "✗ lost (kid) failed (HTTP 500: the model fell over)", ""),
        ("unwritten", "kid", "✗ unwritten (kid) failed (the script script has no turn for this request", ""),
        ("toolfail", "kid", "✓ toolfail (kid) success", "There is no such file, and that is my answer."),
        ("long", "kid", "✗ long (kid) truncated (output limit reached)", "So far so"),
        ("aborted", "kid", "■ aborted (kid) aborted (aborted)", "Something"),
        ("failing", "kid", "✗ failing (kid) failed (", "Something"),
        ("forgot", "kid", "✓ forgot (kid) success", "Here is what I did."),
        ("silentone", "kid", "✓ silentone (kid) success", ""),
        ("mute1", "mute", "✓ mute1 (mute) success", ""),
        ("early", "kid", "✓ early (kid) success", "The answer is early."),
    ];
    let tasks: Vec<Value> =
        table.iter().map(|(name, agent, ..)| json!({ "agent": agent, "name": name, "task": "end somehow" })).collect();
    let reply = live.subagent(json!({ "tasks": tasks, "async": false })).await;
    let text = reply.good();
    for (name, _, header, output) in table {
        assert!(text.lines().any(|line| line.starts_with(header)), "{header}\nin\n{text}");
        assert_eq!(project.artifact(name, 1), output, "the result of {name}");
    }
    assert!(text.contains("\n  ⚠ silentone: reported nothing\n"), "{text}");
    assert!(!text.contains("⚠ mute1"), "nobody asked it: {text}");
    assert_eq!(live.model.of("mute1").len(), 1);
    assert_eq!(live.model.of("silentone").len(), 2, "an empty report is asked for once");

    let ledger = project.ledger();
    for (name, _, header, _) in table {
        let (state, event) = match header.chars().next() {
            Some('✓') => ("settled", "node_settled"),
            Some('■') => ("retired", "node_retired"),
            _ => ("failed", "node_failed"),
        };
        assert_eq!((ledger.state(name), ledger.events_of(name)), (state, vec!["node_launched", event]), "{name}");
    }

    // F4: what has ended stays collectable, and its time stands still.
    let again = live.subagent(json!({ "action": "collect", "name": "broken" })).await;
    let more = live.subagent(json!({ "action": "collect", "name": "broken" })).await;
    assert_eq!(again.text, more.text, "ORC-90");
    assert!(again.text.starts_with("✗ broken (kid) failed (stream closed early)\n"), "{}", again.text);
    live.end().await;
}

/// F13, ORC-85: a stream that errs once and is asked again is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_that_the_host_mends_is_no_failure() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let live = project.session(
        r"
rules:
  - match: { name: once }
    turns: [{ text: Whole in the end., broken: { afterChars: 3, times: 1 } }]
  - match: { name: busy }
    turns: [{ text: Had to wait., error: { status: 429, body: slow down, times: 1 } }]
",
    );
    let tasks = json!([{ "name": "once", "task": "t" }, { "name": "busy", "task": "t" }]);
    let reply = live.subagent(json!({ "agent": "kid", "tasks": tasks, "async": false })).await;
    assert!(
        reply.good().contains("✓ once (kid) success") && reply.text.contains("✓ busy (kid) success"),
        "{}",
        reply.text
    );
    assert_eq!((live.model.of("once").len(), live.model.of("busy").len()), (2, 2));
    assert_eq!(project.artifact("once", 1), "Whole in the end.");
    live.end().await;
}

/// ORC-81, ORC-86, ORC-87, LINE-8, ORC-117, part of 03-T12, part of 03-T15, part of 09-T8: a silent stream costs its
/// parent one bounded wait, with ways on that the tool takes as they are printed.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_is_a_decision_of_its_parent() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let live = project.session("rules: [{ turns: [{ text: So, silence: { afterChars: 2 } }] }]");
    let tasks = json!([{ "name": "one", "task": "t" }, { "name": "two", "task": "t" }]);
    live.subagent(json!({ "agent": "kid", "tasks": tasks })).await.good();
    live.asked("one", 1).await;

    for action in ["wait", "collect"] {
        let call = json!({ "action": action, "names": ["one", "two"], "timeoutMs": 50 });
        let reply = live.subagent(call).await;
        let text = reply.good();
        assert_eq!(reply.details["timedOut"], true);
        for name in ["one", "two"] {
            let header = format!("… {name} (kid) running (collect deadline reached; the child is still running)");
            assert!(text.contains(&header), "{action}: {text}");
        }
        assert!(!text.contains("renew:"), "{text}");
    }
    // Each decision is a call that the tool takes.
    let reply = live.subagent(json!({ "action": "wait", "name": "one", "timeoutMs": 50 })).await;
    let decisions = reply.details["decisions"].as_array().cloned().unwrap();
    let kinds: Vec<&str> = decisions.iter().filter_map(|decision| decision["decision"].as_str()).collect();
    assert_eq!(kinds, ["stop", "force_stop"], "those that this build has");
    let printed = [
        "  stop: subagent({ action: \"stop\", name: \"one\" })",
        "  force_stop: subagent({ action: \"stop\", name: \"one\", force: true })",
    ];
    assert!(printed.iter().all(|line| reply.text.contains(line)), "{}", reply.text);
    assert_eq!(live.subagent(decisions[0]["call"].clone()).await.good(), "Stopped one");
    let force = json!({ "action": "stop", "name": "two", "force": true });
    assert_eq!(live.subagent(force).await.good(), "Force-stopped two");

    let ledger = project.ledger();
    for name in ["one", "two"] {
        assert_eq!((ledger.state(name), ledger.events_of(name)), ("retired", vec!["node_launched", "node_retired"]));
    }
    live.idle().await;
    assert_eq!(live.notices().await, [""; 0], "NTC-13: what the parent ended is not announced");
    let reply = live.subagent(json!({ "action": "collect", "name": "one" })).await;
    assert!(reply.text.starts_with("■ one (kid) aborted ("), "{}", reply.text);
    live.end().await;
}

/// NTC-2, NTC-9, F12: the words of a failure reach a parent that is not waiting, in its notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_announced_in_the_words_of_the_provider() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let script = "rules: [{ turns: [{ text: never, error: { status: 400, body: model overloaded by a test } }] }]";
    let live = project.session_with(script, |builder| builder.retry(NO_RETRY));
    live.subagent(json!({ "agent": "kid", "name": "lost", "task": "t" })).await.good();
    let notice = live.told("model overloaded by a test").await;
    let lines: Vec<&str> = notice.lines().collect();
    assert_eq!(lines[0], "▣ legion · automatic completion notice (not a message from the user)");
    assert!(
        lines[1].starts_with("✗ lost (kid) failed (") && lines[1].contains("model overloaded by a test"),
        "{notice}"
    );
    live.idle().await;
    assert_eq!(live.notices().await.len(), 1);
    live.end().await;
}

/// ORC-105, ORC-107: a child's last text is its result, whatever it said before.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_text_of_the_last_turn_is_the_result() {
    let project = Project::new();
    project.file("a.txt", "alpha\n");
    let live = project.session(
        r"
rules:
  - match: { request: 1 }
    turns: [{ text: First I look., calls: [{ tool: read, arguments: { path: a.txt } }] }]
  - match: { request: 2 }
    turns: [{ text: 'It says {{last_result | /\w+/}}.' }]
",
    );
    let reply = live.subagent(json!({ "agent": "worker", "name": "w", "task": "read a.txt", "async": false })).await;
    assert!(reply.good().contains("\nIt says alpha."), "{}", reply.text);
    assert!(!reply.text.contains("First I look."), "{}", reply.text);
    let request = live.model.of("w").pop().unwrap();
    assert_eq!(request.model.provider, scripted::SCRIPTED);
    assert_eq!(results(&request.messages).len(), 1);
    assert_eq!(custom(&request.messages, "subagent-notify"), [""; 0]);
    live.end().await;
}

/// ABI-6, GUARD-34, F13, part of 01-T4: a panic in an extension's tool is that call's failure; the child goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_childs_tool_fails_that_call_alone() {
    let project = Project::new();
    project.card("kid", "tools: read, probe_panic");
    let live = project.session_with(
        r"
rules:
  - match: { request: 1 }
    turns:
      - calls:
          - { tool: probe_panic, arguments: { where: invoke } }
          - { tool: probe_panic, arguments: { where: spawned } }
  - match: { request: 2 }
    turns: [{ text: 'I live: {{result.1}}' }]
",
        |builder| builder.extension(library("probe_ext").to_string_lossy()),
    );
    let reply = live.subagent(json!({ "agent": "kid", "name": "k", "task": "t", "async": false })).await;
    assert!(reply.good().starts_with("✓ k (kid) success"), "{}", reply.text);
    assert!(reply.text.contains("I live: ") && reply.text.contains("probe: invoke"), "{}", reply.text);
    let failed = results(&project.transcript("k"));
    assert!(failed.len() == 2 && failed.iter().all(|result| result.is_error), "{failed:#?}");
    live.end().await;
}
