//! A tool that an extension registered, as the agent loop calls it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use host_abi::calls::{NestedUsage, ToolInvocation, ToolResult, kinds};
use host_abi::info::Ctx;
use host_abi::registration::ToolDef as AbiToolDef;
use host_abi::sdk::decode;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Attached;
use super::call::{Call, CallError, call};
use crate::session_file::{Block, Cost, Usage};
use crate::tools::{Execution, Tool, ToolContext, ToolDef, ToolOutput};

/// How long a cancelled tool of an extension may take to answer before the run goes on without it.
pub const TOOL_GRACE: Duration = Duration::from_secs(2);

/// What is told of the session with each call.
pub type CtxSource = Arc<dyn Fn() -> Ctx + Send + Sync>;

/// A registered tool of one session.
pub struct ExtensionTool {
    def: ToolDef,
    extension: Arc<Attached>,
    ctx: CtxSource,
}

impl ExtensionTool {
    pub fn new(def: &AbiToolDef, extension: Arc<Attached>, ctx: CtxSource) -> ExtensionTool {
        let execution = match def.execution_mode.as_deref() {
            Some("sequential") => Execution::Sequential,
            _ => Execution::Parallel,
        };
        let def = ToolDef {
            name: def.name.clone(),
            label: def.label.clone(),
            description: def.description.clone(),
            prompt_snippet: def.prompt_snippet.clone(),
            prompt_guidelines: def.prompt_guidelines.clone(),
            parameters: def.parameters.clone(),
            execution,
        };
        ExtensionTool { def, extension, ctx }
    }
}

#[async_trait]
impl Tool for ExtensionTool {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, context: ToolContext, input: Value) -> ToolOutput {
        let payload = ToolInvocation { tool_call_id: context.call_id.clone(), params: input, ctx: (self.ctx)() };
        let progress = context.progress.clone().map(|sink| {
            let forward = move |partial: &str| {
                if let Ok(partial) = decode::<ToolResult>("progress", partial) {
                    sink(output(partial));
                }
            };
            Box::new(forward) as super::call::Progress
        });
        let target = Call { kind: kinds::TOOL, name: &self.def.name, grace: TOOL_GRACE };
        let cancel: &CancellationToken = &context.cancel;
        let answer = call(&self.extension, target, &payload, progress, cancel).await;
        let result = answer.and_then(|json| decode::<ToolResult>(&self.def.name, &json).map_err(CallError::Failed));
        match result {
            Ok(result) => output(result),
            Err(CallError::Failed(error)) => {
                ToolOutput::error(&error.message).with_details(json!({ "code": error.code, "hint": error.hint }))
            }
            Err(CallError::Cancelled) => ToolOutput::error("Operation aborted"),
        }
    }
}

/// A result of the ABI as the agent loop has it.
fn output(result: ToolResult) -> ToolOutput {
    let ToolResult { content, details, is_error, usage, structured_content, terminate } = result;
    ToolOutput {
        content: content.into_iter().map(block).collect(),
        details,
        is_error,
        usage: total(&usage),
        structured_content,
        terminate,
    }
}

/// A content block; a value that is none is shown as text.
pub fn block(value: Value) -> Block {
    match value {
        Value::Object(_) => serde_json::from_value(value.clone()).unwrap_or_else(|_| Block::text(value.to_string())),
        Value::String(text) => Block::text(text),
        other => Block::text(other.to_string()),
    }
}

/// One usage record for the list (ABI-51).
fn total(calls: &[NestedUsage]) -> Option<Usage> {
    if calls.is_empty() {
        return None;
    }
    let mut sum = Usage::default();
    for call in calls {
        let tokens = call.input + call.output + call.cache_read + call.cache_write;
        sum.add(&Usage {
            input: call.input,
            output: call.output,
            cache_read: call.cache_read,
            cache_write: call.cache_write,
            total_tokens: tokens,
            cost: Cost { total: call.cost_usd, ..Cost::default() },
            extra: Map::new(),
        });
    }
    Some(sum)
}

impl std::fmt::Debug for ExtensionTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtensionTool").field("name", &self.def.name).finish_non_exhaustive()
    }
}
