//! One line of a session file, as far as anybody here asks. Big contents are skipped over, not built.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::core::usage::{TokenUsage, cost_reading, token_count};

/// An entry of any type; unknown types and fields are legal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    pub id: Option<Box<str>>,
    pub parent_id: Option<Box<str>>,
    #[serde(borrow)]
    pub message: Option<Message<'a>>,
    pub custom_type: Option<Box<str>>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub details: Option<&'a RawValue>,
}

/// The message of an entry of type `message`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub role: Cow<'a, str>,
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    pub stop_reason: Option<String>,
    pub error_message: Option<String>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
    pub tool_call_id: Option<String>,
    pub is_error: Option<bool>,
}

/// A block of a content array.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub text: Cow<'a, str>,
    #[serde(borrow, default)]
    pub id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// The blocks of an answer; empty for every other line, whose content may be big and is seldom asked for.
    pub fn said(&self) -> Vec<Block<'a>> {
        match &self.message {
            Some(message) if message.role == "assistant" => message.content.map(blocks).unwrap_or_default(),
            Some(_) | None => Vec::new(),
        }
    }

    /// `None` for a damaged line.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The blocks of a content, a plain string being one text block. Content of another shape has none.
pub(super) fn blocks(content: &RawValue) -> Vec<Block<'_>> {
    let json = content.get();
    if !json.starts_with('"') {
        return serde_json::from_str(json).unwrap_or_default();
    }
    let Ok(text) = serde_json::from_str::<String>(json) else {
        return Vec::new();
    };
    vec![Block {
        kind: Cow::Borrowed("text"),
        text: Cow::Owned(text),
        id: Cow::default(),
        name: Cow::default(),
        arguments: None,
    }]
}

/// The text blocks of a content, one below the other.
pub(super) fn text_of(blocks: &[Block<'_>]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter(|block| block.kind == "text")
        .map(|block| &*block.text)
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n")
}

/// The usage of an answer; `None` when a number in it cannot be counted.
pub(super) fn usage(raw: &RawValue) -> Option<TokenUsage> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Usage {
        input: f64,
        output: f64,
        cache_read: f64,
        cache_write: f64,
        cost: Cost,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Cost {
        total: f64,
    }
    let usage: Usage = serde_json::from_str(raw.get()).ok()?;
    Some(TokenUsage {
        input: token_count(usage.input)?,
        output: token_count(usage.output)?,
        cache_read: token_count(usage.cache_read)?,
        cache_write: token_count(usage.cache_write)?,
        cost_usd: cost_reading(usage.cost.total)?,
    })
}

/// The path an `edit` or `write` call is about.
pub(super) fn changed_path(block: &Block<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments {
        #[serde(alias = "file_path")]
        path: String,
    }
    if block.kind != "toolCall" || !matches!(&*block.name, "edit" | "write") {
        return None;
    }
    let arguments: Arguments = serde_json::from_str(block.arguments?.get()).ok()?;
    Some(arguments.path)
}

/// `details.kind` of a notice (NTF-4).
pub(super) fn notice_kind(details: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Details {
        kind: String,
    }
    serde_json::from_str::<Details>(details?.get()).ok().map(|details| details.kind)
}
