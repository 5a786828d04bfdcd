//! The model side of native-host: many requests at once, faults, repetitions, compaction (11 §3).

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use native_host::{
    host::{Host, HostError},
    provider::{ModelRef, ThinkingLevel},
    session::{event::SessionEvent, run_state::RetryPolicy},
    session_file::{Message, StopReason},
};
use serde_json::json;
use tests::{
    libraries::library,
    native::{Bench, messages_of, probe, run_in, steps, until, within},
};

/// HOST-4, NAT-1: twelve children are twelve concurrent requests, and each goes on when all are there.
#[tokio::test(flavor = "multi_thread")]
async fn twelve_children_are_twelve_concurrent_requests() {
    let bench = Bench::new();
    let mut children = Vec::new();
    for n in 0..12 {
        children.push(bench.child(&format!("kid-{n}"), json!({})).await.0);
    }
    // Each request is answered only when twelve are open together.
    let task = steps(json!([
        { "calls": [["bash", { "command": "echo $PI_SESSION_ID" }]] },
        { "barrier": 12, "text": "all here" },
    ]));
    join_all(children.iter().map(|child| run_in(child, &task))).await;
    assert!(bench.model.most() >= 12);
    for child in &children {
        let messages = messages_of(child).await;
        let said = messages.iter().find_map(|message| match message {
            Message::ToolResult(result) => Some(result.text()),
            _ => None,
        });
        assert_eq!(said.unwrap().trim(), child.shared.identity.session_id);
    }
}

fn retries(events: &mut tokio::sync::mpsc::UnboundedReceiver<native_host::session::event::HostEvent>) -> Vec<String> {
    let events = std::iter::from_fn(|| events.try_recv().ok());
    let tell = |event: native_host::session::event::HostEvent| match &*event.event {
        SessionEvent::RetryStart { attempt, max, delay_ms, error } => {
            Some(format!("{attempt}/{max} {delay_ms} {error}"))
        }
        SessionEvent::RetryEnd { success, attempt, .. } => Some(format!("end {attempt} {success}")),
        _ => None,
    };
    events.filter_map(tell).collect()
}

/// NAT-2, part of 11-T9: 429 and 5xx are repeated, visibly; the run is a success when one comes through (F13).
#[tokio::test(flavor = "multi_thread")]
async fn a_passing_fault_is_repeated() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    let outcome = bench.run(&steps(json!([{ "status": 429, "times": 2, "text": "at last" }]))).await;
    assert_eq!((outcome.text.as_deref(), outcome.error), (Some("at last"), None));
    let told = retries(&mut events);
    assert_eq!(told, ["1/2 0 HTTP 429: told to fail", "2/2 0 HTTP 429: told to fail", "end 2 true"]);
    let settled = probe(bench.host.root(), "probe_events", json!({})).await;
    let names: Vec<_> = settled.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "agent_settled").count(), 1);
    assert_eq!(names.iter().filter(|name| **name == "agent_start").count(), 3);
    // The failed answers are in the transcript, and not in later requests.
    let messages = messages_of(bench.host.root()).await;
    let failed = messages.iter().filter(|m| matches!(m, Message::Assistant(a) if a.stop_reason == StopReason::Error));
    assert_eq!(failed.count(), 2);
    assert!(bench.model.requests().pop().unwrap().messages.iter().all(|m| !matches!(m, Message::Assistant(_))));
}

/// Part of 11-T9: a lasting fault ends the run with the provider's words (F12).
#[tokio::test(flavor = "multi_thread")]
async fn a_lasting_fault_ends_the_run_with_its_words() {
    let bench = Bench::new();
    let mut events = bench.host.subscribe();
    let outcome = bench.run(&steps(json!([{ "status": 503 }]))).await;
    assert_eq!(outcome.error.as_deref(), Some("HTTP 503: told to fail"));
    assert_eq!(retries(&mut events).last().unwrap(), "end 2 false");
    assert_eq!(bench.model.requests().len(), 3);
    let outcome = bench.run(&steps(json!([{ "status": 401 }]))).await;
    assert_eq!(outcome.error.as_deref(), Some("HTTP 401: told to fail"));
    assert_eq!(bench.model.requests().len(), 4, "what cannot pass is not repeated");
    let asked = probe(bench.host.root(), "probe_asked", json!({})).await;
    let outcomes: Vec<_> = asked
        .as_array()
        .unwrap()
        .iter()
        .filter(|asked| asked["gate"] == "agent_before_settle")
        .map(|asked| asked["event"]["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["error", "error"]);
}

/// Part of 11-T9: broken and silent streams of the scripted provider, and an unknown model.
#[tokio::test(flavor = "multi_thread")]
async fn broken_and_silent_streams() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.yaml");
    let text = r#"
rules:
  - match: { prompt: 'break once' }
    turns: [{ text: whole again, broken: { afterChars: 3, times: 1 } }]
  - match: { prompt: 'break' }
    turns: [{ text: never whole, broken: { afterChars: 5 } }]
  - match: { prompt: 'silence' }
    turns: [{ text: and then nothing, silence: { afterChars: 3 } }]
"#;
    std::fs::write(&script, text).unwrap();
    let retry = RetryPolicy { max: 1, base_delay_ms: 0, max_delay_ms: 0 };
    let host = Host::builder().cwd(dir.path()).agent_dir(dir.path().join("a")).script(&script).no_legion().retry(retry);
    let host = host.build().unwrap();
    let outcome = within(host.run_prompt("break once")).await.unwrap();
    assert_eq!((outcome.text.as_deref(), outcome.error), (Some("whole again"), None));
    let outcome = within(host.run_prompt("break it")).await.unwrap();
    assert!(outcome.error.unwrap().contains("stream ended"));
    assert_eq!(outcome.text.as_deref(), Some("never"), "what had come is kept");

    let root = host.root();
    let prompted = within(root.prompt("silence".into(), "extension", None)).await.unwrap();
    until("the stream is silent", || root.shared.live().last_event_at.is_some() && !root.shared.live().idle).await;
    root.abort(false);
    assert!(within(root.wait_idle(prompted.run)).await.unwrap().aborted);
    let outcome = within(host.run_prompt("nobody wrote a turn for this")).await.unwrap();
    assert!(outcome.error.unwrap().contains("has no turn for this request"));

    let unknown = Host::builder().cwd(dir.path()).agent_dir(dir.path().join("a")).no_legion().model("nobody/x");
    assert!(matches!(unknown.build(), Err(HostError::Model(error)) if error.to_string().contains("nobody/x")));
    std::fs::write(&script, "rules: [{ turnz: [] }]").unwrap();
    let faulty = Host::builder().cwd(dir.path()).agent_dir(dir.path().join("a")).no_legion().script(&script);
    let error = faulty.build().unwrap_err().to_string();
    assert!(error.contains("script.yaml:1"), "{error}");
}

/// PI-8, part of 11-T9: what keeps a run from starting is told before acceptance.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_told_before_acceptance() {
    let bench = Bench::new();
    let (child, _) = bench.child("kid", json!({})).await;
    child.shared.live().model.id = "keyless".into();
    let error = within(child.prompt("hi".into(), "extension", None)).await.unwrap_err();
    assert!(error.message.contains("no API key for provider 'obedient'") && error.hint.is_some(), "{error:?}");
    assert_eq!((child.shared.live().runs, bench.model.requests().len()), (0, 0));
}

/// NAT-8, part of 11-T15: a hundred children that use a tool, and no thread for any of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_children_need_no_thread_each() {
    let bench = Bench::new();
    let (first, _) = bench.child("first", json!({})).await;
    run_in(&first, "hi").await;
    let before = threads();
    let mut children = Vec::new();
    for n in 0..100 {
        children.push(bench.child(&format!("kid-{n}"), json!({})).await.0);
    }
    let task = steps(json!([{ "calls": [["read", { "path": "a.txt" }]] }, { "barrier": 100, "text": "read" }]));
    std::fs::write(bench.project().join("a.txt"), "text").unwrap();
    join_all(children.iter().map(|child| run_in(child, &task))).await;
    let grown = threads().saturating_sub(before);
    assert!(grown <= 16, "{grown} more threads for 100 children");
    within(bench.host.finish()).await;
    assert!(bench.host.core().sessions().is_empty());
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("proc is there").count()
}

/// NAT-5: the settings' model and level, a resumed session's, and the command line's, in rising order.
#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_chosen_by_rank() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("agent")).unwrap();
    let settings = r#"{"defaultProvider":"scripted","defaultModel":"from-settings","defaultThinkingLevel":"low"}"#;
    std::fs::write(dir.path().join("agent/settings.json"), settings).unwrap();
    let builder = || {
        let file = dir.path().join("s.jsonl");
        Host::builder().cwd(dir.path()).agent_dir(dir.path().join("agent")).no_legion().session_file(file)
    };
    let chosen = |host: &Host| {
        let live = host.root().shared.live();
        (live.model.model_ref(), live.thinking)
    };
    let host = builder().build().unwrap();
    assert_eq!(chosen(&host), (ModelRef::new("scripted", "from-settings"), ThinkingLevel::Low));
    drop(host);
    let host = builder().model("scripted/asked:high").build().unwrap();
    assert_eq!(chosen(&host), (ModelRef::new("scripted", "asked"), ThinkingLevel::High));
    within(host.run_prompt("hi")).await.unwrap();
    within(host.finish()).await;
    let host = builder().build().unwrap();
    assert_eq!(chosen(&host), (ModelRef::new("scripted", "asked"), ThinkingLevel::High), "resumed");
    let messages = messages_of(host.root()).await;
    assert_eq!(messages.len(), 2);
}

/// NAT-7: a compaction replaces the older part by a summary, keeps the newest, and is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_compacted() {
    let bench = Bench::new();
    let root = bench.host.root();
    let small = probe(root, "probe_request", json!({ "op": "session.compact" })).await;
    assert!(small["error"]["message"].as_str().unwrap().contains("nothing to compact"), "{small}");
    for n in 0..6 {
        bench.run(&format!("{n} {}", "word ".repeat(3_000))).await;
    }
    let before = messages_of(root).await.len();
    // A compaction ends an active run first.
    let prompted = within(root.prompt(steps(json!([{ "hang": true }])), "extension", None)).await.unwrap();
    bench.model.wait_open(1).await;
    let compacting = tokio::runtime::Handle::current().spawn({
        let root = Arc::clone(root);
        async move { root.compact().await }
    });
    assert!(within(root.wait_idle(prompted.run)).await.unwrap().aborted);
    within(compacting).await.unwrap().unwrap();
    let messages = messages_of(root).await;
    assert!(messages.len() < before, "{} < {before}", messages.len());
    assert!(matches!(&messages[0], Message::CompactionSummary(summary) if summary.summary.contains("<conversation>")));
    let events = probe(root, "probe_events", json!({})).await;
    assert!(events.as_array().unwrap().iter().any(|event| event["name"] == "session_compacted"));
    assert_eq!(bench.run("and on").await.text.as_deref(), Some("you said: and on"));
}

/// NAT-7: at the edge of the window the older part makes room before the next request, and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_window_makes_room_by_itself() {
    let settings = json!({ "compaction": { "reserveTokens": 99_950, "keepRecentTokens": 100 } });
    let bench = Bench::with(|builder| {
        let agent = tempfile::tempdir().expect("a directory can be made").keep();
        std::fs::write(agent.join("settings.json"), settings.to_string()).expect("settings can be written");
        builder.agent_dir(agent)
    });
    // Each answer tells 110 tokens: more than the 50 that the settings leave of the window.
    bench.run(&"long ago ".repeat(100)).await;
    let outcome = bench.run("now").await;
    assert_eq!(outcome.text.as_deref(), Some("you said: now"));
    let messages = messages_of(bench.host.root()).await;
    assert!(matches!(&messages[0], Message::CompactionSummary(_)), "{messages:?}");
    assert_eq!(messages.len(), 3);
    let events = probe(bench.host.root(), "probe_events", json!({})).await;
    let names: Vec<_> = events.as_array().unwrap().iter().filter_map(|event| event["name"].as_str()).collect();
    let compacted = names.iter().position(|name| *name == "session_compacted").unwrap();
    assert_eq!(names.last(), Some(&"agent_settled"), "the run's last event: {names:?}");
    assert!(names[compacted..].contains(&"turn_end"), "in the middle of the run");
}

/// NAT-7: queues are emptied as the settings say.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_emptied_as_the_settings_say() {
    for (mode, requests) in [("one-at-a-time", 4), ("all", 2)] {
        let bench = Bench::with(|builder| {
            let agent = tempfile::tempdir().expect("a directory can be made").keep();
            let settings = json!({ "followUpMode": mode }).to_string();
            std::fs::write(agent.join("settings.json"), settings).expect("settings can be written");
            builder.agent_dir(agent)
        });
        let root = bench.host.root();
        let hold = json!({ "gate": "tool_call", "hold": true });
        probe(root, "probe_gate", hold).await;
        let task = steps(json!([{ "calls": [["probe_whoami", {}]] }]));
        let prompted = within(root.prompt(task, "extension", None)).await.unwrap();
        for text in ["~a", "~b", "~c"] {
            within(root.follow_up(text.into())).await.unwrap();
        }
        bench.host.run_prompt("/probe release tool_call").await.unwrap();
        within(root.wait_idle(prompted.run)).await.unwrap();
        // The answer with the call, the one after it, and those for the follow-ups.
        assert_eq!(bench.model.requests().len() - 1, requests, "{mode}");
    }
}

/// Several hosts in one process: each library is started once, and every scope reaches its own host.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_one_process_do_not_meet() {
    let benches = [Bench::new(), Bench::new()];
    let facts = join_all(benches.iter().map(|bench| bench.request("host.info", json!({})))).await;
    for (bench, info) in benches.iter().zip(facts) {
        assert_eq!(info.unwrap()["cwd"], json!(bench.project()));
    }
    let [first, second] = benches;
    let scope = first.host.root().scope();
    drop(first);
    let gone = probe(second.host.root(), "probe_request", json!({ "op": "host.info", "scope": scope })).await;
    assert_eq!(gone["error"]["code"], "SCOPE_GONE", "a dropped host leaves no session behind");
    assert_eq!(second.run("hi").await.text.as_deref(), Some("you said: hi"));
    // A library that the root does without is said, and the host starts (01, bad input).
    let console = Arc::new(native_host::console::MemoryConsole::default());
    let host = Host::builder()
        .cwd(second.project())
        .agent_dir(second.path("agent"))
        .no_legion()
        .extension("/nowhere/libx.so")
        .extension(library("probe_ext").to_string_lossy())
        .console(Arc::clone(&console) as Arc<dyn native_host::console::Console>)
        .build()
        .unwrap();
    assert_eq!(console.lines(host_abi::ops::Stream::Err), ["extension not found: /nowhere/libx.so"]);
    tokio::time::timeout(Duration::from_secs(10), host.finish()).await.unwrap();
}
