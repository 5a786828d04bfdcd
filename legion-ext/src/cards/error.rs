//! Why a card cannot be used.

use std::fmt;

use super::types::CARD_KEYS;
use crate::core::near::quoted_with_near_miss;

/// A broken card: its file, the name it goes by and everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CardError {
    pub path: String,
    /// The card's `name` when it could be read.
    pub name: Option<String>,
    pub problem: CardProblem,
}

/// What is wrong with a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardProblem {
    /// The document as a whole (CARD-3), with the place for YAML.
    Document { at: Option<Position>, message: String },
    /// Top-level keys outside the 41; nothing else of the card was looked at (CARD-4).
    UnknownKeys(Vec<UnknownKey>),
    /// Wrong values, all of them, in document order of the fields (CARD-10).
    Faults(Vec<Fault>),
    /// Two cards of one name in a layer (DISC-8).
    Duplicate { name: String, other: String },
    /// The file cannot be read.
    Unreadable(String),
}

/// A place in the card's file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// A key that no card has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    pub key: String,
    pub at: Option<Position>,
}

/// One wrong value; `key` is the path below the document, such as `acceptance.criteria[0].command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub key: String,
    /// `expected <what>, got <value>` or a sentence of its own.
    pub message: String,
    pub at: Option<Position>,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.problem {
            CardProblem::Document { at: Some(at), message } => write!(f, "{path}:{}:{}: {message}", at.line, at.column),
            CardProblem::Document { at: None, message } => write!(f, "{path}: {message}"),
            CardProblem::UnknownKeys(keys) => {
                let plural = if keys.len() == 1 { "" } else { "s" };
                let quoted = keys.iter().map(|key| quoted_with_near_miss(&key.key, CARD_KEYS));
                write!(f, "{path}: unknown frontmatter key{plural} {}. ", joined(quoted, ", "))?;
                write!(f, "Legal keys: {}", CARD_KEYS.join(", "))?;
                if keys.iter().any(|key| key.key == "spawnMode") {
                    f.write_str(". spawnMode was removed: the backend follows from the launch (worktree or not)")?;
                }
                Ok(())
            }
            CardProblem::Faults(faults) => {
                write!(f, "{path}: {}", joined(faults.iter().map(Fault::to_string), "; "))
            }
            CardProblem::Duplicate { name, other } => {
                write!(f, "{path}: the name '{name}' is taken by {other} in the same layer; rename one of the two")
            }
            CardProblem::Unreadable(message) => write!(f, "{path}: cannot be read: {message}"),
        }
    }
}

/// All of them, but of a file that is no card at all only as many as anybody reads.
fn joined(texts: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    const SHOWN: usize = 50;
    let more = texts.len().saturating_sub(SHOWN);
    let mut shown: Vec<String> = texts.take(SHOWN).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(separator)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}
