//! What the lines of a session add up to: totals of the whole file, and the last turn of the active branch.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::value::RawValue;

use super::line::{Block, Line, Message, blocks, changed_path, notice_kind, text_of, usage};
use crate::core::mail::{MAIL_DELIVERY_TURN_WINDOW, MAIL_TEXT_MARK};
use crate::core::outcome::{AssistantFacts, ParsedSession, TurnFacts, notice_begins_turn};
use crate::core::usage::TokenUsage;

/// The type of a platform notice among session messages (NTC-1).
const NOTICE_TYPE: &str = "subagent-notify";

/// What a transcript says, up to its last complete line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionFacts {
    /// Input of `core::outcome::derive_outcome`; its totals are those of the whole file.
    pub parsed: ParsedSession,
    /// Over every answer in the file, other branches and what was compacted included (LED-54).
    pub usage: TokenUsage,
    /// Answers whose usage could not be counted.
    pub unusable_usage: u64,
    /// Paths that `edit` and `write` calls without an error have named, in the whole file (ORC-126).
    pub changed_paths: BTreeSet<String>,
    /// Texts of the last 20 turns of the branch that hold a mail, oldest first (MAIL-22).
    pub mail_texts: VecDeque<MailText>,
    /// Turns of the branch so far; messages that arrived together are one.
    pub turns: u64,
}

/// A user message, session message or tool result with a handed-over mail in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailText {
    /// The turn it belongs to, counting from 1.
    pub turn: u64,
    pub text: String,
}

/// Totals of the file, which every entry joins once, whatever its branch.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Calls whose result has not come yet, by call id.
    open_changes: HashMap<String, String>,
}

impl FileState {
    /// `said` holds the blocks of an answer; empty for every other line.
    pub fn add(&mut self, line: &Line<'_>, said: &[Block<'_>], facts: &mut SessionFacts) {
        facts.parsed.valid_lines += 1;
        let Some(message) = &line.message else {
            return;
        };
        match &*message.role {
            "assistant" => {
                facts.parsed.assistant_messages += 1;
                if let Some(raw) = message.usage {
                    match usage(raw) {
                        Some(reading) => facts.usage.add(&reading),
                        None => facts.unusable_usage += 1,
                    }
                }
                let changes = said.iter().filter_map(|block| Some((block.id.to_string(), changed_path(block)?)));
                self.open_changes.extend(changes);
            }
            "toolResult" => {
                facts.parsed.tool_results += 1;
                let change = message.tool_call_id.as_ref().and_then(|id| self.open_changes.remove(id));
                if message.is_error != Some(true) {
                    facts.changed_paths.extend(change);
                }
            }
            _ => {}
        }
    }
}

/// The part of the facts that belongs to the active branch.
#[derive(Debug, Default)]
pub(super) struct BranchState {
    turn: TurnFacts,
    turns: u64,
    answered: bool,
    last_entry_id: Option<String>,
    mail_texts: VecDeque<MailText>,
}

impl BranchState {
    /// Adds the next entry of the branch; `said` as in [`FileState::add`].
    pub fn add(&mut self, line: &Line<'_>, said: &[Block<'_>]) {
        if let Some(id) = &line.id {
            self.last_entry_id = Some(id.to_string());
        }
        match (&*line.kind, &line.message) {
            ("message", Some(message)) => self.add_message(line, message, said),
            ("custom_message", _) => {
                let notice = line.custom_type.as_deref() == Some(NOTICE_TYPE);
                if notice && notice_kind(line.details).is_some_and(|kind| notice_begins_turn(&kind)) {
                    self.begin_turn(line);
                }
                self.keep_mail(line.content);
            }
            _ => {}
        }
    }

    fn add_message(&mut self, line: &Line<'_>, message: &Message<'_>, said: &[Block<'_>]) {
        match &*message.role {
            "user" => {
                self.begin_turn(line);
                self.keep_mail(message.content);
            }
            "toolResult" => self.keep_mail(message.content),
            "assistant" => {
                self.answered = true;
                let text = text_of(said);
                if !text.is_empty() {
                    self.turn.last_text = text;
                }
                self.turn.last_assistant = Some(AssistantFacts {
                    entry_id: line.id.as_deref().unwrap_or_default().to_owned(),
                    stop_reason: message.stop_reason.clone(),
                    error_message: message.error_message.clone(),
                });
            }
            _ => {}
        }
    }

    fn begin_turn(&mut self, line: &Line<'_>) {
        if self.answered || self.turns == 0 {
            self.turns += 1;
        }
        self.answered = false;
        self.turn = TurnFacts { begin_entry_id: line.id.as_deref().map(str::to_owned), ..TurnFacts::default() };
        let oldest = self.turns.saturating_sub(MAIL_DELIVERY_TURN_WINDOW);
        while self.mail_texts.front().is_some_and(|mail| mail.turn <= oldest) {
            self.mail_texts.pop_front();
        }
    }

    fn keep_mail(&mut self, content: Option<&RawValue>) {
        static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(MAIL_TEXT_MARK));
        if let Some(content) = content.filter(|content| MARK.find(content.get().as_bytes()).is_some()) {
            self.mail_texts.push_back(MailText { turn: self.turns, text: text_of(&blocks(content)) });
        }
    }

    /// Puts the branch's facts beside the file's.
    pub fn show(&self, facts: &mut SessionFacts) {
        facts.parsed.last_turn = self.turn.clone();
        facts.parsed.last_entry_id = self.last_entry_id.clone();
        facts.turns = self.turns;
        facts.mail_texts = self.mail_texts.clone();
    }
}
