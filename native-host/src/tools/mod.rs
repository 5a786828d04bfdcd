//! Tools: what one is, and the seven that every session can have.
//!
//! Names, parameters, limits and texts follow pi, so that role cards and models that know pi work here
//! unchanged. A tool gets everything it may touch in its [`ToolContext`]; it knows nothing of sessions,
//! models or other tools. Tools of extensions implement the same trait.

pub mod env;
pub mod schema;

mod bash;
mod blocking;
mod edit;
mod find;
mod grep;
mod ls;
mod mutation;
mod paths;
mod read;
mod truncate;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use env::{HostEnv, SessionEnv};
pub use truncate::{MAX_BYTES, MAX_LINES};

use crate::session_file::{Block, Usage};

/// The built-in tools in the order they are listed.
pub const BUILTIN_NAMES: [&str; 7] = ["read", "bash", "edit", "write", "grep", "find", "ls"];

/// The tools that are active when nobody chose any.
pub const DEFAULT_ACTIVE: [&str; 4] = ["read", "bash", "edit", "write"];

/// Something that a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    fn def(&self) -> &ToolDef;

    /// Brings older argument forms of this tool into its current one, before the arguments are checked.
    fn prepare(&self, input: Value) -> Value {
        input
    }

    /// Runs the call. `input` has passed [`schema::check`] or was put in place by a gate. A failure is an
    /// output with `is_error`; a cancelled call ends soon after its token is.
    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput;
}

/// How a tool is presented.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolDef {
    pub name: String,
    pub label: String,
    pub description: String,
    /// One line for the system prompt; a tool without one is not listed there.
    pub prompt_snippet: Option<String>,
    /// Sentences for the system prompt.
    pub prompt_guidelines: Vec<String>,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    pub execution: Execution,
}

/// Whether calls of one answer may run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    #[default]
    Parallel,
    /// One call of this tool in an answer makes all of its calls run one after the other.
    Sequential,
}

/// What a call may use.
#[derive(Clone)]
pub struct ToolContext {
    pub call_id: String,
    pub cwd: PathBuf,
    /// The process's environment, home and temporary directory.
    pub env: Arc<HostEnv>,
    /// What shell commands are told of the session.
    pub session: SessionEnv,
    pub cancel: CancellationToken,
    /// Takes partial results while the call runs.
    pub progress: Option<ProgressSink>,
}

/// Receives partial results; each replaces the one before.
pub type ProgressSink = Arc<dyn Fn(ToolOutput) + Send + Sync>;

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    pub content: Vec<Block>,
    /// For programs and renderers; the model does not see it.
    pub details: Option<Value>,
    pub is_error: bool,
    /// Model calls made on behalf of this call.
    pub usage: Option<Usage>,
    /// For programs that call tools.
    pub structured_content: Option<Value>,
    /// A batch made only of such results ends the run.
    pub terminate: bool,
}

/// All built-in tools.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::Read::new()),
        Arc::new(bash::Bash::new()),
        Arc::new(edit::Edit::new()),
        Arc::new(write::Write::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(find::Find::new()),
        Arc::new(ls::Ls::new()),
    ]
}

/// The arguments to run `tool` with: brought into form and checked. The error is for the model.
pub fn prepare_call(tool: &dyn Tool, input: Value) -> Result<Value, String> {
    let input = tool.prepare(input);
    let def = tool.def();
    schema::check(&def.parameters, &input).map_err(|faults| schema::fault_text(&def.name, &faults, &input))?;
    Ok(input)
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Block::text(text)], ..ToolOutput::default() }
    }

    pub fn error(text: impl Into<String>) -> ToolOutput {
        ToolOutput { content: vec![Block::text(text)], is_error: true, ..ToolOutput::default() }
    }

    pub fn with_details(mut self, details: Value) -> ToolOutput {
        self.details = Some(details);
        self
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext").field("call_id", &self.call_id).field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
