//! The messages of a session, as pi's JSONL version 3 spells them.
//!
//! These types are the conversation everywhere in this crate: the agent loop appends them, a provider
//! reads them, `session.entries` hands them out. Fields that this crate has no use for (signatures,
//! response ids, diagnostics) survive in `extra`, so that a session of pi loses nothing on its way to a
//! provider or an extension.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Fields of a JSON object that this crate does not name.
pub type Extra = Map<String, Value>;

/// One message of the conversation. A role that is not known stays raw JSON and reaches no model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// Prompt sections and tool declarations that pi keeps in its sessions; this host builds its own.
    System(SystemMessage),
    User(UserMessage),
    Assistant(AssistantMessage),
    ToolResult(ToolResultMessage),
    /// A shell command that a person ran beside the model.
    BashExecution(BashExecutionMessage),
    /// A message of an extension; the model sees it as a user message.
    Custom(CustomMessage),
    BranchSummary(BranchSummaryMessage),
    CompactionSummary(CompactionSummaryMessage),
    #[serde(untagged)]
    Other(Extra),
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SystemMessage {
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct UserMessage {
    #[serde(default)]
    pub content: Content,
    /// Milliseconds since the Unix epoch, as in every message.
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: Vec<Block>,
    /// The wire protocol that was spoken, such as `anthropic-messages` or `scripted`.
    #[serde(default)]
    pub api: String,
    #[serde(default)]
    pub provider: String,
    #[serde(default)]
    pub model: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub usage: Usage,
    #[serde(default)]
    pub stop_reason: StopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    #[serde(default)]
    pub tool_call_id: String,
    #[serde(default)]
    pub tool_name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: Vec<Block>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Model calls that the tool made; part of the session's totals, not of the main conversation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default)]
    pub is_error: bool,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashExecutionMessage {
    #[serde(default)]
    pub command: String,
    #[serde(default)]
    pub output: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    #[serde(default)]
    pub cancelled: bool,
    #[serde(default)]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    #[serde(default)]
    pub custom_type: String,
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub display: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryMessage {
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub from_id: Option<String>,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummaryMessage {
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub tokens_before: u64,
    #[serde(default)]
    pub timestamp: i64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Plain text or a list of blocks; both forms occur in files and both are kept as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Blocks(Vec<Block>),
    /// `null`, as old or hand-edited files have it; reads as no content.
    Nothing(()),
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Block {
    Text {
        text: String,
        #[serde(flatten)]
        extra: Extra,
    },
    Thinking {
        thinking: String,
        #[serde(flatten)]
        extra: Extra,
    },
    /// An image as base64 text.
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
        #[serde(flatten)]
        extra: Extra,
    },
    ToolCall(ToolCall),
    #[serde(untagged)]
    Other(Extra),
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolCall {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// As the model wrote them; an object in every call that can run.
    #[serde(default)]
    pub arguments: Value,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Tokens and cost of one model call.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    #[serde(deserialize_with = "count")]
    pub input: u64,
    #[serde(deserialize_with = "count")]
    pub output: u64,
    #[serde(deserialize_with = "count")]
    pub cache_read: u64,
    #[serde(deserialize_with = "count")]
    pub cache_write: u64,
    #[serde(deserialize_with = "count")]
    pub total_tokens: u64,
    #[serde(deserialize_with = "null_is_default")]
    pub cost: Cost,
    #[serde(flatten)]
    pub extra: Extra,
}

/// US dollars, by kind of token.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    #[serde(deserialize_with = "null_is_default")]
    pub input: f64,
    #[serde(deserialize_with = "null_is_default")]
    pub output: f64,
    #[serde(deserialize_with = "null_is_default")]
    pub cache_read: f64,
    #[serde(deserialize_with = "null_is_default")]
    pub cache_write: f64,
    #[serde(deserialize_with = "null_is_default")]
    pub total: f64,
}

/// Why an assistant message ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    #[default]
    Stop,
    Length,
    ToolUse,
    Error,
    Aborted,
    #[serde(untagged)]
    Other(String),
}

impl Message {
    /// A user message of plain text.
    pub fn user(text: impl Into<String>, timestamp: i64) -> Message {
        Message::User(UserMessage { content: Content::Text(text.into()), timestamp, extra: Extra::new() })
    }

    /// The `role` as it stands in the file; empty for a raw message without one.
    pub fn role(&self) -> &str {
        match self {
            Message::System(_) => "system",
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::ToolResult(_) => "toolResult",
            Message::BashExecution(_) => "bashExecution",
            Message::Custom(_) => "custom",
            Message::BranchSummary(_) => "branchSummary",
            Message::CompactionSummary(_) => "compactionSummary",
            Message::Other(raw) => raw.get("role").and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

impl AssistantMessage {
    /// The tool calls, in the order the model made them.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The text blocks joined by line breaks, without thinking.
    pub fn text(&self) -> String {
        blocks_text(&self.content)
    }
}

impl ToolResultMessage {
    /// The text blocks joined by line breaks.
    pub fn text(&self) -> String {
        blocks_text(&self.content)
    }
}

impl Content {
    /// The text of the content, blocks joined by line breaks, images left out.
    pub fn text(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => blocks_text(blocks),
            Content::Nothing(()) => String::new(),
        }
    }

    /// The content as blocks.
    pub fn into_blocks(self) -> Vec<Block> {
        match self {
            Content::Text(text) => vec![Block::text(text)],
            Content::Blocks(blocks) => blocks,
            Content::Nothing(()) => Vec::new(),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::Blocks(Vec::new())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Content::Text(text)
    }
}

impl From<Vec<Block>> for Content {
    fn from(blocks: Vec<Block>) -> Self {
        Content::Blocks(blocks)
    }
}

impl Block {
    pub fn text(text: impl Into<String>) -> Block {
        Block::Text { text: text.into(), extra: Extra::new() }
    }

    pub fn thinking(thinking: impl Into<String>) -> Block {
        Block::Thinking { thinking: thinking.into(), extra: Extra::new() }
    }

    /// `data` is base64 text.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Block {
        Block::Image { data: data.into(), mime_type: mime_type.into(), extra: Extra::new() }
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Block::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl Usage {
    /// Adds the numbers of `other`; fields that this crate does not name are left alone.
    pub fn add(&mut self, other: &Usage) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.total_tokens += other.total_tokens;
        self.cost.input += other.cost.input;
        self.cost.output += other.cost.output;
        self.cost.cache_read += other.cost.cache_read;
        self.cost.cache_write += other.cost.cache_write;
        self.cost.total += other.cost.total;
    }
}

/// The text blocks of `blocks`, joined by line breaks.
pub fn blocks_text(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

fn null_is_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A count of tokens as JavaScript programs write it: `null` for a number that went wrong, perhaps a fraction.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.map_or(0, |number| number.max(0.0) as u64))
}
