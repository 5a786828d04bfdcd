//! A model that answers at once, and notes when it was asked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use legion_ext::clock;
use native_host::provider::{DeltaSink, ModelInfo, ModelRequest, Provider, ProviderError, ThinkingLevel};
use native_host::session_file::{AssistantMessage, Block, Cost, StopReason, ToolCall, Usage};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::machine;

/// Most children that one call launches (09 §1.1).
const PER_CALL: usize = 64;

/// Leads one root that launches children, waits for them, and collects their results.
#[derive(Debug)]
pub struct Instantly {
    children: usize,
    state: Mutex<Notes>,
    all_here: Notify,
}

/// When things happened.
#[derive(Debug, Default, Clone)]
pub struct Notes {
    root_requests: usize,
    child_requests: usize,
    /// The root's answer with the launches was given.
    pub called: Option<Instant>,
    /// The root was asked again: every launch was answered.
    pub accepted: Option<Instant>,
    /// The last child asked its model.
    pub last_request: Option<Instant>,
    /// The root was asked with all results.
    pub collected: Option<Instant>,
    /// Resident memory in KB while every child waits for its model, and threads then.
    pub resident_kb: Option<u64>,
    pub threads: Option<u64>,
}

impl Instantly {
    pub fn new(children: usize) -> Self {
        Self { children, state: Mutex::default(), all_here: Notify::new() }
    }

    pub fn notes(&self) -> Notes {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        (0..self.children).map(|at| format!("child-{at}")).collect()
    }

    fn root(&self) -> Vec<Block> {
        let mut notes = self.lock();
        notes.root_requests += 1;
        match notes.root_requests {
            1 => {
                let names = self.names();
                let calls = names.chunks(PER_CALL).enumerate().map(|(at, names)| {
                    let task = |name: &String| json!({ "agent": "worker", "name": name, "task": "Answer." });
                    call(at, json!({ "action": "launch", "tasks": names.iter().map(task).collect::<Vec<_>>() }))
                });
                let calls = calls.collect();
                notes.called = Some(clock::instant());
                calls
            }
            2 => {
                notes.accepted = Some(clock::instant());
                vec![call(0, json!({ "action": "wait" }))]
            }
            3 => vec![call(0, json!({ "action": "collect", "names": self.names() }))],
            4 => {
                notes.collected = Some(clock::instant());
                vec![Block::text("Done.")]
            }
            _ => vec![Block::text("Noted.")],
        }
    }

    /// Holds a child until all have asked, so that all are at work at once.
    async fn child(&self) -> Vec<Block> {
        let all_here = self.all_here.notified();
        tokio::pin!(all_here);
        all_here.as_mut().enable();
        let last = {
            let mut notes = self.lock();
            notes.child_requests += 1;
            notes.last_request = Some(clock::instant());
            let last = notes.child_requests == self.children;
            if last {
                (notes.resident_kb, notes.threads) = (machine::resident_kb(), machine::threads());
            }
            last || notes.child_requests > self.children
        };
        if last {
            self.all_here.notify_waiters()
        } else {
            all_here.await
        }
        vec![Block::text("Answered.\n\n```json\n{ \"ok\": true }\n```")]
    }
}

fn call(at: usize, arguments: Value) -> Block {
    Block::ToolCall(ToolCall {
        id: format!("call-{at}"),
        name: "subagent".to_owned(),
        arguments,
        ..ToolCall::default()
    })
}

#[async_trait]
impl Provider for Instantly {
    fn name(&self) -> &str {
        "instant"
    }

    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo {
            provider: self.name().to_owned(),
            id: "model".to_owned(),
            name: "model".to_owned(),
            thinking_levels: ThinkingLevel::ALL.to_vec(),
            context_window: 200_000,
            max_tokens: 32_000,
            cost: Cost::default(),
            images: false,
            has_credentials: true,
        }]
    }

    async fn stream(&self, request: ModelRequest, _: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError> {
        let content = if request.session.role == "root" {
            self.root()
        } else {
            let held = request.cancel.run_until_cancelled(self.child()).await;
            held.ok_or(ProviderError::Aborted { partial: Vec::new(), usage: Usage::default() })?
        };
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_)));
        Ok(AssistantMessage {
            content,
            api: self.name().to_owned(),
            provider: self.name().to_owned(),
            model: request.model.id,
            usage: Usage { input: 1_000, output: 20, total_tokens: 1_020, ..Usage::default() },
            stop_reason: if calls { StopReason::ToolUse } else { StopReason::Stop },
            timestamp: clock::now_ms(),
            ..AssistantMessage::default()
        })
    }
}
