//! Reports as a model reads them: lines of text within the caps of 09 §2.1, and `details` for programs.
//!
//! Pure: a report in, a result out. What the caller has now seen of stored results comes out beside it (CAP-6).

mod details;
mod items;
mod layout;
mod notice;

#[cfg(test)]
mod tests;

use host_abi::calls::{NestedUsage, ToolResult};
use serde_json::Value;

use self::{
    items::blocks,
    layout::{Sheet, clip},
};
use super::params::CallHead;
use crate::{
    core::{caps, model::split_thinking_suffix, text::clean_block},
    error::SubagentError,
    mail::SentMail,
    orchestrator::report::{Body, Item, Progress, ReadMark, Report},
    ui::{
        agents::{Listing, list_text},
        duration, label_glyph,
        status::{NO_CHILDREN, status_text},
        tool_text,
        tree::{Placed, tree_text},
    },
};

pub use notice::{budget_text, notice_blocks};

/// A result, and the bytes of artifacts that its reader has seen with it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    pub result: ToolResult,
    pub reads: Vec<ReadMark>,
}

/// `interrupted (parent turn ended; children still running)` (ORC-99).
const INTERRUPTED: &str = "interrupted (parent turn ended; children still running)";
/// After the `▶` lines of an async launch (LINE-6).
const BACKGROUND: &str = "children run in the background; a notice arrives when they finish";
/// Before mail that a blocked call took (MAIL-31).
const MAIL_HEADING: &str = "mail received (children still running)";
/// `wait` without anything to wait for (ORC-94).
const NOTHING_TO_WAIT_FOR: &str = "no active children";
/// The last line of a partial result (LINE-10).
const ESC_HINT: &str = "esc stops waiting · children keep running";
/// Targets that a partial result shows.
const MAX_PROGRESS_LINES: usize = 64;
/// Names in one line.
const MAX_NAMES: usize = 40;

/// Renders the answer to a command.
pub fn render(head: &CallHead, report: &Report) -> Rendered {
    if let Some(error) = &report.refused {
        return Rendered { result: refusal(head, error), reads: Vec::new() };
    }
    let failed = !report.items.is_empty() && report.items.iter().all(|item| matches!(item, Item::Refused { .. }));
    let (text, shown, mut reads) = match &report.body {
        Body::Items => {
            let sheet = Sheet { blocks: blocks(&report.items), trailer: trailer(head, report), mail: mail(report) };
            let laid = sheet.lay_out(0);
            (laid.text, laid.shown, laid.reads)
        }
        Body::NothingToWaitFor => (viewed(head, report, NOTHING_TO_WAIT_FOR.to_owned()), Vec::new(), Vec::new()),
        Body::Status(projection) => (viewed(head, report, status_text(projection)), Vec::new(), Vec::new()),
        Body::Roles { roles, team, children, broken } => {
            let text = list_text(&Listing { roles, team, broken, children });
            (viewed(head, report, clip(&text)), Vec::new(), Vec::new())
        }
        Body::Page { .. } => {
            let (text, shown, read) = page(&report.body);
            (viewed(head, report, text), vec![Some(shown)], read.into_iter().collect())
        }
    };
    reads.retain(|read| read.from <= read.to);
    let details = details::of_report(head, report, !failed, &shown);
    let mut result = finished(text, details, failed);
    result.usage = nested_usage(report);
    Rendered { result, reads }
}

/// A refused call: nothing was started (LINE-1).
pub fn refusal(head: &CallHead, error: &SubagentError) -> ToolResult {
    let mut lines = vec![format!("✗ {}", items::error_text(error, caps::FULL_OUTPUT_BYTES))];
    lines.extend(notes(head));
    finished(lines.join("\n"), details::of_refusal(head, error), true)
}

/// What `legion_tree` answers (LTL-3).
pub fn tree(head: &CallHead, placed: &[Placed<'_>]) -> ToolResult {
    let (text, _) = tree_text(placed);
    finished(text, details::of_tree(head, placed), false)
}

/// What `legion_mail` answers (MAIL-9).
pub fn sent(head: &CallHead, sent: &SentMail) -> ToolResult {
    let mut lines: Vec<String> = sent.sent.iter().map(|to| format!("sent #{} to {}", to.id, to.to)).collect();
    lines.extend(sent.warning.iter().map(|warning| format!("warning: {warning}")));
    finished(lines.join("\n"), details::of_mail(head, sent), false)
}

/// A partial result while a call blocks (LINE-10).
pub fn render_progress(progress: &Progress) -> ToolResult {
    let mut lines: Vec<String> = progress
        .targets
        .iter()
        .take(MAX_PROGRESS_LINES)
        .map(|target| {
            let tool = target.tool.as_ref().map(|tool| format!(" · {}", tool_text(tool))).unwrap_or_default();
            let (glyph, elapsed) = (label_glyph(&target.state), duration(target.elapsed_ms));
            format!("{glyph} {} ({}) {}{tool} · {elapsed}", target.name, target.agent, target.state)
        })
        .collect();
    if progress.targets.len() > MAX_PROGRESS_LINES {
        lines.push(format!("… {} more", progress.targets.len() - MAX_PROGRESS_LINES));
    }
    lines.push(ESC_HINT.to_owned());
    finished(lines.join("\n"), details::of_progress(progress), false)
}

fn finished(text: String, details: Value, is_error: bool) -> ToolResult {
    ToolResult { structured_content: Some(details.clone()), details: Some(details), is_error, ..ToolResult::text(text) }
}

/// A view, then what is said about the call.
fn viewed(head: &CallHead, report: &Report, text: String) -> String {
    let mut lines = vec![text];
    lines.extend(trailer(head, report));
    lines.extend(mail(report));
    lines.join("\n")
}

/// The lines after the blocks, but for mail.
fn trailer(head: &CallHead, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let nothing_said = report.items.is_empty() && matches!(report.body, Body::Items);
    if nothing_said && matches!(head.action, Some("stop" | "retire")) {
        lines.push(NO_CHILDREN.to_owned());
    }
    if report.background && report.items.iter().any(|item| matches!(item, Item::Started(_))) {
        lines.push(BACKGROUND.to_owned());
    }
    if report.interrupted {
        lines.push(INTERRUPTED.to_owned());
    }
    // A child with a block of its own is named already.
    let named = |name: &String| report.items.iter().any(|item| matches!(item, Item::Running(it) if it.name == *name));
    let running: Vec<&String> = report.still_running.iter().filter(|name| !named(name)).collect();
    if !running.is_empty() {
        lines.push(format!("still running: {}", names(&running)));
    }
    if !report.not_started.is_empty() {
        let not_started: Vec<&String> = report.not_started.iter().collect();
        lines.push(format!("not started (launch queue flushed): {}", names(&not_started)));
    }
    lines.extend(notes(head));
    lines
}

/// What is said about the parameters.
fn notes(head: &CallHead) -> Vec<String> {
    let mut lines: Vec<String> = head.warnings.iter().map(|warning| format!("⚠ {warning}")).collect();
    if let (false, Some(action)) = (head.ignored.is_empty(), head.action) {
        lines.push(format!("⚠ ignored: {} (not used by action '{action}')", head.ignored.join(", ")));
    }
    lines
}

/// Mail that the call took; never cut, since it is taken out of the mailbox (LINE-11).
fn mail(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.mail.is_empty() {
        lines.push(MAIL_HEADING.to_owned());
        lines.extend(report.mail.iter().map(|mail| clean_block(&mail.text).into_owned()));
    }
    if report.mail_left > 0 {
        lines.push(format!("… {} more message(s) pending", report.mail_left));
    }
    lines
}

fn names(names: &[&String]) -> String {
    let mut line = names.iter().take(MAX_NAMES).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES {
        line.push_str(&format!(", … and {} more", names.len() - MAX_NAMES));
    }
    line
}

/// How much of a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    bytes: u64,
    total: u64,
    /// Where reading goes on; `None` when all was shown.
    next_offset: Option<u64>,
}

/// A page of a stored result (CAP-5); shorter than asked for where one result would not hold it.
fn page(body: &Body) -> (String, Shown, Option<ReadMark>) {
    let Body::Page { name, text, from, to, total, read } = body else { unreachable!("only pages come here") };
    if from >= total {
        let shown = Shown { bytes: 0, total: *total, next_offset: None };
        return (format!("end of result ({total} bytes)"), shown, *read);
    }
    let fits = caps::head_len(text, caps::VIEW_BYTES, caps::VIEW_LINES);
    let to = if fits < text.len() { from + fits as u64 } else { *to };
    let mut lines = vec![clean_block(text[..fits].strip_suffix('\n').unwrap_or(&text[..fits])).into_owned()];
    lines.push(format!("{from}-{to} of {total} bytes"));
    let next_offset = (to < *total).then_some(to);
    lines.extend(next_offset.map(|offset| items::more_line(name, offset)));
    let read = read.map(|read| ReadMark { to: read.to.min(to), ..read });
    (lines.join("\n"), Shown { bytes: to - from, total: *total, next_offset }, read)
}

/// Usage of the rounds that this result delivers for the first time (CAP-8), shown in it or not.
fn nested_usage(report: &Report) -> Vec<NestedUsage> {
    report
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Settled(settled) if settled.first_delivery => Some(settled),
            Item::Settled(_) | Item::Started(_) | Item::Refused { .. } | Item::Running(_) | Item::TakenDown(_) => None,
        })
        .filter(|settled| settled.usage != Default::default())
        .map(|settled| {
            let model = settled.model.as_deref().unwrap_or_default();
            let (model, _) = split_thinking_suffix(model);
            let (provider, model) = model.split_once('/').unwrap_or(("", model));
            let usage = settled.usage;
            NestedUsage {
                provider: provider.to_owned(),
                model: model.to_owned(),
                input: usage.input,
                output: usage.output,
                cache_read: usage.cache_read,
                cache_write: usage.cache_write,
                cost_usd: usage.cost_usd,
            }
        })
        .collect()
}
