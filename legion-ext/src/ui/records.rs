//! One line per row of the ledger, as `legion mail`, `legion events` and `legion usage` print them (CLI-5).

use super::usage_text;
use crate::{
    clock,
    core::{mail::Delivery, text::clean_line},
    orchestrator::report::Usage,
};

/// Longest free text in a line, in bytes.
const TEXT_BYTES: usize = 1024;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailRecord<'a> {
    pub id: i64,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    pub from: &'a str,
    pub to: &'a str,
    pub kind: &'a str,
    pub urgency: &'a str,
    pub state: Delivery,
    pub subject: &'a str,
}

/// `#<id> <time> <from> → <to> <kind> · <urgency> <state>: <subject>`.
pub fn mail_line(mail: &MailRecord<'_>) -> String {
    let MailRecord { id, created_at, from, to, kind, urgency, state, subject } = mail;
    let subject = clean_line(subject, TEXT_BYTES);
    format!("#{id} {} {from} → {to} {kind} · {urgency} {state}: {subject}", clock::iso(*created_at))
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRecord<'a> {
    pub id: i64,
    /// Milliseconds since the epoch.
    pub ts: i64,
    pub node: &'a str,
    pub kind: &'a str,
    /// JSON text.
    pub data: &'a str,
}

/// `<id> <time> <node> <type> <data>`.
pub fn event_line(event: &EventRecord<'_>) -> String {
    let EventRecord { id, ts, node, kind, data } = event;
    format!("{id} {} {node} {kind} {}", clock::iso(*ts), clean_line(data, TEXT_BYTES))
}

/// `<node> <model> <usage>`; `-` where nothing is known.
pub fn usage_line(node: &str, model: Option<&str>, usage: &Usage) -> String {
    let model = clean_line(model.unwrap_or("-"), TEXT_BYTES);
    format!("{node} {model} {}", usage_text(usage).unwrap_or_else(|| "-".to_owned()))
}

/// The last line of `legion usage`.
pub fn usage_total(usages: impl IntoIterator<Item = Usage>) -> String {
    let total = usages.into_iter().fold(Usage::default(), |sum, one| Usage {
        input: sum.input.saturating_add(one.input),
        output: sum.output.saturating_add(one.output),
        cache_read: sum.cache_read.saturating_add(one.cache_read),
        cache_write: sum.cache_write.saturating_add(one.cache_write),
        cost_usd: sum.cost_usd + one.cost_usd,
    });
    format!("total {}", usage_text(&total).unwrap_or_else(|| "-".to_owned()))
}
