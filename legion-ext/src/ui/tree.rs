//! The text of a tree (LTL-3): `legion_tree`, `/legion --tree` without a terminal, `legion tree`.

use std::collections::HashMap;

use super::cut::{Room, Row, keep};
use super::label_glyph;
use crate::{
    core::{caps, liveness::is_terminal_label, text::clean_line},
    error::{Code, SubagentError},
    orchestrator::report::NodeView,
};

/// Levels below a node that are shown when nobody says otherwise.
pub const DEFAULT_DEPTH: u32 = 64;

/// What to show of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeQuery {
    /// Name or node id; absent: the first node of the tree.
    pub node: Option<String>,
    /// Levels below the node.
    pub depth: u32,
    /// Leave out finished nodes that have nothing unfinished below them.
    pub active_only: bool,
}

impl Default for TreeQuery {
    fn default() -> Self {
        Self { node: None, depth: DEFAULT_DEPTH, active_only: false }
    }
}

/// A node and its level below the first one shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed<'a> {
    pub node: &'a NodeView,
    pub level: usize,
    /// Place of its parent among the placed.
    parent: Option<usize>,
}

/// The nodes that `query` asks for, depth first, siblings in the order of `tree`, whose first node is the caller's own.
///
/// # Errors
/// The node is not in the tree, or its name stands for several of it.
pub fn select<'a>(tree: &'a [NodeView], query: &TreeQuery) -> Result<Vec<Placed<'a>>, SubagentError> {
    let Some(start) = find(tree, query.node.as_deref())? else { return Ok(Vec::new()) };
    let placed = Forest::new(tree).take(&start.id, query.depth);
    Ok(if query.active_only { drop_finished(&placed) } else { placed })
}

fn find<'a>(tree: &'a [NodeView], name: Option<&str>) -> Result<Option<&'a NodeView>, SubagentError> {
    let Some(name) = name else { return Ok(tree.first()) };
    if let Some(node) = tree.iter().find(|node| node.id == name) {
        return Ok(Some(node));
    }
    let found: Vec<&NodeView> = tree.iter().filter(|node| node.name == name).collect();
    match found.as_slice() {
        [node] => Ok(Some(node)),
        [] => Err(SubagentError::new(
            Code::NotFound,
            format!("node '{}' is outside your subtree", clean_line(name, NAME_BYTES)),
        )),
        several => {
            let ids: Vec<&str> = several.iter().map(|node| node.id.as_str()).collect();
            Err(SubagentError::invalid(format!("'{name}' is ambiguous: {}", ids.join(", "))))
        }
    }
}

/// A tree by its parents, made once for any number of looks into it.
#[derive(Debug)]
pub(super) struct Forest<'a> {
    by_id: HashMap<&'a str, &'a NodeView>,
    below: HashMap<&'a str, Vec<&'a NodeView>>,
}

impl<'a> Forest<'a> {
    pub fn new(tree: &'a [NodeView]) -> Self {
        let mut forest = Self { by_id: HashMap::with_capacity(tree.len()), below: HashMap::new() };
        for node in tree {
            forest.by_id.insert(&node.id, node);
            if let Some(parent) = &node.parent_id {
                forest.below.entry(parent).or_default().push(node);
            }
        }
        forest
    }

    /// The node `id` and what is below it, at most `depth` levels. Each node is placed once, whatever the ids say: what
    /// was placed is taken out of the forest.
    pub fn take(&mut self, id: &str, depth: u32) -> Vec<Placed<'a>> {
        let mut placed = Vec::new();
        // A stack instead of recursion: a tree may be deep, and ids come from a file.
        let mut open: Vec<Placed<'a>> =
            self.by_id.get(id).map(|node| Placed { node, level: 0, parent: None }).into_iter().collect();
        while let Some(next) = open.pop() {
            if self.by_id.remove(next.node.id.as_str()).is_none() {
                continue;
            }
            let at = placed.len();
            placed.push(next);
            if next.level >= depth as usize {
                continue;
            }
            let below = self.below.remove(next.node.id.as_str()).unwrap_or_default();
            open.extend(below.into_iter().rev().map(|node| Placed { node, level: next.level + 1, parent: Some(at) }));
        }
        placed
    }
}

fn drop_finished<'a>(placed: &[Placed<'a>]) -> Vec<Placed<'a>> {
    let mut stays = vec![false; placed.len()];
    for (at, one) in placed.iter().enumerate().rev() {
        stays[at] |= at == 0 || !is_terminal_label(&one.node.state);
        if let (true, Some(parent)) = (stays[at], one.parent) {
            stays[parent] = true;
        }
    }
    only(placed, &stays)
}

/// The placed that stay, with their parents' new places.
fn only<'a>(placed: &[Placed<'a>], stays: &[bool]) -> Vec<Placed<'a>> {
    let mut place = vec![0; placed.len()];
    let mut left = Vec::new();
    for (at, one) in placed.iter().enumerate().filter(|(at, _)| stays[*at]) {
        place[at] = left.len();
        left.push(Placed { parent: one.parent.map(|parent| place[parent]), ..*one });
    }
    left
}

/// The lines of the placed nodes within one result, and the nodes they show.
pub fn tree_text<'a>(placed: &[Placed<'a>]) -> (String, Vec<&'a NodeView>) {
    let lines: Vec<String> = placed.iter().map(|one| indented(one.level, &node_line(one.node))).collect();
    let rows: Vec<Row> = placed
        .iter()
        .zip(&lines)
        .map(|(one, line)| Row {
            parent: one.parent,
            depth: one.level,
            finished: is_terminal_label(&one.node.state),
            bytes: line.len() + 1,
            lines: 1,
        })
        .collect();
    let whole = Room { bytes: caps::VIEW_BYTES, lines: caps::VIEW_LINES };
    let mut kept = keep(&rows, whole);
    if kept.contains(&false) {
        kept = keep(&rows, Room { bytes: whole.bytes - MORE_BYTES, lines: whole.lines - 1 });
    }
    let mut text: Vec<String> = Vec::new();
    let mut shown = Vec::new();
    for ((one, line), _) in placed.iter().zip(lines).zip(&kept).filter(|(_, kept)| **kept) {
        text.push(line);
        shown.push(one.node);
    }
    if shown.len() < placed.len() {
        text.push(more_nodes(placed.len() - shown.len()));
    }
    (text.join("\n"), shown)
}

/// Room for the line that counts what is left out.
pub(super) const MORE_BYTES: usize = 80;

/// The last line of a tree that was cut.
pub(super) fn more_nodes(left_out: usize) -> String {
    format!("… {left_out} more nodes (use node, depth or show)")
}

/// `<glyph> <name> (<role>) <state>[ phase=<phase>][ <model>]`.
pub fn node_line(node: &NodeView) -> String {
    let mut line =
        format!("{} {} ({}) {}", label_glyph(&node.state), name(node), clean_line(&node.role, NAME_BYTES), node.state);
    if let Some(phase) = &node.phase {
        line.push_str(&format!(" phase={}", clean_line(phase, NAME_BYTES)));
    }
    if let Some(model) = &node.model {
        line.push_str(&format!(" {}", clean_line(model, MODEL_BYTES)));
    }
    line
}

/// A node's name, fit for a line.
pub(super) fn name(node: &NodeView) -> String {
    clean_line(&node.name, NAME_BYTES)
}

/// Names and roles are short; those of a foreign or damaged file need not be.
pub(super) const NAME_BYTES: usize = 128;
pub(super) const MODEL_BYTES: usize = 256;

/// `line`, two spaces per level.
pub(super) fn indented(level: usize, line: &str) -> String {
    format!("{}{line}", "  ".repeat(level))
}
