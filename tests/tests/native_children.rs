//! Children in native-host: identity, session files, runs (01 §4, ABI-40, ABI-41, ABI-57, ABI-58).

use std::{collections::HashSet, time::Duration};

use futures_util::future::join_all;
use host_abi::ops::{Disposition, Idle};
use native_host::session_file::{Message, StopReason};
use serde_json::{Value, json};
use tests::{
    libraries::library,
    native::{
        Bench, at, call, messages_of, probe, probe_number, results_of, run_in, second_probe, steps, until, within,
    },
};

/// ABI-9, ABI-14, 01-T3: concurrent children of one process that call the same tool see their own identity.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_children_at_once_see_their_own_identity() {
    let bench = Bench::new();
    let specs = (0..64).map(|n| {
        let name = format!("kid-{n}");
        let scope = json!({ "who": name, "secret": format!("{n}-{}", n * 7) });
        let spec = json!({
            "agentId": format!("root/{name}"), "name": name, "cwd": bench.project(),
            "sessionFile": bench.path(&format!("{name}.jsonl")), "extensions": [library("probe_ext")],
            "extensionScope": scope,
        });
        json!(["probe_request", { "op": "child.create", "input": spec }])
    });
    bench.run(&steps(json!([{ "calls": specs.collect::<Vec<_>>() }]))).await;
    let created = bench.results().await;
    assert_eq!(created.len(), 64);
    let children = created.iter().map(|result| {
        let answer = &result.details.as_ref().unwrap()["answer"];
        bench.session(answer["scope"].as_u64().unwrap_or_else(|| panic!("{result:?}")))
    });
    let children: Vec<_> = children.collect();
    let together = steps(json!([{ "calls": [["probe_whoami", {}]] }, { "barrier": 64, "text": "seen" }]));
    join_all(children.iter().map(|child| run_in(child, &together))).await;

    let mut seen = HashSet::new();
    for child in &children {
        let identity = &child.shared.identity;
        let result = results_of(child).await.pop().unwrap();
        let facts = result.details.unwrap();
        for facts in [&facts, &facts["nested"]] {
            assert_eq!(facts["scope"], json!(identity.scope));
            assert_eq!(facts["agentId"], json!(identity.agent_id));
            assert_eq!(facts["extensionScope"], *identity.extension_scope.as_ref().unwrap());
        }
        assert!(seen.insert(facts["extensionScope"]["secret"].as_str().unwrap().to_owned()));
    }
    assert!(bench.model.most() >= 64, "the children's requests ran at the same time");
}

/// ABI-14, ABI-40, 01-T9: the scope reaches both libraries of the child verbatim, and no other session.
#[tokio::test(flavor = "multi_thread")]
async fn the_extension_scope_reaches_both_libraries_of_its_child_alone() {
    let (legion, guard) = (library("probe_ext"), second_probe());
    let bench = Bench::with(|builder| builder.legion(at(&legion)).guard(at(&guard)));
    let odd = json!({ "z": [1, 2.5, null, "ü"], "a": { "deep": { "er": true } }, "role": "scout" });
    let none = json!({ "extensions": [], "extensionScope": null });
    let (with, _) = bench.child("with", json!({ "extensions": [], "extensionScope": odd })).await;
    let (without, _) = bench.child("without", none).await;
    for library in 0..2 {
        let facts = probe_number(&with, library, "probe_whoami", json!({})).await;
        assert_eq!(facts["extensionScope"].to_string(), odd.to_string(), "verbatim, the order of keys included");
        let facts = probe_number(&without, library, "probe_whoami", json!({})).await;
        assert_eq!(facts["extensionScope"], Value::Null);
    }
    let root = probe(bench.host.root(), "probe_whoami", json!({})).await;
    assert_eq!(root["extensionScope"], Value::Null);
    // HOST-2: child-guard for children only, after everything else.
    let names = |session: &native_host::session::Session| {
        let extensions = &session.teller().unwrap().extensions;
        extensions.iter().map(|extension| extension.library.path().to_owned()).collect::<Vec<_>>()
    };
    let canonical = |path: &std::path::Path| path.canonicalize().unwrap();
    assert_eq!(names(&with), [canonical(&legion), canonical(&guard)]);
    assert!(!names(bench.host.root()).contains(&canonical(&guard)));
}

/// ABI-15, and the bad-input rows of 01: a child never runs without its two libraries.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_its_libraries_does_not_start() {
    let probe_ext = library("probe_ext");
    let missing = std::path::PathBuf::from("/nowhere/libchild_guard.so");
    let bench = Bench::with(|builder| builder.guard(at(&missing)));
    let error = bench.try_child("kid", json!({})).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("/nowhere/libchild_guard.so"), "{error}");
    assert_eq!(bench.host.core().sessions().len(), 1, "the session was taken down");

    // A scope that a library cannot read fails its attach.
    let second = second_probe();
    let bench = Bench::with(|builder| builder.legion(at(&probe_ext)).guard(at(&second)));
    for (fault, code) in [("err", "PROBE"), ("panic", "PANIC")] {
        let change = json!({ "extensions": [], "extensionScope": { "probe": fault } });
        let error = bench.try_child(fault, change).await.unwrap_err();
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(bench.host.core().sessions().len(), 1);
    }
    bench.child("fine", json!({ "extensions": [] })).await;
}

/// ABI-15: other extensions that do not load are in the child's `errors`, and it runs without them.
#[tokio::test(flavor = "multi_thread")]
async fn other_extensions_that_do_not_load_are_reported() {
    let bench = Bench::new();
    std::fs::write(bench.path("text.so"), "no library").unwrap();
    let extensions = json!([bench.path("text.so"), "missing.so", "builtin:codemode", library("probe_ext")]);
    let created = bench.try_child("kid", json!({ "extensions": extensions })).await.unwrap();
    let errors: Vec<&str> = created["errors"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[0].contains("text.so") && errors[1].contains("missing.so") && errors[2].contains("builtin:codemode")
    );
    let child = bench.session(created["scope"].as_u64().unwrap());
    assert_eq!(probe(&child, "probe_whoami", json!({})).await["agentId"], "root/kid");
    // What a child does without is no extension of it.
    let listed = probe(&child, "probe_request", json!({ "op": "extensions.list" })).await;
    let listed = listed["answer"]["extensions"].as_array().cloned().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["entry"], json!(library("probe_ext")));
}

/// ABI-41, part of 01-T10: the session files.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_opens_exactly_its_session_file() {
    let bench = Bench::new();
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).unwrap();
    let header = |name: &str| serde_json::from_str::<Value>(read(name).lines().next().unwrap()).unwrap();

    // Absent: begun, with the header that the spec asks for; known before the first prompt.
    let asked = json!({ "sessionId": "0123", "parentSession": "/p/parent.jsonl" });
    let created = bench.try_child("absent", asked).await.unwrap();
    assert_eq!(created["sessionFile"], json!(bench.path("absent.jsonl")));
    assert_eq!((created["sessionId"].as_str(), created["thinking"].as_str()), (Some("0123"), Some("off")));
    assert_eq!(created["model"], "obedient/m");
    let head = header("absent.jsonl");
    assert_eq!(
        (&head["id"], &head["parentSession"], &head["version"]),
        (&json!("0123"), &json!("/p/parent.jsonl"), &json!(3))
    );

    // Empty: begun too.
    std::fs::write(bench.path("empty.jsonl"), "").unwrap();
    let (empty, _) = bench.child("empty", json!({})).await;
    run_in(&empty, "hello").await;
    assert_eq!(header("empty.jsonl")["id"], json!(empty.shared.identity.session_id));

    // Filled: continued, also from another directory.
    std::fs::create_dir(bench.path("moved")).unwrap();
    std::fs::copy(bench.path("empty.jsonl"), bench.path("moved/filled.jsonl")).unwrap();
    let moved = json!({ "sessionFile": bench.path("moved/filled.jsonl"), "sessionId": "other" });
    let (filled, _) = bench.child("filled", moved).await;
    assert_eq!(filled.shared.identity.session_id, empty.shared.identity.session_id);
    run_in(&filled, "again").await;
    let messages = messages_of(&filled).await;
    assert!(matches!(&messages[0], Message::User(user) if user.content.text() == "hello"), "{messages:?}");
    assert_eq!(messages.len(), 4);

    // Foreign, newer, older: an error, and not a byte is changed.
    let newer = r#"{"type":"session","version":4,"id":"x","timestamp":"","cwd":"/"}"#;
    let cases = [
        ("foreign.jsonl", "{\"some\":\"json\"}\n", "not a session file"),
        ("binary.jsonl", "\u{0}\u{1}ELF", "not a session file"),
        ("newer.jsonl", newer, "version 4"),
        ("older.jsonl", r#"{"type":"session","version":2,"id":"x"}"#, "version 2"),
    ];
    for (file, content, words) in cases {
        std::fs::write(bench.path(file), content).unwrap();
        let error = bench.try_child("bad", json!({ "sessionFile": bench.path(file) })).await.unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words) && message.contains(file) && message.contains("left unchanged"), "{message}");
        assert_eq!(read(file), content);
    }

    // A directory: a new file in it.
    let change = json!({ "sessionFile": null, "sessionDir": bench.path("dir") });
    let created = bench.try_child("in-dir", change).await.unwrap();
    assert!(created["sessionFile"].as_str().unwrap().starts_with(bench.path("dir").to_str().unwrap()));
    let error = bench.try_child("nowhere", json!({ "sessionFile": null })).await.unwrap_err();
    assert_eq!(error["code"], "BAD_PAYLOAD");
}

/// ABI-40: model, level, tools and prompts of the spec.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_what_its_spec_says() {
    let bench = Bench::new();
    std::fs::write(bench.project().join("AGENTS.md"), "Use tabs.").unwrap();
    let spec = json!({
        "systemPrompt": "You are a scout.", "tools": ["read", "probe_hidden", "bash"], "excludeTools": ["bash"],
        "model": { "provider": "obedient", "id": "m" }, "thinking": "high", "contextFiles": true,
    });
    let created = bench.try_child("scout", spec).await.unwrap();
    assert_eq!(created["tools"], json!(["read", "probe_hidden"]));
    assert_eq!(created["thinking"], "low", "clamped to the model");
    let child = bench.session(created["scope"].as_u64().unwrap());
    run_in(&child, "hi").await;
    let request = bench.model.requests().pop().unwrap();
    assert!(request.system_prompt.starts_with("You are a scout.") && request.system_prompt.contains("Use tabs."));
    assert_eq!(request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["read", "probe_hidden"]);

    let spec = json!({ "appendSystemPrompt": "Be kind.", "model": { "provider": "obedient", "id": "nope" } });
    let error = bench.try_child("lost", spec).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("no model 'nope'"), "{error}");
    let keyless = json!({ "model": { "provider": "obedient", "id": "keyless" } });
    let error = bench.try_child("poor", keyless).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("no API key"), "{error}");
    let error = bench.try_child("level", json!({ "thinking": "much" })).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("unknown thinking level 'much'"), "{error}");
    let error = bench.try_child("dir", json!({ "cwd": "/no/such/dir" })).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("/no/such/dir"), "{error}");
}

/// ABI-57, 01-T14: prompts to an idle, a busy and a disposed child, and waits for each run.
#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_child_are_numbered_and_waited_for() {
    let bench = Bench::new();
    let (child, id) = bench.child("kid", json!({})).await;
    let prompt = |text: &str| json!({ "child": id, "text": text });

    // Steering kept by an idle child names no run and enters with the next prompt.
    let kept = bench.request("child.steer", prompt("~ kept steering")).await.unwrap();
    assert_eq!(kept, json!({ "disposition": "queued" }));
    let kept = bench.request("child.follow_up", prompt("kept follow-up")).await.unwrap();
    assert_eq!(kept, json!({ "disposition": "queued" }));
    let idle = bench.request("child.wait_idle", json!({ "child": id })).await.unwrap();
    assert_eq!(idle, json!({ "aborted": false }));
    assert_eq!(bench.request("child.stats", json!({ "child": id })).await.unwrap()["runs"], 0);

    let started = bench.request("child.prompt", prompt(&steps(json!([{ "hang": true }])))).await.unwrap();
    assert_eq!(started, json!({ "disposition": "started", "run": 1 }));
    bench.model.wait_open(1).await;
    let texts = |messages: &[Message]| {
        let text = |message: &Message| match message {
            Message::User(user) => Some(user.content.text()),
            _ => None,
        };
        messages.iter().filter_map(text).collect::<Vec<_>>()
    };
    let asked = bench.model.requests().pop().unwrap();
    assert_eq!(texts(&asked.messages).last().unwrap(), "~ kept steering");

    // Busy: queued into the present run.
    let queued = bench.request("child.prompt", prompt("more")).await.unwrap();
    assert_eq!(queued, json!({ "disposition": "queued", "run": 1 }));
    let queued = bench.request("child.follow_up", prompt("later")).await.unwrap();
    assert_eq!(queued, json!({ "disposition": "queued", "run": 1 }));

    // A wait for the present run and one for the next end with theirs.
    let wait = |run: u64| {
        let child = std::sync::Arc::clone(&child);
        tokio::runtime::Handle::current().spawn(async move { child.wait_idle(Some(run)).await })
    };
    let (first, second) = (wait(1), wait(2));
    bench.request("child.abort", json!({ "child": id })).await.unwrap();
    assert_eq!(within(first).await.unwrap().unwrap(), Idle { aborted: true });
    assert_eq!(bench.request("session.info", json!({})).await.unwrap()["idle"], json!(true));
    let stats = bench.request("child.stats", json!({ "child": id })).await.unwrap();
    assert_eq!((&stats["idle"], &stats["runs"]), (&json!(true), &json!(1)));
    assert!(!second.is_finished(), "idle never means the run before");

    // An abort drops what was queued for its run.
    let prompted = within(child.prompt("hello".into(), "extension", None)).await.unwrap();
    assert_eq!((prompted.disposition, prompted.run), (Disposition::Started, Some(2)));
    assert_eq!(within(second).await.unwrap().unwrap(), Idle { aborted: false });
    let said = texts(&messages_of(&child).await);
    assert!(!said.iter().any(|text| ["more", "later", "kept follow-up"].contains(&text.as_str())), "{said:?}");
    // The run before is still known.
    assert_eq!(bench.request("child.wait_idle", json!({ "child": id, "run": 1 })).await.unwrap()["aborted"], true);
    let last = bench.request("child.last_text", json!({ "child": id })).await.unwrap();
    assert_eq!(last["text"], "you said: hello");
    let messages = bench.request("child.messages", json!({ "child": id, "limit": 1 })).await.unwrap();
    assert_eq!(messages["messages"].as_array().unwrap().len(), 1);

    // Disposed: gone for every operation, and a waiter learns it.
    let waiting = wait(3);
    bench.request("child.dispose", json!({ "child": id })).await.unwrap();
    assert!(within(waiting).await.unwrap().is_err());
    for op in ["child.prompt", "child.steer", "child.follow_up"] {
        assert_eq!(bench.request(op, prompt("x")).await.unwrap_err()["code"], "NO_CHILD", "{op}");
    }
    for op in ["child.wait_idle", "child.abort", "child.dispose", "child.stats", "child.messages", "child.last_text"] {
        assert_eq!(bench.request(op, json!({ "child": id })).await.unwrap_err()["code"], "NO_CHILD", "{op}");
    }
}

/// ABI-58, 01-T14: a child that neither aborts nor answers its shutdown gate ends within the bounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_deaf_child_is_disposed_of_within_the_bounds() {
    let bench = Bench::new();
    let (child, id) = bench.child("deaf", json!({})).await;
    probe(&child, "probe_gate", json!({ "gate": "session_shutdown", "hold": true })).await;
    let begun = within(child.prompt(steps(json!([{ "deaf": true }])), "extension", None)).await.unwrap();
    bench.model.wait_open(1).await;
    let (scope, started) = (child.scope(), legion_ext::clock::instant());
    bench.request("child.dispose", json!({ "child": id })).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    assert!(child.wait_idle(begun.run).await.is_err());
    assert!(!bench.host.core().sessions().iter().any(|session| session.scope() == scope));
    until("the request of the deaf model is dropped", || bench.model.open() == 0).await;
}

/// ABI-8, ABI-56: a launch that is dropped half-way leaves no child; `child.kill` ends one without an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_is_gone() {
    let bench = Bench::new();
    let (child, id) = bench.child("kid", json!({})).await;
    within(child.prompt(steps(json!([{ "hang": true }])), "extension", None)).await.unwrap();
    bench.model.wait_open(1).await;
    probe(bench.host.root(), "probe_post", json!({ "op": "child.kill", "input": { "child": id } })).await;
    until("the child is gone", || bench.host.core().sessions().len() == 1).await;
    let text = std::fs::read_to_string(bench.path("kid.jsonl")).unwrap();
    assert!(text.lines().last().unwrap().contains("\"stopReason\":\"aborted\""), "{text}");
}

/// A child belongs to the session that made it, and ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_belongs_to_its_maker() {
    let bench = Bench::new();
    let (_, first) = bench.child("first", json!({})).await;
    let (second, id) = bench.child("second", json!({})).await;
    let stolen = probe(&second, "probe_request", json!({ "op": "child.stats", "input": { "child": first } })).await;
    assert_eq!(stolen["error"]["code"], "NO_CHILD");
    let spec = json!({
        "agentId": "root/second/grand", "name": "grand", "cwd": bench.project(),
        "sessionFile": bench.path("grand.jsonl"), "extensions": [],
    });
    probe(&second, "probe_request", json!({ "op": "child.create", "input": spec })).await;
    assert_eq!(bench.host.core().sessions().len(), 4);
    bench.request("child.dispose", json!({ "child": id })).await.unwrap();
    assert_eq!(bench.host.core().sessions().len(), 2, "the grandchild went along");
}

/// SUP-44, SUP-59, F4: what the host cannot bring to its end is an error of that run, and of no other session.
#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_that_cannot_be_written_fails_the_run() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("gone")).unwrap();
    let (child, id) = bench.child("kid", json!({ "sessionFile": bench.path("gone/kid.jsonl") })).await;
    std::fs::remove_dir_all(bench.path("gone")).unwrap();
    let prompted = within(child.prompt("hi".into(), "extension", None)).await.unwrap();
    let error = within(child.wait_idle(prompted.run)).await.unwrap_err();
    assert!(error.message.contains("gone/kid.jsonl"), "{error}");
    assert_eq!(bench.request("child.stats", json!({ "child": id })).await.unwrap()["idle"], true);
    bench.run("hi").await;
}

/// Every answer of a child that was aborted in mid-tool ends with the aborted message.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_tool_leaves_a_whole_transcript() {
    let bench = Bench::new();
    let (child, id) = bench.child("kid", json!({})).await;
    let both = steps(json!([{ "calls": [["probe_sleep", {}], ["bash", { "command": "sleep 60" }]] }]));
    within(child.prompt(both, "extension", None)).await.unwrap();
    until("both tools run", || child.shared.live().last_event_at.is_some() && bench.model.open() == 0).await;
    bench.request("child.abort", json!({ "child": id })).await.unwrap();
    let messages = messages_of(&child).await;
    let results = results_of(&child).await;
    assert_eq!(results.len(), 2, "{messages:?}");
    let Some(Message::Assistant(last)) = messages.last() else { panic!("{messages:?}") };
    assert_eq!(last.stop_reason, StopReason::Aborted);
    run_in(&child, &call("probe_whoami", json!({}))).await;
    assert_eq!(results_of(&child).await.len(), 3, "the session goes on");
}

/// A session that is about to end begins no run any more; a message that would wake it is kept in its file.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_begins_no_run() {
    let bench = Bench::new();
    let (child, id) = bench.child("kid", json!({})).await;
    probe(&child, "probe_gate", json!({ "gate": "session_shutdown", "hold": true })).await;
    let disposing = tokio::runtime::Handle::current().spawn({
        let root = std::sync::Arc::clone(bench.host.root());
        async move { probe(&root, "probe_request", json!({ "op": "child.dispose", "input": { "child": id } })).await }
    });
    let asked = || async { probe(&child, "probe_asked", json!({})).await };
    let begun = legion_ext::clock::instant();
    while !asked().await.as_array().unwrap().iter().any(|asked| asked["gate"] == "session_shutdown") {
        assert!(begun.elapsed() < tests::native::BOUND);
        tokio::task::yield_now().await;
    }
    let error = within(child.prompt("hi".into(), "extension", None)).await.unwrap_err();
    assert!(error.message.contains("about to end"), "{error}");
    let message = json!({ "customType": "probe.ok", "content": "late", "display": true, "triggerTurn": true });
    let sent = probe(&child, "probe_request", json!({ "op": "session.send_message", "input": message })).await;
    assert_eq!(sent["answer"]["disposition"], "appended");
    probe(&child, "probe_gate", json!({ "gate": "session_shutdown", "release": true })).await;
    within(disposing).await.unwrap();
    assert_eq!(bench.model.requests().len(), 0);
    assert!(std::fs::read_to_string(bench.path("kid.jsonl")).unwrap().contains("\"late\""));
}
