//! One model request, from its messages to the answer that stands in the transcript.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use legion_ext::clock;
use serde_json::{Map, Value};

use super::event::Teller;
use super::run_state::ModelEnd;
use crate::provider::{Delta, DeltaSink, ModelInfo, ModelRef, ModelRequest, Provider, ProviderError};
use crate::session_file::{AssistantMessage, Block, Message, StopReason, ToolCall, Usage};

/// How long a cancelled request may take to end before it is dropped.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For the transcript, whatever the end.
    pub message: AssistantMessage,
    pub end: ModelEnd,
    pub duration: Duration,
}

/// Asks the model once. Deltas are told on the way; the message is told by the caller.
pub async fn ask(provider: Arc<dyn Provider>, request: ModelRequest, teller: Arc<Teller>) -> Answer {
    let started = clock::instant();
    let model = request.model.clone();
    let cancel = request.cancel.clone();
    let mut partial = Partial::new(provider.name(), &request);
    let result = if cancel.is_cancelled() {
        Err(partial.aborted())
    } else {
        let mut told = false;
        let mut sink = |delta: Delta| {
            if !std::mem::replace(&mut told, true) {
                teller.message_start(&Message::Assistant(partial.message.clone()));
            }
            partial.take(&delta);
            teller.delta(&delta, || partial.message.clone());
        };
        let stream = AssertUnwindSafe(provider.stream(request, &mut sink)).catch_unwind();
        let bounded = async {
            tokio::pin!(stream);
            match cancel.run_until_cancelled(&mut stream).await {
                Some(result) => Some(result),
                None => tokio::time::timeout(CANCEL_GRACE, stream).await.ok(),
            }
        };
        match bounded.await {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ProviderError::Refused(format!("the provider of {model} panicked"))),
            None => Err(partial.aborted()),
        }
    };
    let end = match &result {
        Ok(message) => ModelEnd::Answered { calls: message.tool_calls().next().is_some() },
        Err(ProviderError::Aborted { .. }) => ModelEnd::Aborted,
        Err(error) => ModelEnd::Failed { retryable: error.retryable(), retry_after_ms: retry_after(error) },
    };
    let message = result.unwrap_or_else(|error| error.into_message(provider.name(), &model, clock::now_ms()));
    // A provider may report its failure as an answer.
    let end = match message.stop_reason {
        StopReason::Error if matches!(end, ModelEnd::Answered { .. }) => {
            ModelEnd::Failed { retryable: false, retry_after_ms: None }
        }
        StopReason::Aborted if matches!(end, ModelEnd::Answered { .. }) => ModelEnd::Aborted,
        _ => end,
    };
    Answer { message, end, duration: clock::instant().duration_since(started) }
}

fn retry_after(error: &ProviderError) -> Option<u64> {
    match error {
        ProviderError::Http { retry_after_ms, .. } => *retry_after_ms,
        ProviderError::Broken { .. }
        | ProviderError::NoCredential { .. }
        | ProviderError::UnknownModel { .. }
        | ProviderError::Aborted { .. }
        | ProviderError::Refused(_) => None,
    }
}

/// Stands for the provider of a model that has none (any more).
pub struct NoProvider(pub ModelRef);

#[async_trait]
impl Provider for NoProvider {
    fn name(&self) -> &str {
        &self.0.provider
    }

    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    async fn stream(&self, request: ModelRequest, _: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError> {
        Err(ProviderError::UnknownModel { model: request.model })
    }
}

/// The answer as far as it has come.
struct Partial {
    message: AssistantMessage,
    /// JSON text of the arguments of the call that is being written.
    arguments: String,
}

impl Partial {
    fn new(api: &str, request: &ModelRequest) -> Partial {
        let message = AssistantMessage {
            api: api.to_owned(),
            provider: request.model.provider.clone(),
            model: request.model.id.clone(),
            timestamp: clock::now_ms(),
            ..AssistantMessage::default()
        };
        Partial { message, arguments: String::new() }
    }

    fn aborted(&self) -> ProviderError {
        ProviderError::Aborted { partial: self.message.content.clone(), usage: Usage::default() }
    }

    fn take(&mut self, delta: &Delta) {
        match delta {
            Delta::TextStart { index } => self.put(*index, Block::text("")),
            Delta::ThinkingStart { index } => self.put(*index, Block::thinking("")),
            Delta::Text { index, text: piece } => {
                if let Some(Block::Text { text, .. }) = self.message.content.get_mut(*index) {
                    text.push_str(piece);
                }
            }
            Delta::Thinking { index, text: piece } => {
                if let Some(Block::Thinking { thinking, .. }) = self.message.content.get_mut(*index) {
                    thinking.push_str(piece);
                }
            }
            Delta::ToolCallStart { index, id, name } => {
                self.arguments.clear();
                let call = ToolCall { id: id.clone(), name: name.clone(), ..ToolCall::default() };
                self.put(*index, Block::ToolCall(ToolCall { arguments: Value::Object(Map::new()), ..call }));
            }
            Delta::ToolCallArguments { json, .. } => self.arguments.push_str(json),
            Delta::ToolCallEnd { index, arguments } => {
                if let Some(Block::ToolCall(call)) = self.message.content.get_mut(*index) {
                    call.arguments = arguments.clone();
                }
            }
            Delta::TextEnd { .. } | Delta::ThinkingEnd { .. } => {}
        }
    }

    fn put(&mut self, index: usize, block: Block) {
        let content = &mut self.message.content;
        match content.get_mut(index) {
            Some(known) => *known = block,
            // Blocks come in their order; a provider that skips one gets the next free place.
            None => content.push(block),
        }
    }
}
