//! What the settings say: limits, switches and the default model (02 §5).
//!
//! Parsing and merging are pure; only `store` touches the file system. Teams, presets, overrides and the model scope
//! are merged by their rules and kept as raw JSON, because this build does not apply them yet
//! ([`Settings::unapplied`]).

mod error;
mod merge;
mod parse;
mod store;
mod types;

pub use error::SettingsError;
pub use merge::merge_blocks;
pub use parse::{parse_block, subagents_block};
pub use store::{SettingsState, SettingsStore};
pub use types::{
    DEFAULT_PHASE_TIMEOUTS, InprocessSettings, LegionSettings, RawBlocks, RpcSettings, Settings, TerminalDriver,
    TerminalSettings,
};

#[cfg(test)]
mod tests;
