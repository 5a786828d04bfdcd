//! Which model and which thinking level a child gets (02 §8). Pure: strings in, a choice with its reason out.
//!
//! It does not know cards, settings, teams or presets: the caller collects one value per level and asks.
//! It does not ask whether a model exists; the host does that at launch.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Result, SubagentError};

/// What a role without any model shows in listings (MODEL-2).
pub const HOST_DEFAULT_MODEL: &str = "(agent CLI default)";

/// What a listing shows for `inherit` with nothing to inherit (MODEL-14).
pub const NEEDS_PARENT_MODEL: &str = "needs a parent session model — a launch would refuse this";

/// The word that means the dispatching session's own model (MODEL-10).
pub const INHERIT: &str = "inherit";

/// A thinking level that hosts know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl ThinkingLevel {
    pub const ALL: [Self; 7] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The level of that exact name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

impl fmt::Display for ThinkingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A configured thinking: a level, or `false`, which takes a level away and gives none (THINK-5).
/// On the wire a level's name or the boolean `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Thinking {
    Level(ThinkingLevel),
    Disabled,
}

impl Thinking {
    pub const fn level(self) -> Option<ThinkingLevel> {
        match self {
            Self::Level(level) => Some(level),
            Self::Disabled => None,
        }
    }
}

impl Serialize for Thinking {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Level(level) => level.serialize(serializer),
            Self::Disabled => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Thinking {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Thinking;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("off, minimal, low, medium, high, xhigh, max or false")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> std::result::Result<Thinking, E> {
                if value { Err(E::invalid_value(de::Unexpected::Bool(true), &self)) } else { Ok(Thinking::Disabled) }
            }
            fn visit_str<E: de::Error>(self, value: &str) -> std::result::Result<Thinking, E> {
                ThinkingLevel::parse(value)
                    .map(Thinking::Level)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(value), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Where a model came from; the wire strings are those of the table in 02 §8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModelSourceType {
    #[serde(rename = "dispatch")]
    Dispatch,
    #[serde(rename = "preset")]
    Preset,
    #[serde(rename = "team")]
    Team,
    #[serde(rename = "agentOverrides")]
    AgentOverrides,
    #[serde(rename = "frontmatter")]
    Frontmatter,
    #[serde(rename = "subagents.defaultModel")]
    DefaultModel,
}

impl ModelSourceType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Preset => "preset",
            Self::Team => "team",
            Self::AgentOverrides => "agentOverrides",
            Self::Frontmatter => "frontmatter",
            Self::DefaultModel => "subagents.defaultModel",
        }
    }
}

impl fmt::Display for ModelSourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The level that gave a model, and the model it gave. On an [`AgentInputs`] it is the tag that a fold left behind
/// (MODEL-5, TEAM-11), valid only while its `model` is still the role's (TEAM-12).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSourceInfo {
    pub r#type: ModelSourceType,
    pub model: String,
}

/// Whether somebody chose the model for this role or run, or it merely flowed in (MODEL-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelOrigin {
    Explicit,
    Inherited,
}

/// One value per level of 02 §8, each as written; blanks count as absent and padding is trimmed (MODEL-4).
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelInputs<'a> {
    /// The role's name, for the refusal text.
    pub role: &'a str,
    /// Level 1: this call's `model`.
    pub call: Option<&'a str>,
    /// Level 2: the model of the preset in force.
    pub preset: Option<&'a str>,
    /// Levels 3 and 6: the role's model, which `agent_tag` marks as a team's or as a folded default.
    pub agent: Option<&'a str>,
    pub agent_tag: Option<&'a ModelSourceInfo>,
    /// Level 4: `agentOverridesByProvider.<parent provider>.<role>.model`.
    pub provider_override: Option<&'a str>,
    /// Level 5: `agentOverrides.<role>.model`.
    pub role_override: Option<&'a str>,
    /// Level 7: `subagents.defaultModel`.
    pub default_model: Option<&'a str>,
    /// Level 8: the dispatching session's current model.
    pub parent: Option<&'a str>,
}

/// The model of one step with the level that gave it; all `None` leaves the choice to the host (MODEL-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedModel {
    pub model: Option<String>,
    pub source: Option<ModelSourceInfo>,
    pub origin: ModelOrigin,
}

/// The first level with a value wins (MODEL-1); `inherit` at any level is the parent's model (MODEL-10).
///
/// # Errors
/// `INVALID_PARAMS` when the winning level says `inherit` and the dispatching session has no model (MODEL-11).
pub fn resolve_model(input: &ModelInputs<'_>) -> Result<ResolvedModel> {
    use ModelOrigin::{Explicit, Inherited};
    use ModelSourceType::{AgentOverrides, DefaultModel, Dispatch, Frontmatter, Preset, Team};

    let agent = filled(input.agent);
    let tag = input.agent_tag.filter(|tag| Some(tag.model.trim()) == agent).map(|tag| tag.r#type);
    let (team, card) = if tag == Some(Team) { (agent, None) } else { (None, agent) };
    let (card_type, card_origin) =
        if tag == Some(DefaultModel) { (DefaultModel, Inherited) } else { (Frontmatter, Explicit) };
    let parent = filled(input.parent);

    let chain = [
        (filled(input.call), Dispatch, Explicit),
        (filled(input.preset), Preset, Explicit),
        (team, Team, Explicit),
        (filled(input.provider_override), AgentOverrides, Explicit),
        (filled(input.role_override), AgentOverrides, Explicit),
        (card, card_type, card_origin),
        (filled(input.default_model), DefaultModel, Inherited),
        (parent, Dispatch, Inherited),
    ];
    let Some((model, r#type, origin)) = chain.into_iter().find_map(|(model, t, o)| model.map(|m| (m, t, o))) else {
        return Ok(ResolvedModel { model: None, source: None, origin: Inherited });
    };
    let (model, origin) = if let Some(level) = inherit(model) {
        let Some(parent) = parent.filter(|parent| inherit(parent).is_none()) else {
            return Err(SubagentError::invalid(format!(
                "model 'inherit' for '{}' needs a parent session model and there is none; \
                 set subagents.defaultModel or pass an explicit model",
                input.role
            )));
        };
        let model = match level {
            Some(level) => format!("{}:{level}", split_thinking_suffix(parent).0),
            None => parent.to_owned(),
        };
        (model, Inherited)
    } else {
        (model.to_owned(), origin)
    };
    let source = Some(ModelSourceInfo { r#type, model: model.clone() });
    Ok(ResolvedModel { model: Some(model), source, origin })
}

/// The configured thinking of each level of THINK-1, as far as given.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThinkingInputs {
    /// This call's own `thinking`.
    pub call: Option<Thinking>,
    pub preset: Option<Thinking>,
    /// The role's, with the team member's and the overrides' already folded in.
    pub agent: Option<Thinking>,
}

impl ThinkingInputs {
    /// The thinking in force, before any level written inside a model string (THINK-1).
    pub fn configured(self) -> Option<Thinking> {
        self.call.or(self.preset).or(self.agent)
    }
}

/// A model with the thinking to run it with, in the one form that both backends hand on (MODEL-6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnModel {
    /// The reference for `models.resolve` and `--model`, its known `:level` included; `None` is the host's default.
    pub model: Option<String>,
    /// A level that the reference does not carry, passed on its own (THINK-7).
    pub thinking: Option<ThinkingLevel>,
}

/// The resolved model of a step and how to start and to show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepModel {
    pub resolved: ResolvedModel,
    pub spawn: SpawnModel,
    /// What `ChildRecord.thinking` keeps (THINK-11).
    pub recorded_thinking: Option<Thinking>,
}

/// The one entry that both backends use (MODEL-6): [`resolve_model`], then the thinking rules.
///
/// # Errors
/// Those of [`resolve_model`].
pub fn resolve_step_model(input: &ModelInputs<'_>, thinking: ThinkingInputs) -> Result<StepModel> {
    let resolved = resolve_model(input)?;
    let model = resolved.model.as_deref();
    // A level written in this call's model stands against everything but this call's own `thinking` (THINK-3).
    let call_level = filled(input.call).is_some_and(|call| split_thinking_suffix(call).1.is_some());
    let configured = if call_level { thinking.call } else { thinking.configured() };
    let spawn = spawn_model(model, configured);
    let recorded_thinking = recorded_thinking(spawn.model.as_deref(), thinking.call, configured);
    Ok(StepModel { spawn, recorded_thinking, resolved })
}

/// `model` under a configured `thinking`, which beats a level inside the string (THINK-2, THINK-4, THINK-5).
pub fn spawn_model(model: Option<&str>, configured: Option<Thinking>) -> SpawnModel {
    let stripped = match (model, configured) {
        (Some(model), Some(_)) => Some(split_thinking_suffix(model).0),
        (model, _) => model,
    };
    apply_thinking_suffix(stripped, configured.and_then(Thinking::level))
}

/// The models to try in order: the resolved one, then the fallbacks, without `inherit` and without repeats
/// (FALL-1, MODEL-13). A fallback keeps its own known level, else it gets the configured thinking.
pub fn model_candidates(first: &SpawnModel, fallbacks: &[String], configured: Option<Thinking>) -> Vec<SpawnModel> {
    let level = configured.and_then(Thinking::level);
    let mut candidates = vec![first.clone()];
    for model in fallbacks.iter().filter_map(|model| filled(Some(model))).filter(|model| inherit(model).is_none()) {
        let candidate = apply_thinking_suffix(Some(model), level);
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates
}

/// `model` without the known level after its last `:`, and that level; an unknown suffix is part of the id (THINK-6).
pub fn split_thinking_suffix(model: &str) -> (&str, Option<ThinkingLevel>) {
    let Some((id, suffix)) = model.rsplit_once(':') else { return (model, None) };
    match ThinkingLevel::parse(suffix) {
        Some(level) if !id.is_empty() => (id, Some(level)),
        _ => (model, None),
    }
}

/// Puts a level into a model reference. A known level already there is kept; a reference with an unknown suffix is
/// never extended (THINK-6), so the level then goes on its own, as it does with no model (THINK-7).
pub fn apply_thinking_suffix(model: Option<&str>, level: Option<ThinkingLevel>) -> SpawnModel {
    let Some(model) = model else { return SpawnModel { model: None, thinking: level } };
    let Some(wanted) = level else { return SpawnModel { model: Some(model.to_owned()), thinking: None } };
    match suffix(model) {
        Suffix::Level => SpawnModel { model: Some(model.to_owned()), thinking: None },
        Suffix::Other => SpawnModel { model: Some(model.to_owned()), thinking: Some(wanted) },
        Suffix::None => SpawnModel { model: Some(format!("{model}:{wanted}")), thinking: None },
    }
}

/// The only way a model and a thinking level are shown together (THINK-8, THINK-9).
pub fn model_label(model: &str, thinking: Option<Thinking>) -> String {
    match (suffix(model), thinking.and_then(Thinking::level)) {
        (Suffix::None, Some(level)) => format!("{model}:{level}"),
        _ => model.to_owned(),
    }
}

/// The level that really runs (THINK-11): the known one in the model string, else the call's, else the role's.
pub fn recorded_thinking(model: Option<&str>, call: Option<Thinking>, role: Option<Thinking>) -> Option<Thinking> {
    let written = model.and_then(|model| split_thinking_suffix(model).1).map(Thinking::Level);
    written.or(call).or(role)
}

/// `Some` for the sentinel, with the level of `inherit:<level>`.
fn inherit(model: &str) -> Option<Option<ThinkingLevel>> {
    let (word, level) = split_thinking_suffix(model);
    (word == INHERIT).then_some(level)
}

/// Whether a configured value is the sentinel of MODEL-10, with or without a level.
pub fn is_inherit(model: &str) -> bool {
    inherit(model.trim()).is_some()
}

enum Suffix {
    None,
    Level,
    Other,
}

/// What stands after the last `:` of the last path part; a `:` before a `/` belongs to the id.
fn suffix(model: &str) -> Suffix {
    if split_thinking_suffix(model).1.is_some() {
        return Suffix::Level;
    }
    let last = model.rsplit('/').next().unwrap_or(model);
    if last.contains(':') { Suffix::Other } else { Suffix::None }
}

/// The call's own value for a step: the step's, else the top-level one; blank is absent, padding goes (MODEL-4).
pub fn call_value<'a>(step: Option<&'a str>, top: Option<&'a str>) -> Option<&'a str> {
    filled(step).or_else(|| filled(top))
}

/// A trimmed value; blank is never a choice (MODEL-4, CARD-13).
fn filled(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
