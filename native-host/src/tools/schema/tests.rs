use serde_json::{Value, json};

use super::{check, fault_text};

fn faults(schema: Value, input: Value) -> Vec<String> {
    check(&schema, &input).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn edit_schema() -> Value {
    json!({
        "type": "object",
        "required": ["path", "edits"],
        "properties": {
            "path": { "type": "string" },
            "edits": { "type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["oldText"], "properties": { "oldText": { "type": "string" } } } },
            "mode": { "enum": ["fast", "slow"] },
            "limit": { "type": ["integer", "null"], "minimum": 1 },
            "who": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
        }
    })
}

/// ABI-30, NAT-9: each fault names its field and what was expected
#[test]
fn faults_name_field_and_expectation() {
    let table: &[(Value, &[&str])] = &[
        (json!({ "path": "a", "edits": [{ "oldText": "x" }] }), &[]),
        (json!({ "path": "a", "edits": [{ "oldText": "x" }], "unknown": 1, "limit": null, "who": ["a"] }), &[]),
        (json!({ "edits": [{ "oldText": "x" }] }), &["path: required (string), but missing"]),
        (json!({ "path": 5, "edits": [{ "oldText": "x" }] }), &["path: expected string, got number"]),
        (json!({ "path": "a", "edits": "[]" }), &["edits: expected array, got string"]),
        (json!({ "path": "a", "edits": [] }), &["edits: expected at least 1 items, got 0"]),
        (
            json!({ "path": "a", "edits": [{ "oldText": "x" }, {}] }),
            &["edits[1].oldText: required (string), but missing"],
        ),
        (
            json!({ "path": "a", "edits": [{ "oldText": "x" }], "mode": "Fast" }),
            &["mode: expected one of \"fast\", \"slow\", got \"Fast\""],
        ),
        (
            json!({ "path": "a", "edits": [{ "oldText": "x" }], "limit": 1.5 }),
            &["limit: expected integer or null, got number"],
        ),
        (json!({ "path": "a", "edits": [{ "oldText": "x" }], "limit": 0 }), &["limit: expected at least 1, got 0"]),
        (
            json!({ "path": "a", "edits": [{ "oldText": "x" }], "who": 3 }),
            &["who: expected string or array, got number"],
        ),
        (
            json!({ "path": "a", "edits": [{ "oldText": "x" }], "who": ["a", 3] }),
            &["who[1]: expected string, got number"],
        ),
        (json!([]), &["arguments: expected object, got array"]),
        (json!({}), &["path: required (string), but missing", "edits: required (array), but missing"]),
    ];
    for (input, expected) in table {
        assert_eq!(faults(edit_schema(), input.clone()), *expected, "{input}");
    }
}

/// NAT-9: no conversion before the check, so a number written as text is a fault
#[test]
fn scalars_are_not_converted() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" }, "b": { "type": "boolean" } } });
    assert_eq!(faults(schema.clone(), json!({ "n": "5" })), ["n: expected number, got string"]);
    assert_eq!(faults(schema, json!({ "b": "true" })), ["b: expected boolean, got string"]);
}

#[test]
fn fault_text_tells_the_tool_and_the_received_arguments() {
    let input = json!({ "path": 5, "edits": [] });
    let faults = check(&edit_schema(), &input).unwrap_err();
    let text = fault_text("edit", &faults, &input);
    assert!(text.starts_with("Validation failed for tool \"edit\":\n  - path: expected string"), "{text}");
    assert!(text.contains("Received arguments:\n{\n  \"path\": 5"), "{text}");
    let long = json!({ "path": "x".repeat(10_000) });
    assert!(fault_text("edit", &faults, &long).len() < 3_000);
}
