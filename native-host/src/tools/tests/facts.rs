//! The built-in tools against facts recorded from the tools of pi 1.6.0 on the same files and commands.

use std::collections::BTreeSet;

use serde_json::{Map, json};

use super::*;

fn recorded() -> Value {
    serde_json::from_str(include_str!("pi-1.6.0.json")).unwrap()
}

/// A schema as the record has it: names, types, what is required.
fn shape(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let properties: Map<String, Value> = properties.map(|(name, p)| (name.clone(), shape(p))).collect();
            json!({ "required": schema.get("required").cloned().unwrap_or_else(|| json!([])), "properties": properties })
        }
        Some("array") => json!([shape(&schema["items"])]),
        Some(name) => json!(name),
        None => Value::Null,
    }
}

/// NAT-4, 11-T13: names and parameters are pi's
#[test]
fn names_and_parameters_are_those_of_pi() {
    let recorded = recorded();
    let mut names = BTreeSet::new();
    for tool in builtin_tools() {
        let def = tool.def();
        assert_eq!(shape(&def.parameters), recorded["parameters"][&def.name], "{}", def.name);
        names.insert(def.name.clone());
    }
    assert_eq!(builtin_tools().iter().map(|tool| tool.def().name.clone()).collect::<Vec<_>>(), BUILTIN_NAMES);
    assert_eq!(names, recorded["parameters"].as_object().unwrap().keys().cloned().collect());
}

/// F43: no `$ref`, no mixed types, a description for every parameter
#[test]
fn schemas_are_plain() {
    for tool in builtin_tools() {
        let text = tool.def().parameters.to_string();
        assert!(!text.contains("$ref") && !text.contains("anyOf") && !text.contains("\"type\":["), "{text}");
        for (name, property) in tool.def().parameters["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{} {name}", tool.def().name);
        }
    }
}

/// NAT-4, 11-T13: the same lines are shown and left out, and told with the same numbers, as by pi
#[tokio::test]
async fn truncation_is_that_of_pi() {
    let place = Place::new();
    let lines = |count: usize, width: usize| {
        let lines: Vec<String> = (1..=count).map(|number| format!("line {number}{}", "x".repeat(width))).collect();
        lines.join("\n")
    };
    place.write("short.txt", lines(10, 0));
    place.write("ended.txt", lines(10, 0) + "\n");
    place.write("long.txt", lines(3_000, 0));
    place.write("exact.txt", lines(2_000, 0) + "\n");
    place.write("wide.txt", lines(100, 1_000));
    place.write("one.txt", "y".repeat(60_000));
    place.write("utf.txt", vec!["漢字".repeat(40); 400].join("\n"));
    place.write("empty.txt", "");
    let number = regex::Regex::new(r"\d+(\.\d+)?").unwrap();
    let log = regex::Regex::new(r"/\S*\.log").unwrap();

    for case in recorded()["cases"].as_array().unwrap() {
        let output = place.call(case["tool"].as_str().unwrap(), case["input"].clone()).await;
        let text = blocks_text(&output.content);
        let shown = text.split("\n\n[").next().unwrap();
        let note = log.replace_all(text.split("\n\n").last().unwrap(), "").into_owned();
        let numbers: Vec<&str> = number.find_iter(&note).take(9).map(|found| found.as_str()).collect();
        let truncation = output.details.as_ref().and_then(|details| details.get("truncation")).map(|t| {
            json!({
                "by": t["truncatedBy"], "totalLines": t["totalLines"], "totalBytes": t["totalBytes"],
                "outputLines": t["outputLines"], "outputBytes": t["outputBytes"], "partial": t["lastLinePartial"],
                "firstTooLong": t["firstLineExceedsLimit"],
            })
        });
        let mut fact = json!({
            "tool": case["tool"], "input": case["input"], "isError": output.is_error,
            "shownLines": shown.split('\n').count(), "shownBytes": shown.len(), "numbers": numbers,
        });
        // A failure has its own words; what it numbers is the same.
        if output.is_error && case["tool"] == "read" {
            fact["shownBytes"] = case["shownBytes"].clone();
        }
        if let Some(truncation) = truncation {
            fact["truncation"] = truncation;
        }
        assert_eq!(fact, *case);
    }
}
