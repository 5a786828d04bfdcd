//! Budgets and the order of checks: what a child may still do (10 §4 … §7). Pure; the caller brings the event and
//! acts on the answer.

use std::path::{Path, PathBuf};

use host_abi::scope::{AcceptanceRole, ChildBudget, ToolBlock};

use crate::bash::{ReadOnlyVerdict, classify_ledger, classify_read_only};
use crate::messages;

/// The one tool whose input is judged.
pub const BASH: &str = "bash";

/// Longest time limit of a `bash` call that a host takes, in seconds (GUARD-86).
const LONGEST_TIMEOUT_S: f64 = 2_147_483.0;

/// What binds one child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardIdentity {
    /// Absent: no restriction beyond the ledger rule.
    pub acceptance_role: Option<AcceptanceRole>,
    pub budget: ChildBudget,
    /// Path of `legion.db`; without it the ledger is protected by its name alone.
    pub ledger: Option<PathBuf>,
}

/// What has been used up in the current round. A round starts with the first `agent_start` after activation or
/// after an `agent_settled` (GUARD-40).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardState {
    in_round: bool,
    calls: u32,
    turn: u32,
    told_of_calls: bool,
    told_of_turns: bool,
}

/// A tool call that asks to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall<'a> {
    pub tool: &'a str,
    /// What `bash` is called with; absent for every other tool.
    pub bash: Option<BashInput<'a>>,
    /// Working directory of the call.
    pub cwd: &'a Path,
}

/// The input of a `bash` call.
#[derive(Clone, Debug, PartialEq)]
pub struct BashInput<'a> {
    pub command: &'a str,
    pub timeout: Timeout,
}

/// The `timeout` of a `bash` call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timeout {
    Absent,
    /// A positive number of seconds.
    Seconds(f64),
    /// Anything else; the host rejects it.
    Invalid,
}

/// The answer to a tool call. `nudge` is a message for the child's model, sent whatever happens to the call.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardDecision {
    /// The call may run; with `timeout_s`, under that time limit instead of its own.
    Allow { timeout_s: Option<f64>, nudge: Option<String> },
    /// `reason` is the call's error result; `terminate` ends a run whose whole batch was refused this way.
    Refuse { reason: String, terminate: bool, nudge: Option<String> },
}

/// Judges a call and counts it. The first refusal ends the checks (GUARD-31); a call refused for a spent budget is
/// not counted, one refused for its command is (GUARD-32).
#[must_use]
pub fn on_tool_call(state: &mut GuardState, id: &GuardIdentity, call: &ToolCall<'_>) -> GuardDecision {
    let budget = &id.budget;
    if let Some(hard) = budget.max_turns
        && state.turn >= hard
    {
        return refuse(messages::turn_hard(state.turn, hard, call.tool), true, None);
    }
    if let Some(hard) = budget.max_tool_calls
        && state.calls >= hard
    {
        match &budget.tool_block {
            ToolBlock::All => return refuse(messages::tool_hard(hard, call.tool), true, None),
            ToolBlock::Names(names) if names.iter().any(|name| name == call.tool) => {
                return refuse(messages::tool_hard(hard, call.tool), false, None);
            }
            ToolBlock::Names(_) => {}
        }
    }
    let nudge = count_call(state, budget);
    if call.tool != BASH {
        return GuardDecision::Allow { timeout_s: None, nudge };
    }
    let Some(bash) = &call.bash else {
        return refuse(messages::internal("the bash call came without a command"), false, nudge);
    };
    if let Some(reason) = bash_refusal(id, bash.command, call.cwd) {
        return refuse(reason, false, nudge);
    }
    GuardDecision::Allow { timeout_s: tightened(budget.tool_timeout_ms, bash.timeout), nudge }
}

/// What a turn that begins calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnAction {
    Go,
    /// A message for the child's model is due.
    Nudge(String),
    /// The round goes on far beyond its budget without a call that could be refused: end the run (GUARD-56).
    End(String),
}

/// Turns that a round may have beyond twice its budget: room for texts that were queued.
const RUNAWAY_ROOM: u32 = 8;

/// A model response begins.
#[must_use]
pub fn on_turn_start(state: &mut GuardState, id: &GuardIdentity) -> TurnAction {
    state.turn = state.turn.saturating_add(1);
    if runaway_turns(&id.budget).is_some_and(|most| state.turn > most) {
        return TurnAction::End(messages::runaway(state.turn));
    }
    let Some(hard) = id.budget.max_turns else { return TurnAction::Go };
    if state.told_of_turns || id.budget.turn_soft != Some(state.turn) {
        return TurnAction::Go;
    }
    state.told_of_turns = true;
    TurnAction::Nudge(messages::turn_soft(state.turn, hard))
}

/// Most turns of a round whose calls a host asks about: each turn beyond a budget has refused calls, which end the run,
/// or none. A call that names no tool is never asked about, and a model that repeats it would go on for ever.
fn runaway_turns(budget: &ChildBudget) -> Option<u32> {
    let least = budget.max_turns.into_iter().chain(budget.max_tool_calls).min()?;
    Some(least.saturating_mul(2).saturating_add(RUNAWAY_ROOM))
}

/// The agent starts to work: a new round, or a retry inside the current one.
pub fn on_agent_start(state: &mut GuardState) {
    if !state.in_round {
        *state = GuardState { in_round: true, ..GuardState::default() };
    }
}

/// The run is over; the next start begins a round.
pub fn on_agent_settled(state: &mut GuardState) {
    state.in_round = false;
}

fn count_call(state: &mut GuardState, budget: &ChildBudget) -> Option<String> {
    state.calls = state.calls.saturating_add(1);
    let hard = budget.max_tool_calls?;
    if state.told_of_calls || budget.tool_soft != Some(state.calls) {
        return None;
    }
    state.told_of_calls = true;
    Some(messages::tool_soft(state.calls, hard))
}

fn bash_refusal(id: &GuardIdentity, command: &str, cwd: &Path) -> Option<String> {
    if let Some(hit) = classify_ledger(command, cwd, id.ledger.as_deref()) {
        return Some(messages::ledger(&hit));
    }
    match id.acceptance_role {
        None | Some(AcceptanceRole::Writer) => None,
        Some(AcceptanceRole::ReadOnly) => match classify_read_only(command) {
            ReadOnlyVerdict::Allow => None,
            ReadOnlyVerdict::Refuse { command, why } => Some(messages::read_only(&command, &why)),
            ReadOnlyVerdict::Unparsable => Some(messages::unparsable()),
        },
    }
}

/// The time limit to put in the place of the call's own, if any (GUARD-85, GUARD-86).
fn tightened(limit_ms: Option<u64>, own: Timeout) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "limits beyond 2^53 ms are cut to the host's maximum")]
    let limit = (limit_ms? as f64 / 1000.0).min(LONGEST_TIMEOUT_S);
    match own {
        Timeout::Absent => Some(limit),
        Timeout::Seconds(own) if own > limit => Some(limit),
        Timeout::Seconds(_) | Timeout::Invalid => None,
    }
}

fn refuse(reason: String, terminate: bool, nudge: Option<String>) -> GuardDecision {
    GuardDecision::Refuse { reason, terminate, nudge }
}

#[cfg(test)]
mod tests;
