//! What people and models read about the tree: read models in, lines out. It writes nothing and asks nobody.
//!
//! [`status`], [`tree`] and [`agents`] are the texts of the tools, of the commands and of `legion` outside a session,
//! [`records`] the line formats of the last; so each of them has one text, whoever asks.

pub mod agents;
mod cut;
pub mod records;
pub mod status;
pub mod tree;

#[cfg(test)]
mod tests;

use crate::{
    core::display::{self, DisplayStatus, display_status},
    orchestrator::report::Usage,
};

/// The sign of a status (VIZ-2).
pub const fn glyph(status: DisplayStatus) -> &'static str {
    match status {
        DisplayStatus::Running => "●",
        DisplayStatus::Idle => "○",
        DisplayStatus::Awaiting => "◐",
        DisplayStatus::Queued => "◌",
        DisplayStatus::Settled => "✓",
        DisplayStatus::Failed => "✗",
        DisplayStatus::Retired => "■",
        DisplayStatus::Unknown => "?",
    }
}

/// The sign of a label of any store; a label's addition, as in `queued(3)`, says nothing about it.
pub fn label_glyph(label: &str) -> &'static str {
    let word = label.split([' ', '(']).next().unwrap_or(label);
    glyph(display_status(Some(word)))
}

/// `↑<in> ↓<out>[ · $<cost>]`; `None` when nothing was used.
pub fn usage_text(usage: &Usage) -> Option<String> {
    let cost = display::cost(usage.cost_usd);
    let tokens = (usage.input > 0 || usage.output > 0)
        .then(|| format!("↑{} ↓{}", display::tokens(usage.input), display::tokens(usage.output)));
    match (tokens, cost) {
        (Some(tokens), Some(cost)) => Some(format!("{tokens} · {cost}")),
        (tokens, cost) => tokens.or(cost),
    }
}

/// `<tool> <dur>` of a running tool.
pub fn tool_text(tool: &(String, u64)) -> String {
    let (name, ms) = tool;
    format!("{name} {}", duration(*ms))
}

/// [`display::duration`] of an unsigned number of milliseconds.
pub fn duration(ms: u64) -> String {
    display::duration(i64::try_from(ms).unwrap_or(i64::MAX))
}
