//! One-way events of a session (ABI-35), told by `notify` to the extensions that asked for them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The wire names.
pub mod names {
    pub const SESSION_START: &str = "session_start";
    pub const AGENT_START: &str = "agent_start";
    pub const AGENT_END: &str = "agent_end";
    /// Once per run, its last event: retries, compaction and queued messages included.
    pub const AGENT_SETTLED: &str = "agent_settled";
    pub const TURN_START: &str = "turn_start";
    pub const TURN_END: &str = "turn_end";
    pub const MESSAGE_END: &str = "message_end";
    /// Only while switched on by `events.deltas` (ABI-12).
    pub const MESSAGE_UPDATE: &str = "message_update";
    /// At most one per 5 s while a model answer streams.
    pub const MESSAGE_PROGRESS: &str = "message_progress";
    pub const TOOL_EXECUTION_START: &str = "tool_execution_start";
    pub const TOOL_EXECUTION_END: &str = "tool_execution_end";
    pub const SESSION_COMPACTED: &str = "session_compacted";
    pub const MODEL_CHANGED: &str = "model_changed";
    pub const THEME_CHANGED: &str = "theme_changed";

    /// All of them, in the order of the specification.
    pub const ALL: &[&str] = &[
        SESSION_START,
        AGENT_START,
        AGENT_END,
        AGENT_SETTLED,
        TURN_START,
        TURN_END,
        MESSAGE_END,
        MESSAGE_UPDATE,
        MESSAGE_PROGRESS,
        TOOL_EXECUTION_START,
        TOOL_EXECUTION_END,
        SESSION_COMPACTED,
        MODEL_CHANGED,
        THEME_CHANGED,
    ];
}

/// An event with its payload. `serde` gives the payload alone through [`Event::payload`].
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    SessionStart(SessionStart),
    AgentStart,
    AgentEnd,
    AgentSettled(AgentSettled),
    TurnStart(Turn),
    TurnEnd(Turn),
    MessageEnd(MessageEnd),
    MessageUpdate(MessageUpdate),
    MessageProgress,
    ToolExecutionStart(ToolExecutionStart),
    ToolExecutionEnd(ToolExecutionEnd),
    SessionCompacted,
    ModelChanged(ModelChanged),
    ThemeChanged,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// `startup`, `new`, `resume`, `reload`, …
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettled {
    #[serde(default)]
    pub aborted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Counts from 0 within a run.
    pub turn: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageEnd {
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Time of the model answer in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageUpdate {
    pub delta: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecutionStart {
    pub tool_call_id: String,
    pub tool_name: String,
    #[serde(flatten)]
    pub input: crate::gates::CallInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolExecutionEnd {
    pub tool_call_id: String,
    pub tool_name: String,
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChanged {
    /// `provider/id`.
    pub model: String,
    pub thinking: String,
}

impl Event {
    /// The wire name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SessionStart(_) => names::SESSION_START,
            Self::AgentStart => names::AGENT_START,
            Self::AgentEnd => names::AGENT_END,
            Self::AgentSettled(_) => names::AGENT_SETTLED,
            Self::TurnStart(_) => names::TURN_START,
            Self::TurnEnd(_) => names::TURN_END,
            Self::MessageEnd(_) => names::MESSAGE_END,
            Self::MessageUpdate(_) => names::MESSAGE_UPDATE,
            Self::MessageProgress => names::MESSAGE_PROGRESS,
            Self::ToolExecutionStart(_) => names::TOOL_EXECUTION_START,
            Self::ToolExecutionEnd(_) => names::TOOL_EXECUTION_END,
            Self::SessionCompacted => names::SESSION_COMPACTED,
            Self::ModelChanged(_) => names::MODEL_CHANGED,
            Self::ThemeChanged => names::THEME_CHANGED,
        }
    }

    /// The JSON payload.
    pub fn payload(&self) -> String {
        fn json<T: Serialize>(value: &T) -> String {
            serde_json::to_string(value).expect("event payloads hold strings, numbers and JSON only")
        }
        match self {
            Self::AgentStart | Self::AgentEnd | Self::MessageProgress | Self::SessionCompacted | Self::ThemeChanged => {
                "{}".to_owned()
            }
            Self::SessionStart(p) => json(p),
            Self::AgentSettled(p) => json(p),
            Self::TurnStart(p) | Self::TurnEnd(p) => json(p),
            Self::MessageEnd(p) => json(p),
            Self::MessageUpdate(p) => json(p),
            Self::ToolExecutionStart(p) => json(p),
            Self::ToolExecutionEnd(p) => json(p),
            Self::ModelChanged(p) => json(p),
        }
    }

    /// Reads a payload; `Ok(None)` for a name that this build does not know (ABI-4).
    ///
    /// # Errors
    /// The payload does not have the shape of the event.
    pub fn parse(name: &str, json: &str) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(match name {
            names::SESSION_START => Self::SessionStart(serde_json::from_str(json)?),
            names::AGENT_START => Self::AgentStart,
            names::AGENT_END => Self::AgentEnd,
            names::AGENT_SETTLED => Self::AgentSettled(serde_json::from_str(json)?),
            names::TURN_START => Self::TurnStart(serde_json::from_str(json)?),
            names::TURN_END => Self::TurnEnd(serde_json::from_str(json)?),
            names::MESSAGE_END => Self::MessageEnd(serde_json::from_str(json)?),
            names::MESSAGE_UPDATE => Self::MessageUpdate(serde_json::from_str(json)?),
            names::MESSAGE_PROGRESS => Self::MessageProgress,
            names::TOOL_EXECUTION_START => Self::ToolExecutionStart(serde_json::from_str(json)?),
            names::TOOL_EXECUTION_END => Self::ToolExecutionEnd(serde_json::from_str(json)?),
            names::SESSION_COMPACTED => Self::SessionCompacted,
            names::MODEL_CHANGED => Self::ModelChanged(serde_json::from_str(json)?),
            names::THEME_CHANGED => Self::ThemeChanged,
            _ => return Ok(None),
        }))
    }
}
