use super::*;

type Machine = RunState<&'static str>;

const CALLS: ModelEnd = ModelEnd::Answered { calls: true };
const TEXT: ModelEnd = ModelEnd::Answered { calls: false };
const BUSY: ModelEnd = ModelEnd::Failed { retryable: true, retry_after_ms: None };
const REFUSED: ModelEnd = ModelEnd::Failed { retryable: false, retry_after_ms: None };

fn machine() -> Machine {
    RunState::new(Policy { retry: RetryPolicy { max: 2, base_delay_ms: 10, max_delay_ms: 1_000 }, ..Policy::default() })
}

/// A machine whose first request is out.
fn asking(text: &'static str) -> Machine {
    let mut machine = machine();
    assert_eq!(begin(&mut machine, text), ["ask-start"]);
    let steps = machine.opened(Vec::new());
    assert_eq!(show(steps), ["agent+", "turn+0", text, "model"]);
    machine
}

fn begin(machine: &mut Machine, text: &'static str) -> Vec<String> {
    let (route, steps) = machine.deliver(text, Queue::Steer, Wake::Yes);
    assert_eq!(route, Route::Started);
    show(steps)
}

fn queue(machine: &mut Machine, text: &'static str, queue: Queue) {
    let (route, steps) = machine.deliver(text, queue, Wake::Yes);
    assert_eq!(route, Route::Queued);
    assert!(steps.is_empty());
}

fn show(steps: Vec<Step<&'static str>>) -> Vec<String> {
    let show = |step: Step<&'static str>| match step {
        Step::AgentStart => "agent+".to_owned(),
        Step::TurnStart(turn) => format!("turn+{turn}"),
        Step::Append(text) => text.to_owned(),
        Step::TurnEnd(turn) => format!("turn-{turn}"),
        Step::AgentEnd => "agent-".to_owned(),
        Step::RetryStart { attempt, max, delay_ms } => format!("retry {attempt}/{max} {delay_ms}"),
        Step::RetryEnd { success, attempt } => format!("retried {attempt} {success}"),
        Step::Settled { run, aborted } => format!("settled {run}{}", if aborted { " aborted" } else { "" }),
        Step::AskBeforeStart => "ask-start".to_owned(),
        Step::AskModel => "model".to_owned(),
        Step::RunTools => "tools".to_owned(),
        Step::Wait(ms) => format!("wait {ms}"),
        Step::AskBeforeSettle(Outcome::Completed) => "ask-settle".to_owned(),
        Step::AskBeforeSettle(Outcome::Error) => "ask-settle error".to_owned(),
    };
    steps.into_iter().map(show).collect()
}

/// ABI-35: the order of a plain run.
#[test]
fn a_run_asks_runs_tools_and_settles() {
    let mut machine = asking("hi");
    assert_eq!(show(machine.model_done(CALLS)), ["tools"]);
    assert_eq!(show(machine.tools_done(false)), ["turn-0", "turn+1", "model"]);
    assert_eq!(show(machine.model_done(TEXT)), ["turn-1", "agent-", "ask-settle"]);
    assert_eq!(show(machine.settle_answered(Vec::new(), false)), ["settled 1"]);
    assert!(machine.idle());
    assert_eq!(machine.ended(1), Some(false));
    assert_eq!(machine.ended(2), None);
    assert_eq!(begin(&mut machine, "again"), ["ask-start"]);
    assert_eq!(machine.run(), 2);
}

/// NAT-7: steering enters after the tool calls and before the next request, one at a time; follow-ups at the end.
#[test]
fn steering_comes_before_the_next_request_and_follow_ups_at_the_end() {
    let mut machine = asking("hi");
    queue(&mut machine, "later", Queue::FollowUp);
    queue(&mut machine, "left", Queue::Steer);
    queue(&mut machine, "right", Queue::Steer);
    assert_eq!(show(machine.model_done(CALLS)), ["tools"]);
    assert_eq!(show(machine.tools_done(false)), ["turn-0", "turn+1", "left", "model"]);
    assert_eq!(show(machine.model_done(TEXT)), ["turn-1", "turn+2", "right", "model"]);
    assert_eq!(show(machine.model_done(TEXT)), ["turn-2", "turn+3", "later", "model"]);
    assert_eq!(show(machine.model_done(TEXT)), ["turn-3", "agent-", "ask-settle"]);
}

#[test]
fn a_queue_may_be_emptied_in_one_go() {
    let all = Policy { steering: QueueMode::All, follow_up: QueueMode::All, ..Policy::default() };
    let mut machine = Machine::new(all);
    assert_eq!(begin(&mut machine, "hi"), ["ask-start"]);
    queue(&mut machine, "a", Queue::Steer);
    queue(&mut machine, "b", Queue::Steer);
    assert_eq!(show(machine.opened(Vec::new())), ["agent+", "turn+0", "hi", "a", "b", "model"]);
}

/// ABI-56: what `triggerTurn` and `deliverAs` make of a message.
#[test]
fn a_message_is_started_queued_or_appended() {
    let idle = [
        (Queue::Steer, Wake::Yes, Route::Started, vec!["ask-start"]),
        (Queue::Steer, Wake::No, Route::Appended, vec!["x"]),
        (Queue::FollowUp, Wake::Never, Route::Appended, vec!["x"]),
        (Queue::NextTurn, Wake::Yes, Route::Queued, vec![]),
        (Queue::Steer, Wake::Keep, Route::Queued, vec![]),
        (Queue::FollowUp, Wake::Keep, Route::Queued, vec![]),
    ];
    for (queue, wake, route, steps) in idle {
        let mut machine = machine();
        let (taken, made) = machine.deliver("x", queue, wake);
        assert_eq!((taken, show(made)), (route, steps.into_iter().map(str::to_owned).collect()), "{queue:?} {wake:?}");
    }
    let active = [
        (Queue::Steer, Wake::Yes, Route::Queued),
        (Queue::FollowUp, Wake::No, Route::Queued),
        (Queue::Steer, Wake::Never, Route::Appended),
        (Queue::NextTurn, Wake::Yes, Route::Queued),
    ];
    for (queue, wake, route) in active {
        let mut machine = asking("hi");
        let (taken, made) = machine.deliver("x", queue, wake);
        assert_eq!((taken, made.len(), machine.pending()), (route, 0, 1), "{queue:?} {wake:?}");
    }
}

/// ABI-56: without a model request of its own, at the end of the turn.
#[test]
fn a_message_that_must_not_wake_enters_at_the_end_of_the_turn() {
    let mut machine = asking("hi");
    let (route, steps) = machine.deliver("note", Queue::Steer, Wake::Never);
    assert_eq!((route, steps.len()), (Route::Appended, 0));
    assert_eq!(show(machine.model_done(TEXT)), ["turn-0", "note", "agent-", "ask-settle"]);
    let (route, steps) = machine.deliver("late note", Queue::Steer, Wake::Never);
    assert_eq!((route, show(steps)), (Route::Appended, vec!["late note".to_owned()]));
}

/// ABI-57: an idle child keeps steering for its next prompt; `nextTurn` messages go along.
#[test]
fn kept_texts_enter_with_the_next_run() {
    let mut machine = machine();
    drop(machine.deliver("kept", Queue::Steer, Wake::Keep));
    drop(machine.deliver("context", Queue::NextTurn, Wake::No));
    assert_eq!(begin(&mut machine, "go"), ["ask-start"]);
    assert_eq!(
        show(machine.opened(vec!["from a gate"])),
        ["agent+", "turn+0", "go", "context", "from a gate", "kept", "model"]
    );
}

/// NAT-2: repeated with growing waits, visible, and bounded.
#[test]
fn a_passing_failure_is_repeated_and_a_lasting_one_ends_the_run() {
    let mut machine = asking("hi");
    assert_eq!(show(machine.model_done(BUSY)), ["turn-0", "agent-", "retry 1/2 10", "wait 10"]);
    assert_eq!(show(machine.backoff_over()), ["agent+", "turn+1", "model"]);
    assert_eq!(show(machine.model_done(BUSY)), ["turn-1", "agent-", "retry 2/2 20", "wait 20"]);
    assert_eq!(show(machine.backoff_over()), ["agent+", "turn+2", "model"]);
    let mut recovered = machine.clone();
    assert_eq!(show(machine.model_done(BUSY)), ["turn-2", "agent-", "retried 2 false", "ask-settle error"]);
    assert_eq!(show(machine.settle_answered(Vec::new(), false)), ["settled 1"]);
    assert_eq!(show(recovered.model_done(TEXT)), ["retried 2 true", "turn-2", "agent-", "ask-settle"]);
}

#[test]
fn no_repetition_without_hope() {
    let mut machine = asking("hi");
    assert_eq!(show(machine.model_done(REFUSED)), ["turn-0", "agent-", "ask-settle error"]);
    let mut machine = asking("hi");
    let long = ModelEnd::Failed { retryable: true, retry_after_ms: Some(3_600_000) };
    assert_eq!(show(machine.model_done(long)), ["turn-0", "agent-", "ask-settle error"]);
    let mut machine = asking("hi");
    let asked = ModelEnd::Failed { retryable: true, retry_after_ms: Some(500) };
    assert_eq!(show(machine.model_done(asked)), ["turn-0", "agent-", "retry 1/2 500", "wait 500"]);
}

/// GUARD-42, ABI-32: a batch of terminating results ends the run; steering that waits goes on.
#[test]
fn a_terminating_batch_ends_the_run() {
    let mut machine = asking("hi");
    assert_eq!(show(machine.model_done(CALLS)), ["tools"]);
    let mut steered = machine.clone();
    assert_eq!(show(machine.tools_done(true)), ["turn-0", "agent-", "ask-settle"]);
    queue(&mut steered, "wait", Queue::Steer);
    assert_eq!(show(steered.tools_done(true)), ["turn-0", "turn+1", "wait", "model"]);
}

/// ABI-54: `continue` needs a message; what came meanwhile is taken.
#[test]
fn settling_goes_on_only_with_a_message() {
    let settling = || {
        let mut machine = asking("hi");
        assert_eq!(show(machine.model_done(TEXT)), ["turn-0", "agent-", "ask-settle"]);
        machine
    };
    assert_eq!(show(settling().settle_answered(Vec::new(), true)), ["settled 1"]);
    assert_eq!(show(settling().settle_answered(vec!["note"], false)), ["note", "settled 1"]);
    assert_eq!(show(settling().settle_answered(vec!["news"], true)), ["agent+", "turn+1", "news", "model"]);
    let mut machine = settling();
    queue(&mut machine, "user", Queue::FollowUp);
    assert_eq!(show(machine.settle_answered(Vec::new(), true)), ["agent+", "turn+1", "user", "model"]);
    let mut machine = settling();
    queue(&mut machine, "user", Queue::Steer);
    assert_eq!(show(machine.settle_answered(vec!["note"], false)), ["agent+", "turn+1", "note", "user", "model"]);
}

/// NAT-7: from every phase, an abort leads to the settled end, and the root keeps its queue.
#[test]
fn an_abort_ends_the_run_from_every_phase() {
    let mut opening = machine();
    assert_eq!(begin(&mut opening, "hi"), ["ask-start"]);
    assert!(opening.abort(false));
    // The request is refused by its cancelled token and leaves the aborted message.
    assert_eq!(show(opening.opened(Vec::new())), ["agent+", "turn+0", "hi", "model"]);
    assert_eq!(show(opening.model_done(ModelEnd::Aborted)), ["turn-0", "agent-", "settled 1 aborted"]);

    let mut tools = asking("hi");
    assert_eq!(show(tools.model_done(CALLS)), ["tools"]);
    queue(&mut tools, "left", Queue::Steer);
    assert!(tools.abort(false));
    assert_eq!(show(tools.tools_done(false)), ["turn-0", "turn+1", "model"]);
    assert_eq!(show(tools.model_done(ModelEnd::Aborted)), ["turn-1", "agent-", "settled 1 aborted"]);
    assert_eq!(tools.pending(), 1, "queued messages outlive an abort of the root");

    let mut backoff = asking("hi");
    drop(backoff.model_done(BUSY));
    assert!(backoff.abort(false));
    assert_eq!(show(backoff.backoff_over()), ["retried 1 false", "settled 1 aborted"]);

    let mut settling = asking("hi");
    drop(settling.model_done(TEXT));
    assert!(settling.abort(false));
    assert_eq!(show(settling.settle_answered(Vec::new(), false)), ["settled 1 aborted"]);
    assert_eq!(settling.ended(1), Some(true));
    assert!(!settling.abort(false), "an idle session has nothing to end");
}

/// ABI-57: `child.abort` drops what was queued for the run.
#[test]
fn an_abort_of_a_child_drops_its_queue() {
    let mut machine = asking("hi");
    queue(&mut machine, "left", Queue::Steer);
    queue(&mut machine, "later", Queue::FollowUp);
    assert!(machine.abort(true));
    assert_eq!(machine.pending(), 0);
}

/// Nothing that was accepted for a run lies about when its model fails.
#[test]
fn a_failed_run_takes_what_waits_for_it() {
    let mut machine = asking("hi");
    queue(&mut machine, "more", Queue::FollowUp);
    assert_eq!(show(machine.model_done(REFUSED)), ["turn-0", "agent-", "ask-settle error"]);
    assert_eq!(show(machine.settle_answered(Vec::new(), false)), ["agent+", "turn+1", "more", "model"]);
}

#[test]
fn a_host_failure_ends_the_run_at_once() {
    let mut machine = asking("hi");
    assert_eq!(show(machine.broken()), ["turn-0", "agent-", "settled 1"]);
    assert!(machine.broken().is_empty());
}

mod any_order {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Act {
        Deliver(Queue, Wake),
        Abort(bool),
        Work(u8),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let queue = prop_oneof![Just(Queue::Steer), Just(Queue::FollowUp), Just(Queue::NextTurn)];
        let wake = prop_oneof![Just(Wake::Yes), Just(Wake::No), Just(Wake::Never), Just(Wake::Keep)];
        let act = prop_oneof![
            2 => (queue, wake).prop_map(|(queue, wake)| Act::Deliver(queue, wake)),
            1 => any::<bool>().prop_map(Act::Abort),
            6 => any::<u8>().prop_map(Act::Work),
        ];
        proptest::collection::vec(act, 1..60)
    }

    /// The end of the work in hand, chosen by `luck`.
    fn work(machine: &mut Machine, luck: u8) -> Vec<Step<&'static str>> {
        match machine.phase() {
            Phase::Idle => Vec::new(),
            Phase::Opening => machine.opened(Vec::new()),
            Phase::Model if machine.aborting() => machine.model_done(ModelEnd::Aborted),
            Phase::Model => machine.model_done([CALLS, TEXT, BUSY, REFUSED][usize::from(luck % 4)]),
            Phase::Backoff => machine.backoff_over(),
            Phase::Tools => machine.tools_done(luck.is_multiple_of(2)),
            Phase::Settling if luck.is_multiple_of(3) => machine.settle_answered(vec!["gate"], true),
            Phase::Settling => machine.settle_answered(Vec::new(), luck.is_multiple_of(2)),
        }
    }

    proptest! {
        /// ABI-35: starts and ends pair up, each run settles exactly once and last, at most one work is out,
        /// and no message is lost.
        #[test]
        fn events_pair_up_and_nothing_is_lost(acts in acts()) {
            let mut machine = machine();
            let (mut agent, mut turn, mut settled) = (false, false, 0);
            let (mut given, mut appended) = (0, 0);
            let mut dropped = 0;
            // Afterwards everything that is out comes to its end.
            let rest = std::iter::repeat_n(Act::Work(1), 400);
            for act in acts.into_iter().chain(rest) {
                let steps = match act {
                    Act::Deliver(queue, wake) => {
                        given += 1;
                        machine.deliver("m", queue, wake).1
                    }
                    Act::Abort(drop_queue) => {
                        let before = machine.pending();
                        machine.abort(drop_queue);
                        dropped += before - machine.pending();
                        Vec::new()
                    }
                    Act::Work(luck) => work(&mut machine, luck),
                };
                let works = steps.iter().filter(|step| matches!(step,
                    Step::AskBeforeStart | Step::AskModel | Step::RunTools | Step::Wait(_) | Step::AskBeforeSettle(_))).count();
                prop_assert!(works <= 1);
                for (at, step) in steps.iter().enumerate() {
                    match step {
                        Step::AgentStart => { prop_assert!(!agent); agent = true; }
                        Step::TurnStart(_) => { prop_assert!(agent && !turn); turn = true; }
                        Step::TurnEnd(_) => { prop_assert!(turn); turn = false; }
                        Step::AgentEnd => { prop_assert!(agent && !turn); agent = false; }
                        Step::Settled { run, .. } => {
                            settled += 1;
                            prop_assert_eq!(*run, settled);
                            prop_assert!(!agent && !turn);
                            prop_assert_eq!(at + 1, steps.len());
                        }
                        Step::Append(text) => appended += usize::from(*text == "m"),
                        Step::AskModel => prop_assert!(agent && turn),
                        Step::RunTools => prop_assert!(turn),
                        _ => {}
                    }
                }
            }
            prop_assert!(machine.idle());
            prop_assert_eq!(settled, machine.run());
            prop_assert_eq!(given, appended + dropped + machine.pending());
        }
    }
}
