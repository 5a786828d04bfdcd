//! Replaces the older part of a session's context by a summary that the model writes.

use std::sync::Arc;

use crate::provider::{ModelRequest, Provider};
use crate::session_file::{Block, Compaction, Entry, EntryBody, Message, Usage, context_of};

/// When a session compacts itself, and what it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// Whether it does so at the edge of the model's window.
    pub automatic: bool,
    /// Tokens of the window that stay free for the answer.
    pub reserve_tokens: u64,
    /// Tokens of the newest messages that stay as they are.
    pub keep_tokens: u64,
}

/// Longest excerpt of one tool result in the text to summarize, in characters.
const RESULT_CHARS: usize = 2_000;

pub const SYSTEM_PROMPT: &str = "You summarize conversations between a user and a coding agent, so that the agent can \
                                 go on with the summary alone. You only write the summary.";

const REQUEST: &str = "Summarize the conversation above: the user's goals and constraints, what was done and decided, \
                       the state of files by path, what is open, and the next steps. Keep names, paths, commands and \
                       error texts exactly.";

/// What to summarize and what to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The older part as text.
    conversation: String,
    first_kept: String,
    tokens_before: u64,
}

/// A summary that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    plan: Plan,
    text: String,
    pub usage: Usage,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self { automatic: true, reserve_tokens: 16_384, keep_tokens: 20_000 }
    }
}

impl CompactionPolicy {
    /// Whether a context of `tokens` leaves too little of the `window` for an answer.
    pub fn due(&self, tokens: u64, window: u64) -> bool {
        self.automatic && tokens > window.saturating_sub(self.reserve_tokens)
    }
}

/// The plan for a branch; none when there is nothing to leave out.
pub fn plan(branch: &[&Entry], context_tokens: Option<u64>, keep_tokens: u64) -> Option<Plan> {
    let start = branch.iter().rposition(|entry| matches!(entry.body, EntryBody::Compaction(_))).map_or(0, |at| at + 1);
    let mut tokens = 0;
    let mut cut = None;
    for (at, entry) in branch.iter().enumerate().skip(start).rev() {
        tokens += estimate(entry);
        if tokens > keep_tokens {
            break;
        }
        // A kept part begins with a text for the model, never with the result of a call that is left out.
        if begins(entry) {
            cut = Some(at);
        }
    }
    let cut = cut.filter(|cut| *cut > start)?;
    let older = context_of(&branch[..cut]).messages;
    if older.is_empty() {
        return None;
    }
    let conversation = older.iter().map(as_text).collect::<Vec<_>>().join("\n\n");
    let tokens_before = context_tokens.unwrap_or_else(|| branch.iter().map(|entry| estimate(entry)).sum());
    Some(Plan { conversation, first_kept: branch[cut].id.clone(), tokens_before })
}

/// Has the model write the summary. `request` is complete but for its messages.
pub async fn summarize(plan: Plan, provider: Arc<dyn Provider>, mut request: ModelRequest) -> Result<Summary, String> {
    let text = format!("<conversation>\n{}\n</conversation>\n\n{REQUEST}", plan.conversation);
    request.messages = vec![Message::user(text, 0)];
    let answer = provider.stream(request, &mut |_| {}).await.map_err(|error| error.to_string())?;
    let text = answer.text();
    if text.trim().is_empty() {
        return Err("the model wrote no summary".to_owned());
    }
    Ok(Summary { plan, text, usage: answer.usage })
}

impl Summary {
    pub fn into_entry(self) -> EntryBody {
        EntryBody::Compaction(Compaction {
            summary: self.text,
            first_kept_entry_id: self.plan.first_kept,
            tokens_before: self.plan.tokens_before,
            usage: Some(self.usage),
            ..Compaction::default()
        })
    }
}

fn begins(entry: &Entry) -> bool {
    matches!(entry.body, EntryBody::Message { message: Message::User(_) } | EntryBody::CustomMessage { .. })
}

/// Four characters a token.
fn estimate(entry: &Entry) -> u64 {
    let chars = match &entry.body {
        EntryBody::Message { message } => as_text(message).len(),
        EntryBody::CustomMessage { content, .. } => content.text().len(),
        _ => 0,
    };
    (chars as u64).div_ceil(4)
}

fn as_text(message: &Message) -> String {
    match message {
        Message::User(user) => format!("[user]\n{}", user.content.text()),
        Message::Custom(custom) => format!("[message of {}]\n{}", custom.custom_type, custom.content.text()),
        Message::Assistant(answer) => {
            let blocks = answer.content.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.clone()),
                Block::ToolCall(call) => Some(format!("[calls {} {}]", call.name, call.arguments)),
                Block::Thinking { .. } | Block::Image { .. } | Block::Other(_) => None,
            });
            format!("[agent]\n{}", blocks.collect::<Vec<_>>().join("\n"))
        }
        Message::ToolResult(result) => {
            let text: String = result.text().chars().take(RESULT_CHARS).collect();
            format!("[result of {}]\n{text}", result.tool_name)
        }
        Message::CompactionSummary(summary) => format!("[summary of what came before]\n{}", summary.summary),
        Message::BranchSummary(summary) => format!("[summary of a branch]\n{}", summary.summary),
        Message::BashExecution(run) => format!("[user ran]\n{}\n{}", run.command, run.output),
        Message::System(_) | Message::Other(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_file::Content;

    fn entry(number: usize, body: EntryBody) -> Entry {
        Entry { id: format!("e{number}"), parent_id: None, timestamp: String::new(), body }
    }

    fn user(number: usize, chars: usize) -> Entry {
        entry(number, EntryBody::Message { message: Message::user("x".repeat(chars), 0) })
    }

    #[test]
    fn the_newest_messages_are_kept_from_a_text_for_the_model_on() {
        let entries: Vec<Entry> = (0..6).map(|number| user(number, 30_000)).collect();
        let branch: Vec<&Entry> = entries.iter().collect();
        let plan = plan(&branch, Some(7), 20_000).unwrap();
        // 7,500 tokens each: two fit into what is kept.
        assert_eq!((plan.first_kept.as_str(), plan.tokens_before), ("e4", 7));
        assert_eq!(plan.conversation.matches("[user]").count(), 4);
    }

    #[test]
    fn a_compaction_is_due_when_the_reserve_is_touched() {
        let policy = CompactionPolicy { automatic: true, reserve_tokens: 100, keep_tokens: 10 };
        for (tokens, window, due) in [(900, 1_000, false), (901, 1_000, true), (1, 50, true), (0, 50, false)] {
            assert_eq!(policy.due(tokens, window), due, "{tokens} of {window}");
        }
        assert!(!CompactionPolicy { automatic: false, ..policy }.due(u64::MAX, 1_000));
    }

    #[test]
    fn a_small_session_has_nothing_to_leave_out() {
        let entries = [user(0, 10), user(1, 10)];
        let branch: Vec<&Entry> = entries.iter().collect();
        assert_eq!(plan(&branch, None, 20_000), None);
        assert_eq!(plan(&[], None, 20_000), None);
    }

    #[test]
    fn what_was_summarized_before_is_not_summarized_again() {
        let compaction =
            Compaction { summary: "old".into(), first_kept_entry_id: "e1".into(), ..Compaction::default() };
        let mut entries = vec![user(0, 100_000), entry(1, EntryBody::Compaction(compaction))];
        entries.extend((2..6).map(|number| user(number, 30_000)));
        let branch: Vec<&Entry> = entries.iter().collect();
        let plan = plan(&branch, None, 20_000).unwrap();
        assert_eq!(plan.first_kept, "e4");
        assert!(plan.conversation.starts_with("[summary of what came before]\nold"));
    }

    #[test]
    fn content_forms_count_alike() {
        let custom = EntryBody::CustomMessage {
            custom_type: "legion-mail".into(),
            content: Content::Text("abcd".into()),
            display: true,
            details: None,
        };
        assert_eq!(estimate(&entry(0, custom)), 1);
    }
}
