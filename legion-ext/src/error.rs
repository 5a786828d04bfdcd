//! The one error of the extension's own operations: a code, a message and a way out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Error codes of the tool surface (DET-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    InvalidParams,
    NotFound,
    NameTaken,
    BudgetExceeded,
    InsufficientMemory,
    StartFailed,
    RetireFailed,
    Disabled,
    /// The database cannot be opened or is busy.
    Ledger,
    MailNoRecipient,
    MailInvalidText,
    MailSubjectTooLong,
    MailBodyTooLarge,
    MailReservedSubject,
    MailRateLimited,
    /// A part of the contract that this build does not have yet.
    NotAvailable,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// The wire name, for example `INVALID_PARAMS`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidParams => "INVALID_PARAMS",
            Self::NotFound => "NOT_FOUND",
            Self::NameTaken => "NAME_TAKEN",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::InsufficientMemory => "INSUFFICIENT_MEMORY",
            Self::StartFailed => "START_FAILED",
            Self::RetireFailed => "RETIRE_FAILED",
            Self::Disabled => "DISABLED",
            Self::Ledger => "LEDGER",
            Self::MailNoRecipient => "MAIL_NO_RECIPIENT",
            Self::MailInvalidText => "MAIL_INVALID_TEXT",
            Self::MailSubjectTooLong => "MAIL_SUBJECT_TOO_LONG",
            Self::MailBodyTooLarge => "MAIL_BODY_TOO_LARGE",
            Self::MailReservedSubject => "MAIL_RESERVED_SUBJECT",
            Self::MailRateLimited => "MAIL_RATE_LIMITED",
            Self::NotAvailable => "NOT_AVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What went wrong, in words for the caller; `gate` names the limit of a refused budget (05 §2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubagentError {
    pub code: Code,
    pub message: String,
    /// What to do about it, never mixed into the message.
    pub hint: Option<String>,
    /// The limit that refused, such as `inprocess.maxActive`.
    pub gate: Option<&'static str>,
}

impl SubagentError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, gate: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidParams, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_gate(mut self, gate: &'static str) -> Self {
        self.gate = Some(gate);
        self
    }
}

pub type Result<T, E = SubagentError> = std::result::Result<T, E>;
