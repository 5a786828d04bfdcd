//! Roles as people and models read them: `/legion agents` and `subagent list` (CMD-10). Pure: roles in, lines out.

use super::error::CardError;
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

/// `<name> [<source>] <model> <flags>`, without the description.
pub fn role_line(role: &RoleListing) -> String {
    let mut line = format!("{} [{}] {}", role.name, role.source, role.model);
    if let Some(source) = role.model_source {
        line.push_str(&format!(" ({source})"));
    }
    let flags = [
        (role.utility, "utility"),
        (role.disabled, "disabled"),
        (role.worktree, "worktree"),
        (role.phases, "phases"),
        (role.read_only, "read-only"),
    ];
    for (_, flag) in flags.into_iter().filter(|(set, _)| *set) {
        line.push(' ');
        line.push_str(flag);
    }
    line
}

/// The whole listing: a header, two lines per role, and one line per card that failed to load.
pub fn agents_text(roles: &[RoleListing], broken: &[CardError], team: &str) -> String {
    let available = roles.iter().filter(|role| !role.disabled).count();
    let mut lines = vec![format!("Agents · {available} available · team {team}")];
    for role in roles {
        lines.push(role_line(role));
        lines.push(format!("  {}", role.description));
    }
    lines.extend(broken.iter().map(|error| format!("✗ {error}")));
    lines.join("\n")
}
