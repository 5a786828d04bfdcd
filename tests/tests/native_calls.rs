//! Calls between native-host and a real library: panics, cancellation, order, results, lines (01).

use std::time::Duration;

use host_abi::{info::Mode, ops::Stream};
use native_host::{provider::Provider, session::event::SessionEvent, session_file::Message};
use serde_json::{Value, json};
use tests::native::{Bench, call, messages_of, probe, results_of, run_in, steps, until, within};

/// ABI-6, part of 01-T2: a panic in each place fails one call, and the next works.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_each_place_fails_one_call() {
    let bench = Bench::new();
    for place in ["invoke", "after_spawn", "spawned", "thread", "unfenced", "payload"] {
        let result = bench.tool("probe_panic", json!({ "where": place })).await;
        assert!(result.is_error, "{place}: {}", result.text());
        assert_eq!(bench.tool("probe_echo", json!({ "text": "alive" })).await.text(), "alive", "after {place}");
    }
    // Armed: the next notify and the next query panic.
    bench.tool("probe_panic", json!({ "where": "notify" })).await;
    assert_eq!(bench.tool("probe_echo", json!({ "text": "alive" })).await.text(), "alive");
    probe(bench.host.root(), "probe_panic", json!({ "where": "query" })).await;
    let views = bench.host.views(bench.host.root());
    assert!(views.complete("probe", "").is_empty());
    assert!(!views.complete("probe", "").is_empty());
    // A panic in attach: the child is not there, the parent goes on.
    let error = bench.try_child("kid", json!({ "extensionScope": { "probe": "panic" } })).await;
    let errors = error.unwrap()["errors"].clone();
    assert!(errors[0].as_str().unwrap().contains("panicked"), "{errors}");
    // A panic in detach: the child is gone all the same.
    let (child, id) = bench.child("last", json!({})).await;
    probe(&child, "probe_panic", json!({ "where": "detach" })).await;
    bench.request("child.dispose", json!({ "child": id })).await.unwrap();
    assert_eq!(bench.host.core().sessions().len(), 2);
    // In a host body: a model that panics fails its run alone.
    let outcome = bench.run(&steps(json!([{ "panic": true }]))).await;
    assert!(outcome.error.unwrap().contains("panicked"));
    assert_eq!(bench.run("hi").await.text.as_deref(), Some("you said: hi"));
}

/// ABI-6: a command that panics or fails tells so.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_fails_alone() {
    let bench = Bench::new();
    for (line, words) in [("/probe panic", "panicked"), ("/probe refuse this", "refused: this")] {
        let error = bench.host.run_prompt(line).await.unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
    bench.run("/probe print a line").await;
    assert_eq!(bench.printed(Stream::Out), ["a line"]);
    assert_eq!(bench.run("/unknown command").await.text.as_deref(), Some("you said: /unknown command"));
}

/// ABI-50: a call is cancelled while it runs, and one whose tool never answers is left after its grace.
#[tokio::test(flavor = "multi_thread")]
async fn an_abort_reaches_a_tool_that_runs() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    let root = bench.host.root();
    let prompted = root.prompt(call("probe_sleep", json!({})), "extension", None).await.unwrap();
    // The tool posts a partial result when it sleeps.
    while !matches!(*within(events.recv()).await.unwrap().event, SessionEvent::ToolUpdate { .. }) {}
    root.abort(false);
    assert!(within(root.wait_idle(prompted.run)).await.unwrap().aborted);
    assert_eq!(bench.results().await.pop().unwrap().details, Some(json!({ "cancelled": true })));

    let hold = json!({ "gate": "tool_result", "hold": true });
    probe(root, "probe_gate", hold).await;
    let prompted = root.prompt(call("probe_echo", json!({ "text": "held" })), "extension", None).await.unwrap();
    until("the gate is asked", || bench.model.requests().len() == 2 && bench.model.open() == 0).await;
    root.abort(false);
    assert!(within(root.wait_idle(prompted.run)).await.unwrap().aborted);
}

/// ABI-2, ABI-8, 01-T4 with the tests of `abi_calls.rs`: dropping a request's future ends the host's work, and a
/// detached scope answers nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_leaves_the_host() {
    let bench = Bench::new();
    let root = bench.host.root();
    let (child, id) = bench.child("kid", json!({})).await;
    within(child.prompt(steps(json!([{ "hang": true }])), "extension", None)).await.unwrap();
    let wait = json!({ "op": "child.wait_idle", "input": { "child": id } });
    let prompted = root.prompt(call("probe_request", wait), "extension", None).await.unwrap();
    let open = || bench.host.core().requests.open();
    until("the request is in flight", || open().iter().any(|open| open.op == "child.wait_idle")).await;
    root.abort(false);
    within(root.wait_idle(prompted.run)).await.unwrap();
    assert_eq!(bench.results().await.pop().unwrap().details, Some(json!({ "dropped": true })));
    until("the table is empty", || open().is_empty()).await;

    // A session that goes settles what it asked with SCOPE_GONE.
    let grand = json!({
        "agentId": "g", "name": "g", "cwd": bench.project(), "sessionFile": bench.path("g.jsonl"), "extensions": [],
    });
    let (other, other_id) = bench.child("other", json!({})).await;
    let made = probe(&other, "probe_request", json!({ "op": "child.create", "input": grand })).await;
    let grand = made["answer"]["child"].clone();
    let scope = other.scope();
    let asking = tokio::runtime::Handle::current().spawn({
        let other = std::sync::Arc::clone(&other);
        async move {
            probe(&other, "probe_request", json!({ "op": "child.wait_idle", "input": { "child": grand, "run": 1 } }))
                .await
        }
    });
    until("the request is in flight", || open().iter().any(|open| open.scope == scope)).await;
    bench.request("child.dispose", json!({ "child": other_id })).await.unwrap();
    let answer = within(asking).await.unwrap();
    assert!(["SCOPE_GONE", "NO_CHILD"].contains(&answer["error"]["code"].as_str().unwrap()), "{answer}");
    let gone = probe(root, "probe_request", json!({ "op": "session.info", "scope": scope })).await;
    assert_eq!(gone["error"]["code"], "SCOPE_GONE");
    probe(root, "probe_post", json!({ "op": "print", "input": { "line": "lost", "stream": "out" }, "scope": scope }))
        .await;
    assert!(bench.printed(Stream::Out).is_empty(), "posts of a detached scope are dropped");
}

/// A reply that is dropped fails the call (part of 01-T4).
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_reply_fails_the_call() {
    let bench = Bench::new();
    let result = bench.tool("probe_drop_reply", json!({})).await;
    assert!(result.is_error && result.text().contains("dropped the call"), "{}", result.text());
}

/// ABI-10, 01-T5: 10,000 progress posts arrive in order, and before the one finish.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_partial_results_arrive_in_order() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    bench.run(&call("probe_progress", json!({ "n": 10_000 }))).await;
    let (mut next, mut ended) = (0, false);
    while let Ok(event) = events.try_recv() {
        match &*event.event {
            SessionEvent::ToolUpdate { partial, .. } => {
                assert_eq!(partial.details.as_ref().unwrap()["i"], next);
                assert!(!ended);
                next += 1;
            }
            SessionEvent::ToolEnd { output, .. } => {
                assert_eq!(output.details, Some(json!({ "n": 10_000 })));
                assert!(!std::mem::replace(&mut ended, true));
            }
            _ => {}
        }
    }
    assert!(next == 10_000 && ended, "{next}");
}

/// ABI-35: the order of a run's events, the settled one last and once.
#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_their_order() {
    let bench = Bench::new();
    bench.run(&call("probe_whoami", json!({}))).await;
    let events = probe(bench.host.root(), "probe_events", json!({})).await;
    let events = events.as_array().unwrap().iter().filter(|event| event["name"] != "message_progress");
    let names: Vec<&str> = events.clone().filter_map(|event| event["name"].as_str()).collect();
    let run = [
        "session_start",
        "agent_start",
        "turn_start",
        "message_end",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_end",
        "turn_end",
        "turn_start",
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ];
    assert_eq!(names, run);
    let payload = |n: usize| events.clone().nth(n).unwrap()["payload"].clone();
    assert_eq!(payload(0), json!({ "reason": "startup" }));
    assert_eq!((payload(2), payload(9)), (json!({ "turn": 0 }), json!({ "turn": 1 })));
    assert_eq!(payload(3)["role"], "user");
    let answer = payload(4);
    assert_eq!(
        (&answer["role"], &answer["stopReason"], &answer["usage"]["input"]),
        (&json!("assistant"), &json!("toolUse"), &json!(100))
    );
    assert!(answer["durationMs"].is_u64());
    assert_eq!(payload(5)["inputText"], "{}");
    assert_eq!(payload(6)["isError"], false);
    assert_eq!(payload(13), json!({ "aborted": false }));
}

/// ABI-12, part of 01-T13: deltas only while they are switched on, and only for the extension that did so.
#[tokio::test(flavor = "multi_thread")]
async fn deltas_come_only_while_switched_on() {
    let bench = Bench::new();
    let root = bench.host.root();
    let deltas = || async {
        let events = probe(root, "probe_events", json!({})).await;
        let all = events.as_array().unwrap().clone();
        all.iter()
            .filter(|event| event["name"] == "message_update")
            .map(|event| event["payload"]["delta"].clone())
            .collect::<Vec<_>>()
    };
    bench.run("off").await;
    assert!(deltas().await.is_empty());
    probe(root, "probe_post", json!({ "op": "events.deltas", "input": { "on": true } })).await;
    bench.run("on").await;
    assert_eq!(deltas().await, ["you said: on"]);
    probe(root, "probe_post", json!({ "op": "events.deltas", "input": { "on": false } })).await;
    bench.run("off again").await;
    assert_eq!(deltas().await.len(), 1);
    // At most one message_progress per 5 s, also with deltas off.
    let events = probe(root, "probe_events", json!({})).await;
    let progress = events.as_array().unwrap().iter().filter(|event| event["name"] == "message_progress").count();
    assert_eq!(progress, 1);
}

/// ABI-51, part of 01-T13: the usage of nested calls is in the session's totals once.
#[tokio::test(flavor = "multi_thread")]
async fn nested_usage_counts_once() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    let (child, id) = bench.child("kid", json!({})).await;
    run_in(&child, &call("probe_usage", json!({}))).await;
    let stats = bench.request("child.stats", json!({ "child": id })).await.unwrap();
    // Two requests of 100 and 10 tokens, and the list of the tool: 30 and 3, with 10 read and 4 written.
    assert_eq!(stats["tokensIn"], 100 * 2 + 30 + 4);
    assert_eq!((&stats["tokensOut"], &stats["cacheRead"]), (&json!(10 * 2 + 3), &json!(10)));
    assert_eq!(stats["costUsd"], 0.5);
    let result = results_of(&child).await.pop().unwrap();
    assert_eq!(result.usage.unwrap().total_tokens, 47);
    let text = std::fs::read_to_string(bench.path("kid.jsonl")).unwrap();
    assert_eq!(text.matches("\"totalTokens\":47").count(), 1);
    let structured = std::iter::from_fn(|| events.try_recv().ok()).find_map(|event| match &*event.event {
        SessionEvent::ToolEnd { output, .. } => output.structured_content.clone(),
        _ => None,
    });
    assert_eq!(structured, Some(json!({ "sum": 33 })), "programs get the structured content");
    assert!(!text.contains("structuredContent"));
}

/// ABI-44, part of 01-T13: a line goes to the named stream in print mode, and never into the protocol in json mode.
#[tokio::test(flavor = "multi_thread")]
async fn lines_go_where_the_mode_says() {
    for (mode, out, err) in
        [(Mode::Print, vec!["to out"], vec!["to err"]), (Mode::Json, vec![], vec!["to out", "to err"])]
    {
        let bench = Bench::with(|builder| builder.mode(mode));
        for stream in ["out", "err"] {
            let line = json!({ "line": format!("to {stream}"), "stream": stream });
            probe(bench.host.root(), "probe_post", json!({ "op": "print", "input": line })).await;
        }
        assert_eq!((bench.printed(Stream::Out), bench.printed(Stream::Err)), (strings(&out), strings(&err)));
        let info = bench.request("host.info", json!({})).await.unwrap();
        assert_eq!(info["hasUi"], false);
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// HOST-1: what is offered is answered, and what is not says so.
#[tokio::test(flavor = "multi_thread")]
async fn host_info_lists_what_the_host_does() {
    let bench = Bench::new();
    let info = bench.request("host.info", json!({})).await.unwrap();
    let ops: Vec<&str> = info["ops"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(info["events"], json!(host_abi::events::names::ALL));
    assert_eq!(info["gates"], json!(host_abi::gates::names::ALL));
    for op in host_abi::ops::ALL {
        let error = bench.request(op, json!({ "nothing": "of use" })).await.err();
        let code = error.as_ref().and_then(|error| error["code"].as_str());
        let screen = op.starts_with("ui.") || *op == "terminal.command";
        assert_eq!(ops.contains(op), !screen && *op != "rpc.command", "{op}");
        match code {
            Some("NO_UI") => assert!(screen, "{op}"),
            Some("UNKNOWN_OP") => assert_eq!(*op, "rpc.command"),
            _ => assert!(!screen && *op != "rpc.command", "{op}: {error:?}"),
        }
    }
    let unknown = bench.request("no.such.op", json!({})).await.unwrap_err();
    assert_eq!((&unknown["code"], &unknown["details"]["op"]), (&json!("UNKNOWN_OP"), &json!("no.such.op")));
}

/// ABI-4, ABI-5, ABI-11: bad payloads are named, unknown fields ignored, large payloads refused.
#[tokio::test(flavor = "multi_thread")]
async fn payloads_are_judged() {
    let bench = Bench::new();
    let root = bench.host.root();
    let ask = |params: Value| async move { probe(root, "probe_request", params).await };
    let raw = ask(json!({ "op": "session.append_entry", "raw": "{" })).await;
    assert_eq!(raw["error"]["code"], "BAD_PAYLOAD");
    let missing = ask(json!({ "op": "session.append_entry", "input": { "data": 1 } })).await;
    assert!(missing["error"]["message"].as_str().unwrap().contains("customType"), "{missing}");
    let extra = ask(json!({ "op": "session.info", "input": { "future": true } })).await;
    assert_eq!(extra["answer"]["idle"], true);
    let large =
        ask(json!({ "op": "session.append_entry", "input": { "customType": "x", "data": 1 }, "pad": 9 << 20 })).await;
    assert_eq!(large["error"]["code"], "TOO_LARGE");
}

/// ABI-56: what becomes of a custom message, idle and active.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_started_queued_or_appended() {
    let bench = Bench::new();
    let root = bench.host.root();
    let send = |change: Value| async move {
        let mut message = json!({ "customType": "probe.ok", "content": "note", "display": true });
        for (key, value) in change.as_object().cloned().unwrap_or_default() {
            message[key] = value;
        }
        let answer = probe(root, "probe_request", json!({ "op": "session.send_message", "input": message })).await;
        answer["answer"]["disposition"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(send(json!({})).await, "appended");
    assert_eq!(send(json!({ "triggerTurn": false, "deliverAs": "followUp" })).await, "appended");
    assert_eq!(send(json!({ "deliverAs": "nextTurn", "triggerTurn": true })).await, "queued");
    assert_eq!(bench.model.requests().len(), 0);
    let wake = steps(json!([{ "text": "woken" }]));
    assert_eq!(send(json!({ "content": wake, "deliverAs": "followUp", "triggerTurn": true })).await, "started");
    within(root.wait_idle(Some(1))).await.unwrap();
    let messages = messages_of(root).await;
    assert_eq!(messages.iter().filter(|message| matches!(message, Message::Custom(_))).count(), 4);
    assert!(matches!(messages.last(), Some(Message::Assistant(answer)) if answer.text() == "woken"));

    within(root.prompt(steps(json!([{ "hang": true }])), "extension", None)).await.unwrap();
    bench.model.wait_open(1).await;
    assert_eq!(send(json!({ "deliverAs": "steer" })).await, "queued");
    assert_eq!(send(json!({ "triggerTurn": false, "content": "at the end" })).await, "appended");
    let info = probe(root, "probe_request", json!({ "op": "session.info", "input": {} })).await;
    assert_eq!((&info["answer"]["idle"], &info["answer"]["pendingMessages"]), (&json!(false), &json!(2)));
    root.abort(false);
    within(root.wait_idle(Some(2))).await.unwrap();
    let messages = messages_of(root).await;
    assert!(matches!(messages.last(), Some(Message::Custom(message)) if message.content.text() == "at the end"));
    let info = probe(root, "probe_request", json!({ "op": "session.info", "input": {} })).await;
    assert_eq!(info["answer"]["pendingMessages"], 1, "the root's queue outlives an abort");
}

/// The rest of `session.*`: entries, tools, user messages.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_read_and_changed() {
    let bench = Bench::new();
    let root = bench.host.root();
    let ask = |op: &'static str, input: Value| async move {
        let answer = probe(root, "probe_request", json!({ "op": op, "input": input })).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["answer"].clone()
    };
    bench.run("hi").await;
    ask("session.append_entry", json!({ "customType": "own", "data": { "n": 1 } })).await;
    let entries = ask("session.entries", json!({})).await["entries"].as_array().unwrap().clone();
    let last = entries.last().unwrap();
    assert_eq!((&last["type"], &last["customType"], &last["data"]["n"]), (&json!("custom"), &json!("own"), &json!(1)));
    let since = ask("session.entries", json!({ "sinceId": entries[entries.len() - 2]["id"] })).await;
    assert_eq!(since["entries"], json!([last]));
    let unknown = ask("session.entries", json!({ "sinceId": "no such id", "limit": 2 })).await;
    assert_eq!(unknown["entries"], json!(entries[..2]));
    assert!(!messages_of(root).await.iter().any(|message| message.role() == "custom"), "not in the context");

    ask("session.set_active_tools", json!({ "tools": ["probe_hidden", "read", "nonsense"] })).await;
    assert_eq!(ask("session.info", json!({})).await["tools"], json!(["probe_hidden", "read"]));
    bench.run("hi").await;
    let tools: Vec<String> = bench.model.requests().pop().unwrap().tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(tools, ["probe_hidden", "read"]);

    let sent = ask("session.send_user_message", json!({ "content": "from an extension" })).await;
    assert_eq!(sent["disposition"], "started");
    within(root.wait_idle(Some(3))).await.unwrap();
    assert_eq!(bench.host.outcome(false).await.unwrap().text.as_deref(), Some("you said: from an extension"));

    let models = ask("models.list", json!({})).await["models"].as_array().unwrap().clone();
    assert_eq!(models.len(), bench.model.models().len());
    let resolved = ask("models.resolve", json!({ "model": "m:high" })).await;
    assert_eq!(resolved, json!({ "provider": "obedient", "id": "m", "thinking": "low" }));
    let answer = probe(root, "probe_request", json!({ "op": "models.resolve", "input": { "model": "keyless" } })).await;
    assert!(answer["error"]["hint"].is_string(), "{answer}");
}

/// NAT-7: calls of one answer run side by side, except where a tool asks for order.
#[tokio::test(flavor = "multi_thread")]
async fn tools_run_side_by_side_unless_one_is_sequential() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    let sleep = json!(["probe_sleep", { "ms": 200 }]);
    bench.run(&steps(json!([{ "calls": [sleep, sleep, sleep] }]))).await;
    let open = |events: &mut tokio::sync::mpsc::UnboundedReceiver<native_host::session::event::HostEvent>| {
        let (mut open, mut most) = (0_i32, 0);
        while let Ok(event) = events.try_recv() {
            match &*event.event {
                SessionEvent::ToolStart { .. } => open += 1,
                SessionEvent::ToolEnd { .. } => open -= 1,
                _ => {}
            }
            most = most.max(open);
        }
        most
    };
    assert_eq!(open(&mut events), 3);
    let begun = legion_ext::clock::instant();
    bench.run(&steps(json!([{ "calls": [sleep, ["probe_echo", { "text": "in order" }], sleep] }]))).await;
    assert_eq!(open(&mut events), 1);
    assert!(begun.elapsed() >= Duration::from_millis(400));
}
