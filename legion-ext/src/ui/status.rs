//! The status text (STA-1 … STA-9): `subagent status`, `/legion status`, `legion status`.

use super::{
    cut::{Room, Row, keep},
    duration, label_glyph, tool_text,
    tree::{self, Forest, indented},
    usage_text,
};
use crate::{
    core::{
        caps, display,
        hint::failure_hint,
        liveness::{Liveness, is_terminal_label},
        outcome::ExecutionStatus,
        text::clean_line,
    },
    orchestrator::report::{ChildView, NodeView, Owner, Projection},
};

/// The text where there is nothing to show (STA-2, LINE-2).
pub const NO_CHILDREN: &str = "No live children";

/// Longest reason, in bytes.
const REASON_BYTES: usize = 2_048;
const PATH_BYTES: usize = 4_096;

/// The children and what is below them, or one child with all of it; at most one tool result long.
pub fn status_text(projection: &Projection) -> String {
    let Some(first) = projection.children.first() else { return NO_CHILDREN.to_owned() };
    let mut page = Page::default();
    let mut forest = Forest::new(&projection.tree);
    if projection.single {
        page.child(first, &mut forest, true);
    } else {
        page.fixed.push(header(projection));
        for group in GROUPS {
            page.group(projection, &mut forest, group);
        }
    }
    let transcript = projection.transcript.as_deref().map(transcript_tail).unwrap_or_default();
    page.text(&transcript)
}

/// `Status · <n> live children[ · <m> live in tree]` (STA-2).
pub fn header(projection: &Projection) -> String {
    let live = projection.live();
    let in_tree = projection.tree.iter().skip(1).filter(|node| node.liveness == Liveness::Live).count();
    let mut line = format!("Status · {}", display::plural(live, "live child", "live children"));
    if in_tree > live {
        line.push_str(&format!(" · {in_tree} live in tree"));
    }
    line
}

/// Live children stand under the header, the others under their own (STA-3).
const GROUPS: [Liveness; 3] = [Liveness::Live, Liveness::Dead, Liveness::Unknown];

#[derive(Default)]
struct Page {
    /// Lines before everything else.
    fixed: Vec<String>,
    rows: Vec<Row>,
    /// The lines of each row, and the heading that stands before it.
    lines: Vec<(Option<String>, Vec<String>)>,
}

impl Page {
    fn group(&mut self, projection: &Projection, forest: &mut Forest<'_>, group: Liveness) {
        let children: Vec<&ChildView> = projection
            .children
            .iter()
            .filter(|child| child.liveness == group)
            .filter(|child| group != Liveness::Dead || projection.all || !child.delivered)
            .collect();
        let before = self.rows.len();
        for child in &children {
            self.child(child, forest, false);
        }
        let heading = match group {
            Liveness::Live => None,
            Liveness::Dead => Some(format!("Dead · {}", children.len())),
            Liveness::Unknown => Some(format!("Unknown · {}", children.len())),
        };
        if let (Some(heading), Some((slot, _))) = (heading, self.lines.get_mut(before)) {
            self.rows[before].bytes += heading.len() + 1;
            self.rows[before].lines += 1;
            *slot = Some(heading);
        }
    }

    /// A child's lines, then one line for each live node below it, or for `every` node (STA-4a).
    fn child(&mut self, child: &ChildView, forest: &mut Forest<'_>, every: bool) {
        let at = self.push(None, 0, is_terminal_label(&child.state), child_lines(child));
        for placed in forest.take(&child.node_id, tree::DEFAULT_DEPTH).into_iter().skip(1) {
            if every || placed.node.liveness == Liveness::Live {
                let line = indented(placed.level, &descendant_line(placed.node));
                self.push(Some(at), placed.level, is_terminal_label(&placed.node.state), vec![line]);
            }
        }
    }

    fn push(&mut self, parent: Option<usize>, depth: usize, finished: bool, lines: Vec<String>) -> usize {
        let bytes = lines.iter().map(|line| line.len() + 1).sum();
        self.rows.push(Row { parent, depth, finished, bytes, lines: lines.len() });
        self.lines.push((None, lines));
        self.rows.len() - 1
    }

    fn text(self, transcript: &[String]) -> String {
        let taken: usize = self.fixed.iter().chain(transcript).map(|line| line.len() + 1).sum();
        let room = Room {
            bytes: caps::VIEW_BYTES.saturating_sub(taken + tree::MORE_BYTES),
            lines: caps::VIEW_LINES.saturating_sub(self.fixed.len() + transcript.len() + 1),
        };
        let kept = keep(&self.rows, room);
        let left_out = kept.iter().filter(|kept| !**kept).count();
        let mut out = self.fixed;
        let mut waiting: Option<String> = None;
        for ((heading, lines), kept) in self.lines.into_iter().zip(kept) {
            // A heading stays with the next row that does.
            waiting = heading.or(waiting);
            if kept {
                out.extend(waiting.take());
                out.extend(lines);
            }
        }
        if left_out > 0 {
            out.push(tree::more_nodes(left_out));
        }
        out.extend_from_slice(transcript);
        out.join("\n")
    }
}

/// `<glyph> <name> (<agent>) state=<state> supervisor=<backend>` and the lines that apply (STA-4).
fn child_lines(child: &ChildView) -> Vec<String> {
    let ChildView { name, agent, state, supervisor, .. } = child;
    let glyph = label_glyph(state);
    let mut lines = vec![format!("{glyph} {name} ({agent}) state={state} supervisor={supervisor}")];
    let mut add = |line: String| lines.push(format!("  {line}"));
    add(format!("owner: {}", owner_text(child.owner)));
    let alive = child.liveness == Liveness::Live;
    if alive && state != "queued" {
        if let Some(quiet) = child.quiet_ms {
            add(format!("quiet: {} since last event", duration(quiet)));
        }
        if let Some(turn) = child.turn {
            let tool = child.tool.as_ref().map(|tool| format!(" · {}", tool_text(tool))).unwrap_or_default();
            add(format!("turn: {turn}{tool}"));
        }
    }
    if let Some(model) = &child.model {
        add(format!("model: {}", clean_line(model, tree::MODEL_BYTES)));
    }
    if let Some(usage) = usage_text(&child.usage) {
        add(format!("usage: {usage}"));
    }
    if let Some(file) = child.session_file.as_ref().filter(|_| state != "queued") {
        add(format!("session: {}", clean_line(&file.to_string_lossy(), PATH_BYTES)));
    }
    if let Some(reason) = child.reason.as_ref().filter(|_| has_failed(child)) {
        let reason = clean_line(reason, REASON_BYTES);
        add(format!("reason: {reason}"));
        if let Some(hint) = failure_hint(&reason) {
            add(hint);
        }
    }
    lines
}

fn has_failed(child: &ChildView) -> bool {
    match child.execution {
        Some(ExecutionStatus::Success | ExecutionStatus::Running | ExecutionStatus::Blocked) => child.state == "failed",
        Some(
            ExecutionStatus::Failed | ExecutionStatus::Truncated | ExecutionStatus::Aborted | ExecutionStatus::Unknown,
        )
        | None => true,
    }
}

fn owner_text(owner: Owner) -> String {
    match owner {
        Owner::Live => "live".to_owned(),
        Owner::PidGone => "dead (pid gone)".to_owned(),
        Owner::HeartbeatOld { age_ms } => format!("dead (heartbeat {} old)", duration(age_ms)),
        Owner::Unknown => "unknown".to_owned(),
    }
}

/// `↳ <name> (<role>) state=<state>[ phase=<phase>]` (STA-4a).
fn descendant_line(node: &NodeView) -> String {
    let role = clean_line(&node.role, tree::NAME_BYTES);
    let mut line = format!("↳ {} ({role}) state={}", tree::name(node), node.state);
    if let Some(phase) = &node.phase {
        line.push_str(&format!(" phase={}", clean_line(phase, tree::NAME_BYTES)));
    }
    line
}

/// The last lines that fit into the bytes of STA-9; of a single longer line, its start.
fn transcript_tail(lines: &[String]) -> Vec<String> {
    let mut left = caps::TRANSCRIPT_BYTES;
    let mut tail = Vec::new();
    for line in lines.iter().rev() {
        let line = clean_line(line, caps::TRANSCRIPT_BYTES - 1);
        let Some(rest) = left.checked_sub(line.len() + 1) else { break };
        left = rest;
        tail.push(line);
    }
    tail.reverse();
    tail
}
