//! Checks arguments against a tool's JSON Schema before the tool runs.
//!
//! It converts nothing and removes nothing (NAT-9): keys that the schema does not name are handed over.
//! Of JSON Schema it knows what tool parameters use: `type`, `required`, `properties`, `items`, `enum`,
//! `const`, `anyOf`, and the bounds of numbers, texts and lists. Other keywords hold for everything.

use std::fmt;

use serde_json::Value;

/// One way in which arguments differ from their schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Such as `edits[0].oldText`; empty for the arguments as a whole.
    pub field: String,
    pub problem: String,
}

/// The longest excerpt of the arguments in a fault text, in characters.
const EXCERPT_CHARS: usize = 2_000;

/// All faults of `input`, in the order of the schema.
pub fn check(schema: &Value, input: &Value) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    visit(schema, input, "", &mut faults);
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The text for the model: each fault on its line, then what it sent.
pub fn fault_text(tool: &str, faults: &[Fault], input: &Value) -> String {
    let lines: Vec<String> = faults.iter().map(|fault| format!("  - {fault}")).collect();
    let received = serde_json::to_string_pretty(input).unwrap_or_default();
    let mut excerpt: String = received.chars().take(EXCERPT_CHARS).collect();
    if excerpt.len() < received.len() {
        excerpt.push_str("… [cut]");
    }
    format!("Validation failed for tool \"{tool}\":\n{}\n\nReceived arguments:\n{excerpt}", lines.join("\n"))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "arguments: {}", self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

fn visit(schema: &Value, input: &Value, field: &str, faults: &mut Vec<Fault>) {
    let Some(schema) = schema.as_object() else {
        if schema == &Value::Bool(false) {
            faults.push(fault(field, "not allowed"));
        }
        return;
    };
    if let Some(types) = schema.get("type")
        && !type_names(types).iter().any(|name| is_type(name, input))
    {
        faults.push(fault(field, format!("expected {}, got {}", type_names(types).join(" or "), kind_of(input))));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(input)
    {
        let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        faults.push(fault(field, format!("expected one of {}, got {}", names.join(", "), shorten(input))));
        return;
    }
    if let Some(only) = schema.get("const")
        && only != input
    {
        faults.push(fault(field, format!("expected {only}, got {}", shorten(input))));
        return;
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array)
        && !choices.iter().any(|choice| check(choice, input).is_ok())
    {
        faults.push(any_of_fault(choices, input, field));
        return;
    }
    match input {
        Value::Object(object) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
            {
                if !object.contains_key(name) {
                    let wanted = properties.and_then(|all| all.get(name)).map(wanted).unwrap_or_default();
                    faults.push(fault(&join(field, name), format!("required{wanted}, but missing")));
                }
            }
            for (name, property) in properties.into_iter().flatten() {
                if let Some(value) = object.get(name) {
                    visit(property, value, &join(field, name), faults);
                }
            }
        }
        Value::Array(list) => {
            bound(schema, "minItems", list.len() as f64, field, "at least", " items", faults);
            bound(schema, "maxItems", list.len() as f64, field, "at most", " items", faults);
            if let Some(items) = schema.get("items") {
                for (index, item) in list.iter().enumerate() {
                    visit(items, item, &format!("{field}[{index}]"), faults);
                }
            }
        }
        Value::String(text) => {
            let chars = text.chars().count() as f64;
            bound(schema, "minLength", chars, field, "at least", " characters", faults);
            bound(schema, "maxLength", chars, field, "at most", " characters", faults);
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            bound(schema, "minimum", number, field, "at least", "", faults);
            bound(schema, "maximum", number, field, "at most", "", faults);
            bound(schema, "exclusiveMinimum", number, field, "more than", "", faults);
            bound(schema, "exclusiveMaximum", number, field, "less than", "", faults);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Adds a fault when `value` lies on the wrong side of the schema's bound `key`.
fn bound(
    schema: &serde_json::Map<String, Value>,
    key: &str,
    value: f64,
    field: &str,
    relation: &str,
    unit: &str,
    faults: &mut Vec<Fault>,
) {
    let Some(limit) = schema.get(key).and_then(Value::as_f64) else { return };
    let holds = match relation {
        "at least" => value >= limit,
        "at most" => value <= limit,
        "more than" => value > limit,
        _ => value < limit,
    };
    if !holds {
        faults.push(fault(field, format!("expected {relation} {limit}{unit}, got {value}")));
    }
}

/// The one fault to tell of alternatives: those of the alternative that comes closest, else all types.
fn any_of_fault(choices: &[Value], input: &Value, field: &str) -> Fault {
    let closest = choices
        .iter()
        .filter(|choice| choice.get("type").is_some_and(|types| type_names(types).iter().any(|t| is_type(t, input))))
        .filter_map(|choice| {
            let mut faults = Vec::new();
            visit(choice, input, field, &mut faults);
            faults.into_iter().next()
        })
        .next();
    closest.unwrap_or_else(|| {
        let names: Vec<String> = choices
            .iter()
            .filter_map(|choice| choice.get("type"))
            .map(|types| type_names(types).join(" or "))
            .collect();
        fault(field, format!("expected {}, got {}", names.join(" or "), kind_of(input)))
    })
}

fn fault(field: &str, problem: impl Into<String>) -> Fault {
    Fault { field: field.to_owned(), problem: problem.into() }
}

fn join(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

/// ` (string)` for a property whose schema tells its type.
fn wanted(property: &Value) -> String {
    property.get("type").map(|types| format!(" ({})", type_names(types).join(" or "))).unwrap_or_default()
}

fn type_names(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
