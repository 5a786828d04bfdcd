//! The texts that a child's model reads (10 §8). They are contract, character for character.

use crate::bash::{LedgerHit, Why};

/// GUARD-90.
pub(crate) fn tool_soft(calls: u32, hard: u32) -> String {
    format!(
        "[child-guard] {calls} of {hard} tool calls used in this round. Finish the current step and report; calls \
         after {hard} are refused."
    )
}

/// GUARD-91.
pub(crate) fn tool_hard(hard: u32, tool: &str) -> String {
    format!(
        "tool budget exhausted ({hard}/{hard} tool calls in this round); '{tool}' was not run. Report what is done \
         and what remains."
    )
}

/// GUARD-92.
pub(crate) fn turn_soft(turn: u32, hard: u32) -> String {
    format!(
        "[child-guard] turn {turn} of {hard} in this round. Finish and report; tool calls are refused from turn \
         {hard} on."
    )
}

/// GUARD-102.
pub(crate) fn runaway(turn: u32) -> String {
    format!(
        "child-guard: a child went on to turn {turn} of one round, far beyond its budget, with calls to tools that it \
         does not have; its run was ended"
    )
}

/// GUARD-93.
pub(crate) fn turn_hard(turn: u32, hard: u32, tool: &str) -> String {
    format!(
        "turn budget exhausted (turn {turn} of {hard}); '{tool}' was not run. Report what is done and what remains."
    )
}

/// GUARD-94, GUARD-95.
pub(crate) fn ledger(hit: &LedgerHit) -> String {
    match hit {
        LedgerHit::Named => "bash may not read or write legion.db. Use legion_tree for the tree's state, or the grep \
                             tool to search for the text."
            .to_owned(),
        LedgerHit::Holds(path) => {
            format!("bash may not remove or move '{path}': it holds this run's legion.db.")
        }
    }
}

/// GUARD-96.
pub(crate) fn read_only(command: &str, why: &Why) -> String {
    format!("read-only role: '{command}' is refused in bash ({why}). Describe the change instead of making it.")
}

/// GUARD-97.
pub(crate) fn unparsable() -> String {
    "read-only role: the command could not be parsed and is refused. Write it without unbalanced quotes or \
     substitutions."
        .to_owned()
}

/// GUARD-98.
pub(crate) fn internal(detail: &str) -> String {
    format!("child-guard failed: {detail}")
}
