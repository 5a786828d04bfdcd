//! Panics on both sides of a real library, in a host that is not a real one: the process lives, one call fails,
//! the next one works.

use host_abi::{AbiError, NO_SCOPE, codes};
use serde_json::{Value, json};
use tests::mini_host::{MiniHost, MiniSession, misbehaving};

async fn still_works(session: &MiniSession) {
    let echoed = session.details("probe_echo", json!({ "text": "alive" })).await;
    assert_eq!(echoed["text"], "alive");
}

/// Waits until a panic with this message is in the host's log, and gives its line.
async fn logged(message: &str) -> String {
    let host = MiniHost::shared();
    let record =
        host.post_of(NO_SCOPE, "log", |log| log["message"].as_str().is_some_and(|m| m.contains(message))).await;
    assert_eq!((&record["level"], &record["target"]), (&json!("error"), &json!("panic")));
    record["message"].as_str().expect("a log has a message").to_owned()
}

fn is_panic(error: &AbiError, message: &str) {
    assert_eq!(error.code, codes::PANIC, "{error:?}");
    assert!(error.message.contains(message), "{error:?}");
    assert!(error.message.contains("probe-ext/src/"), "the place is named: {error:?}");
    assert!(error.hint.is_some());
}

/// ABI-6, part of 01-T2.
#[tokio::test]
async fn a_panic_in_a_call_fails_that_call_alone() {
    let session = MiniHost::shared().session("probe_ext");
    for (place, message) in
        [("invoke", "probe: invoke"), ("after_spawn", "probe: after spawn"), ("spawned", "probe: spawned")]
    {
        let call = session.call("probe_panic", json!({ "where": place }));
        let number = call.number;
        is_panic(&call.end().await.1.unwrap_err(), message);
        // What the call has spawned answers late, to nobody.
        session.extension.cancel(number);
        let line = logged(message).await;
        assert!(line.contains("probe-ext/src/tools.rs:") && !line.contains('\n'), "{line}");
        still_works(&session).await;
    }
}

/// ABI-6: the extension hands a thread's panic on; its log line has the place.
#[tokio::test]
async fn a_panic_in_a_thread_fails_the_call_that_waits_for_it() {
    let session = MiniHost::shared().session("probe_ext");
    let error = session.tool("probe_panic", json!({ "where": "thread" })).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), (codes::PANIC, "a thread panicked: probe: thread"));
    assert!(logged("probe: thread").await.contains("probe-ext/src/tools.rs:"));
    still_works(&session).await;
}

/// ABI-6: a task without a fence takes its reply down with it, which fails the call too.
#[tokio::test]
async fn a_panic_in_an_unfenced_task_fails_its_call() {
    let session = MiniHost::shared().session("probe_ext");
    let error = session.tool("probe_panic", json!({ "where": "unfenced" })).await.unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        (codes::HOST, "the extension dropped the call without an answer")
    );
    logged("probe: unfenced").await;
    still_works(&session).await;
}

/// ABI-6: a payload that panics when it is dropped would get past a fence that drops it outside.
#[tokio::test]
async fn a_panic_whose_payload_panics_is_held() {
    let session = MiniHost::shared().session("probe_ext");
    for _ in 0..3 {
        let error = session.tool("probe_panic", json!({ "where": "payload" })).await.unwrap_err();
        assert_eq!(error.code, codes::PANIC);
        still_works(&session).await;
    }
    logged("probe: payload").await;
}

/// ABI-6, part of 01-T2.
#[tokio::test]
async fn a_panic_in_a_synchronous_entry_is_held() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    let arm = async |entry: &str| session.tool("probe_panic", json!({ "where": entry })).await.unwrap();

    arm("query").await;
    let query = || {
        session.extension.query::<_, Value>(session.scope, "complete", &json!({ "command": "probe", "prefix": "p" }))
    };
    is_panic(&query().unwrap_err(), "probe: query");
    assert_eq!(query().unwrap().as_array().unwrap().len(), 2);

    arm("notify").await;
    session.extension.notify_json(session.scope, "agent_start", "{}".to_owned());
    logged("probe: notify").await;
    session.extension.notify_json(session.scope, "agent_end", "{}".to_owned());
    let events = session.details("probe_events", json!({})).await;
    assert_eq!(events, json!([{ "name": "agent_end", "payload": {} }]));

    arm("detach").await;
    session.detach();
    logged("probe: detach").await;

    let refused = host.session_with("probe_ext", |spec| spec.extension_scope = Some(json!({ "probe": "panic" })));
    is_panic(&refused.unwrap_err(), "probe: attach");
    still_works(&host.session("probe_ext")).await;
}

/// ABI-6: an error of attach passes as it is, by either marker.
#[tokio::test]
async fn an_attach_that_errs_refuses_the_session() {
    let host = MiniHost::shared();
    let refused = host.session_with("probe_ext", |spec| spec.extension_scope = Some(json!({ "probe": "err" })));
    assert_eq!(refused.unwrap_err(), AbiError::new("PROBE", "the probe refuses this session"));

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("probe.err"), "").unwrap();
    let refused = host.session_with("probe_ext", |spec| spec.cwd = dir.path().display().to_string());
    assert_eq!(refused.unwrap_err().code, "PROBE");
}

/// ABI-6: gates, commands, renderers and components.
#[tokio::test]
async fn a_panic_behind_each_kind_of_name_is_held() {
    let session = MiniHost::shared().session("probe_ext");
    session.tool("probe_gate", json!({ "gate": "tool_call", "panic": true })).await.unwrap();
    is_panic(&session.gate("tool_call", json!({})).await.unwrap_err(), "probe: gate tool_call");
    assert_eq!(session.gate("input", json!({ "text": "x", "source": "rpc" })).await.unwrap(), Value::Null);

    let command = json!({ "args": "panic", "ctx": session.ctx() }).to_string();
    let (_, answer) = session.invoke(session.next_call(), "command", "probe", command).end().await;
    is_panic(&answer.unwrap_err(), "probe: command");

    let query = |name: &str, payload: Value| session.extension.query::<_, Value>(session.scope, name, &payload);
    let message =
        |kind: &str| json!({ "customType": kind, "content": "text", "expanded": false, "width": 40, "theme": {} });
    is_panic(&query("render.message", message("probe.panic")).unwrap_err(), "probe: probe.panic");
    is_panic(&query("render.entry", message("probe.panic")).unwrap_err(), "probe: probe.panic");
    let component = |id: &str| json!({ "id": id, "width": 10, "theme": {} });
    is_panic(&query("component.render", component("probe.panic")).unwrap_err(), "probe: probe.panic");
    is_panic(&query("component.input", json!({ "id": "probe.ok", "data": "p" })).unwrap_err(), "probe: panic");
    assert!(query("component.render", component("probe.ok")).is_ok());
}

/// ABI-6: bodies of the host run on the extension's threads, behind a fence of their own.
#[tokio::test]
async fn a_panic_in_a_body_of_the_host_fails_that_request_alone() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    for (op, message) in [(misbehaving::PANIC, "mini host: request"), (misbehaving::PANIC_IN_POLL, "mini host: poll")] {
        let answer = session.details("probe_request", json!({ "op": op })).await;
        assert_eq!(answer["error"]["code"], codes::PANIC, "{answer}");
        let told = answer["error"]["message"].as_str().unwrap();
        assert!(told.contains(message) && told.contains("mini_host.rs:"), "{told}");
        still_works(&session).await;
    }
    session.tool("probe_post", json!({ "op": misbehaving::PANIC })).await.unwrap();
    still_works(&session).await;
}

/// ABI-6, ABI-8: the extension drops the request, so a panic of the host's clean-up would cross the boundary.
#[tokio::test]
async fn a_panic_in_the_clean_up_of_a_dropped_request_is_held() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    let call = session.call("probe_request", json!({ "op": misbehaving::PANIC_IN_DROP }));
    host.opened(session.scope, misbehaving::PANIC_IN_DROP).await;
    session.extension.cancel(call.number);
    let (_, answer) = call.end().await;
    assert!(answer.unwrap().contains(r#"{"dropped":true}"#));
    host.dropped(session.scope, misbehaving::PANIC_IN_DROP).await;
    still_works(&session).await;
}
