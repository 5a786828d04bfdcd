//! Random JSON and names, shared by the tests that throw them.

use host_abi::{AbiError, codes};
use proptest::{collection::vec, prelude::*};
use serde_json::Value;

pub fn value() -> impl Strategy<Value = Value> {
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
    const KNOWN: &[&str] = &[
        "op",
        "input",
        "raw",
        "scope",
        "gate",
        "hold",
        "where",
        "n",
        "text",
        "params",
        "ctx",
        "id",
        "width",
        "title",
        "action",
        "agent",
        "task",
        "tasks",
        "name",
        "names",
        "to",
        "subject",
        "body",
        "event",
        "child",
        "message",
        "session",
        "timeoutMs",
    ];
    prop_oneof![3 => proptest::sample::select(KNOWN).prop_map(str::to_owned), 1 => any::<String>()]
}

/// JSON of any shape, JSON that was cut off or nested beyond reason, and no JSON at all.
pub fn payload() -> impl Strategy<Value = String> {
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

pub fn name(known: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![2 => proptest::sample::select(known).prop_map(str::to_owned), 1 => any::<String>()]
}

pub fn no_panic(error: &AbiError) -> Result<(), TestCaseError> {
    prop_assert_ne!(&error.code, codes::PANIC, "{:?}", error);
    Ok(())
}
