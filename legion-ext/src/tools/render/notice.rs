//! The blocks of completion notices (NTC-9) and of waiting budgets that passed (MODE-3), in the words of results.

use serde_json::Value;

use super::{
    details,
    items::{field_bytes, running_lines, settled_block},
    layout::{Block, BodyLimits, Sheet},
};
use crate::orchestrator::report::{Settled, Snapshot};

/// A body in a notice: a first look, its file always named (NTC-9).
const NOTICE_LIMITS: BodyLimits = BodyLimits { max_bytes: 2_000, name_file_above: None };

/// Bytes kept for the line that every notice begins with (NTC-2).
const MARK_BYTES: usize = 120;

/// Text and `details` of the settled children of a notice.
pub fn notice_blocks(rounds: &[Settled]) -> (String, Vec<Value>) {
    let field = field_bytes(rounds.len());
    let blocks = rounds.iter().map(|settled| settled_block(settled, field, NOTICE_LIMITS)).collect();
    let laid = Sheet { blocks, ..Sheet::default() }.lay_out(MARK_BYTES);
    let children = rounds.iter().zip(&laid.shown).map(|(settled, shown)| details::result(settled, *shown)).collect();
    (laid.text, children)
}

/// The blocks of children whose waiting budget has passed.
pub fn budget_text(children: &[Snapshot]) -> String {
    let field = field_bytes(children.len());
    let blocks = children.iter().map(|child| Block { head: running_lines(child, field), ..Block::default() }).collect();
    Sheet { blocks, ..Sheet::default() }.lay_out(MARK_BYTES).text
}
