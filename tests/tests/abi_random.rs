//! Random payloads and names, in both directions: an answer or an error, never a panic.

use host_abi::{
    AbiError,
    calls::{kinds, queries},
    codes, events, gates, ops,
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};
use tests::mini_host::{MiniHost, MiniSession};
use tokio::runtime::Runtime;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((member(), inner), 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Names of members that payloads really have, so that values of wrong types reach them.
fn member() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] =
        &["op", "input", "raw", "scope", "gate", "hold", "where", "n", "text", "params", "ctx", "id", "width", "title"];
    prop_oneof![3 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => any::<String>()]
}

/// JSON of any shape, JSON that was cut off or nested beyond reason, and no JSON at all.
fn payload() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => value().prop_map(|value| value.to_string()),
        1 => (value(), any::<proptest::sample::Index>()).prop_map(|(value, at)| {
            let text = value.to_string();
            text[..text.floor_char_boundary(at.index(text.len() + 1))].to_owned()
        }),
        1 => (0..20_000_usize).prop_map(|depth| "[".repeat(depth)),
        1 => any::<String>(),
    ]
}

fn name(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![2 => proptest::sample::select(known).prop_map(str::to_owned), 1 => any::<String>()]
}

fn no_panic(error: &AbiError) -> Result<(), TestCaseError> {
    prop_assert_ne!(&error.code, codes::PANIC, "{:?}", error);
    Ok(())
}

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
}
