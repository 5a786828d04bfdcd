//! What an extension registers for one session: the answer of `attach` (01 §3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything an extension wants of one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Registrations {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDef>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandDef>,
    /// Events told by `notify`; see [`crate::events`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Gates asked by `invoke`; see [`crate::gates`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// Custom message types that this extension draws.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renderers: Vec<String>,
    /// Custom entry types that this extension draws.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entry_renderers: Vec<String>,
    /// Component ids (ABI-42).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<Section>,
    /// Tools whose calls reach gates and events with their whole input (ABI-55).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_for: Vec<String>,
}

/// A named part of the system prompt; an empty text removes the part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// `[a-z][a-z0-9_-]*`, not `preamble`.
    pub id: String,
    pub text: String,
}

impl Section {
    /// Whether `id` may name a section (ABI-53).
    pub fn valid_id(id: &str) -> bool {
        let mut chars = id.chars();
        chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
            && id != "preamble"
    }
}

/// A tool that the model may call (ABI-30).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDef {
    pub name: String,
    pub label: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_snippet: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_guidelines: Vec<String>,
    /// Plain JSON Schema without `$ref`.
    pub parameters: Value,
    /// Schema of the result's `structuredContent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// `sequential` or `parallel`; the host's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `false`: registered but off until switched on. Absent means on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_active: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub render_call: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub render_result: bool,
}

impl ToolDef {
    /// A tool with what every tool has; the optional members are set by struct update.
    pub fn new(
        name: impl Into<String>,
        label: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
    ) -> Self {
        Self {
            name: name.into(),
            label: label.into(),
            description: description.into(),
            prompt_snippet: None,
            prompt_guidelines: Vec::new(),
            parameters,
            output_schema: None,
            execution_mode: None,
            exposure: None,
            annotations: None,
            default_active: None,
            render_call: false,
            render_result: false,
        }
    }
}

/// Hints for the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    pub read_only_hint: bool,
}

/// A slash command (ABI-31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandDef {
    pub name: String,
    pub description: String,
    /// Completions come through the query `complete`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completes: bool,
}
