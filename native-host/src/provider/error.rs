//! How a model call fails.

use crate::provider::model::ModelRef;
use crate::session_file::{AssistantMessage, Block, StopReason, Usage};

/// A failed model call. Its text is what the transcript, the parent and the person see.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    /// The provider answered with an error status; `body` is its own text.
    #[error("{}", http_text(*.status, .body))]
    Http { status: u16, body: String, retry_after_ms: Option<u64> },
    /// The stream ended without its end. What had come is kept.
    #[error("{message}")]
    Broken { message: String, partial: Vec<Block>, usage: Usage },
    #[error("no credential for provider '{provider}': {hint}")]
    NoCredential { provider: String, hint: String },
    #[error("provider '{}' has no model '{}'", .model.provider, .model.id)]
    UnknownModel { model: ModelRef },
    /// The request was cancelled. What had come is kept.
    #[error("Request was aborted")]
    Aborted { partial: Vec<Block>, usage: Usage },
    /// The request itself cannot be answered, such as a script without a turn for it.
    #[error("{0}")]
    Refused(String),
}

impl ProviderError {
    /// Whether the same request may succeed a little later.
    pub fn retryable(&self) -> bool {
        match self {
            ProviderError::Http { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
            ProviderError::Broken { .. } => true,
            ProviderError::NoCredential { .. }
            | ProviderError::UnknownModel { .. }
            | ProviderError::Aborted { .. }
            | ProviderError::Refused(_) => false,
        }
    }

    /// The message that stands in the transcript for the failed call: what had come, the stop reason and
    /// the error's text.
    pub fn into_message(self, api: &str, model: &ModelRef, now_ms: i64) -> AssistantMessage {
        let error_message = Some(self.to_string());
        let stop_reason = match &self {
            ProviderError::Aborted { .. } => StopReason::Aborted,
            _ => StopReason::Error,
        };
        let (content, usage) = match self {
            ProviderError::Broken { partial, usage, .. } | ProviderError::Aborted { partial, usage } => {
                (partial, usage)
            }
            _ => (Vec::new(), Usage::default()),
        };
        AssistantMessage {
            content,
            api: api.to_owned(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage,
            stop_reason,
            error_message,
            timestamp: now_ms,
            ..AssistantMessage::default()
        }
    }
}

fn http_text(status: u16, body: &str) -> String {
    match body.trim() {
        "" => format!("HTTP {status}"),
        body => format!("HTTP {status}: {body}"),
    }
}
