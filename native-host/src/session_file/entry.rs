//! The lines of a session file: a header, then entries that form a tree by `parentId`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{Content, Extra, Message, Usage};

/// The version of the format that this crate reads and writes.
pub const SESSION_VERSION: u64 = 3;

/// The first line of a session file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    pub version: u64,
    pub id: String,
    /// ISO 8601, UTC.
    #[serde(default)]
    pub timestamp: String,
    #[serde(default)]
    pub cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One entry of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Eight hex digits, unique in the file; entries of other programs may have a longer id.
    pub id: String,
    /// `None` for a root.
    #[serde(default)]
    pub parent_id: Option<String>,
    /// ISO 8601, UTC.
    #[serde(default)]
    pub timestamp: String,
    #[serde(flatten)]
    pub body: EntryBody,
}

/// What an entry says. A type that is not known is kept as raw JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryBody {
    Message {
        message: Message,
    },
    #[serde(rename_all = "camelCase")]
    ModelChange {
        provider: String,
        model_id: String,
    },
    #[serde(rename_all = "camelCase")]
    ThinkingLevelChange {
        thinking_level: String,
    },
    Compaction(Compaction),
    #[serde(rename_all = "camelCase")]
    BranchSummary {
        #[serde(default)]
        from_id: Option<String>,
        #[serde(default)]
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(flatten)]
        extra: Extra,
    },
    /// State of an extension; not in the model's context.
    #[serde(rename_all = "camelCase")]
    Custom {
        custom_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// A message of an extension; in the model's context as a user message.
    #[serde(rename_all = "camelCase")]
    CustomMessage {
        custom_type: String,
        #[serde(default)]
        content: Content,
        #[serde(default)]
        display: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// Replaces (`replacement: {content}`) or hides (`null`) an earlier entry in later model contexts.
    #[serde(rename_all = "camelCase")]
    ContextEdit {
        target_id: String,
        #[serde(default)]
        replacement: Option<Replacement>,
    },
    #[serde(rename_all = "camelCase")]
    Label {
        target_id: String,
        /// `None` removes the label.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    SessionInfo {
        #[serde(default)]
        name: String,
    },
    /// Tokens of a model call that is no assistant message.
    Usage {
        #[serde(default)]
        kind: String,
        #[serde(default)]
        usage: Usage,
        #[serde(flatten)]
        extra: Extra,
    },
    #[serde(untagged)]
    Other(Extra),
}

/// A summary that stands for everything before `first_kept_entry_id`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    pub summary: String,
    /// The first entry before the compaction that stays in the context; the compaction's own id keeps none.
    pub first_kept_entry_id: String,
    #[serde(default)]
    pub tokens_before: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// New content of an edited entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    #[serde(default)]
    pub content: Content,
    #[serde(flatten)]
    pub extra: Extra,
}

impl EntryBody {
    /// The `type` as it stands in the file; empty for a raw entry without one.
    pub fn kind(&self) -> &str {
        match self {
            EntryBody::Message { .. } => "message",
            EntryBody::ModelChange { .. } => "model_change",
            EntryBody::ThinkingLevelChange { .. } => "thinking_level_change",
            EntryBody::Compaction(_) => "compaction",
            EntryBody::BranchSummary { .. } => "branch_summary",
            EntryBody::Custom { .. } => "custom",
            EntryBody::CustomMessage { .. } => "custom_message",
            EntryBody::ContextEdit { .. } => "context_edit",
            EntryBody::Label { .. } => "label",
            EntryBody::SessionInfo { .. } => "session_info",
            EntryBody::Usage { .. } => "usage",
            EntryBody::Other(raw) => raw.get("type").and_then(Value::as_str).unwrap_or_default(),
        }
    }

    /// Tokens that this entry adds to the session's totals.
    pub fn usage(&self) -> Option<&Usage> {
        match self {
            EntryBody::Message { message: Message::Assistant(assistant) } => Some(&assistant.usage),
            EntryBody::Message { message: Message::ToolResult(result) } => result.usage.as_ref(),
            EntryBody::Compaction(compaction) => compaction.usage.as_ref(),
            EntryBody::BranchSummary { usage, .. } => usage.as_ref(),
            EntryBody::Usage { usage, .. } => Some(usage),
            EntryBody::Message { .. }
            | EntryBody::ModelChange { .. }
            | EntryBody::ThinkingLevelChange { .. }
            | EntryBody::Custom { .. }
            | EntryBody::CustomMessage { .. }
            | EntryBody::ContextEdit { .. }
            | EntryBody::Label { .. }
            | EntryBody::SessionInfo { .. }
            | EntryBody::Other(_) => None,
        }
    }
}
