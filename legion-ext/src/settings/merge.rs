//! The user's and the project's settings as one (SET-50 … SET-54). Pure.

use serde_json::{Map, Value};

/// How deep two objects of one key mix before the project's value stands as it is.
fn depth_of(key: &str) -> u32 {
    match key {
        // By name: an entry of the same name is replaced whole (SET-53).
        "presets" | "teams" | "rpc" | "terminal" | "inprocess" => 1,
        // By role and field (SET-51), by provider and role (SET-52), and inside `phaseTimeouts` (SET-50).
        "agentOverrides" | "agentOverridesByProvider" | "legion" => 2,
        // Scalars, and `modelScope`, which the project replaces whole (SET-54).
        _ => 0,
    }
}

/// One `subagents` object from both layers; the project's values win. Neither layer needs to be valid.
pub fn merge_blocks(user: &Map<String, Value>, project: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = user.clone();
    for (key, value) in project {
        put(&mut merged, key, value, depth_of(key));
    }
    merged
}

fn put(into: &mut Map<String, Value>, key: &str, value: &Value, depth: u32) {
    match (into.get_mut(key), value) {
        (Some(Value::Object(below)), Value::Object(above)) if depth > 0 => {
            for (key, value) in above {
                put(below, key, value, depth - 1);
            }
        }
        _ => {
            into.insert(key.to_owned(), value.clone());
        }
    }
}
