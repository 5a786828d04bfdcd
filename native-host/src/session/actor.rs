//! The task of a session: takes commands, performs the steps that [`RunState`] decides, and carries at most
//! one piece of work at a time.

mod compact;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use host_abi::ops::{self, DeliverAs, Disposition, Idle, Prompted, Sent};
use host_abi::{AbiError, codes, gates as abi};
use legion_ext::clock;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::command::{Ack, Command, TextTo};
use super::compaction::{CompactionPolicy, Summary};
use super::convert::{custom, disposition, messages_from, queue_of, result_message};
use super::event::Teller;
use super::gates::{Gates, InputVerdict, Opening};
use super::model_call::{self, Answer};
use super::prompt::{Prompt, PromptSource};
use super::request::request_messages;
use super::run_state::{Queue, Route, RunState, Step, Wake};
use super::shared::Shared;
use super::tool_batch::{Batch, Finished};
use super::toolset::ToolSet;
use super::{LastAnswer, Parts};
use crate::provider::{ModelRef, ModelRegistry, ModelRequest, Provider, RequestSession};
use crate::session_file::{AssistantMessage, EntryBody, Message, SessionFile, StopReason, ToolResultMessage};
use crate::tools::HostEnv;

pub(super) struct Actor {
    inbox: mpsc::UnboundedReceiver<Command>,
    shared: Arc<Shared>,
    teller: Arc<Teller>,
    gates: Gates,
    file: SessionFile,
    state: RunState<Message>,
    tools: ToolSet,
    source: PromptSource,
    /// The system prompt of the present run.
    prompt: String,
    models: ModelRegistry,
    env: Arc<HostEnv>,
    /// Texts on their way through the `input` gate, in the order in which they came.
    intake: FuturesOrdered<BoxFuture<'static, Intake>>,
    work: Option<BoxFuture<'static, Done>>,
    /// Ends the work of the present run.
    cancel: CancellationToken,
    /// No run begins any more.
    ending: bool,
    waiters: Vec<Waiter>,
    /// Runs that the host itself could not bring to their end.
    broken: HashMap<u64, AbiError>,
    failure: Option<AbiError>,
    compaction: CompactionPolicy,
    compacting: Option<Ack<Result<(), AbiError>>>,
    /// Whether a summary is written in the middle of a run, whose model request waits for it.
    making_room: bool,
    /// The answer and the results of the present turn.
    answer: Option<AssistantMessage>,
    results: Vec<ToolResultMessage>,
    /// Where in the file the present model loop began.
    loop_from: usize,
    told_pending: usize,
}

struct Waiter {
    run: Option<u64>,
    ack: Ack<Result<Idle, AbiError>>,
}

/// A text that has passed the `input` gate.
struct Intake {
    verdict: InputVerdict,
    to: TextTo,
    ack: Ack<Result<Prompted, AbiError>>,
}

/// The end of a piece of work.
enum Done {
    Opened(Prompt, Vec<abi::CustomMessage>),
    Answered(Answer),
    Ran(Vec<Finished>),
    Waited,
    MaySettle(abi::AgentBeforeSettleAnswer),
    Summarized(Result<Summary, String>),
    Panicked,
}

impl Actor {
    pub fn new(
        inbox: mpsc::UnboundedReceiver<Command>,
        shared: Arc<Shared>,
        teller: Arc<Teller>,
        gates: Gates,
        parts: Parts,
    ) -> Actor {
        let Parts { file, tools, prompt, policy, compaction, models, env } = parts;
        Actor {
            inbox,
            shared,
            teller,
            gates,
            file,
            state: RunState::new(policy),
            tools,
            source: prompt,
            prompt: String::new(),
            models,
            env,
            intake: FuturesOrdered::new(),
            work: None,
            cancel: CancellationToken::new(),
            ending: false,
            waiters: Vec::new(),
            broken: HashMap::new(),
            failure: None,
            compaction,
            compacting: None,
            making_room: false,
            answer: None,
            results: Vec::new(),
            loop_from: 0,
            told_pending: 0,
        }
    }

    /// Until the session is closed. Commands come before the end of work, so that what was sent during a
    /// step is there when the next one is decided.
    pub async fn run(mut self) {
        let closed = 'open: loop {
            let done = tokio::select! {
                biased;
                command = self.inbox.recv() => match command {
                    None => break None,
                    Some(Command::Close { ack }) => break ack,
                    Some(command) => {
                        self.command(command);
                        continue;
                    }
                },
                Some(intake) = self.intake.next(), if !self.intake.is_empty() => {
                    self.take(intake);
                    continue;
                }
                done = poll_work(&mut self.work) => done,
            };
            self.work = None;
            // Work may send and end in one go, as a gate does that answers at once: what it sent was sent before.
            while let Ok(command) = self.inbox.try_recv() {
                match command {
                    Command::Close { ack } => break 'open ack,
                    command => self.command(command),
                }
            }
            self.done(done);
        };
        // What is dropped here ends: requests, tools with their process groups, calls into extensions.
        drop(self);
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Text { text, source, to, ack } => self.text(text, source, to, ack),
            Command::Send { message, ack } => {
                if ack.as_ref().is_some_and(Ack::is_closed) {
                    return;
                }
                let sent = self.send(message);
                answer(ack, sent);
            }
            Command::AppendEntry { entry, ack } => {
                let body = EntryBody::Custom { custom_type: entry.custom_type, data: Some(entry.data) };
                let appended = self.file.append(body).map(|_| ()).map_err(|error| AbiError::host(error.to_string()));
                answer(Some(ack), appended);
            }
            Command::SetActiveTools { tools, ack } => {
                self.tools.set_active(&tools);
                self.sync();
                answer(Some(ack), ());
            }
            Command::Abort { drop_queue } => {
                if self.state.abort(drop_queue) {
                    self.cancel.cancel();
                }
                self.sync();
            }
            Command::EndRuns => {
                self.ending = true;
                if self.state.abort(false) {
                    self.cancel.cancel();
                }
                self.sync();
            }
            Command::WaitIdle { run, ack } => self.wait_idle(run, ack),
            Command::Compact { ack } => self.compact(ack),
            Command::Entries { query, ack } => answer(Some(ack), self.entries(&query)),
            Command::Messages { limit, ack } => {
                let messages = self.file.build_context().messages;
                let skip = limit.map_or(0, |limit| messages.len().saturating_sub(limit as usize));
                answer(Some(ack), messages.iter().skip(skip).filter_map(|m| serde_json::to_value(m).ok()).collect());
            }
            Command::LastAnswer { ack } => answer(Some(ack), self.last_answer()),
            // The loop above takes it.
            Command::Close { ack } => answer(ack, ()),
        }
    }

    fn text(&mut self, text: String, source: &'static str, to: TextTo, ack: Ack<Result<Prompted, AbiError>>) {
        if self.intake.is_empty() && !self.gates.has(abi::names::INPUT) {
            return self.take(Intake { verdict: InputVerdict::Take(text), to, ack });
        }
        let gates = self.gates.clone();
        let gone = self.shared.gone.clone();
        self.intake
            .push_back(Box::pin(async move { Intake { verdict: gates.input(text, source, &gone).await, to, ack } }));
    }

    /// A text enters the session, unless its sender went away meanwhile.
    fn take(&mut self, intake: Intake) {
        let Intake { verdict, to, ack } = intake;
        if ack.is_closed() {
            return;
        }
        let InputVerdict::Take(text) = verdict else {
            return answer(Some(ack), Ok(Prompted { disposition: Disposition::Handled, run: None }));
        };
        let (queue, wake) = match to {
            TextTo::Prompt(deliver) => (queue_of(deliver.unwrap_or(DeliverAs::Steer)), Wake::Yes),
            TextTo::Steer => (Queue::Steer, Wake::Keep),
            TextTo::FollowUp => (Queue::FollowUp, Wake::Keep),
        };
        let starts = self.state.idle() && wake == Wake::Yes && queue != Queue::NextTurn;
        if starts && let Err(error) = self.ready_to_start() {
            return answer(Some(ack), Err(error));
        }
        let active = !self.state.idle();
        let (route, steps) = self.state.deliver(Message::user(text, clock::now_ms()), queue, wake);
        let run = match route {
            Route::Started => Some(self.state.run()),
            Route::Queued if active && queue != Queue::NextTurn => Some(self.state.run()),
            Route::Queued | Route::Appended => None,
        };
        answer(Some(ack), Ok(Prompted { disposition: disposition(route), run }));
        self.perform(steps);
    }

    fn send(&mut self, send: ops::SendMessage) -> Result<Sent, AbiError> {
        let queue = queue_of(send.deliver_as.unwrap_or(DeliverAs::Steer));
        let wake = match send.trigger_turn {
            // Kept for whoever resumes the session.
            Some(true) if self.ending => Wake::Never,
            Some(true) => Wake::Yes,
            Some(false) => Wake::Never,
            None => Wake::No,
        };
        if self.compacting.is_some() && wake == Wake::Yes && queue != Queue::NextTurn {
            return Err(compaction_in_progress());
        }
        let (route, steps) = self.state.deliver(custom(send.message), queue, wake);
        self.perform(steps);
        match self.failure.take_if(|_| self.state.idle()) {
            Some(error) => Err(error),
            None => Ok(Sent { disposition: disposition(route) }),
        }
    }

    /// Whether a run can begin: the reasons here are told before acceptance (PI-8).
    fn ready_to_start(&self) -> Result<(), AbiError> {
        if self.ending {
            return Err(AbiError::host("the session is about to end; it begins no run any more"));
        }
        if self.compacting.is_some() {
            return Err(compaction_in_progress());
        }
        let model = self.shared.live().model.model_ref();
        match self.models.info(&model) {
            None => Err(AbiError::host(format!("provider '{}' has no model '{}'", model.provider, model.id))),
            Some(info) if !info.has_credentials => {
                Err(AbiError::host(format!("no API key for provider '{}' of model '{model}'", model.provider))
                    .with_hint("add one to auth.json or set its environment variable"))
            }
            Some(_) => Ok(()),
        }
    }

    fn wait_idle(&mut self, run: Option<u64>, ack: Ack<Result<Idle, AbiError>>) {
        self.waiters.retain(|waiter| !waiter.ack.is_closed());
        let over = match run {
            Some(run) => self.state.ended(run).map(|aborted| (run, aborted)),
            None if self.state.idle() && self.compacting.is_none() => {
                let run = self.state.run();
                Some((run, self.state.ended(run).unwrap_or(false)))
            }
            None => None,
        };
        match over {
            Some((run, aborted)) => answer(Some(ack), self.idle_answer(run, aborted)),
            None => self.waiters.push(Waiter { run, ack }),
        }
    }

    fn idle_answer(&self, run: u64, aborted: bool) -> Result<Idle, AbiError> {
        match self.broken.get(&run) {
            Some(error) => Err(error.clone()),
            None => Ok(Idle { aborted }),
        }
    }

    fn entries(&self, query: &ops::GetEntries) -> Vec<Value> {
        let branch = self.file.branch();
        let since = query.since_id.as_deref();
        let start = since.and_then(|id| branch.iter().position(|entry| entry.id == id)).map_or(0, |at| at + 1);
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        branch[start..].iter().take(limit).filter_map(|entry| serde_json::to_value(entry).ok()).collect()
    }

    fn last_answer(&self) -> LastAnswer {
        let branch = self.file.branch();
        let last = branch.iter().rev().find_map(|entry| match &entry.body {
            EntryBody::Message { message: Message::Assistant(answer) } => Some(answer),
            _ => None,
        });
        let Some(last) = last else { return LastAnswer::default() };
        let failed = matches!(last.stop_reason, StopReason::Error | StopReason::Aborted);
        let words = || last.error_message.clone().unwrap_or_else(|| "the request failed".to_owned());
        LastAnswer { text: Some(last.text()).filter(|text| !text.is_empty()), error: failed.then(words) }
    }

    /// Does the steps in their order. After a failure of the host no new work is begun.
    fn perform(&mut self, steps: Vec<Step<Message>>) {
        for step in steps {
            match step {
                Step::AgentStart => {
                    self.loop_from = self.file.entries().len();
                    self.teller.agent_start();
                }
                Step::TurnStart(turn) => {
                    self.answer = None;
                    self.results.clear();
                    self.sync();
                    self.teller.turn_start(turn);
                }
                Step::Append(message) => {
                    self.teller.message_start(&message);
                    self.append(message, None);
                }
                Step::TurnEnd(turn) => {
                    let content = || (self.answer.clone(), self.results.clone());
                    self.teller.turn_end(turn, content);
                }
                Step::AgentEnd => self.teller.agent_end(|| messages_from(&self.file, self.loop_from)),
                Step::RetryStart { attempt, max, delay_ms } => {
                    self.teller.retry_start(attempt, max, delay_ms, self.error_text().unwrap_or_default());
                }
                Step::RetryEnd { success, attempt } => {
                    self.teller.retry_end(success, attempt, self.error_text().filter(|_| !success));
                }
                Step::Settled { run, aborted } => self.settled(run, aborted),
                work => return self.begin(work),
            }
        }
        self.sync();
    }

    fn begin(&mut self, work: Step<Message>) {
        if self.failure.is_some() {
            let steps = self.state.broken();
            return self.perform(steps);
        }
        let work = match work {
            Step::AskBeforeStart => self.open_run(),
            Step::AskModel => self.make_room().unwrap_or_else(|| self.ask_model()),
            Step::RunTools => self.run_tools(),
            Step::Wait(delay_ms) => {
                let cancel = self.cancel.clone();
                Box::pin(async move {
                    cancel.run_until_cancelled(tokio::time::sleep(Duration::from_millis(delay_ms))).await;
                    Done::Waited
                })
            }
            Step::AskBeforeSettle(outcome) => {
                let (gates, cancel) = (self.gates.clone(), self.cancel.clone());
                Box::pin(async move { Done::MaySettle(gates.before_settle(outcome, &cancel).await) })
            }
            Step::AgentStart
            | Step::TurnStart(_)
            | Step::Append(_)
            | Step::TurnEnd(_)
            | Step::AgentEnd
            | Step::RetryStart { .. }
            | Step::RetryEnd { .. }
            | Step::Settled { .. } => return,
        };
        self.set_work(work);
        self.sync();
    }

    fn set_work(&mut self, work: BoxFuture<'static, Done>) {
        self.work = Some(Box::pin(AssertUnwindSafe(work).catch_unwind().map(|done| done.unwrap_or(Done::Panicked))));
    }

    fn open_run(&mut self) -> BoxFuture<'static, Done> {
        self.cancel = CancellationToken::new();
        if self.state.aborting() {
            self.cancel.cancel();
        }
        let opening = match self.state.opening() {
            Some(Message::Custom(message)) => Opening {
                custom: Some(abi::CustomText {
                    custom_type: message.custom_type.clone(),
                    content: message.content.text(),
                }),
                prompt: None,
            },
            Some(Message::User(message)) => Opening { prompt: Some(message.content.text()), custom: None },
            _ => Opening::default(),
        };
        let date = clock::iso(clock::now_ms());
        let cwd = &self.shared.identity.cwd;
        let mut prompt = Prompt::new(self.source.text(&self.tools.defs(), cwd, date.get(..10).unwrap_or_default()));
        self.teller
            .extensions
            .iter()
            .filter_map(|extension| extension.section())
            .for_each(|section| prompt.put(section));
        let (gates, cancel) = (self.gates.clone(), self.cancel.clone());
        Box::pin(async move {
            let (prompt, messages) = gates.before_agent_start(opening, prompt, &cancel).await;
            Done::Opened(prompt, messages)
        })
    }

    fn ask_model(&mut self) -> BoxFuture<'static, Done> {
        let (model, thinking) = {
            let live = self.shared.live();
            (live.model.model_ref(), live.thinking)
        };
        let identity = &self.shared.identity;
        let request = ModelRequest {
            model: model.clone(),
            thinking,
            system_prompt: self.prompt.clone(),
            messages: request_messages(self.file.build_context().messages, clock::now_ms()),
            tools: self.tools.specs(),
            session: RequestSession {
                id: identity.session_id.clone(),
                role: identity.role.clone(),
                name: identity.name.clone(),
                cwd: identity.cwd.to_string_lossy().into_owned(),
            },
            cancel: self.cancel.clone(),
        };
        let provider = self.provider(&model);
        let teller = Arc::clone(&self.teller);
        Box::pin(async move { Done::Answered(model_call::ask(provider, request, teller).await) })
    }

    fn provider(&self, model: &ModelRef) -> Arc<dyn Provider> {
        self.models.provider(&model.provider).unwrap_or_else(|| Arc::new(model_call::NoProvider(model.clone())))
    }

    fn run_tools(&mut self) -> BoxFuture<'static, Done> {
        let batch = Batch {
            calls: self.answer.iter().flat_map(AssistantMessage::tool_calls).cloned().collect(),
            tools: self.tools.clone(),
            gates: self.gates.clone(),
            teller: Arc::clone(&self.teller),
            cwd: self.shared.identity.cwd.clone(),
            env: Arc::clone(&self.env),
            session: self.shared.session_env(),
            cancel: self.cancel.clone(),
        };
        Box::pin(async move { Done::Ran(batch.run().await) })
    }

    fn done(&mut self, done: Done) {
        let steps = match done {
            Done::Opened(prompt, messages) => {
                self.prompt = prompt.text();
                self.state.opened(messages.into_iter().map(custom).collect())
            }
            Done::Answered(answered) => {
                let Answer { message, end, duration } = answered;
                if message.usage.total_tokens > 0 {
                    self.shared.live().context_tokens = Some(message.usage.total_tokens);
                }
                self.append(Message::Assistant(message.clone()), Some(duration));
                self.answer = Some(message);
                self.state.model_done(end)
            }
            Done::Ran(finished) => {
                let terminate = !finished.is_empty() && finished.iter().all(|call| call.output.terminate);
                for call in finished {
                    let result = result_message(call);
                    self.results.push(result.clone());
                    let message = Message::ToolResult(result);
                    self.teller.message_start(&message);
                    self.append(message, None);
                }
                self.state.tools_done(terminate)
            }
            Done::Waited => self.state.backoff_over(),
            Done::MaySettle(answer) => {
                let messages = answer.messages.into_iter().map(custom).collect();
                self.state.settle_answered(messages, answer.continue_run)
            }
            Done::Summarized(summary) => return self.summarized(summary),
            Done::Panicked => {
                let what = format!("the session '{}' panicked in mid-run", self.shared.identity.name);
                tracing::error!("{what}");
                self.failure = Some(AbiError::new(codes::PANIC, what));
                if self.compacting.is_some() {
                    return self.summarized(Err("the summary panicked".to_owned()));
                }
                self.state.broken()
            }
        };
        self.perform(steps);
    }

    /// Puts a message into the session and tells of it. What cannot be written ends the run.
    fn append(&mut self, message: Message, duration: Option<Duration>) {
        match self.file.append_message(message.clone()) {
            Ok(entry) => {
                if let Some(usage) = entry.body.usage() {
                    self.shared.live().usage.add(usage);
                }
                self.teller.message_end(&message, duration);
            }
            Err(error) => {
                tracing::error!("{error}");
                self.failure.get_or_insert_with(|| AbiError::host(error.to_string()));
            }
        }
    }

    fn settled(&mut self, run: u64, aborted: bool) {
        if let Some(error) = self.failure.take() {
            self.broken.insert(run, error);
        }
        self.sync();
        self.teller.agent_settled(run, aborted);
        let idle = self.compacting.is_none();
        let over = |waiter: &mut Waiter| waiter.run.map_or(idle, |wanted| wanted <= run);
        for waiter in self.waiters.extract_if(.., over).collect::<Vec<_>>() {
            let wanted = waiter.run.unwrap_or(run);
            let aborted = self.state.ended(wanted).unwrap_or(aborted);
            answer(Some(waiter.ack), self.idle_answer(wanted, aborted));
        }
        if self.compacting.is_some() {
            self.summarize();
        }
    }

    fn error_text(&self) -> Option<&str> {
        self.answer.as_ref().and_then(|answer| answer.error_message.as_deref())
    }

    /// Brings the facts that others read up to date.
    fn sync(&mut self) {
        let pending = self.state.pending();
        {
            let mut live = self.shared.live();
            live.idle = self.state.idle();
            live.pending = u32::try_from(pending).unwrap_or(u32::MAX);
            live.runs = self.state.run();
            if live.tools != self.tools.active() {
                live.tools = self.tools.active().to_vec();
            }
        }
        if std::mem::replace(&mut self.told_pending, pending) != pending {
            let texts = |message: &Message| match message {
                Message::User(user) => user.content.text(),
                Message::Custom(custom) => custom.content.text(),
                _ => String::new(),
            };
            let (steering, follow_ups) = self.state.queues();
            self.teller.queue_update(|| (steering.map(texts).collect(), follow_ups.map(texts).collect()));
        }
    }
}

/// Ends when there is work and it ends.
async fn poll_work(work: &mut Option<BoxFuture<'static, Done>>) -> Done {
    match work {
        Some(work) => Pin::new(work).await,
        None => std::future::pending().await,
    }
}

/// Answers whoever still listens.
fn answer<T>(ack: Option<Ack<T>>, value: T) {
    let _ = ack.map(|ack| ack.send(value));
}

fn compaction_in_progress() -> AbiError {
    AbiError::host("the session is being compacted; try again when that is done")
}
