//! Models: their names, what they can do, and how much a model thinks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::session_file::Cost;

/// A model by provider and id. Shown and written as `provider/id`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    pub provider: String,
    pub id: String,
}

/// How much a model thinks before it answers, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    #[default]
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// What the registry tells of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    pub provider: String,
    pub id: String,
    /// For people; the id where nothing better is known.
    pub name: String,
    /// The levels that the model takes; only `off` for a model that does not think.
    pub thinking_levels: Vec<ThinkingLevel>,
    /// Tokens.
    pub context_window: u64,
    /// Tokens of one answer.
    pub max_tokens: u64,
    /// US dollars for a million tokens; `total` is unused.
    pub cost: Cost,
    pub images: bool,
    pub has_credentials: bool,
}

impl ModelRef {
    pub fn new(provider: impl Into<String>, id: impl Into<String>) -> ModelRef {
        ModelRef { provider: provider.into(), id: id.into() }
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.id)
    }
}

impl ThinkingLevel {
    /// All levels, from least to most.
    pub const ALL: [ThinkingLevel; 7] = [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
        ThinkingLevel::Xhigh,
        ThinkingLevel::Max,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ThinkingLevel::Off => "off",
            ThinkingLevel::Minimal => "minimal",
            ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High => "high",
            ThinkingLevel::Xhigh => "xhigh",
            ThinkingLevel::Max => "max",
        }
    }

    /// The level of `supported` to use for this one: itself, else the next higher, else the next lower.
    pub fn clamp_to(self, supported: &[ThinkingLevel]) -> ThinkingLevel {
        let higher = supported.iter().copied().filter(|level| *level >= self).min();
        let lower = supported.iter().copied().filter(|level| *level < self).max();
        higher.or(lower).unwrap_or(ThinkingLevel::Off)
    }
}

impl fmt::Display for ThinkingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ThinkingLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        ThinkingLevel::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// A text that names no thinking level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown thinking level '{0}'; use off, minimal, low, medium, high, xhigh or max")]
pub struct UnknownLevel(pub String);

impl ModelInfo {
    pub fn model_ref(&self) -> ModelRef {
        ModelRef::new(&self.provider, &self.id)
    }

    /// Whether the model can think at all.
    pub fn reasoning(&self) -> bool {
        self.thinking_levels.iter().any(|level| *level != ThinkingLevel::Off)
    }
}
