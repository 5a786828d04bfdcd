//! Gates: questions whose answer counts (ABI-32 … ABI-55), asked by `invoke` of kind `gate`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{info::Ctx, registration::Section};

/// The wire names.
pub mod names {
    pub const TOOL_CALL: &str = "tool_call";
    pub const TOOL_RESULT: &str = "tool_result";
    pub const BEFORE_AGENT_START: &str = "before_agent_start";
    pub const AGENT_BEFORE_SETTLE: &str = "agent_before_settle";
    pub const INPUT: &str = "input";
    pub const SESSION_SHUTDOWN: &str = "session_shutdown";

    /// All of them, in the order of the specification.
    pub const ALL: &[&str] =
        &[TOOL_CALL, TOOL_RESULT, BEFORE_AGENT_START, AGENT_BEFORE_SETTLE, INPUT, SESSION_SHUTDOWN];
}

/// Bytes of a cut input that reach an extension without `inputFor` for that tool (ABI-55).
pub const INPUT_TEXT_BYTES: usize = 1024;

/// What `invoke` of kind `gate` carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateCall<E> {
    pub event: E,
    pub ctx: Ctx,
}

/// A call's input: whole for the tools named in `inputFor`, else the start of its JSON text (ABI-55).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallInput {
    #[serde(rename = "input")]
    Whole(Value),
    #[serde(rename = "inputText")]
    Cut(String),
}

impl CallInput {
    /// The whole input, if this extension gets it.
    pub fn whole(&self) -> Option<&Value> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Cut(_) => None,
        }
    }

    /// `input` for an extension that asked for it, else its first bytes, cut at a character border.
    pub fn of(input: &Value, whole: bool) -> Self {
        if whole {
            return Self::Whole(input.clone());
        }
        let mut text = input.to_string();
        let mut end = text.len().min(INPUT_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Self::Cut(text)
    }
}

/// Asked before a tool runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    pub tool_name: String,
    #[serde(flatten)]
    pub input: CallInput,
    /// The call on whose behalf this one is made, such as a script's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Answer to [`ToolCall`]; the default changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCallAnswer {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub block: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A batch made only of such refusals ends the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// The arguments to use instead, whole (ABI-52).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// Asked after a tool ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultEvent {
    pub tool_call_id: String,
    pub tool_name: String,
    #[serde(flatten)]
    pub input: CallInput,
    pub content: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub is_error: bool,
}

/// Answer to [`ToolResultEvent`]: what is given replaces the result's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolResultAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
}

/// Asked when a run begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeAgentStart {
    /// The user's text, when that begins the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The custom message, when that begins the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomText>,
    pub system_prompt: String,
}

/// Type and text of a custom message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomText {
    pub custom_type: String,
    pub content: String,
}

/// Answer to [`BeforeAgentStart`]; holds for that run (ABI-53).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BeforeAgentStartAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<Section>,
    /// Appended to the session before the first model request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<CustomMessage>,
}

/// A message that an extension puts into a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    pub custom_type: String,
    pub content: String,
    #[serde(default = "yes")]
    pub display: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Asked when a run is about to settle; the wait is as long as the answer takes (ABI-54).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentBeforeSettle {
    pub outcome: RunOutcome,
}

/// How the run would end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    Completed,
    Error,
}

/// Answer to [`AgentBeforeSettle`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentBeforeSettleAnswer {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<CustomMessage>,
    /// One more model request instead of settling; needs a message, here or queued.
    #[serde(rename = "continue", skip_serializing_if = "std::ops::Not::not")]
    pub continue_run: bool,
}

/// Asked for a user's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub text: String,
    /// `interactive`, `rpc`, `extension`.
    pub source: String,
}

/// Answer to [`Input`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputAnswer {
    /// The text was taken; no run begins.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub handled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Asked, and awaited, when the session ends (HOST-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionShutdown {
    /// `quit`, `dispose`, `new`, `reload`, `signal`, …
    pub reason: String,
}

const fn yes() -> bool {
    true
}
