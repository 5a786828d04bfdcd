//! The outcome of a turn, derived from the transcript alone (03 §12).
//!
//! A settle signal says when to look, never what to see (ORC-105).

use serde::{Deserialize, Serialize};

use super::node_status::EndStatus;

/// Result of a child's last turn, or the state of one that has none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionStatus {
    Success,
    Failed,
    Truncated,
    Aborted,
    Unknown,
    Running,
    Blocked,
}

impl ExecutionStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Truncated => "truncated",
            Self::Aborted => "aborted",
            Self::Unknown => "unknown",
            Self::Running => "running",
            Self::Blocked => "blocked",
        }
    }

    /// The node status a settlement with this outcome writes (03 §13); `None` for what has not ended.
    pub const fn end_status(self) -> Option<EndStatus> {
        match self {
            Self::Success => Some(EndStatus::Settled),
            Self::Failed | Self::Truncated => Some(EndStatus::Failed),
            Self::Aborted | Self::Unknown => Some(EndStatus::Retired),
            Self::Running | Self::Blocked => None,
        }
    }
}

/// What an assistant message says about the end of its turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssistantFacts {
    pub entry_id: String,
    pub stop_reason: Option<String>,
    pub error_message: Option<String>,
}

/// The last turn of the active branch: everything after the last entry that begins one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnFacts {
    /// Id of the entry that began it; `None` when the branch has no such entry, and then the turn is the whole branch.
    pub begin_entry_id: Option<String>,
    pub last_assistant: Option<AssistantFacts>,
    /// Text of the last assistant message of the turn that has text (ORC-107).
    pub last_text: String,
}

/// What a transcript says, as far as outcomes and progress need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedSession {
    /// Whether the file has any bytes.
    pub has_content: bool,
    /// Lines that were read as entries, the header among them.
    pub valid_lines: u64,
    /// Lines that were skipped because they are damaged (ORC-108).
    pub damaged_lines: u64,
    pub last_turn: TurnFacts,
    /// Leaf of the active branch.
    pub last_entry_id: Option<String>,
    /// Tool results in the whole file.
    pub tool_results: u64,
    /// Assistant messages in the whole file.
    pub assistant_messages: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub status: ExecutionStatus,
    /// Why, for everything but a success.
    pub reason: Option<String>,
    /// The transcript's own word.
    pub stop_reason: Option<String>,
    pub output: String,
    pub last_entry_id: Option<String>,
}

impl Outcome {
    /// Adds the reason of an abnormal settle to an outcome that is no success (ORC-108).
    #[must_use]
    pub fn with_settle_reason(mut self, settle_reason: &str) -> Self {
        if self.status != ExecutionStatus::Success && !settle_reason.is_empty() {
            self.reason = Some(match self.reason {
                Some(reason) if reason != settle_reason => format!("{reason}; {settle_reason}"),
                Some(_) | None => settle_reason.to_owned(),
            });
        }
        self
    }
}

/// Reason of a turn without an answer: a hard kill writes none (ORC-106).
pub const MISSING_REPLY: &str = "missing reply";

/// Reason of a transcript that has bytes and not one valid line (ORC-108).
pub const UNREADABLE_SESSION: &str = "session file is not readable";

/// Derives the outcome of the last turn (03 §12).
pub fn derive_outcome(session: &ParsedSession) -> Outcome {
    let turn = &session.last_turn;
    let (status, reason) = if session.has_content && session.valid_lines == 0 {
        (ExecutionStatus::Unknown, Some(UNREADABLE_SESSION.to_owned()))
    } else {
        match &turn.last_assistant {
            None => (ExecutionStatus::Aborted, Some(MISSING_REPLY.to_owned())),
            Some(message) => judge(message),
        }
    };
    Outcome {
        status,
        reason,
        stop_reason: turn.last_assistant.as_ref().and_then(|m| m.stop_reason.clone()),
        output: turn.last_text.clone(),
        last_entry_id: session.last_entry_id.clone(),
    }
}

fn judge(message: &AssistantFacts) -> (ExecutionStatus, Option<String>) {
    let said = message.error_message.as_deref().filter(|text| !text.is_empty());
    let reason_or = |fallback: &str| Some(said.unwrap_or(fallback).to_owned());
    match message.stop_reason.as_deref().unwrap_or_default() {
        "stop" => (ExecutionStatus::Success, None),
        "length" => (ExecutionStatus::Truncated, Some("output limit reached".to_owned())),
        "toolUse" => (ExecutionStatus::Failed, Some("terminated during tool call".to_owned())),
        "error" if said.is_some_and(|text| text.to_lowercase().contains("aborted")) => {
            (ExecutionStatus::Aborted, reason_or("aborted"))
        }
        "error" => (ExecutionStatus::Failed, reason_or("the model call failed without a message")),
        "aborted" => (ExecutionStatus::Aborted, reason_or("aborted")),
        other => (ExecutionStatus::Unknown, Some(format!("unrecognised stopReason '{other}'"))),
    }
}

/// Whether a `subagent-notify` message with this `details.kind` (NTF-4) wakes its session and so begins a turn
/// (08 §8). Admission lines and rosters only inform.
pub fn notice_begins_turn(kind: &str) -> bool {
    matches!(kind, "completion" | "queue" | "stall" | "phase_timeout" | "blocked" | "orphan" | "mail")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(stop: &str, error: Option<&str>) -> ParsedSession {
        let message = AssistantFacts {
            entry_id: "e2".into(),
            stop_reason: Some(stop.into()),
            error_message: error.map(str::to_owned),
        };
        let last_turn =
            TurnFacts { begin_entry_id: Some("e1".into()), last_assistant: Some(message), last_text: "report".into() };
        ParsedSession { has_content: true, valid_lines: 3, last_turn, ..ParsedSession::default() }
    }

    /// 03 §12: the pure half of 03-T10, one row each.
    #[test]
    fn each_stop_reason_has_its_outcome() {
        use ExecutionStatus::{Aborted, Failed, Success, Truncated, Unknown};
        let table = [
            ("stop", None, Success, None),
            ("length", None, Truncated, Some("output limit reached")),
            ("toolUse", None, Failed, Some("terminated during tool call")),
            ("error", Some("Request was Aborted."), Aborted, Some("Request was Aborted.")),
            ("error", Some("429 too many"), Failed, Some("429 too many")),
            ("error", None, Failed, Some("the model call failed without a message")),
            ("aborted", None, Aborted, Some("aborted")),
            ("aborted", Some("by user"), Aborted, Some("by user")),
            ("sensitive", None, Unknown, Some("unrecognised stopReason 'sensitive'")),
        ];
        for (stop, error, status, reason) in table {
            let outcome = derive_outcome(&turn(stop, error));
            assert_eq!((outcome.status, outcome.reason.as_deref()), (status, reason), "{stop} {error:?}");
            assert_eq!(outcome.stop_reason.as_deref(), Some(stop));
            assert_eq!(outcome.output, "report");
        }
    }

    /// ORC-106, ORC-108
    #[test]
    fn a_missing_reply_is_an_abort_and_an_unreadable_file_is_unknown() {
        let outcome = derive_outcome(&ParsedSession::default());
        assert_eq!((outcome.status, outcome.reason.as_deref()), (ExecutionStatus::Aborted, Some(MISSING_REPLY)));
        let damaged = ParsedSession { has_content: true, damaged_lines: 2, ..ParsedSession::default() };
        let outcome = derive_outcome(&damaged);
        assert_eq!((outcome.status, outcome.reason.as_deref()), (ExecutionStatus::Unknown, Some(UNREADABLE_SESSION)));
    }

    /// ORC-108
    #[test]
    fn the_reason_of_an_abnormal_settle_is_added_to_what_is_no_success() {
        let failed = derive_outcome(&turn("toolUse", None)).with_settle_reason("process exited with code 137");
        assert_eq!(failed.reason.as_deref(), Some("terminated during tool call; process exited with code 137"));
        let success = derive_outcome(&turn("stop", None)).with_settle_reason("process exited with code 137");
        assert_eq!(success.reason, None);
    }

    /// 03 §13
    #[test]
    fn outcomes_map_to_node_statuses() {
        use ExecutionStatus::{Aborted, Blocked, Failed, Running, Success, Truncated, Unknown};
        let table = [
            (Success, Some(EndStatus::Settled)),
            (Failed, Some(EndStatus::Failed)),
            (Truncated, Some(EndStatus::Failed)),
            (Aborted, Some(EndStatus::Retired)),
            (Unknown, Some(EndStatus::Retired)),
            (Running, None),
            (Blocked, None),
        ];
        for (execution, end) in table {
            assert_eq!(execution.end_status(), end);
        }
    }

    #[test]
    fn only_waking_notices_begin_a_turn() {
        for kind in ["completion", "queue", "stall", "phase_timeout", "blocked", "orphan", "mail"] {
            assert!(notice_begins_turn(kind));
        }
        for kind in ["admission", "roster", "", "weather"] {
            assert!(!notice_begins_turn(kind));
        }
    }
}
