//! The *scripted* provider: answers from a file, without a network or a key (NAT-3).
//!
//! [`script`], [`template`] and [`play`] are pure and serve a model server as well; this module adds what a
//! script cannot know: time, waiting, and how often a request has failed already.

pub mod play;
pub mod script;
pub mod template;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use legion_ext::clock;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::play::{Answer, Choice, Scene};
use self::script::{Barrier, Fault, Script, ScriptError, Turn};
use super::error::ProviderError;
use super::model::ModelInfo;
use super::{Delta, DeltaSink, ModelRequest, Provider};
use crate::session_file::{AssistantMessage, Block, Content, Cost, Message, StopReason, ToolCall, Usage};

/// The provider's name, and the wire protocol in its messages.
pub const SCRIPTED: &str = "scripted";

/// The model to use where nobody chose one.
pub const DEFAULT_MODEL: &str = "echo";

/// The script of a session without one.
const EMBEDDED: &str = include_str!("echo.yaml");

/// How often a turn looks for the file that it waits for.
const FILE_POLL: Duration = Duration::from_millis(5);

/// Answers from one script, for all sessions of a process.
#[derive(Debug)]
pub struct ScriptedProvider {
    script: Script,
    /// Failed attempts of requests whose turn fails a number of times only.
    attempts: Mutex<HashMap<Attempt, u64>>,
    barriers: Mutex<HashMap<String, Arc<Gate>>>,
}

/// A request of a session, however often it is sent.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Attempt {
    session: String,
    request: u64,
    line: u64,
}

/// Requests that wait for each other.
#[derive(Debug, Default)]
struct Gate {
    waiting: Mutex<usize>,
    opened: Notify,
}

/// A script that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("failed to read the script {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Faulty(#[from] ScriptError),
}

impl ScriptedProvider {
    pub fn new(script: Script) -> ScriptedProvider {
        ScriptedProvider { script, attempts: Mutex::default(), barriers: Mutex::default() }
    }

    /// Reads a YAML or JSON file. A fault names file, line and what was expected.
    pub fn from_file(path: &Path) -> Result<ScriptedProvider, LoadError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
        Ok(ScriptedProvider::new(Script::parse(&path.display().to_string(), &text)?))
    }

    /// The built-in script: it repeats what it is told.
    pub fn embedded() -> ScriptedProvider {
        ScriptedProvider::new(Script::parse("built-in script", EMBEDDED).expect("the built-in script is tested"))
    }

    /// Counts an attempt of a request that fails `times` times, and tells whether this one does.
    fn fails(&self, times: u64, attempt: Attempt) -> bool {
        if times == u64::MAX {
            return true;
        }
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = attempts.entry(attempt).or_default();
        *failed += 1;
        *failed <= times
    }

    /// Waits until the answer may begin.
    async fn hold(&self, turn: &Turn, file: Option<PathBuf>) {
        if turn.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(turn.delay_ms)).await;
        }
        if let Some(barrier) = &turn.barrier {
            self.meet(barrier).await;
        }
        if let Some(file) = file {
            while !file.exists() {
                tokio::time::sleep(FILE_POLL).await;
            }
        }
    }

    async fn meet(&self, barrier: &Barrier) {
        let gate = {
            let mut barriers = self.barriers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(barriers.entry(barrier.name.clone()).or_default())
        };
        let opened = gate.opened.notified();
        tokio::pin!(opened);
        opened.as_mut().enable();
        let place = Place::take(&gate);
        if place.count >= barrier.count {
            gate.opened.notify_waiters();
            return;
        }
        opened.await;
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        SCRIPTED
    }

    fn models(&self) -> Vec<ModelInfo> {
        match self.script.models.is_empty() {
            true => vec![script::any_model(DEFAULT_MODEL)],
            false => self.script.models.clone(),
        }
    }

    /// A script that lists no models answers for every id.
    fn model(&self, id: &str) -> Option<ModelInfo> {
        match self.script.models.is_empty() {
            true => (!id.is_empty()).then(|| script::any_model(id)),
            false => self.script.models.iter().find(|model| model.id == id).cloned(),
        }
    }

    async fn stream(&self, request: ModelRequest, sink: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError> {
        let Some(model) = self.model(&request.model.id) else {
            return Err(ProviderError::UnknownModel { model: request.model });
        };
        let scene = Scene {
            role: &request.session.role,
            name: &request.session.name,
            cwd: &request.session.cwd,
            session: &request.session.id,
            model: &request.model.id,
            messages: &request.messages,
        };
        let choice = play::choose(&self.script, scene).map_err(ProviderError::Refused)?;
        let answer = choice.render(&self.script).map_err(ProviderError::Refused)?;
        let fill = |template: &template::Template| template.render(&choice.facts);
        let file = choice
            .turn
            .until_file
            .as_ref()
            .map(&fill)
            .transpose()
            .map_err(ProviderError::Refused)?
            .map(|path| Path::new(scene.cwd).join(path));

        let aborted = || ProviderError::Aborted { partial: Vec::new(), usage: Usage::default() };
        request.cancel.run_until_cancelled(self.hold(choice.turn, file)).await.ok_or_else(aborted)?;

        let attempt =
            Attempt { session: scene.session.to_owned(), request: choice.facts.request, line: choice.turn.line };
        let fault = choice.turn.fault.as_ref().filter(|fault| self.fails(fault.times(), attempt));
        let stop_after = match fault {
            Some(Fault::Http { status, body, retry_after_ms, .. }) => {
                let (status, body, retry_after_ms) =
                    (*status, fill(body).map_err(ProviderError::Refused)?, *retry_after_ms);
                return Err(ProviderError::Http { status, body, retry_after_ms });
            }
            Some(Fault::Broken { after_chars, .. } | Fault::Silence { after_chars, .. }) => *after_chars,
            None => usize::MAX,
        };
        let usage = usage_of(&choice, &request, &answer, &model);
        let stream = Stream { turn: choice.turn, cancel: &request.cancel, sink, left: stop_after, content: Vec::new() };
        let (content, played) = stream.play(&answer).await;
        match (played, fault) {
            (Played::Cancelled, _) => return Err(ProviderError::Aborted { partial: content, usage }),
            (_, Some(Fault::Broken { message, .. })) => {
                return Err(ProviderError::Broken {
                    message: fill(message).map_err(ProviderError::Refused)?,
                    partial: content,
                    usage,
                });
            }
            (_, Some(Fault::Silence { .. })) => {
                request.cancel.cancelled().await;
                return Err(ProviderError::Aborted { partial: content, usage });
            }
            (Played::Whole | Played::Cut, _) => {}
        }
        let natural = if answer.calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
        Ok(AssistantMessage {
            content,
            api: SCRIPTED.to_owned(),
            provider: SCRIPTED.to_owned(),
            model: request.model.id.clone(),
            usage,
            stop_reason: choice.turn.stop_reason.clone().unwrap_or(natural),
            timestamp: clock::now_ms(),
            ..AssistantMessage::default()
        })
    }
}

/// A waiting request's place at a gate; given up when the request is cancelled.
struct Place<'a> {
    gate: &'a Gate,
    /// Requests that wait, this one included.
    count: usize,
}

impl<'a> Place<'a> {
    fn take(gate: &'a Gate) -> Place<'a> {
        let mut waiting = gate.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting += 1;
        Place { gate, count: *waiting }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.gate.waiting.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

/// One answer on its way.
struct Stream<'a, 'b> {
    turn: &'a Turn,
    cancel: &'a CancellationToken,
    sink: DeltaSink<'b>,
    /// Characters until the stream stops.
    left: usize,
    content: Vec<Block>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Played {
    Whole,
    /// Stopped where the fault is.
    Cut,
    Cancelled,
}

impl Stream<'_, '_> {
    async fn play(mut self, answer: &Answer) -> (Vec<Block>, Played) {
        let played = self.blocks(answer).await;
        // A block that was cut before its first character says nothing.
        self.content.retain(|block| !matches!(block, Block::Text { text, .. } | Block::Thinking { thinking: text, .. } if text.is_empty()));
        (self.content, played)
    }

    async fn blocks(&mut self, answer: &Answer) -> Played {
        if let Some(thinking) = &answer.thinking {
            let index = self.content.len();
            (self.sink)(Delta::ThinkingStart { index });
            self.content.push(Block::thinking(""));
            let played = self.pieces(thinking, |index, text| Delta::Thinking { index, text }).await;
            if played != Played::Whole {
                return played;
            }
            (self.sink)(Delta::ThinkingEnd { index });
        }
        if let Some(text) = &answer.text {
            let index = self.content.len();
            (self.sink)(Delta::TextStart { index });
            self.content.push(Block::text(""));
            let played = self.pieces(text, |index, text| Delta::Text { index, text }).await;
            if played != Played::Whole {
                return played;
            }
            (self.sink)(Delta::TextEnd { index });
        }
        for call in &answer.calls {
            if self.left == 0 {
                return Played::Cut;
            }
            let index = self.content.len();
            (self.sink)(Delta::ToolCallStart { index, id: call.id.clone(), name: call.tool.clone() });
            if !self.pause().await {
                return Played::Cancelled;
            }
            (self.sink)(Delta::ToolCallArguments { index, json: call.arguments.to_string() });
            // A call that is not whole is no call: it stands in the message only now.
            let (id, name, arguments) = (call.id.clone(), call.tool.clone(), call.arguments.clone());
            self.content.push(Block::ToolCall(ToolCall { id, name, arguments, ..ToolCall::default() }));
            (self.sink)(Delta::ToolCallEnd { index, arguments: call.arguments.clone() });
        }
        if self.left == 0 { Played::Cut } else { Played::Whole }
    }

    /// Streams one text into the last block.
    async fn pieces(&mut self, text: &str, delta: impl Fn(usize, String) -> Delta) -> Played {
        let index = self.content.len() - 1;
        let mut rest = text;
        while !rest.is_empty() {
            if self.left == 0 {
                return Played::Cut;
            }
            let chars = if self.turn.chunk == 0 { usize::MAX } else { self.turn.chunk }.min(self.left);
            let end = rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(end);
            if !self.pause().await {
                return Played::Cancelled;
            }
            match &mut self.content[index] {
                Block::Text { text, .. } | Block::Thinking { thinking: text, .. } => text.push_str(piece),
                Block::Image { .. } | Block::ToolCall(_) | Block::Other(_) => {}
            }
            (self.sink)(delta(index, piece.to_owned()));
            self.left = self.left.saturating_sub(piece.chars().count());
            rest = after;
        }
        Played::Whole
    }

    /// The time between deltas. False when the request was cancelled.
    async fn pause(&mut self) -> bool {
        match self.turn.between_ms {
            0 => !self.cancel.is_cancelled(),
            ms => self.cancel.run_until_cancelled(tokio::time::sleep(Duration::from_millis(ms))).await.is_some(),
        }
    }
}

/// The tokens that the turn names, else an estimate of four characters each; with the model's prices.
fn usage_of(choice: &Choice<'_>, request: &ModelRequest, answer: &Answer, model: &ModelInfo) -> Usage {
    let tokens = |chars: usize| chars.div_ceil(4) as u64;
    let named = choice.turn.usage.unwrap_or_else(|| script::ScriptUsage {
        input: tokens(request.system_prompt.len() + request.messages.iter().map(message_chars).sum::<usize>()),
        output: tokens(
            answer.thinking.as_ref().map_or(0, String::len)
                + answer.text.as_ref().map_or(0, String::len)
                + answer.calls.iter().map(|call| call.arguments.to_string().len()).sum::<usize>(),
        ),
        ..script::ScriptUsage::default()
    });
    let price = |tokens: u64, per_million: f64| tokens as f64 * per_million / 1_000_000.0;
    let mut cost = Cost {
        input: price(named.input, model.cost.input),
        output: price(named.output, model.cost.output),
        cache_read: price(named.cache_read, model.cost.cache_read),
        cache_write: price(named.cache_write, model.cost.cache_write),
        total: 0.0,
    };
    cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write;
    Usage {
        input: named.input,
        output: named.output,
        cache_read: named.cache_read,
        cache_write: named.cache_write,
        total_tokens: named.input + named.output + named.cache_read + named.cache_write,
        cost,
        ..Usage::default()
    }
}

fn message_chars(message: &Message) -> usize {
    let blocks = |blocks: &[Block]| blocks.iter().map(block_chars).sum::<usize>();
    match message {
        Message::User(user) => match &user.content {
            Content::Text(text) => text.len(),
            Content::Blocks(list) => blocks(list),
            Content::Nothing(()) => 0,
        },
        Message::Custom(custom) => match &custom.content {
            Content::Text(text) => text.len(),
            Content::Blocks(list) => blocks(list),
            Content::Nothing(()) => 0,
        },
        Message::Assistant(answer) => blocks(&answer.content),
        Message::ToolResult(result) => blocks(&result.content),
        Message::BashExecution(run) => run.command.len() + run.output.len(),
        Message::BranchSummary(branch) => branch.summary.len(),
        Message::CompactionSummary(compaction) => compaction.summary.len(),
        Message::System(_) | Message::Other(_) => 0,
    }
}

fn block_chars(block: &Block) -> usize {
    match block {
        Block::Text { text, .. } | Block::Thinking { thinking: text, .. } => text.len(),
        Block::ToolCall(call) => call.name.len() + value_chars(&call.arguments),
        Block::Image { .. } | Block::Other(_) => 0,
    }
}

/// About the length of the value's JSON text.
fn value_chars(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(value_chars).sum::<usize>() + 2,
        Value::Object(object) => {
            object.iter().map(|(key, value)| key.len() + value_chars(value) + 3).sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
    }
}

#[cfg(test)]
mod tests;
