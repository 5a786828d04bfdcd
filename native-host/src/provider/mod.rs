//! Where answers come from: one trait for every model provider, and the registry that finds one.
//!
//! A provider turns a [`ModelRequest`] into one assistant message and tells its deltas on the way. It
//! knows nothing of tools being run, of retries or of session files: the agent loop does these. The
//! providers here are [`scripted`]; network providers implement the same trait.

pub mod error;
pub mod model;
pub mod registry;
pub mod scripted;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use error::ProviderError;
pub use model::{ModelInfo, ModelRef, ThinkingLevel};
pub use registry::{ModelQuery, ModelRegistry, ResolveError, ResolvedModel};

use crate::session_file::{AssistantMessage, Message};

/// A source of model answers.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The name in `provider/model`, such as `scripted`.
    fn name(&self) -> &str;

    /// The models to list. A provider may answer for others too (see [`Provider::model`]).
    fn models(&self) -> Vec<ModelInfo>;

    /// The model of this id, or `None` when the provider has no such model.
    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.models().into_iter().find(|model| model.id == id)
    }

    /// Asks the model once. Deltas come through `sink` while the answer streams; the returned message is
    /// complete and carries the time of its end.
    ///
    /// It ends soon after `request.cancel` is cancelled, with [`ProviderError::Aborted`]. Dropping the
    /// future ends the request too.
    async fn stream(&self, request: ModelRequest, sink: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError>;
}

/// Receives the deltas of one answer, in order.
pub type DeltaSink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// Everything that one model call depends on.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub model: ModelRef,
    /// The effective level, already clamped to the model.
    pub thinking: ThinkingLevel,
    pub system_prompt: String,
    /// The context as `session_file` builds it; [`crate::session_file::model_messages`] turns the roles of
    /// extensions and summaries into user messages.
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub session: RequestSession,
    pub cancel: CancellationToken,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// Whose request it is. Providers use it for caching and routing, scripts for matching.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSession {
    pub id: String,
    /// The agent's name for a child session, `root` for the first session of a process.
    pub role: String,
    /// The child's own name, such as `scout-1`; equal to `role` where there is none.
    pub name: String,
    pub cwd: String,
}

/// One step of a streaming answer. `index` counts the blocks of the message.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    TextStart {
        index: usize,
    },
    Text {
        index: usize,
        text: String,
    },
    TextEnd {
        index: usize,
    },
    ThinkingStart {
        index: usize,
    },
    Thinking {
        index: usize,
        text: String,
    },
    ThinkingEnd {
        index: usize,
    },
    ToolCallStart {
        index: usize,
        id: String,
        name: String,
    },
    /// A piece of the arguments' JSON text.
    ToolCallArguments {
        index: usize,
        json: String,
    },
    ToolCallEnd {
        index: usize,
        arguments: Value,
    },
}
