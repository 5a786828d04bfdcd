//! Runs the calls of one answer: judged in their order, run side by side where their tools allow it.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::event::Teller;
use super::gates::{Gates, ToolVerdict};
use super::toolset::ToolSet;
use crate::session_file::ToolCall;
use crate::tools::{Execution, HostEnv, ProgressSink, SessionEnv, Tool, ToolContext, ToolOutput, prepare_call};

/// What a call that never ran because of an abort says.
const ABORTED: &str = "Operation aborted";

/// The calls of one answer and everything they need.
pub struct Batch {
    pub calls: Vec<ToolCall>,
    pub tools: ToolSet,
    pub gates: Gates,
    pub teller: Arc<Teller>,
    pub cwd: PathBuf,
    pub env: Arc<HostEnv>,
    pub session: SessionEnv,
    pub cancel: CancellationToken,
}

/// A call and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub call: ToolCall,
    pub output: ToolOutput,
}

/// A call that may run.
struct Ready {
    tool: Arc<dyn Tool>,
    input: Value,
}

impl Batch {
    /// The results, in the order of the calls.
    pub async fn run(self) -> Vec<Finished> {
        let sequential = self
            .calls
            .iter()
            .any(|call| self.tools.find(&call.name).is_some_and(|tool| tool.def().execution == Execution::Sequential));
        if sequential {
            let mut finished = Vec::with_capacity(self.calls.len());
            for call in &self.calls {
                let output = match self.prepare(call).await {
                    Ok(ready) => self.execute(call, ready).await,
                    Err(refused) => self.tell_end(call, refused),
                };
                finished.push(Finished { call: call.clone(), output });
            }
            return finished;
        }
        let mut prepared = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let ready = self.prepare(call).await.map_err(|refused| self.tell_end(call, refused));
            prepared.push((call, ready));
        }
        let running = prepared.into_iter().map(|(call, ready)| async {
            let output = match ready {
                Ok(ready) => self.execute(call, ready).await,
                Err(refused) => refused,
            };
            Finished { call: call.clone(), output }
        });
        join_all(running).await
    }

    /// Whether and with which input the call runs, or its result.
    async fn prepare(&self, call: &ToolCall) -> Result<Ready, ToolOutput> {
        self.teller.tool_start(call);
        if self.cancel.is_cancelled() {
            return Err(ToolOutput::error(ABORTED));
        }
        let tool =
            self.tools.find(&call.name).ok_or_else(|| ToolOutput::error(format!("Tool {} not found", call.name)))?;
        let input = prepare_call(tool.as_ref(), call.arguments.clone()).map_err(ToolOutput::error)?;
        match self.gates.tool_call(call, input, &self.cancel).await {
            ToolVerdict::Run(input) => Ok(Ready { tool: Arc::clone(tool), input }),
            ToolVerdict::Refused { reason, terminate } => Err(ToolOutput { terminate, ..ToolOutput::error(reason) }),
        }
    }

    async fn execute(&self, call: &ToolCall, ready: Ready) -> ToolOutput {
        let context = ToolContext {
            call_id: call.id.clone(),
            cwd: self.cwd.clone(),
            env: Arc::clone(&self.env),
            session: self.session.clone(),
            cancel: self.cancel.clone(),
            progress: Some(self.progress(call)),
        };
        let Ready { tool, input } = ready;
        let run = AssertUnwindSafe(tool.run(context, input.clone())).catch_unwind().await;
        let output = run
            .unwrap_or_else(|_| ToolOutput::error(format!("tool '{}' panicked; it was not run to its end", call.name)));
        let output = self.gates.tool_result(call, &input, output, &self.cancel).await;
        self.tell_end(call, output)
    }

    fn progress(&self, call: &ToolCall) -> ProgressSink {
        let (teller, call) = (Arc::clone(&self.teller), call.clone());
        Arc::new(move |partial| teller.tool_update(&call, &partial))
    }

    fn tell_end(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        self.teller.tool_end(call, &output);
        output
    }
}
