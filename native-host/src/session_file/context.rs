//! What the model gets to see of a session: pure functions over the entries of one branch.

use std::collections::HashMap;

use super::entry::{Entry, EntryBody, Replacement};
use super::message::{
    BashExecutionMessage, Block, BranchSummaryMessage, CompactionSummaryMessage, Content, CustomMessage, Extra,
    Message, UserMessage,
};

/// The conversation at the leaf of a branch, and the settings that were last chosen on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    /// Oldest first, after the latest compaction and edits.
    pub messages: Vec<Message>,
    /// Provider and model id, of the last change or the last answer.
    pub model: Option<(String, String)>,
    /// The level of the last change, as it stands in the file.
    pub thinking: Option<String>,
}

/// The context of a branch, given from its root to its leaf.
pub fn context_of(branch: &[&Entry]) -> Context {
    let mut context = Context::default();
    for entry in branch {
        match &entry.body {
            EntryBody::ModelChange { provider, model_id } => context.model = Some((provider.clone(), model_id.clone())),
            EntryBody::ThinkingLevelChange { thinking_level } => context.thinking = Some(thinking_level.clone()),
            EntryBody::Message { message: Message::Assistant(answer) } if !answer.model.is_empty() => {
                context.model = Some((answer.provider.clone(), answer.model.clone()));
            }
            _ => {}
        }
    }

    let compacted = branch.iter().rposition(|entry| matches!(entry.body, EntryBody::Compaction(_)));
    let visible = match compacted {
        None => branch.to_vec(),
        Some(at) => {
            context.messages.extend(summary_of(branch[at]));
            [kept_before(branch, at), &branch[at + 1..]].concat()
        }
    };
    let edits: HashMap<&str, &Option<Replacement>> = visible
        .iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::ContextEdit { target_id, replacement } => Some((target_id.as_str(), replacement)),
            _ => None,
        })
        .collect();
    context.messages.extend(visible.into_iter().filter_map(|entry| {
        let message = message_of(entry)?;
        match edits.get(entry.id.as_str()) {
            None => Some(message),
            Some(None) => None,
            Some(Some(replacement)) => Some(with_content(message, &replacement.content)),
        }
    }));
    context
}

/// The messages in the three roles that models know. Messages of extensions, summaries and shell commands
/// become user messages; prompt messages of pi and unknown roles are left out.
pub fn model_messages(messages: &[Message]) -> Vec<Message> {
    let as_user =
        |content: Content, timestamp: i64| Some(Message::User(UserMessage { content, timestamp, extra: Extra::new() }));
    let convert = |message: &Message| match message {
        Message::User(_) | Message::Assistant(_) | Message::ToolResult(_) => Some(message.clone()),
        Message::Custom(custom) => as_user(Content::Blocks(custom.content.clone().into_blocks()), custom.timestamp),
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => None,
        Message::BashExecution(run) => as_user(command_text(run).into(), run.timestamp),
        Message::BranchSummary(branch) => as_user(
            format!(
                "Summary of a branch of this conversation that was left:\n\n<summary>\n{}\n</summary>",
                branch.summary
            )
            .into(),
            branch.timestamp,
        ),
        Message::CompactionSummary(compaction) => as_user(
            format!("Summary of the conversation up to this point:\n\n<summary>\n{}\n</summary>", compaction.summary)
                .into(),
            compaction.timestamp,
        ),
        Message::System(_) | Message::Other(_) => None,
    };
    messages.iter().filter_map(convert).collect()
}

/// The entries before the compaction at `at` that it keeps. Prompt messages among them are history.
fn kept_before<'a, 'b>(branch: &'a [&'b Entry], at: usize) -> &'a [&'b Entry] {
    let EntryBody::Compaction(compaction) = &branch[at].body else { return &[] };
    let first = branch[..at].iter().position(|entry| entry.id == compaction.first_kept_entry_id);
    first.map_or(&[], |first| &branch[first..at])
}

fn summary_of(entry: &Entry) -> Option<Message> {
    let EntryBody::Compaction(compaction) = &entry.body else { return None };
    Some(Message::CompactionSummary(CompactionSummaryMessage {
        summary: compaction.summary.clone(),
        tokens_before: compaction.tokens_before,
        timestamp: epoch_ms(&entry.timestamp),
        extra: Extra::new(),
    }))
}

/// The message that an entry puts into the context. An older compaction inside a kept range puts none.
fn message_of(entry: &Entry) -> Option<Message> {
    match &entry.body {
        EntryBody::Message { message } => Some(message.clone()),
        EntryBody::CustomMessage { custom_type, content, display, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp: epoch_ms(&entry.timestamp),
            extra: Extra::new(),
        })),
        EntryBody::BranchSummary { from_id, summary, .. } if !summary.is_empty() => {
            Some(Message::BranchSummary(BranchSummaryMessage {
                summary: summary.clone(),
                from_id: from_id.clone(),
                timestamp: epoch_ms(&entry.timestamp),
                extra: Extra::new(),
            }))
        }
        _ => None,
    }
}

fn with_content(message: Message, content: &Content) -> Message {
    match message {
        Message::User(message) => Message::User(UserMessage { content: content.clone(), ..message }),
        Message::Custom(message) => Message::Custom(CustomMessage { content: content.clone(), ..message }),
        Message::Assistant(mut message) => {
            message.content = content.clone().into_blocks();
            Message::Assistant(message)
        }
        Message::ToolResult(mut message) => {
            message.content = content.clone().into_blocks();
            Message::ToolResult(message)
        }
        other => other,
    }
}

fn command_text(run: &BashExecutionMessage) -> String {
    let mut text = format!("A person ran `{}`:\n", run.command);
    match run.output.as_str() {
        "" => text.push_str("(no output)"),
        output => text.push_str(&format!("```\n{output}\n```")),
    }
    match run.exit_code {
        _ if run.cancelled => text.push_str("\n\n(cancelled)"),
        Some(code) if code != 0 => text.push_str(&format!("\n\nExit code {code}")),
        _ => {}
    }
    match &run.full_output_path {
        Some(path) if run.truncated => text.push_str(&format!("\n\n[Output was cut. All of it: {path}]")),
        _ => {}
    }
    text
}

fn epoch_ms(iso: &str) -> i64 {
    iso.parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond())
}

impl From<Message> for EntryBody {
    /// Messages of extensions have an entry type of their own; every other message is a `message` entry.
    fn from(message: Message) -> Self {
        match message {
            Message::Custom(CustomMessage { custom_type, content, display, details, .. }) => {
                EntryBody::CustomMessage { custom_type, content, display, details }
            }
            message => EntryBody::Message { message },
        }
    }
}

impl From<Block> for Content {
    fn from(block: Block) -> Self {
        Content::Blocks(vec![block])
    }
}
