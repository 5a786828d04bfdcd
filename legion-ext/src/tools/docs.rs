//! The reference page `docs/reference/tools.md`, made from the registrations (DOC-2).

use std::fmt::Write as _;

use host_abi::registration::ToolDef;
use serde_json::Value;

use super::{
    action::{Action, NOT_BUILT},
    schema,
};

/// The page as markdown.
pub fn tools_markdown() -> String {
    let mut page = String::from(
        "# Tools\n\nGenerated from `legion-ext` by `cargo xtask generate`; do not edit.\n\nWhich session has which tool is the table of part 09 §1 of the specification. A key that a tool does not know is refused with what was probably meant. Results are text; `details`, and the same object as structured content, holds the facts (part 09 §2.2).\n",
    );
    for tool in schema::all() {
        section(&mut page, &tool);
    }
    page
}

fn section(page: &mut String, tool: &ToolDef) {
    write!(page, "\n## `{}`\n\n{}\n", tool.name, tool.description.replace('\n', "  \n")).expect("writing to a String");
    if tool.name == schema::SUBAGENT {
        actions(page);
    }
    page.push_str("\n| Parameter | Type | | Meaning |\n| --- | --- | --- | --- |\n");
    members(page, &tool.parameters, "", &tool.name);
}

fn actions(page: &mut String) {
    page.push_str("\n| Action | Uses | In this build |\n| --- | --- | --- |\n");
    for action in Action::ALL {
        let uses: Vec<String> = action.uses().iter().map(|parameter| format!("`{parameter}`")).collect();
        let built = if action.built() { "yes" } else { "refused" };
        writeln!(page, "| `{}` | {} | {built} |", action.as_str(), uses.join(", ")).expect("writing to a String");
    }
}

fn members(page: &mut String, schema: &Value, path: &str, tool: &str) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut about = property["description"].as_str().unwrap_or_default().to_owned();
        if let Some(words) = property["enum"].as_array() {
            let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
            about = format!("{about} One of {}.", words.join(", ")).trim_start().to_owned();
        }
        if tool == schema::SUBAGENT && NOT_BUILT.contains(&name.as_str()) {
            about = format!("{about} Refused in this build.").trim_start().to_owned();
        }
        let need = if required.contains(&name.as_str()) { "required" } else { "" };
        writeln!(page, "| `{path}{name}` | {} | {need} | {about} |", kind(property)).expect("writing to a String");
        match property["type"].as_str() {
            Some("object") => members(page, property, &format!("{path}{name}."), tool),
            Some("array") => members(page, &property["items"], &format!("{path}{name}[]."), tool),
            _ => {}
        }
    }
}

/// The type with its bounds.
fn kind(property: &Value) -> String {
    let word = |value: &Value| value["type"].as_str().unwrap_or("list, object or text").to_owned();
    let bounds: Vec<String> = [("minimum", "≥"), ("minItems", "≥"), ("maximum", "≤"), ("maxItems", "≤")]
        .iter()
        .filter_map(|(key, sign)| property[*key].as_u64().map(|bound| format!("{sign} {bound}")))
        .collect();
    let base = match property["type"].as_str() {
        Some("array") => format!("list of {}", word(&property["items"])),
        _ => word(property),
    };
    if bounds.is_empty() { base } else { format!("{base}, {}", bounds.join(" and ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DOC-2
    #[test]
    fn every_tool_and_parameter_is_on_the_page() {
        let page = tools_markdown();
        for tool in schema::all() {
            assert!(page.contains(&format!("## `{}`", tool.name)));
            for name in tool.parameters["properties"].as_object().unwrap().keys() {
                assert!(page.contains(&format!("| `{name}` |")), "{name}");
            }
        }
        assert!(
            page.contains("| `acceptance.criteria[].command` |")
                && page.contains("| `tasks[].task` | string | required |")
        );
        assert!(page.ends_with("|\n"));
    }
}
