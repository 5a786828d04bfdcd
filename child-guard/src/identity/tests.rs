use std::collections::HashMap;

use host_abi::scope::{ChildBudget, ToolBlock, budget_to_env};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn env(vars: &[(&str, &str)]) -> HashMap<String, String> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn scope(more: serde_json::Value) -> serde_json::Value {
    let mut scope = json!({
        "schema": "legion.scope/1", "name": "w", "role": "worker", "nodeId": "root/w", "dbPath": "/r/legion.db",
        "sessionFile": "/r/w.jsonl", "runDir": "/r", "rootRunDir": "/r", "parentPath": ["root"], "depth": 1,
        "spawnMode": "inprocess",
    });
    scope.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
    scope
}

/// GUARD-12, GUARD-13, GUARD-14
#[test]
fn a_scope_is_the_only_source_where_there_is_one() {
    let env = env(&[
        ("PI_SUBAGENT_ACCEPTANCE_ROLE", "read-only"),
        ("PI_SUBAGENT_MAX_TOOL_CALLS", "1"),
        ("PI_SUBAGENT_MAX_TURNS", "nonsense"),
        ("PI_LEGION_DB", "/other/legion.db"),
    ]);
    let found = find(Some(&scope(json!({}))), &env).expect("reads");
    let expected = GuardIdentity { ledger: Some("/r/legion.db".into()), ..GuardIdentity::default() };
    assert_eq!(found, Found { identity: Some(expected), warnings: vec![] });

    let given = scope(json!({ "acceptanceRole": "writer", "budget": { "maxTurns": 7, "allowNested": false } }));
    let identity = find(Some(&given), &env).expect("reads").identity.expect("a child");
    assert_eq!(identity.acceptance_role, Some(AcceptanceRole::Writer));
    assert_eq!(identity.budget, ChildBudget { max_turns: Some(7), ..ChildBudget::default() });
}

/// SUP-30
#[test]
fn a_scope_of_another_schema_is_an_error() {
    for scope in [json!({}), json!(3), scope(json!({ "schema": "legion.scope/2" })), scope(json!({ "depth": "x" }))] {
        assert!(find(Some(&scope), &env(&[])).is_err(), "{scope}");
    }
}

/// GUARD-16
#[test]
fn without_scope_and_variables_there_is_no_child() {
    let others = env(&[("PI_LEGION_SIGNAL_FILE", "/s"), ("PI_SUBAGENT_ROLE", "worker"), ("PI_SUBAGENTS_TEAM", "x")]);
    assert_eq!(find(None, &others), Ok(Found::default()));
    for (name, value) in [("PI_LEGION_NODE_ID", "root/w"), ("PI_SUBAGENT_MAX_TURNS", "3"), ("PI_LEGION_DB", "/l.db")] {
        assert!(find(None, &env(&[(name, value)])).expect("reads").identity.is_some(), "{name}");
    }
}

/// GUARD-20, GUARD-21, GUARD-22, GUARD-23, GUARD-24, GUARD-25, GUARD-26, GUARD-27
#[test]
fn variables_become_an_identity() {
    let found = find(
        None,
        &env(&[
            ("PI_LEGION_DB", "/r/legion.db"),
            ("PI_LEGION_NODE_ID", "root/w"),
            ("PI_SUBAGENT_ACCEPTANCE_ROLE", "read-only"),
            ("PI_SUBAGENT_MAX_TOOL_CALLS", "10"),
            ("PI_SUBAGENT_MAX_TURNS", "5"),
            ("PI_SUBAGENT_TURN_SOFT", "0"),
            ("PI_SUBAGENT_TOOL_BLOCK", "bash,grep"),
            ("PI_SUBAGENT_TOOL_TIMEOUT_MS", "1500"),
            ("PI_SUBAGENT_MAX_DEPTH", "0"),
            ("PI_SUBAGENT_ALLOW_NESTED", "1"),
        ]),
    );
    let budget = ChildBudget {
        max_depth: Some(0),
        allow_nested: true,
        max_tool_calls: Some(10),
        max_turns: Some(5),
        tool_timeout_ms: Some(1500),
        tool_soft: Some(8),
        tool_block: ToolBlock::Names(vec!["bash".to_owned(), "grep".to_owned()]),
        turn_soft: None,
    };
    let identity =
        GuardIdentity { acceptance_role: Some(AcceptanceRole::ReadOnly), budget, ledger: Some("/r/legion.db".into()) };
    assert_eq!(found, Ok(Found { identity: Some(identity), warnings: vec![] }));
}

/// GUARD-29
#[test]
fn a_malformed_value_is_ignored_with_one_line() {
    let found = find(
        None,
        &env(&[
            ("PI_SUBAGENT_MAX_TURNS", "abc"),
            ("PI_SUBAGENT_MAX_TOOL_CALLS", "5"),
            ("PI_SUBAGENT_ACCEPTANCE_ROLE", "Writer"),
        ]),
    )
    .expect("reads");
    let identity = found.identity.expect("a child");
    assert_eq!(identity.acceptance_role, Some(AcceptanceRole::ReadOnly));
    assert_eq!((identity.budget.max_turns, identity.budget.max_tool_calls), (None, Some(5)));
    assert_eq!(
        found.warnings,
        [
            "child-guard: PI_SUBAGENT_MAX_TURNS='abc' is not a positive integer; ignored",
            "child-guard: PI_SUBAGENT_ACCEPTANCE_ROLE='Writer' is neither 'read-only' nor 'writer'; treated as 'read-only'",
        ]
    );
    for value in ["0", "-1", "1.5", "", " 3", "99999999999"] {
        let found = find(None, &env(&[("PI_SUBAGENT_MAX_TURNS", value)])).expect("reads");
        assert_eq!(found.warnings.len(), 1, "{value:?}");
        assert_eq!(found.identity.expect("a child").budget, ChildBudget::default(), "{value:?}");
    }
}

fn budgets() -> impl Strategy<Value = ChildBudget> {
    let limit = || prop::option::of(1u32..50);
    let block = prop::option::of(prop::collection::vec("[a-z_]{1,8}", 1..4));
    let numbers = (prop::option::of(0u32..9), any::<bool>(), limit(), limit(), prop::option::of(1u64..9_999_999));
    (numbers, limit(), block, limit()).prop_map(|(numbers, tool_soft, block, turn_soft)| {
        let (max_depth, allow_nested, max_tool_calls, max_turns, tool_timeout_ms) = numbers;
        let tool_block = block.map_or(ToolBlock::All, ToolBlock::Names);
        ChildBudget {
            max_depth,
            allow_nested,
            max_tool_calls,
            max_turns,
            tool_timeout_ms,
            tool_soft,
            tool_block,
            turn_soft,
        }
    })
}

proptest! {
    /// GUARD-19, part of 10-T7: the same budget binds a child alike whichever way it comes.
    #[test]
    fn both_channels_give_the_same_budget(budget in budgets()) {
        let in_scope = scope(json!({ "budget": budget, "acceptanceRole": "writer" }));
        let mut vars: HashMap<String, String> =
            budget_to_env(&budget).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        vars.extend(env(&[("PI_LEGION_DB", "/r/legion.db"), ("PI_SUBAGENT_ACCEPTANCE_ROLE", "writer")]));
        let by_env = find(None, &vars).expect("reads");
        prop_assert_eq!(&by_env.identity.as_ref().expect("a child").budget, &budget);
        prop_assert_eq!(by_env, find(Some(&in_scope), &env(&[])).expect("reads"));
    }
}
