//! The gates of native-host, asked of the probe in real sessions (01 §3).

use native_host::session_file::{Message, StopReason};
use serde_json::{Value, json};
use tests::native::{Bench, call, messages_of, probe, probe_number, run_in, second_probe, steps, until, within};

/// Steps that set a gate and then go on.
fn gated(gate: Value, rest: Value) -> String {
    let mut all = vec![json!({ "calls": [["probe_gate", gate]] })];
    all.extend(rest.as_array().cloned().unwrap_or_default());
    steps(all.into())
}

async fn set(bench: &Bench, gate: Value) {
    probe(bench.host.root(), "probe_gate", gate).await;
}

/// What a gate was asked, oldest first.
async fn asked(bench: &Bench, gate: &str) -> Vec<Value> {
    let all = probe(bench.host.root(), "probe_asked", json!({})).await;
    let all = all.as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|asked| asked["gate"] == gate).collect()
}

/// ABI-32: a refusal is the call's result, and the tool is not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_call_gate_refuses_a_call() {
    let bench = Bench::new();
    set(&bench, json!({ "gate": "tool_call", "answer": { "block": true, "reason": "not today" } })).await;
    bench.run(&call("write", json!({ "path": "a.txt", "content": "x" }))).await;
    let result = bench.results().await.pop().unwrap();
    assert!(result.is_error && result.text() == "not today", "{result:?}");
    assert!(!bench.project().join("a.txt").exists());
}

/// ABI-52: keys that are not in the answer's input are removed, nothing is checked again, the transcript keeps
/// the original, and the tool_result gate sees what ran.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_input_replaces_the_arguments() {
    let bench = Bench::new();
    set(&bench, json!({ "gate": "tool_call", "answer": { "input": { "text": 7, "more": true } } })).await;
    bench.run(&call("probe_echo", json!({ "text": "original", "pad": 3 }))).await;
    let result = bench.results().await.pop().unwrap();
    assert_eq!(result.details, Some(json!({ "text": 7, "more": true })));
    let messages = messages_of(bench.host.root()).await;
    let mut calls = messages.iter().filter_map(|message| match message {
        Message::Assistant(answer) => answer.tool_calls().last().cloned(),
        _ => None,
    });
    assert_eq!(calls.next_back().unwrap().arguments, json!({ "text": "original", "pad": 3 }));
    let seen = asked(&bench, "tool_result").await;
    let of_echo = seen.iter().find(|asked| asked["event"]["toolName"] == "probe_echo").unwrap();
    assert_eq!(of_echo["event"]["input"], json!({ "text": 7, "more": true }));
}

/// ABI-55: the whole input for the tools of `inputFor`, the first KiB of its text for others; an answer with an
/// input for one of those counts as a gate that erred.
#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_whole_where_asked_for_and_cut_elsewhere() {
    let bench = Bench::new();
    let long = "é".repeat(2_000);
    bench.run(&call("probe_echo", json!({ "text": long }))).await;
    bench.run(&call("ls", json!({ "path": long }))).await;
    bench.run(&call("bash", json!({ "command": format!("true {long}") }))).await;
    let seen = asked(&bench, "tool_call").await;
    let of = |tool: &str| seen.iter().find(|asked| asked["event"]["toolName"] == tool).map(|asked| &asked["event"]);
    assert_eq!(of("probe_echo").unwrap()["input"]["text"], json!(long));
    let bash = of("bash").unwrap();
    assert!(bash.get("input").is_none());
    let text = bash["inputText"].as_str().unwrap();
    assert!(text.len() <= 1_024 && text.len() > 1_020 && text.starts_with("{\"command\":\"true é"), "{text}");
    assert!(of("ls").is_none(), "an inactive tool is not asked about");

    set(&bench, json!({ "gate": "tool_call", "answer": { "input": { "command": "echo changed" } } })).await;
    bench.run(&call("bash", json!({ "command": "echo original" }))).await;
    let result = bench.results().await.pop().unwrap();
    assert!(result.is_error && result.text().contains("changed the input of 'bash'"), "{}", result.text());
}

/// ABI-33: an erring or panicking tool_call gate blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_tool_call_gate_blocks_the_call() {
    for fault in [json!({ "err": "no judge" }), json!({ "panic": true })] {
        let bench = Bench::new();
        let mut gate = fault.clone();
        gate["gate"] = json!("tool_call");
        set(&bench, gate).await;
        bench.run(&call("write", json!({ "path": "a.txt", "content": "x" }))).await;
        let result = bench.results().await.pop().unwrap();
        assert!(result.is_error && result.text().contains("'write' was not run"), "{fault}: {}", result.text());
        assert!(!bench.project().join("a.txt").exists(), "{fault}");
    }
}

/// ABI-52: not asked for a call that fails the schema or names no tool; tool_result not for a blocked one.
#[tokio::test(flavor = "multi_thread")]
async fn gates_are_asked_only_about_calls_that_could_run() {
    let bench = Bench::new();
    bench.run(&call("nonsense", json!({}))).await;
    assert_eq!(bench.results().await.pop().unwrap().text(), "Tool nonsense not found");
    bench.run(&call("write", json!({ "path": 7 }))).await;
    assert!(bench.results().await.pop().unwrap().text().starts_with("Validation failed"));
    set(&bench, json!({ "gate": "tool_call", "answer": { "block": true } })).await;
    bench.run(&call("probe_whoami", json!({}))).await;
    assert_eq!(bench.results().await.pop().unwrap().text(), "Tool execution was blocked");
    let calls = asked(&bench, "tool_call").await;
    assert_eq!(calls.iter().map(|asked| &asked["event"]["toolName"]).collect::<Vec<_>>(), ["probe_whoami"]);
    assert!(asked(&bench, "tool_result").await.is_empty());
}

/// ABI-32: `terminate` on a whole batch ends the run, and the last answer keeps its stop reason; on a part of a
/// batch it does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_terminating_refusals_ends_the_run() {
    let bench = Bench::new();
    let refusal = json!({ "gate": "tool_call", "answer": { "block": true, "reason": "enough", "terminate": true } });
    bench
        .run(&gated(refusal, json!([{ "calls": [["probe_whoami", {}], ["probe_whoami", {}]] }, { "text": "never" }])))
        .await;
    let messages = messages_of(bench.host.root()).await;
    assert!(matches!(messages.last(), Some(Message::ToolResult(result)) if result.text() == "enough"));
    let last = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(answer) => Some(answer),
        _ => None,
    });
    assert_eq!(last.unwrap().stop_reason, StopReason::ToolUse);

    let bench = Bench::new();
    let part = steps(json!([
        { "calls": [["probe_usage", { "terminate": true }], ["probe_whoami", {}]] },
        { "calls": [["probe_usage", { "terminate": true }]] },
        { "text": "never" },
    ]));
    let outcome = bench.run(&part).await;
    assert_eq!(bench.model.requests().len(), 2);
    assert_eq!(outcome.text, None);
}

/// ABI-32: tool_result replaces what it gives.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_result_gate_changes_the_result() {
    let bench = Bench::new();
    let changed = json!({ "content": [{ "type": "text", "text": "changed" }], "details": { "d": 1 }, "isError": true });
    set(&bench, json!({ "gate": "tool_result", "answer": changed })).await;
    let result = bench.tool("probe_whoami", json!({})).await;
    assert_eq!((result.text().as_str(), result.details, result.is_error), ("changed", Some(json!({ "d": 1 })), true));
    set(&bench, json!({ "gate": "tool_result", "err": "lost" })).await;
    let result = bench.tool("probe_echo", json!({ "text": "as it was" })).await;
    assert_eq!(result.text(), "as it was", "an erring gate changes nothing");
}

/// ABI-53: prompt, sections and message of one run; a bad section id changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn before_agent_start_shapes_one_run() {
    let bench = Bench::new();
    let prompt = |bench: &Bench| bench.model.requests().last().unwrap().system_prompt.clone();
    bench.run("hi").await;
    assert!(prompt(&bench).ends_with("The probe is loaded."), "{}", prompt(&bench));

    let message = json!({ "customType": "probe.ok", "content": "a note", "display": true });
    let answer = json!({ "sections": [{ "id": "probe", "text": "" }, { "id": "own", "text": "Only now." }], "message": message });
    set(&bench, json!({ "gate": "before_agent_start", "answer": answer })).await;
    bench.run("hi").await;
    assert!(prompt(&bench).ends_with("Only now.") && !prompt(&bench).contains("The probe is loaded."));
    let custom = bench.model.requests().last().unwrap().messages.last().cloned();
    assert!(matches!(custom, Some(Message::Custom(message)) if message.custom_type == "probe.ok"));

    set(&bench, json!({ "gate": "before_agent_start", "answer": { "systemPrompt": "New.", "sections": [{ "id": "own", "text": "More." }] } })).await;
    bench.run("hi").await;
    assert_eq!(prompt(&bench), "New.\n\nMore.");

    for bad in ["preamble", "Bad", "9x"] {
        set(&bench, json!({ "gate": "before_agent_start", "answer": { "systemPrompt": "Bad.", "sections": [{ "id": bad, "text": "x" }] } })).await;
        bench.run("hi").await;
        assert!(prompt(&bench).ends_with("The probe is loaded."), "{bad}");
    }
    let seen = asked(&bench, "before_agent_start").await;
    assert_eq!(seen[0]["event"]["prompt"], "hi");
    assert_eq!(seen[0]["ctx"]["idle"], false);
}

/// ABI-32: an input can be taken, changed or let pass.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_gate_takes_or_changes_a_text() {
    let bench = Bench::new();
    set(&bench, json!({ "gate": "input", "answer": { "text": "other" } })).await;
    let outcome = bench.run("hi").await;
    assert_eq!(outcome.text.as_deref(), Some("you said: other"));
    set(&bench, json!({ "gate": "input", "answer": { "handled": true } })).await;
    let before = bench.model.requests().len();
    assert_eq!(bench.run("hi").await, native_host::host::RunOutcome::default());
    assert_eq!(bench.model.requests().len(), before);
}

/// ABI-54: held, continued with a message, and without one; what comes meanwhile is queued until the answer.
#[tokio::test(flavor = "multi_thread")]
async fn agent_before_settle_holds_and_continues_a_run() {
    let bench = Bench::new();
    let news = json!([{ "customType": "probe.ok", "content": "news", "display": true }]);
    let hold = json!({ "gate": "agent_before_settle", "hold": true });
    let root = bench.host.root();
    let prompted = root.prompt(gated(hold, json!([{ "text": "first" }])), "extension", None).await.unwrap();
    let mut waiting = Box::pin(root.wait_idle(prompted.run));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), &mut waiting).await.is_err(), "held");
    let queued = within(root.prompt("meanwhile".into(), "extension", None)).await.unwrap();
    assert_eq!((queued.disposition, queued.run), (host_abi::ops::Disposition::Queued, prompted.run));
    bench.host.run_prompt("/probe release agent_before_settle").await.ok();
    // The second settling is held by a new script no more: the release stands for the script.
    within(waiting).await.unwrap();
    let texts: Vec<String> = messages_of(root)
        .await
        .iter()
        .map(|message| match message {
            Message::Assistant(answer) => answer.text(),
            Message::User(user) => user.content.text(),
            _ => String::new(),
        })
        .collect();
    assert!(texts.contains(&"meanwhile".to_owned()) && texts.last().unwrap() != "first", "{texts:?}");

    let bench = Bench::new();
    set(&bench, json!({ "gate": "agent_before_settle", "answer": { "continue": true } })).await;
    let before = bench.model.requests().len();
    bench.run("hi").await;
    assert_eq!(bench.model.requests().len(), before + 1, "without a message the run settles");
    set(&bench, json!({ "gate": "agent_before_settle", "answer": { "messages": news } })).await;
    bench.run("hi").await;
    let messages = messages_of(bench.host.root()).await;
    assert!(matches!(messages.last(), Some(Message::Custom(message)) if message.content.text() == "news"));
}

/// ABI-54: `continue` with a message makes one more request, as often as it is answered.
#[tokio::test(flavor = "multi_thread")]
async fn agent_before_settle_continues_until_it_is_content() {
    let bench = Bench::new();
    // The news resets the gate, so that the run is continued once.
    let reset = steps(
        json!([{ "calls": [["probe_gate", { "gate": "agent_before_settle", "answer": null }]] }, { "text": "told" }]),
    );
    let news = json!([{ "customType": "probe.ok", "content": reset, "display": true }]);
    let gate = json!({ "gate": "agent_before_settle", "answer": { "messages": news, "continue": true } });
    let outcome = bench.run(&gated(gate, json!([{ "text": "first" }]))).await;
    assert_eq!(outcome.text.as_deref(), Some("told"));
    assert_eq!(bench.model.requests().len(), 4);
    let settled = probe(bench.host.root(), "probe_events", json!({})).await;
    let names: Vec<&str> = settled.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    let runs = names.split(|name| *name == "agent_settled").map(<[&str]>::to_vec).collect::<Vec<_>>();
    assert_eq!(runs.len(), 2, "settled once, at the end: {names:?}");
    assert!(runs[1].is_empty());
    assert_eq!(runs[0].iter().filter(|name| **name == "agent_start").count(), 2);
}

/// ABI-54: an abort ends the wait, the gate is cancelled, and an aborted run is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_ends_a_held_settling() {
    let bench = Bench::new();
    let root = bench.host.root();
    let hold = json!({ "gate": "agent_before_settle", "hold": true });
    let prompted = root.prompt(gated(hold, json!([{ "text": "first" }])), "extension", None).await.unwrap();
    until("the gate is held", || bench.model.requests().len() == 2 && bench.model.open() == 0).await;
    root.abort(false);
    let idle = within(root.wait_idle(prompted.run)).await.unwrap();
    assert!(idle.aborted);
    // The model hangs, so that the run is aborted before its end.
    let prompted = root.prompt(steps(json!([{ "hang": true }])), "extension", None).await.unwrap();
    bench.model.wait_open(1).await;
    root.abort(false);
    assert!(within(root.wait_idle(prompted.run)).await.unwrap().aborted);
    let last = messages_of(root).await.pop().unwrap();
    assert!(
        matches!(last, Message::Assistant(answer) if answer.stop_reason == StopReason::Aborted && answer.text() == "half")
    );
    let held = asked(&bench, "agent_before_settle").await;
    assert_eq!(held[0]["cancelled"], true);
    assert_eq!(held[0]["event"]["outcome"], "completed");
    assert_eq!(held.len(), 1, "the aborted run was not asked: {held:?}");
}

/// ABI-33: several extensions in load order, each seeing what the former changed; a refusal ends the asking.
#[tokio::test(flavor = "multi_thread")]
async fn several_extensions_are_asked_in_load_order() {
    let bench = Bench::with(|builder| builder.extension(second_probe().to_string_lossy()));
    let root = bench.host.root();
    let sections = json!([{ "id": "own", "text": "From the first." }]);
    probe_number(root, 0, "probe_gate", json!({ "gate": "before_agent_start", "answer": { "sections": sections } }))
        .await;
    probe_number(root, 0, "probe_gate", json!({ "gate": "input", "answer": { "text": "from the first" } })).await;
    assert_eq!(bench.run("hi").await.text.as_deref(), Some("you said: from the first"));
    let asked = |number, gate: &'static str| async move {
        let all = probe_number(root, number, "probe_asked", json!({})).await;
        let all = all.as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|asked| asked["gate"] == gate).map(|asked| asked["event"].clone()).collect::<Vec<_>>()
    };
    assert!(asked(1, "before_agent_start").await[0]["systemPrompt"].as_str().unwrap().ends_with("From the first."));
    assert_eq!(asked(0, "input").await[0]["text"], "hi");
    assert_eq!(asked(1, "input").await[0]["text"], "from the first");

    probe_number(root, 0, "probe_gate", json!({ "gate": "input", "answer": null })).await;
    let input = json!({ "gate": "tool_call", "answer": { "input": { "text": "first" } } });
    probe_number(root, 0, "probe_gate", input).await;
    let result = bench.tool("probe_echo", json!({ "text": "original" })).await;
    assert_eq!(result.text(), "first");
    assert_eq!(asked(1, "tool_call").await[0]["input"], json!({ "text": "first" }));

    probe_number(root, 0, "probe_gate", json!({ "gate": "tool_call", "answer": { "block": true, "reason": "no" } }))
        .await;
    assert_eq!(bench.tool("probe_echo", json!({ "text": "x" })).await.text(), "no");
    assert_eq!(asked(1, "tool_call").await.len(), 1);
}

/// HOST-5: every session's shutdown gate is asked, with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn every_session_is_asked_at_the_end() {
    let bench = Bench::new();
    let (child, _) = bench.child("kid", json!({})).await;
    run_in(&child, "hi").await;
    probe(&child, "probe_gate", json!({ "gate": "session_shutdown", "hold": 200 })).await;
    let begun = legion_ext::clock::instant();
    within(bench.host.finish()).await;
    assert!(begun.elapsed() >= std::time::Duration::from_millis(200), "the child's gate was awaited");
    assert!(bench.host.core().sessions().is_empty());
}
