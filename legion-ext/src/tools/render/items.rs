//! The lines about one child each (LINE-2, LINE-7, LINE-8).

use serde_json::{Value, json};

use super::layout::{Block, BodyLimits, BodyText};
use crate::{
    core::{caps, hint::failure_hint, outcome::ExecutionStatus, text::clean_block, text::clean_line, text::cut_to},
    error::{Code, SubagentError},
    orchestrator::report::{Decision, Item, Settled, Snapshot, Started, TakenDown, TakenDownHow},
    ui::{duration, tool_text, usage_text},
};

/// Criteria listed as pending.
const MAX_PENDING: usize = 20;

/// One block per item.
pub(super) fn blocks(items: &[Item]) -> Vec<Block<'_>> {
    let field = field_bytes(items.len());
    items
        .iter()
        .map(|item| match item {
            Item::Started(started) => Block { head: started_lines(started, field), ..Block::default() },
            Item::Refused { label, error } => {
                let label = if label.is_empty() { String::new() } else { format!("{}: ", clean_line(label, 128)) };
                let line = format!("✗ {label}{}", error_text(error, field));
                Block { head: vec![line], ..Block::default() }
            }
            Item::Settled(settled) => settled_block(settled, field, RESULT_LIMITS),
            Item::Running(snapshot) => Block { head: running_lines(snapshot, field), ..Block::default() },
            Item::TakenDown(taken) => Block { head: taken_down_lines(taken), ..Block::default() },
        })
        .collect()
}

/// Bytes for each foreign text in a line that is never cut, so that hundreds of them still fit into one result.
pub(super) fn field_bytes(items: usize) -> usize {
    (32_768 / items.max(1)).clamp(256, 2_048)
}

/// A body in a tool result.
const RESULT_LIMITS: BodyLimits = BodyLimits { max_bytes: usize::MAX, name_file_above: Some(caps::FULL_OUTPUT_BYTES) };

fn started_lines(started: &Started, field: usize) -> Vec<String> {
    let Started { name, agent, supervisor, warnings, .. } = started;
    let mut lines = vec![format!("▶ {name} ({agent}) supervisor={supervisor}")];
    lines.extend(warnings.iter().map(|warning| warning_line(name, warning, field)));
    lines
}

/// `  ⚠ <name>: <warning>`.
fn warning_line(name: &str, warning: &str, field: usize) -> String {
    format!("  ⚠ {name}: {}", clean_line(warning, field))
}

/// Header, body and the lines after it (LINE-7).
pub(super) fn settled_block(settled: &Settled, field: usize, limits: BodyLimits) -> Block<'_> {
    let name = &settled.name;
    let mut tail: Vec<String> = settled.warnings.iter().map(|warning| warning_line(name, warning, field)).collect();
    if let Some(error) = &settled.unsaved {
        tail.push(format!("⚠ {name}: result not saved: {}", clean_line(error, field)));
    }
    if let Some(acceptance) = &settled.acceptance {
        tail.push(format!("  acceptance: {} {}", acceptance.level, acceptance.status));
        let pending = &acceptance.pending;
        tail.extend(pending.iter().take(MAX_PENDING).map(|text| format!("  pending: {}", clean_line(text, field))));
        if pending.len() > MAX_PENDING {
            tail.push(format!("  pending: … {} more", pending.len() - MAX_PENDING));
        }
    }
    let body = BodyText {
        child: name,
        text: &settled.text,
        artifact: settled.artifact.as_ref(),
        unsaved: settled.unsaved.is_some(),
        limits,
    };
    Block { head: vec![settled_header(settled, field)], body: Some(body), tail }
}

fn settled_header(settled: &Settled, field: usize) -> String {
    let who = format!("{} ({})", settled.name, settled.agent);
    let reason = clean_line(settled.reason.as_deref().unwrap_or("no reason given"), field);
    match settled.status {
        ExecutionStatus::Success => {
            let took = settled.duration_ms.map(|ms| format!(" · {}", duration(ms))).unwrap_or_default();
            let used = usage_text(&settled.usage).map(|used| format!(" · {used}")).unwrap_or_default();
            format!("✓ {who} success{took}{used}")
        }
        ExecutionStatus::Failed => format!("✗ {who} failed ({reason})"),
        ExecutionStatus::Truncated => format!("✗ {who} truncated ({reason})"),
        ExecutionStatus::Aborted => format!("■ {who} aborted ({reason})"),
        ExecutionStatus::Unknown => format!("? {who} unknown ({reason})"),
        ExecutionStatus::Blocked => format!("! {who} blocked: {reason}"),
        ExecutionStatus::Running => format!("… {who} running ({reason})"),
    }
}

/// A child that outlives the wait: its state and what the caller can do (LINE-8).
pub(super) fn running_lines(snapshot: &Snapshot, field: usize) -> Vec<String> {
    let Snapshot { name, agent, reason, .. } = snapshot;
    let mut lines = vec![format!("… {name} ({agent}) running ({})", clean_line(reason, field))];
    let parts: Vec<String> = [
        snapshot.turn.map(|turn| format!("turn {turn}")),
        snapshot.tool.as_ref().map(tool_text),
        snapshot.quiet_ms.map(|quiet| format!("quiet {}", duration(quiet))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !parts.is_empty() {
        lines.push(format!("  progress: {}", parts.join(" · ")));
    }
    lines.extend(decision_lines(snapshot));
    lines
}

/// One line per decision, in the order of LINE-8.
pub(super) fn decision_lines(snapshot: &Snapshot) -> Vec<String> {
    let name = &snapshot.name;
    let call = |decision| match decision {
        Decision::Extend => format!("action: \"extend\", name: \"{name}\", timeoutMs: {}", snapshot.extend_ms),
        Decision::SteerAgain => format!("action: \"steer\", name: \"{name}\", message: \"<guidance>\""),
        Decision::Stop => format!("action: \"stop\", name: \"{name}\""),
        Decision::ForceStop => format!("action: \"stop\", name: \"{name}\", force: true"),
    };
    DECISIONS
        .into_iter()
        .filter(|decision| snapshot.decisions.contains(decision))
        .map(|decision| format!("  {}: subagent({{ {} }})", decision_word(decision), call(decision)))
        .collect()
}

/// The arguments of a decision, ready for the tool (DET-3).
pub(super) fn decision_call(decision: Decision, snapshot: &Snapshot) -> Value {
    let name = &snapshot.name;
    match decision {
        Decision::Extend => json!({ "action": "extend", "name": name, "timeoutMs": snapshot.extend_ms }),
        Decision::SteerAgain => json!({ "action": "steer", "name": name, "message": "<guidance>" }),
        Decision::Stop => json!({ "action": "stop", "name": name }),
        Decision::ForceStop => json!({ "action": "stop", "name": name, "force": true }),
    }
}

/// The order of LINE-8.
pub(super) const DECISIONS: [Decision; 4] =
    [Decision::Extend, Decision::SteerAgain, Decision::Stop, Decision::ForceStop];

/// The word of DET-3.
pub(super) const fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Extend => "extend",
        Decision::SteerAgain => "steer_again",
        Decision::Stop => "stop",
        Decision::ForceStop => "force_stop",
    }
}

fn taken_down_lines(taken: &TakenDown) -> Vec<String> {
    let name = &taken.name;
    let mut lines = vec![match taken.how {
        TakenDownHow::Retired => format!("Retired {name}"),
        TakenDownHow::Stopped => format!("Stopped {name}"),
        TakenDownHow::ForceStopped => format!("Force-stopped {name}"),
        TakenDownHow::AlreadyRetired => format!("{name} is already retired"),
    }];
    if !taken.also.is_empty() {
        let also: Vec<&String> = taken.also.iter().collect();
        lines.push(format!("  also stopped: {}", super::names(&also)));
    }
    lines
}

/// `  more: subagent({ action: "collect", name: "<name>", offset: <byte> })`.
pub(super) fn more_line(name: &str, offset: u64) -> String {
    format!("  more: subagent({{ action: \"collect\", name: \"{name}\", offset: {offset} }})")
}

/// The message of an error, its further lines indented so that none looks like a header; then its way out.
pub(super) fn error_text(error: &SubagentError, field: usize) -> String {
    let clean = clean_block(error.message.trim());
    let mut message = clean.replace('\n', "\n  ");
    cut_to(&mut message, field);
    if let Some(hint) = &error.hint {
        message.push_str(&format!("\n  {}", clean_line(hint, field)));
    }
    match failure_hint(&clean) {
        Some(hint) if error.code == Code::StartFailed => format!("{message}\n\n{hint}"),
        Some(_) | None => message,
    }
}
