//! Calls from the host: tools, commands, and the synchronous queries (01 §5, ABI-34, ABI-42).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::info::Ctx;

/// The kinds of `invoke`.
pub mod kinds {
    pub const TOOL: &str = "tool";
    pub const COMMAND: &str = "command";
    pub const GATE: &str = "gate";
}

/// The names of `query`.
pub mod queries {
    pub const COMPLETE: &str = "complete";
    pub const RENDER_MESSAGE: &str = "render.message";
    pub const RENDER_ENTRY: &str = "render.entry";
    pub const RENDER_CALL: &str = "render.call";
    pub const RENDER_RESULT: &str = "render.result";
    pub const COMPONENT_MOUNT: &str = "component.mount";
    pub const COMPONENT_RENDER: &str = "component.render";
    pub const COMPONENT_INPUT: &str = "component.input";
    pub const COMPONENT_UNMOUNT: &str = "component.unmount";

    /// All of them.
    pub const ALL: &[&str] = &[
        COMPLETE,
        RENDER_MESSAGE,
        RENDER_ENTRY,
        RENDER_CALL,
        RENDER_RESULT,
        COMPONENT_MOUNT,
        COMPONENT_RENDER,
        COMPONENT_INPUT,
        COMPONENT_UNMOUNT,
    ];
}

/// `invoke` of kind `tool`; the name of the call is the tool's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInvocation {
    pub tool_call_id: String,
    pub params: Value,
    pub ctx: Ctx,
}

/// `invoke` of kind `command`; the name of the call is the command's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandInvocation {
    pub args: String,
    pub ctx: Ctx,
}

/// What a tool answers, and each progress of it (ABI-51).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolResult {
    /// Content blocks; `{"type":"text","text":…}` for text.
    pub content: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Model calls made on behalf of this call; added to the session's totals once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<NestedUsage>,
    /// For programs that call tools with an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Ends the run when every result of the batch says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

impl ToolResult {
    /// One text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![text_block(text)], ..Self::default() }
    }

    /// The text blocks, joined by line ends.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> =
            self.content.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect();
        texts.join("\n")
    }
}

/// A content block of type `text`.
pub fn text_block(text: impl Into<String>) -> Value {
    serde_json::json!({ "type": "text", "text": text.into() })
}

/// Tokens and cost of one model's calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NestedUsage {
    pub provider: String,
    pub model: String,
    /// Uncached input tokens.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub cost_usd: f64,
}

/// Answer of every `render.*` query and of `component.render`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    pub lines: Vec<String>,
}

/// Answer of `component.input`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputOutcome {
    pub handled: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// `query("complete")`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    pub command: String,
    /// What is typed after the command's name.
    pub prefix: String,
}

/// One completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Payload of `render.message` and `render.entry`, which gives `data` in the place of content and details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderCustom {
    pub custom_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    pub expanded: bool,
    pub width: u16,
    #[serde(default)]
    pub theme: Value,
}

/// Payload of `render.call` (`params`) and `render.result` (the rest).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RenderTool {
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default)]
    pub is_error: bool,
    #[serde(default)]
    pub is_partial: bool,
    pub expanded: bool,
    pub width: u16,
    #[serde(default)]
    pub theme: Value,
}

/// Payload of `component.render`; `height` only for views.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentRender {
    pub id: String,
    pub width: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u16>,
    #[serde(default)]
    pub theme: Value,
}

/// Payload of `component.input`, `component.mount` and `component.unmount`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentInput {
    pub id: String,
    /// Raw key data; absent for mount and unmount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}
