//! Random payloads and names, in both directions: an answer or an error, never a panic.

use host_abi::{
    calls::{kinds, queries},
    codes, events, gates, ops,
};
use proptest::prelude::*;
use serde_json::json;
use tests::{
    mini_host::{MiniHost, MiniSession},
    native::{Bench, call},
};
use tokio::runtime::Runtime;

mod random;

use random::{name, no_panic, payload, value};

fn run(test: impl Fn(&Runtime, &MiniSession) -> Result<(), TestCaseError>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let session = MiniHost::shared().session("probe_ext");
    let outcome = test(&runtime, &session);
    session.detach();
    outcome
}

/// Tools that answer whatever they are given. The others wait, or panic because they are asked to.
const PROMPT_TOOLS: &[&str] = &[
    "probe_whoami",
    "probe_echo",
    "probe_post",
    "probe_usage",
    "probe_gate",
    "probe_asked",
    "probe_events",
    "probe_views",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Part of 01-T8, into the extension. Whatever comes, the call is answered and the library goes on.
    #[test]
    fn an_extension_bears_any_call(
        kind in name(&[kinds::TOOL, kinds::COMMAND, kinds::GATE]),
        tool in name(PROMPT_TOOLS),
        gate in name(gates::names::ALL),
        query in name(queries::ALL),
        event in name(events::names::ALL),
        raw in payload(),
        params in value(),
        scope in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        run(|runtime, session| {
            let called = if kind == kinds::GATE { &gate } else { &tool };
            // Raw text as the whole payload, and random parameters in a right one.
            let right = session.tool_json(1, params.clone());
            for (kind, json) in [(kind.as_str(), raw.clone()), (kinds::TOOL, right)] {
                let (_, answer) = runtime.block_on(session.invoke(session.next_call(), kind, called, json).end());
                if let Err(error) = answer {
                    no_panic(&error)?;
                }
            }
            if let Err(error) = session.extension.query_json(session.scope, &query, raw.clone()) {
                no_panic(&error)?;
            }
            session.extension.notify_json(scope.unwrap_or(session.scope), &event, raw.clone());
            session.extension.cancel(scope.unwrap_or_default());
            if let Err(error) = session.extension.attach_json(u64::MAX, raw.clone()) {
                no_panic(&error)?;
            }
            session.extension.detach(u64::MAX);
            let alive = runtime.block_on(session.details("probe_echo", json!({ "text": "alive" })));
            prop_assert_eq!(alive, json!({ "text": "alive" }));
            Ok(())
        })?;
    }

    /// Part of 01-T8, into the host. Whatever is asked or told, an answer or an error comes back.
    #[test]
    fn a_host_bears_any_operation(op in name(ops::ALL), raw in payload(), scope in prop_oneof![Just(None), any::<u64>().prop_map(Some)]) {
        run(|runtime, session| {
            let mut params = json!({ "op": op, "raw": raw });
            if let Some(scope) = scope {
                params["scope"] = json!(scope);
            }
            let posted = runtime.block_on(session.tool("probe_post", params.clone()));
            prop_assert!(posted.is_ok(), "{:?}", posted);
            let call = session.call("probe_request", params);
            // A payload that happens to be right opens a dialog; nobody answers it.
            session.extension.cancel(call.number);
            let (_, answer) = runtime.block_on(call.end());
            match answer {
                Ok(answer) => prop_assert!(!answer.contains(codes::PANIC), "{}", answer),
                Err(error) => no_panic(&error)?,
            }
            Ok(())
        })?;
    }

    /// Part of 01-T8, into the two libraries that every child has: as a root and as a child, with an identity and without.
    #[test]
    fn our_extensions_bear_any_call(
        library in proptest::sample::select(&["legion_ext", "child_guard"][..]),
        kind in name(&[kinds::TOOL, kinds::COMMAND, kinds::GATE]),
        tool in name(&["subagent", "vexillatio", "legion_mail", "legion_tree", "bash"]),
        gate in name(gates::names::ALL),
        query in name(queries::ALL),
        event in name(events::names::ALL),
        raw in payload(),
        params in value(),
        child in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts");
        let project = tempfile::tempdir().expect("a directory");
        let session = MiniHost::shared()
            .session_with(library, |spec| {
                spec.cwd = project.path().display().to_string();
                spec.extension_scope = child.then(|| scope(project.path()));
            })
            .expect("attaches");
        let called = if kind == kinds::GATE { &gate } else { &tool };
        for (kind, json) in [(kind.as_str(), raw.clone()), (kinds::TOOL, session.tool_json(1, params.clone()))] {
            // Held gates and waiting tools end with the call.
            let call = session.invoke(session.next_call(), kind, called, json);
            session.extension.cancel(call.number);
            if let (_, Err(error)) = runtime.block_on(call.end()) {
                no_panic(&error)?;
            }
        }
        if let Err(error) = session.extension.query_json(session.scope, &query, raw.clone()) {
            no_panic(&error)?;
        }
        session.extension.notify_json(session.scope, &event, raw.clone());
        if let Err(error) = session.extension.attach_json(u64::MAX, raw) {
            no_panic(&error)?;
        }
        session.extension.detach(u64::MAX);
        session.detach();
    }
}

/// The scope of a child that may not nest, over a ledger that is not there.
fn scope(project: &std::path::Path) -> serde_json::Value {
    let run = project.join("run");
    json!({
        "schema": "legion.scope/1", "name": "w", "role": "worker", "nodeId": "root/w", "dbPath": run.join("legion.db"),
        "sessionFile": run.join("w.jsonl"), "runDir": run, "rootRunDir": run, "parentPath": ["root"], "depth": 1,
        "spawnMode": "inprocess", "budget": { "allowNested": false },
    })
}

/// 01-T8, into the real host, with the three tests above.
#[test]
fn the_native_host_bears_any_operation() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("starts");
    let bench = runtime.block_on(async { Bench::new() });
    // Operations that wait for what nobody does, or end the session that asks.
    const WAITING: &[&str] = &["child.wait_idle", "session.compact", "session.abort"];
    let quick: &'static [&'static str] =
        ops::ALL.iter().copied().filter(|op| !WAITING.contains(op)).collect::<Vec<_>>().leak();
    proptest!(ProptestConfig { cases: 200, ..ProptestConfig::default() }, |(op in name(quick), input in value())| {
        if let Err(error) = runtime.block_on(bench.request(&op, input)) {
            prop_assert_ne!(&error["code"], codes::PANIC, "{}", error);
        }
    });
    let alive = runtime.block_on(bench.run(&call("probe_echo", json!({ "text": "alive" }))));
    assert!(alive.error.is_none(), "{:?}", alive.error);
}
