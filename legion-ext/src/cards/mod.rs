//! Role cards: found, parsed strictly, and described (02 §1–4).
//!
//! Parsing is pure: bytes in, [`AgentConfig`] or [`CardError`] out. Only `store` touches the file system. Nothing here
//! chooses a model or launches anything.

mod acceptance;
mod budget;
mod catalog;
mod describe;
mod error;
mod parse;
pub mod reader;
pub mod stamp;
mod store;
mod types;
mod write;
mod yaml;

pub use acceptance::parse_call_acceptance;
pub use budget::child_budget_from_agent;
pub use catalog::{Catalog, DefinitionWarning, Entry, ParsedCard, WarnOnce};
pub use describe::{RoleListing, role_listing};
pub use error::{CardError, CardProblem, Fault, Position, UnknownKey};
pub use parse::{MAX_CARD_BYTES, parse_agent_document};
pub use store::{BUNDLED_CARDS, CardStore, DefinitionRoots, PATH_LIST_SEPARATOR, UNTRUSTED_NOTICE};
pub use types::{
    AcceptanceLevel, AcceptanceRole, AcceptanceSpec, AgentConfig, AgentKind, CARD_KEYS, CENTURION, CardSource,
    Criterion, DEFAULT_LOOP_NOTICE_MS, DEFAULT_MAX_RENEWALS, Evidence, OnBlocked, Output, Steer, SystemPromptMode,
    ToolBlock, ToolBudget, TurnBudget,
};
pub use write::to_document;

#[cfg(test)]
mod tests;
