//! Arguments of a tool call become a question to the orchestrator, or a refusal that starts nothing (SUB-1 … SUB-6).
//!
//! Checked here: what can be said of the call alone. Names, roles, models and budgets are judged by the orchestrator,
//! item by item (SUB-4).

mod launch;
mod mail;
mod subagent;
mod tree;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::{check, schema};
use crate::{
    core::{naming::normalize_name, text::clean_line},
    error::{Code, Result, SubagentError},
    mail::text::Draft,
    orchestrator::command::Command,
    ui::tree::TreeQuery,
};

/// What the answer tells about the call itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallHead {
    pub tool: &'static str,
    /// Of `subagent` only, once it is known.
    pub action: Option<&'static str>,
    /// Parameters that the action does not use (SUB-2).
    pub ignored: Vec<&'static str>,
    /// What was changed about a parameter.
    pub warnings: Vec<String>,
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    Orchestrator(Command),
    Mail(Draft),
    Tree(TreeQuery),
}

/// Largest `timeoutMs`; more is clamped with a line.
pub const MAX_TIMEOUT_MS: u64 = 2_147_483_647;

/// Reads the arguments of any tool of this build. The head is known even when the call is refused.
pub fn parse(tool: &str, params: &Value) -> (CallHead, Result<Ask>) {
    let mut head = CallHead::default();
    let asked = match tool {
        schema::SUBAGENT => args(&mut head, schema::SUBAGENT, &schema::SUBAGENT_SCHEMA, params)
            .and_then(|args| subagent::read(&mut head, &args).map(Ask::Orchestrator)),
        schema::VEXILLATIO => args(&mut head, schema::VEXILLATIO, &schema::VEXILLATIO_SCHEMA, params)
            .and_then(|args| launch::vexillatio(&mut head, &args).map(Ask::Orchestrator)),
        schema::LEGION_MAIL => args(&mut head, schema::LEGION_MAIL, &schema::MAIL_SCHEMA, params)
            .and_then(|args| mail::read(&args).map(Ask::Mail)),
        schema::LEGION_TREE => {
            args(&mut head, schema::LEGION_TREE, &schema::TREE_SCHEMA, params).map(|args| Ask::Tree(tree::read(&args)))
        }
        other => Err(SubagentError::new(
            Code::NotAvailable,
            format!("tool '{}' is not available in this build", clean_line(other, 64)),
        )),
    };
    (head, asked)
}

/// Arguments whose keys are known and whose values fit the schema.
fn args<'a>(head: &mut CallHead, tool: &'static str, schema: &Value, params: &'a Value) -> Result<Args<'a>> {
    head.tool = tool;
    let none = Map::new();
    let map = match params {
        Value::Object(map) => map,
        Value::Null => &none,
        other => {
            let got = clean_line(&other.to_string(), 80);
            return Err(SubagentError::invalid(format!("arguments: expected an object, got {got}")));
        }
    };
    if tool == schema::SUBAGENT {
        head.action = subagent::named_action(map);
    }
    if let Some(message) = check::unknown_parameters(tool, schema, map) {
        return Err(SubagentError::invalid(message));
    }
    if let Some(message) = check::faults(schema, map) {
        return Err(SubagentError::invalid(message));
    }
    Ok(Args { map: params.as_object() })
}

/// Checked arguments, or those of one task. A blank text is an absent one, except where a rule asks for the text.
#[derive(Debug, Clone, Copy)]
struct Args<'a> {
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Args<'a> {
    fn value(self, key: &str) -> Option<&'a Value> {
        self.map?.get(key).filter(|value| !value.is_null())
    }

    /// As written.
    fn raw_text(self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    /// Trimmed, and not blank.
    fn text(self, key: &str) -> Option<String> {
        Some(self.raw_text(key)?.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn flag(self, key: &str) -> Option<bool> {
        self.value(key)?.as_bool()
    }

    fn whole(self, key: &str) -> Option<u64> {
        check::whole(self.value(key)?)
    }

    fn list(self, key: &str) -> Option<&'a [Value]> {
        self.value(key)?.as_array().map(Vec::as_slice)
    }

    /// Whether the caller said something under `key`.
    fn has(self, key: &str) -> bool {
        match self.value(key) {
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(_) => true,
            None => false,
        }
    }

    fn name(self) -> Option<String> {
        self.text("name").map(|name| normalize_name(&name))
    }

    /// `names`, then `name`, each once and in the form in which they are looked up (ORC-8).
    fn names(self) -> Vec<String> {
        let listed = self.list("names").into_iter().flatten().filter_map(Value::as_str).map(normalize_name);
        let mut names: Vec<String> = Vec::new();
        for name in listed.chain(self.name()).filter(|name| !name.is_empty()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// `timeoutMs`, clamped.
    fn timeout_ms(self, head: &mut CallHead) -> Option<u64> {
        let given = self.whole("timeoutMs")?;
        if given > MAX_TIMEOUT_MS {
            head.warnings.push(format!("timeoutMs {given} is above the limit; {MAX_TIMEOUT_MS} is used"));
        }
        Some(given.min(MAX_TIMEOUT_MS))
    }
}

/// A part of the contract that this build does not have.
fn not_available(what: &str) -> SubagentError {
    SubagentError::new(Code::NotAvailable, format!("{what} is not available in this build"))
}
