//! Calls through a real library: cancellation, order, limits, bad payloads and what is gone.

use host_abi::{AbiError, MAX_PAYLOAD_BYTES, codes};
use serde_json::{Value, json};
use tests::mini_host::{Heard, MiniHost, misbehaving};

/// A tool's answer, as its details.
fn details(answer: Result<String, AbiError>) -> Value {
    let result: Value = serde_json::from_str(&answer.expect("the call works")).expect("JSON");
    result["details"].clone()
}

/// ABI-50, part of 01-T4: a cancel may come before the call, while it works, and after its end; it may come twice.
#[tokio::test]
async fn a_cancel_before_during_and_after_the_work() {
    let session = MiniHost::shared().session("probe_ext");
    let cancelled = json!({ "cancelled": true });

    let before = session.next_call();
    session.extension.cancel(before);
    session.extension.cancel(before);
    let call = session.invoke(before, "tool", "probe_sleep", session.tool_json(before, json!({})));
    assert_eq!(details(call.end().await.1), cancelled);

    let mut during = session.call("probe_sleep", json!({}));
    assert!(matches!(during.next().await, Some(Heard::Progress(_))), "it is at work");
    session.extension.cancel(during.number);
    session.extension.cancel(during.number);
    assert_eq!(details(during.end().await.1), cancelled);

    let at_once = session.call("probe_sleep", json!({}));
    session.extension.cancel(at_once.number);
    assert_eq!(details(at_once.end().await.1), cancelled);

    let after = session.call("probe_sleep", json!({ "ms": 0 }));
    let number = after.number;
    assert_eq!(details(after.end().await.1), json!({ "cancelled": false }));
    session.extension.cancel(number);
    let other = session.call("probe_sleep", json!({ "ms": 0 }));
    assert_eq!(details(other.end().await.1), json!({ "cancelled": false }), "no other call is hit");
}

/// ABI-8, part of 01-T4: the real hosts' own work comes on top.
#[tokio::test]
async fn a_dropped_request_ends_the_work_in_the_host() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    let confirm = json!({ "op": "ui.confirm", "input": { "title": "Sure?", "message": "" } });

    let call = session.call("probe_request", confirm.clone());
    host.opened(session.scope, "ui.confirm").await;
    session.extension.cancel(call.number);
    host.dropped(session.scope, "ui.confirm").await;
    assert_eq!(details(call.end().await.1), json!({ "dropped": true }));

    let call = session.call("probe_request", confirm);
    host.opened(session.scope, "ui.confirm").await;
    host.answer(session.scope, "ui.confirm", &json!({ "confirmed": true }));
    assert_eq!(details(call.end().await.1), json!({ "answer": { "confirmed": true } }));
}

/// Part of 01-T4.
#[tokio::test]
async fn a_dropped_reply_fails_the_call() {
    let session = MiniHost::shared().session("probe_ext");
    let error = session.tool("probe_drop_reply", json!({})).await.unwrap_err();
    assert_eq!(error, AbiError::host("the extension dropped the call without an answer"));
}

/// ABI-2, part of 01-T4: `detach` settles an open dialog; afterwards the scope is gone on both sides.
#[tokio::test]
async fn a_detach_settles_what_is_open_and_ends_the_scope() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    let other = host.session("probe_ext");
    let call = session.call("probe_request", json!({ "op": "ui.confirm", "input": { "title": "", "message": "" } }));
    host.opened(session.scope, "ui.confirm").await;
    session.detach();
    let gone = AbiError::scope_gone(session.scope);
    let settled = details(call.end().await.1);
    assert_eq!(settled, json!({ "error": { "code": codes::SCOPE_GONE, "message": gone.message } }));

    assert_eq!(session.tool("probe_echo", json!({})).await.unwrap_err(), gone);
    let query =
        session.extension.query::<_, Value>(session.scope, "complete", &json!({ "command": "probe", "prefix": "" }));
    assert_eq!(query.unwrap_err(), gone);
    session.extension.notify_json(session.scope, "agent_start", "{}".to_owned());
    session.detach();

    let asked = other.details("probe_request", json!({ "op": "host.info", "scope": session.scope })).await;
    assert_eq!(asked["error"]["code"], codes::SCOPE_GONE);
    let line = json!({ "line": "late", "stream": "out" });
    other.tool("probe_post", json!({ "op": "print", "scope": session.scope, "input": line })).await.unwrap();
    other.tool("probe_post", json!({ "op": "print", "input": line })).await.unwrap();
    assert_eq!(host.posts(session.scope, "print"), Vec::<Value>::new());
    assert_eq!(host.posts(other.scope, "print"), [line]);
}

/// 01-T5, ABI-10
#[tokio::test]
async fn ten_thousand_partial_results_come_in_order_before_the_answer() {
    const N: usize = 10_000;
    let session = MiniHost::shared().session("probe_ext");
    let (progress, answer) = session.call("probe_progress", json!({ "n": N })).end().await;
    let numbers: Vec<_> = progress
        .iter()
        .map(|json| serde_json::from_str::<Value>(json).unwrap()["details"]["i"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..N as u64).collect::<Vec<_>>());
    assert_eq!(details(answer), json!({ "n": N }));
}

/// ABI-11, in both directions: payload, answer and error, of calls and of requests.
#[tokio::test]
async fn what_is_too_large_is_refused() {
    let host = MiniHost::shared();
    let session = host.session("probe_ext");
    let limit = MAX_PAYLOAD_BYTES as u64;
    let code = |error: AbiError| error.code;

    let big = "x".repeat(MAX_PAYLOAD_BYTES);
    assert_eq!(code(session.tool("probe_echo", json!({ "text": big })).await.unwrap_err()), codes::TOO_LARGE);
    assert_eq!(code(session.tool("probe_echo", json!({ "pad": limit })).await.unwrap_err()), codes::TOO_LARGE);
    let text = session.tool("probe_echo", json!({ "pad": limit - 1024 })).await.unwrap().joined_text();
    assert_eq!(text.len() as u64, limit - 1024, "what fits passes");

    let payload = json!({ "command": big, "prefix": "" });
    assert_eq!(
        code(session.extension.query::<_, Value>(session.scope, "complete", &payload).unwrap_err()),
        codes::TOO_LARGE
    );
    let raw = session.extension.query_json(session.scope, "complete", payload.to_string());
    assert_eq!(code(raw.unwrap_err()), codes::TOO_LARGE, "a host that does not check");
    let refused = host.session_with("probe_ext", |spec| spec.extension_scope = Some(json!(big)));
    assert_eq!(code(refused.unwrap_err()), codes::TOO_LARGE);
    session.extension.notify_json(session.scope, "agent_start", format!("\"{big}\""));
    assert_eq!(session.details("probe_events", json!({})).await, json!([]));

    for op in [misbehaving::LARGE, misbehaving::LARGE_ERROR] {
        let answer = session.details("probe_request", json!({ "op": op })).await;
        assert_eq!(answer["error"]["code"], codes::TOO_LARGE, "{op}");
    }
    let asked = session.details("probe_request", json!({ "op": "host.info", "pad": limit })).await;
    assert_eq!(asked["error"]["code"], codes::TOO_LARGE);
    session.tool("probe_post", json!({ "op": "print", "pad": limit })).await.unwrap();
    session.tool("probe_post", json!({ "op": "print", "input": { "line": "small" } })).await.unwrap();
    assert_eq!(host.posts(session.scope, "print"), [json!({ "line": "small" })]);
}

/// ABI-15: JSON that does not parse or misses a field, in both directions, with the path of the fault.
#[tokio::test]
async fn a_bad_payload_names_its_path() {
    let session = MiniHost::shared().session("probe_ext");
    let bad = async |kind: &str, name: &str, json: &str| {
        let (_, answer) = session.invoke(session.next_call(), kind, name, json.to_owned()).end().await;
        answer.unwrap_err()
    };
    let good: Value = serde_json::from_str(&session.tool_json(1, json!({}))).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut payload = good.clone();
        change(&mut payload);
        payload.to_string()
    };

    let no_json = bad("tool", "probe_echo", "{ not json").await;
    assert_eq!(no_json.code, codes::BAD_PAYLOAD);
    assert!(no_json.message.starts_with("tool 'probe_echo': "), "{}", no_json.message);
    assert!(no_json.message.contains("line 1 column 3"), "{}", no_json.message);

    type Change = dyn Fn(&mut Value);
    let cases: [(&str, &Change, &str); 4] = [
        ("ctx.mode", &|p| p["ctx"]["mode"] = json!("loud"), "unknown variant `loud`"),
        ("ctx.idle", &|p| p["ctx"]["idle"] = json!("yes"), "expected a boolean"),
        ("ctx", &|p| drop(p["ctx"].as_object_mut().unwrap().remove("cwd")), "missing field `cwd`"),
        (".", &|p| drop(p.as_object_mut().unwrap().remove("toolCallId")), "missing field `toolCallId`"),
    ];
    for (path, change, cause) in cases {
        let error = bad("tool", "probe_echo", &with(change)).await;
        assert_eq!((error.code.as_str(), &error.details.as_ref().unwrap()["path"]), (codes::BAD_PAYLOAD, &json!(path)));
        assert!(error.message.contains(cause), "{}", error.message);
        assert!(path == "." || error.message.contains(&format!("at {path}: ")), "{}", error.message);
    }
    let trailing = bad("command", "probe", &format!("{} x", json!({ "args": "", "ctx": session.ctx() }))).await;
    assert_eq!(trailing.code, codes::BAD_PAYLOAD);
    assert!(trailing.message.contains("trailing characters"), "{}", trailing.message);
    let raw = session.extension.query_json(
        session.scope,
        "render.message",
        r#"{"customType":"probe.ok","expanded":1}"#.to_owned(),
    );
    assert_eq!(raw.unwrap_err().details.unwrap()["path"], "expanded");
    let attach = session.extension.attach_json(1_000_000, r#"{"agentId":7}"#.to_owned()).unwrap_err();
    assert_eq!(attach.details.unwrap()["path"], "agentId");

    let asked = session.details("probe_request", json!({ "op": "ui.confirm", "input": { "title": 5 } })).await;
    assert_eq!(asked["error"]["code"], codes::BAD_PAYLOAD);
    assert_eq!(asked["error"]["details"]["path"], "title");
    let asked = session.details("probe_request", json!({ "op": "ui.confirm", "raw": "[" })).await;
    assert_eq!(asked["error"]["code"], codes::BAD_PAYLOAD);
    let answered = session.tool("probe_request", json!({ "op": misbehaving::NO_JSON })).await.unwrap_err();
    assert_eq!(answered.code, codes::BAD_PAYLOAD, "an answer of the host");
}

/// ABI-4: unknown operations, kinds, tools and queries are errors; unknown events and members are nothing.
#[tokio::test]
async fn what_is_unknown_is_said_or_ignored() {
    let session = MiniHost::shared().session("probe_ext");
    let asked = session.details("probe_request", json!({ "op": "moon.land" })).await;
    assert_eq!(asked["error"]["code"], codes::UNKNOWN_OP);
    assert_eq!(asked["error"]["details"], json!({ "op": "moon.land" }));
    assert_eq!(session.tool("probe_fly", json!({})).await.unwrap_err(), AbiError::unknown_op("probe_fly"));
    let (_, answer) = session.invoke(session.next_call(), "dance", "x", "{}".to_owned()).end().await;
    assert_eq!(answer.unwrap_err(), AbiError::unknown_op("dance"));
    let query = session.extension.query::<_, Value>(session.scope, "moon.phase", &json!({}));
    assert_eq!(query.unwrap_err(), AbiError::unknown_op("moon.phase"));

    session.extension.notify_json(session.scope, "moon_rise", "{}".to_owned());
    session.extension.notify_json(session.scope, "turn_end", r#"{"turn":1,"moon":"full"}"#.to_owned());
    let events = session.details("probe_events", json!({})).await;
    assert_eq!(events, json!([{ "name": "turn_end", "payload": { "turn": 1, "moon": "full" } }]));
    let mut payload: Value = serde_json::from_str(&session.tool_json(1, json!({ "text": "x" }))).unwrap();
    payload["ctx"]["moon"] = json!("full");
    payload["moon"] = json!("new");
    let (_, answer) = session.invoke(session.next_call(), "tool", "probe_echo", payload.to_string()).end().await;
    assert_eq!(details(answer), json!({ "text": "x" }));
}

/// ABI-7, ABI-9, ABI-14: many sessions of one library at once; each call sees its own, also in a task that it
/// spawns.
#[tokio::test]
async fn concurrent_sessions_see_their_own_identity() {
    let host = MiniHost::shared();
    let sessions: Vec<_> = (0..64)
        .map(|n| {
            let scope = (n % 2 == 0).then(|| json!({ "child": n, "nested": { "list": [n] } }));
            (scope.clone(), host.session_with("probe_ext", |spec| spec.extension_scope = scope).unwrap())
        })
        .collect();
    let calls: Vec<_> = (0..4)
        .flat_map(|_| sessions.iter().map(|(scope, session)| (scope, session, session.call("probe_whoami", json!({})))))
        .collect();
    for (scope, session, call) in calls {
        let facts = json!({
            "scope": session.scope, "agentId": format!("agent-{}", session.scope), "extensionScope": scope,
        });
        let mut told = details(call.end().await.1);
        assert_eq!(told["nested"].take(), facts);
        told.as_object_mut().unwrap().remove("nested");
        assert_eq!(told, facts);
    }
}

/// ABI-32, ABI-54: a gate answers what it was told to, waits as long as it is held, and can be cancelled.
#[tokio::test]
async fn gates_answer_wait_and_are_cancelled() {
    let session = MiniHost::shared().session("probe_ext");
    let told = json!({ "continue": true, "messages": [] });
    session.tool("probe_gate", json!({ "gate": "agent_before_settle", "answer": told, "hold": true })).await.unwrap();
    let asked = json!({ "event": { "outcome": "completed" }, "ctx": session.ctx() });
    let ask = || session.invoke(session.next_call(), "gate", "agent_before_settle", asked.to_string());

    let held = ask();
    session.extension.cancel(held.number);
    assert_eq!(held.end().await.1.unwrap(), told.to_string());
    let held = ask();
    let release = json!({ "args": "release agent_before_settle", "ctx": session.ctx() }).to_string();
    let (_, released) = session.invoke(session.next_call(), "command", "probe", release).end().await;
    released.unwrap();
    assert_eq!(held.end().await.1.unwrap(), told.to_string());

    let once = json!({ "gate": "tool_call", "tool": "bash", "times": 1, "answer": { "block": true } });
    session.tool("probe_gate", once).await.unwrap();
    for (tool, answer) in [("read", json!(null)), ("bash", json!({ "block": true })), ("bash", json!(null))] {
        assert_eq!(session.gate("tool_call", json!({ "toolName": tool })).await.unwrap(), answer, "{tool}");
    }

    session.tool("probe_gate", json!({ "gate": "input", "err": "not now" })).await.unwrap();
    assert_eq!(session.gate("input", json!({})).await.unwrap_err(), AbiError::new("PROBE", "not now"));
    let all = session.details("probe_asked", json!({})).await;
    let all = all.as_array().unwrap();
    let gates: Vec<_> = all.iter().map(|one| one["gate"].as_str().unwrap()).collect();
    let settle = "agent_before_settle";
    assert_eq!(gates, [settle, settle, "tool_call", "tool_call", "tool_call", "input"]);
    let cancelled: Vec<_> = all.iter().map(|one| one["cancelled"] == true).collect();
    assert_eq!(cancelled, [true, false, false, false, false, false]);
    assert_eq!(all[0]["event"], json!({ "outcome": "completed" }));
}
