//! The decisions of the agent loop, without any input or output: what a session does next.
//!
//! A session is idle or in a *run*. A run asks the model, runs the tools it calls, asks again, until nothing
//! is left to do; then it asks its extensions whether it may settle. [`RunState`] takes what happened and
//! answers with [`Step`]s, to be done in their order; at most the last one is work that takes time, and its
//! end comes back as the next event.
//!
//! ```text
//!        begin                opened            answer with calls
//!  Idle ───────▶ Opening ───────────▶ Model ─────────────────────▶ Tools
//!   ▲                                 ▲  │ ▲                         │
//!   │ settle_answered                 │  │ └─────────────────────────┘ tools_done
//!   └──────────────── Settling ◀──────┼──┘ answer without calls, final failure
//!                                     └─ Backoff ◀─ failure that may pass
//! ```
//!
//! `M` is a message; the machine moves messages and never looks into them.

use std::collections::VecDeque;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Idle,
    /// Extensions are asked what to add to the run that begins.
    Opening,
    /// The model is asked.
    Model,
    /// A failed model request waits for its repetition.
    Backoff,
    Tools,
    /// Extensions are asked whether the run may settle.
    Settling,
}

/// How a run ended, or would end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Completed,
    Error,
}

/// One thing to do.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<M> {
    /// Tell that the model loop begins.
    AgentStart,
    /// Tell that a turn begins; turns count from 0 within a run.
    TurnStart(u32),
    /// Put the message into the session.
    Append(M),
    TurnEnd(u32),
    AgentEnd,
    /// Tell that the failed request will be repeated after `delay_ms`.
    RetryStart {
        attempt: u32,
        max: u32,
        delay_ms: u64,
    },
    /// Tell how the repetitions ended.
    RetryEnd {
        success: bool,
        attempt: u32,
    },
    /// Tell that the run is over. The session is idle.
    Settled {
        run: u64,
        aborted: bool,
    },
    /// Work: ask extensions before the run begins; answer with [`RunState::opened`].
    AskBeforeStart,
    /// Work: ask the model; answer with [`RunState::model_done`].
    AskModel,
    /// Work: run the calls of the last answer; answer with [`RunState::tools_done`].
    RunTools,
    /// Work: wait; answer with [`RunState::backoff_over`].
    Wait(u64),
    /// Work: ask extensions before the run settles; answer with [`RunState::settle_answered`].
    AskBeforeSettle(Outcome),
}

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// For the next model request.
    Steer,
    /// For the time when the run has nothing else to do.
    FollowUp,
    /// For the next run; it never begins one.
    NextTurn,
}

/// What a message may set in motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It begins a run in an idle session.
    Yes,
    /// An idle session takes it at once, without a model request.
    No,
    /// It never causes a model request, in an active session either.
    Never,
    /// An idle session keeps it in its queue.
    Keep,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Started,
    Queued,
    Appended,
}

/// How a model request ended. Its message is in the session already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelEnd {
    Answered { calls: bool },
    Failed { retryable: bool, retry_after_ms: Option<u64> },
    Aborted,
}

/// How many of the waiting messages go into one model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueMode {
    #[default]
    OneAtATime,
    All,
}

/// Repetition of failed model requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// 0 repeats nothing.
    pub max: u32,
    /// Doubled with each attempt.
    pub base_delay_ms: u64,
    /// A provider that asks for a longer wait than this is not asked again; 0 waits as long as it says.
    pub max_delay_ms: u64,
}

/// What does not change while a session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    pub steering: QueueMode,
    pub follow_up: QueueMode,
    pub retry: RetryPolicy,
}

/// The loop of one session.
#[derive(Debug, Clone)]
pub struct RunState<M> {
    policy: Policy,
    phase: Phase,
    /// Runs begun so far; the present one has this number.
    runs: u64,
    turn: u32,
    /// Failed attempts of the present model request.
    failures: u32,
    aborting: bool,
    /// Whether each run that ended was aborted, from the first.
    ended: Vec<bool>,
    opening: Vec<M>,
    steer: VecDeque<M>,
    follow_up: VecDeque<M>,
    next_turn: Vec<M>,
    at_turn_end: Vec<M>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max: 3, base_delay_ms: 2_000, max_delay_ms: 60_000 }
    }
}

impl<M> RunState<M> {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            phase: Phase::Idle,
            runs: 0,
            turn: 0,
            failures: 0,
            aborting: false,
            ended: Vec::new(),
            opening: Vec::new(),
            steer: VecDeque::new(),
            follow_up: VecDeque::new(),
            next_turn: Vec::new(),
            at_turn_end: Vec::new(),
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether the present run is being ended.
    pub fn aborting(&self) -> bool {
        self.aborting
    }

    /// Number of the present or last run; 0 before the first.
    pub fn run(&self) -> u64 {
        self.runs
    }

    /// Whether that run was aborted, once it ended.
    pub fn ended(&self, run: u64) -> Option<bool> {
        let at = usize::try_from(run.checked_sub(1)?).ok()?;
        self.ended.get(at).copied()
    }

    /// Messages that wait in any queue.
    pub fn pending(&self) -> usize {
        self.steer.len() + self.follow_up.len() + self.next_turn.len() + self.at_turn_end.len()
    }

    /// The message that begins the present run, while that opens.
    pub fn opening(&self) -> Option<&M> {
        self.opening.first()
    }

    /// The waiting steering and follow-up messages.
    pub fn queues(&self) -> (impl Iterator<Item = &M>, impl Iterator<Item = &M>) {
        (self.steer.iter(), self.follow_up.iter())
    }

    /// A message comes from outside.
    pub fn deliver(&mut self, message: M, queue: Queue, wake: Wake) -> (Route, Vec<Step<M>>) {
        if queue == Queue::NextTurn {
            self.next_turn.push(message);
            return (Route::Queued, Vec::new());
        }
        match (self.phase, wake) {
            (Phase::Idle, Wake::Yes) => (Route::Started, self.begin(message)),
            (Phase::Idle, Wake::No | Wake::Never) => (Route::Appended, vec![Step::Append(message)]),
            // Between turns there is no end of a turn to wait for.
            (Phase::Backoff | Phase::Settling, Wake::Never) => (Route::Appended, vec![Step::Append(message)]),
            (Phase::Opening | Phase::Model | Phase::Tools, Wake::Never) => {
                self.at_turn_end.push(message);
                (Route::Appended, Vec::new())
            }
            (Phase::Idle, Wake::Keep)
            | (
                Phase::Opening | Phase::Model | Phase::Backoff | Phase::Tools | Phase::Settling,
                Wake::Yes | Wake::No | Wake::Keep,
            ) => {
                match queue {
                    Queue::Steer => self.steer.push_back(message),
                    Queue::FollowUp | Queue::NextTurn => self.follow_up.push_back(message),
                }
                (Route::Queued, Vec::new())
            }
        }
    }

    /// Ends the present run; the work in hand ends soon and reports as always. `drop_queue` forgets what
    /// waits for it. Whether there was a run to end.
    pub fn abort(&mut self, drop_queue: bool) -> bool {
        if self.idle() {
            return false;
        }
        if drop_queue {
            self.steer.clear();
            self.follow_up.clear();
        }
        self.aborting = true;
        true
    }

    /// Extensions were asked; `added` are their messages.
    pub fn opened(&mut self, added: Vec<M>) -> Vec<Step<M>> {
        let mut steps = vec![Step::AgentStart, Step::TurnStart(self.turn)];
        steps.extend(self.opening.drain(..).map(Step::Append));
        steps.extend(self.next_turn.drain(..).map(Step::Append));
        steps.extend(added.into_iter().map(Step::Append));
        if !self.aborting {
            steps.extend(self.take_steering().into_iter().map(Step::Append));
        }
        self.ask_model(steps)
    }

    /// The model request ended.
    pub fn model_done(&mut self, end: ModelEnd) -> Vec<Step<M>> {
        match end {
            ModelEnd::Answered { calls } => {
                let mut steps = self.retries_over(true);
                if calls {
                    self.phase = Phase::Tools;
                    steps.push(Step::RunTools);
                    steps
                } else {
                    self.turn_over(false, steps)
                }
            }
            ModelEnd::Failed { retryable, retry_after_ms } => {
                let mut steps = self.close_turn();
                steps.push(Step::AgentEnd);
                if self.aborting {
                    return self.settle(true, steps);
                }
                match self.repetition(retryable, retry_after_ms) {
                    Some(delay_ms) => {
                        self.failures += 1;
                        self.phase = Phase::Backoff;
                        let max = self.policy.retry.max;
                        steps.push(Step::RetryStart { attempt: self.failures, max, delay_ms });
                        steps.push(Step::Wait(delay_ms));
                        steps
                    }
                    None => {
                        steps.extend(self.retries_over(false));
                        self.ask_to_settle(Outcome::Error, steps)
                    }
                }
            }
            ModelEnd::Aborted => {
                let mut steps = self.close_turn();
                steps.push(Step::AgentEnd);
                self.settle(true, steps)
            }
        }
    }

    /// The wait before a repetition is over.
    pub fn backoff_over(&mut self) -> Vec<Step<M>> {
        if self.aborting {
            return self.settle(true, Vec::new());
        }
        self.turn += 1;
        let steps = vec![Step::AgentStart, Step::TurnStart(self.turn)];
        self.ask_model(steps)
    }

    /// All calls have their results, which are in the session. `terminate`: every one of them asks to end
    /// the run.
    pub fn tools_done(&mut self, terminate: bool) -> Vec<Step<M>> {
        self.turn_over(!terminate, Vec::new())
    }

    /// Extensions were asked before the run settles. `more` asks for another model request; without a
    /// message in hand it asks for nothing.
    pub fn settle_answered(&mut self, messages: Vec<M>, more: bool) -> Vec<Step<M>> {
        let continued = more && !messages.is_empty();
        // What waits here came during the settling, or is left over by a failed request: its sender was told
        // that this run takes it.
        let waiting = !self.steer.is_empty() || !self.follow_up.is_empty();
        if self.aborting || !(waiting || continued) {
            let steps = messages.into_iter().map(Step::Append).collect();
            return self.settle(self.aborting, steps);
        }
        self.turn += 1;
        let mut steps = vec![Step::AgentStart, Step::TurnStart(self.turn)];
        steps.extend(messages.into_iter().map(Step::Append));
        let steering = self.take_steering();
        let queued = if steering.is_empty() && !continued { self.take_follow_ups() } else { steering };
        steps.extend(queued.into_iter().map(Step::Append));
        self.ask_model(steps)
    }

    /// The host itself failed, such as by a session file that cannot be written: the run is over now.
    pub fn broken(&mut self) -> Vec<Step<M>> {
        let steps = match self.phase {
            Phase::Idle => return Vec::new(),
            Phase::Opening | Phase::Backoff | Phase::Settling => Vec::new(),
            Phase::Model | Phase::Tools => {
                let mut steps = self.close_turn();
                steps.push(Step::AgentEnd);
                steps
            }
        };
        self.settle(self.aborting, steps)
    }

    fn begin(&mut self, message: M) -> Vec<Step<M>> {
        self.runs += 1;
        self.turn = 0;
        self.failures = 0;
        self.aborting = false;
        self.phase = Phase::Opening;
        self.opening.push(message);
        vec![Step::AskBeforeStart]
    }

    fn ask_model(&mut self, mut steps: Vec<Step<M>>) -> Vec<Step<M>> {
        self.phase = Phase::Model;
        steps.push(Step::AskModel);
        steps
    }

    /// A turn came to its end; `more`: the model waits for the results of its calls.
    fn turn_over(&mut self, more: bool, mut steps: Vec<Step<M>>) -> Vec<Step<M>> {
        steps.extend(self.close_turn());
        if self.aborting {
            // The next request is refused by its cancelled token, which leaves the aborted message that
            // readers of the transcript look for.
            if more {
                return self.next_turn(Vec::new(), steps);
            }
            steps.push(Step::AgentEnd);
            return self.settle(true, steps);
        }
        let steering = self.take_steering();
        if more || !steering.is_empty() {
            return self.next_turn(steering, steps);
        }
        let follow_ups = self.take_follow_ups();
        if !follow_ups.is_empty() {
            return self.next_turn(follow_ups, steps);
        }
        steps.push(Step::AgentEnd);
        self.ask_to_settle(Outcome::Completed, steps)
    }

    fn next_turn(&mut self, messages: Vec<M>, mut steps: Vec<Step<M>>) -> Vec<Step<M>> {
        self.turn += 1;
        steps.push(Step::TurnStart(self.turn));
        steps.extend(messages.into_iter().map(Step::Append));
        self.ask_model(steps)
    }

    fn close_turn(&mut self) -> Vec<Step<M>> {
        let mut steps = vec![Step::TurnEnd(self.turn)];
        steps.extend(self.at_turn_end.drain(..).map(Step::Append));
        steps
    }

    fn ask_to_settle(&mut self, outcome: Outcome, mut steps: Vec<Step<M>>) -> Vec<Step<M>> {
        self.phase = Phase::Settling;
        steps.push(Step::AskBeforeSettle(outcome));
        steps
    }

    fn settle(&mut self, aborted: bool, mut steps: Vec<Step<M>>) -> Vec<Step<M>> {
        steps.extend(self.retries_over(false));
        steps.extend(self.opening.drain(..).map(Step::Append));
        steps.extend(self.at_turn_end.drain(..).map(Step::Append));
        self.phase = Phase::Idle;
        self.aborting = false;
        self.ended.push(aborted);
        steps.push(Step::Settled { run: self.runs, aborted });
        steps
    }

    fn retries_over(&mut self, success: bool) -> Vec<Step<M>> {
        match std::mem::take(&mut self.failures) {
            0 => Vec::new(),
            attempt => vec![Step::RetryEnd { success, attempt }],
        }
    }

    /// The wait before the next attempt, if there is one.
    fn repetition(&self, retryable: bool, retry_after_ms: Option<u64>) -> Option<u64> {
        let retry = self.policy.retry;
        let too_long = retry_after_ms.is_some_and(|wait| retry.max_delay_ms > 0 && wait > retry.max_delay_ms);
        if !retryable || too_long || self.failures >= retry.max {
            return None;
        }
        let own = retry.base_delay_ms.saturating_mul(1 << self.failures.min(16));
        Some(own.max(retry_after_ms.unwrap_or(0)))
    }

    fn take_steering(&mut self) -> Vec<M> {
        take(&mut self.steer, self.policy.steering)
    }

    fn take_follow_ups(&mut self) -> Vec<M> {
        take(&mut self.follow_up, self.policy.follow_up)
    }
}

fn take<M>(queue: &mut VecDeque<M>, mode: QueueMode) -> Vec<M> {
    match mode {
        QueueMode::OneAtATime => queue.pop_front().into_iter().collect(),
        QueueMode::All => queue.drain(..).collect(),
    }
}

#[cfg(test)]
mod tests;
