//! Whether arguments fit a tool's schema, for hosts that do not check, and in words that name the way out (SUB-14).
//!
//! It knows what the schemas of this crate use: types, enums, bounds, required members, items. An absent optional
//! member and `null` are the same.

use serde_json::{Map, Value};

use crate::core::{near::near_miss, text::clean_line};

/// Longest piece of the caller's own words in a message, in bytes.
const QUOTE_BYTES: usize = 80;
/// Mistakes that one message names.
const MAX_NAMED: usize = 10;

/// Keys that the schema does not have, each with its near miss or with what is taken there; `None` when all are known.
pub(super) fn unknown_parameters(tool: &str, schema: &Value, params: &Map<String, Value>) -> Option<String> {
    let mut found = Unknown { tool, lines: Vec::new(), more: 0 };
    found.visit(schema, schema, params, "", "");
    if found.more > 0 {
        found.lines.push(format!("… {} more", found.more));
    }
    (!found.lines.is_empty()).then(|| found.lines.join("\n"))
}

struct Unknown<'a> {
    tool: &'a str,
    lines: Vec<String>,
    more: usize,
}

impl Unknown<'_> {
    /// `path` is where `map` stands in the call, `place` the same without indices.
    fn visit(&mut self, root: &Value, schema: &Value, map: &Map<String, Value>, path: &str, place: &str) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let legal: Vec<&str> = properties.keys().map(String::as_str).collect();
        for key in map.keys().filter(|key| !properties.contains_key(*key)) {
            if self.lines.len() >= MAX_NAMED {
                self.more += 1;
                continue;
            }
            let quoted = clean_line(&join(path, key), QUOTE_BYTES);
            self.lines.push(match near_miss(key, &legal) {
                Some(near) => format!("unknown parameter '{quoted}'; did you mean '{near}'?"),
                None => {
                    let taker = if place.is_empty() { self.tool } else { place };
                    format!("unknown parameter '{quoted}'; {taker} takes: {}", legal.join(", "))
                }
            });
        }
        for (key, property) in properties {
            let Some(value) = map.get(key) else { continue };
            // The schema of an item's acceptance is given once, at the top.
            let property = if key == "acceptance" { &root["properties"]["acceptance"] } else { property };
            let (path, place) = (join(path, key), join(place, key));
            match value {
                Value::Object(map) => self.visit(root, property, map, &path, &place),
                Value::Array(items) => {
                    let place = format!("{place}[]");
                    for (at, item) in items.iter().enumerate() {
                        let Some(map) = item.as_object() else { continue };
                        self.visit(root, &property["items"], map, &format!("{path}[{at}]"), &place);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
}

/// What differs from the schema, as `<field>: expected <what>, got <value>`; `None` when all fits. `acceptance` is left
/// to its own reader, which also knows the short forms of a card.
pub(super) fn faults(schema: &Value, params: &Map<String, Value>) -> Option<String> {
    let mut faults = Vec::new();
    members(schema, params, "", &mut faults);
    let more = faults.len().saturating_sub(MAX_NAMED);
    faults.truncate(MAX_NAMED);
    if more > 0 {
        faults.push(format!("… {more} more"));
    }
    (!faults.is_empty()).then(|| faults.join("\n"))
}

fn members(schema: &Value, map: &Map<String, Value>, path: &str, faults: &mut Vec<String>) {
    let present = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !present(key) {
            faults.push(format!("{}: required, but missing", join(path, key)));
        }
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if present(key) && key != "acceptance" {
            value(property, &map[key], &join(path, key), faults);
        }
    }
}

fn value(schema: &Value, given: &Value, path: &str, faults: &mut Vec<String>) {
    let mut expected = |what: String| faults.push(format!("{path}: expected {what}, got {}", shown(given)));
    if let Some(words) = schema["enum"].as_array() {
        if !words.contains(given) {
            let words: Vec<String> = words.iter().map(Value::to_string).collect();
            expected(format!("one of {}", words.join(", ")));
        }
        return;
    }
    match (schema["type"].as_str(), given) {
        (Some("string"), Value::String(_)) | (Some("boolean"), Value::Bool(_)) | (None, _) => {}
        (Some("integer"), Value::Number(_)) => {
            let bound = |key: &str| schema[key].as_u64();
            match (whole(given), bound("minimum"), bound("maximum")) {
                (None, least, _) => expected(format!("a whole number{}", at_least(least))),
                (Some(n), Some(least), None) if n < least => {
                    expected(format!("a whole number{}", at_least(Some(least))))
                }
                (Some(n), Some(least), Some(most)) if !(least..=most).contains(&n) => {
                    expected(format!("a whole number from {least} to {most}"));
                }
                (Some(_), _, _) => {}
            }
        }
        (Some("object"), Value::Object(map)) => members(schema, map, path, faults),
        (Some("array"), Value::Array(items)) => {
            let bound = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
            let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
            if items.len() < least || items.len() > most {
                let most = if most == usize::MAX { String::new() } else { format!(" and at most {most}") };
                faults.push(format!("{path}: expected at least {least}{most} entries, got {}", items.len()));
                return;
            }
            for (at, item) in items.iter().enumerate() {
                value(&schema["items"], item, &format!("{path}[{at}]"), faults);
            }
        }
        (Some(wanted), _) => expected(with_article(wanted).to_owned()),
    }
}

/// A whole number that is not negative; `3.0` is one. Beyond 64 bits it reads as the largest.
pub(super) fn whole(value: &Value) -> Option<u64> {
    if let Some(n) = value.as_u64() {
        return Some(n);
    }
    let n = value.as_f64()?;
    // The cast keeps to the bounds of u64.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and not negative")]
    (n >= 0.0 && n.fract() == 0.0).then_some(n as u64)
}

fn at_least(least: Option<u64>) -> String {
    least.map(|least| format!(" of at least {least}")).unwrap_or_default()
}

fn with_article(kind: &str) -> &str {
    match kind {
        "string" => "a text",
        "boolean" => "true or false",
        "object" => "an object",
        "array" => "a list",
        other => other,
    }
}

fn shown(value: &Value) -> String {
    clean_line(&value.to_string(), QUOTE_BYTES)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
