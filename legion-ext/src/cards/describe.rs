//! What a listing tells about a role (LIST-1); `ui` makes lines of it.

use super::types::{AcceptanceRole, AgentConfig, CardSource};
use crate::core::model::{
    HOST_DEFAULT_MODEL, ModelInputs, ModelSourceType, NEEDS_PARENT_MODEL, ThinkingInputs, model_label,
    resolve_step_model,
};

/// One role with what a listing tells about it (LIST-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleListing {
    pub name: String,
    pub source: CardSource,
    pub path: String,
    pub description: String,
    /// The model label, or the text that stands for it (MODEL-2, MODEL-14).
    pub model: String,
    /// Where the model comes from; `None` where there is none.
    pub model_source: Option<ModelSourceType>,
    pub preset: Option<String>,
    pub worktree: bool,
    pub utility: bool,
    pub disabled: bool,
    pub phases: bool,
    pub read_only: bool,
}

/// Lists a role. `models` holds the levels that the caller knows, such as the default model and the session's own; the
/// role's name, model and tag are taken from `agent`.
pub fn role_listing(agent: &AgentConfig, models: &ModelInputs<'_>) -> RoleListing {
    let inputs = ModelInputs {
        role: &agent.name,
        agent: agent.model.as_deref(),
        agent_tag: agent.model_source.as_ref(),
        ..*models
    };
    let thinking = ThinkingInputs { agent: agent.thinking, ..ThinkingInputs::default() };
    let (model, model_source) = match resolve_step_model(&inputs, thinking) {
        Ok(step) => match &step.spawn.model {
            Some(model) => (model_label(model, agent.thinking), step.resolved.source.map(|source| source.r#type)),
            None => (HOST_DEFAULT_MODEL.to_owned(), None),
        },
        // The one way resolution fails (MODEL-11).
        Err(_) => (NEEDS_PARENT_MODEL.to_owned(), None),
    };
    RoleListing {
        name: agent.name.clone(),
        source: agent.source,
        path: agent.path.clone(),
        description: agent.description.clone(),
        model,
        model_source,
        preset: agent.preset.clone(),
        worktree: agent.worktree && agent.may_hold_worktree(),
        utility: agent.utility,
        disabled: agent.disabled,
        phases: agent.phases.is_some() && agent.may_hold_worktree(),
        read_only: agent.acceptance_role() == Some(AcceptanceRole::ReadOnly),
    }
}

impl RoleListing {
    /// The words that a listing shows behind the model.
    pub fn flags(&self) -> Vec<&'static str> {
        let flags = [
            (self.utility, "utility"),
            (self.disabled, "disabled"),
            (self.worktree, "worktree"),
            (self.phases, "phases"),
            (self.read_only, "read-only"),
        ];
        flags.into_iter().filter_map(|(set, flag)| set.then_some(flag)).collect()
    }
}
