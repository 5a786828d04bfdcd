//! Asks the gates of a session (ABI-32): in load order, each extension seeing what those before it changed.
//!
//! A gate that errs, panics or is cancelled counts as one that did not answer; only `tool_call` then refuses
//! (ABI-33).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use host_abi::AbiError;
use host_abi::calls::kinds;
use host_abi::gates::{self, names};
use host_abi::sdk::decode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::event::Teller;
use super::prompt::Prompt;
use super::run_state::Outcome;
use super::shared::Shared;
use crate::extensions::Attached;
use crate::extensions::call::{Call, CallError, call};
use crate::extensions::tool::block;
use crate::session_file::ToolCall;
use crate::tools::ToolOutput;

/// The gates of one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gates {
    teller: Arc<Teller>,
    shared: Arc<Shared>,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolVerdict {
    /// It runs with this input.
    Run(Value),
    Refused {
        reason: String,
        terminate: bool,
    },
}

/// What becomes of a text for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputVerdict {
    Take(String),
    Handled,
}

/// What begins a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Opening {
    pub prompt: Option<String>,
    pub custom: Option<gates::CustomText>,
}

impl Gates {
    pub fn new(teller: Arc<Teller>, shared: Arc<Shared>) -> Gates {
        Gates { teller, shared }
    }

    /// Whether any extension wants to be asked.
    pub fn has(&self, gate: &str) -> bool {
        self.teller.extensions.iter().any(|extension| extension.has_gate(gate))
    }

    /// Before a call runs; `input` has passed the tool's schema.
    pub async fn tool_call(&self, tool_call: &ToolCall, input: Value, cancel: &CancellationToken) -> ToolVerdict {
        let mut input = input;
        for extension in self.asked(names::TOOL_CALL) {
            let event = gates::ToolCall {
                tool_call_id: tool_call.id.clone(),
                tool_name: tool_call.name.clone(),
                input: extension.input_of(&tool_call.name, &input),
                parent_tool_call_id: None,
            };
            let answer = self.ask::<_, gates::ToolCallAnswer>(extension, names::TOOL_CALL, event, cancel).await;
            let answer = answer.and_then(|answer| match answer.input {
                Some(_) if !extension.sees_input_of(&tool_call.name) => {
                    let message = format!("it changed the input of '{}' without asking for it", tool_call.name);
                    Err(CallError::Failed(AbiError::host(message)))
                }
                _ => Ok(answer),
            });
            match answer {
                Ok(gates::ToolCallAnswer { block: true, reason, terminate, .. }) => {
                    let reason = reason.unwrap_or_else(|| "Tool execution was blocked".to_owned());
                    return ToolVerdict::Refused { reason, terminate };
                }
                Ok(gates::ToolCallAnswer { input: Some(changed), .. }) => input = changed,
                Ok(_) => {}
                Err(CallError::Failed(error)) => {
                    let reason = format!(
                        "'{}' was not run: extension '{}' failed to judge the call: {error}",
                        tool_call.name,
                        extension.library.name()
                    );
                    return ToolVerdict::Refused { reason, terminate: false };
                }
                Err(CallError::Cancelled) => {
                    return ToolVerdict::Refused { reason: "Operation aborted".to_owned(), terminate: false };
                }
            }
        }
        ToolVerdict::Run(input)
    }

    /// After a call ran with `input`.
    pub async fn tool_result(
        &self,
        tool_call: &ToolCall,
        input: &Value,
        mut output: ToolOutput,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        for extension in self.asked(names::TOOL_RESULT) {
            let event = gates::ToolResultEvent {
                tool_call_id: tool_call.id.clone(),
                tool_name: tool_call.name.clone(),
                input: extension.input_of(&tool_call.name, input),
                content: output.content.iter().filter_map(|block| serde_json::to_value(block).ok()).collect(),
                details: output.details.clone(),
                is_error: output.is_error,
            };
            let answer: gates::ToolResultAnswer =
                self.ask_or_default(extension, names::TOOL_RESULT, event, cancel).await;
            if let Some(content) = answer.content {
                output.content = content.into_iter().map(block).collect();
            }
            if let Some(details) = answer.details {
                output.details = Some(details);
            }
            if let Some(is_error) = answer.is_error {
                output.is_error = is_error;
            }
        }
        output
    }

    /// Before a run begins: its prompt, and the messages to add.
    pub async fn before_agent_start(
        &self,
        opening: Opening,
        mut prompt: Prompt,
        cancel: &CancellationToken,
    ) -> (Prompt, Vec<gates::CustomMessage>) {
        let mut messages = Vec::new();
        for extension in self.asked(names::BEFORE_AGENT_START) {
            let event = gates::BeforeAgentStart {
                prompt: opening.prompt.clone(),
                custom: opening.custom.clone(),
                system_prompt: prompt.text(),
            };
            let answer: gates::BeforeAgentStartAnswer =
                self.ask_or_default(extension, names::BEFORE_AGENT_START, event, cancel).await;
            match prompt.apply(&answer) {
                Ok(()) => messages.extend(answer.message),
                Err(fault) => warn(extension, names::BEFORE_AGENT_START, &fault),
            }
        }
        (prompt, messages)
    }

    /// Before a run settles; as long as it takes.
    pub async fn before_settle(&self, outcome: Outcome, cancel: &CancellationToken) -> gates::AgentBeforeSettleAnswer {
        let outcome = match outcome {
            Outcome::Completed => gates::RunOutcome::Completed,
            Outcome::Error => gates::RunOutcome::Error,
        };
        let mut all = gates::AgentBeforeSettleAnswer::default();
        for extension in self.asked(names::AGENT_BEFORE_SETTLE) {
            let event = gates::AgentBeforeSettle { outcome };
            let answer: gates::AgentBeforeSettleAnswer =
                self.ask_or_default(extension, names::AGENT_BEFORE_SETTLE, event, cancel).await;
            all.messages.extend(answer.messages);
            all.continue_run |= answer.continue_run;
        }
        all
    }

    /// Before a text enters the session. `source` is `interactive`, `rpc` or `extension`.
    pub async fn input(&self, text: String, source: &str, cancel: &CancellationToken) -> InputVerdict {
        let mut text = text;
        for extension in self.asked(names::INPUT) {
            let event = gates::Input { text: text.clone(), source: source.to_owned() };
            let answer: gates::InputAnswer = self.ask_or_default(extension, names::INPUT, event, cancel).await;
            if answer.handled {
                return InputVerdict::Handled;
            }
            text = answer.text.unwrap_or(text);
        }
        InputVerdict::Take(text)
    }

    /// Before the session ends; the caller bounds the wait. All are asked at once, so that one that never
    /// answers keeps no other from being asked.
    pub async fn session_shutdown(&self, reason: &str) {
        let never = CancellationToken::new();
        let event = gates::SessionShutdown { reason: reason.to_owned() };
        join_all(self.asked(names::SESSION_SHUTDOWN).map(|extension| {
            self.ask_or_default::<_, Value>(extension, names::SESSION_SHUTDOWN, event.clone(), &never)
        }))
        .await;
    }

    fn asked<'a>(&'a self, gate: &'a str) -> impl Iterator<Item = &'a Arc<Attached>> {
        self.teller.extensions.iter().filter(move |extension| extension.has_gate(gate))
    }

    async fn ask<E: Serialize, A: DeserializeOwned + Default>(
        &self,
        extension: &Attached,
        gate: &str,
        event: E,
        cancel: &CancellationToken,
    ) -> Result<A, CallError> {
        let target = Call { kind: kinds::GATE, name: gate, grace: Duration::ZERO };
        let payload = gates::GateCall { event, ctx: self.shared.ctx() };
        let answer = call(extension, target, &payload, None, cancel).await?;
        if answer.trim() == "null" {
            return Ok(A::default());
        }
        decode(gate, &answer).map_err(CallError::Failed)
    }

    async fn ask_or_default<E: Serialize, A: DeserializeOwned + Default>(
        &self,
        extension: &Attached,
        gate: &str,
        event: E,
        cancel: &CancellationToken,
    ) -> A {
        self.ask(extension, gate, event, cancel).await.unwrap_or_else(|error| {
            if let CallError::Failed(error) = error {
                warn(extension, gate, &error);
            }
            A::default()
        })
    }
}

fn warn(extension: &Attached, gate: &str, fault: &dyn std::fmt::Display) {
    tracing::warn!(extension = extension.library.name(), gate, "a gate failed and counts as not answered: {fault}");
}
