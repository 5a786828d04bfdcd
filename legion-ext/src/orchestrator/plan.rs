//! From the items of a call to children that could be started: roles, models, acceptance and guards (ORC-22 … ORC-36).
//! Nothing is made here.

use std::sync::Arc;

use host_abi::ops::GetSessionInfo;

use super::{
    Orchestrator, acceptance,
    command::{Dispatch, Launch, LaunchItem},
    definitions::{Loaded, not_available},
    run::worktree_not_available,
    spec::missing_extension,
};
use crate::{
    cards::{AcceptanceSpec, AgentConfig, CENTURION},
    context::{Identity, ProcessEnv},
    core::{
        model::{SpawnModel, StepModel, Thinking, ThinkingInputs, model_candidates, resolve_step_model},
        naming::check_child_name,
    },
    error::{Code, Result, SubagentError},
    settings::Settings,
};

/// What holds for all items of a call.
#[derive(Debug)]
pub(super) struct CallPlan {
    pub loaded: Loaded,
    pub settings: Arc<Settings>,
    /// `provider/id` of the dispatching session.
    pub parent_model: Option<String>,
}

/// One child that may be started, as far as its item and its role say.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Name or role, for a line without a child.
    pub label: String,
    pub agent: Arc<AgentConfig>,
    pub task: String,
    /// Checked; an allocated name comes later.
    pub name: Option<String>,
    pub step: StepModel,
    /// In the order of FALL-1.
    pub candidates: Vec<SpawnModel>,
    pub acceptance: AcceptanceSpec,
    pub warnings: Vec<String>,
    pub waits: bool,
    pub budget_ms: Option<u64>,
}

/// SURF-5.
const DISABLED: &str = "subagents are off; /legion on enables them for this session";
/// ORC-180.
pub(super) const SHUTTING_DOWN: &str = "session is shutting down";

impl Orchestrator {
    /// What refuses a call as a whole, before anything starts.
    pub(super) async fn plan_call(&self, launch: &Launch) -> Result<CallPlan> {
        if self.is_closed() {
            return Err(SubagentError::new(Code::Disabled, SHUTTING_DOWN));
        }
        let context = self.context();
        let allowed = match launch.dispatch {
            Dispatch::Subagent => context.identity.may_launch(),
            Dispatch::Vexillatio => !context.identity.utility(),
        };
        if !allowed {
            return Err(SubagentError::invalid("this session may not launch children"));
        }
        let loaded = self.definitions();
        let settings = Arc::clone(loaded.for_launch(&ProcessEnv)?);
        if !settings.enabled {
            return Err(SubagentError::new(Code::Disabled, DISABLED));
        }
        self.guard_centurions(launch, &loaded)?;
        // The session's own model is the last level of the chain, and what `inherit` means.
        let parent_model = match self.host.request(&GetSessionInfo {}).await {
            Ok(info) => info.model,
            Err(_) => None,
        };
        Ok(CallPlan { loaded, settings, parent_model })
    }

    /// PHM-7 (G1), for the whole call.
    fn guard_centurions(&self, launch: &Launch, loaded: &Loaded) -> Result<()> {
        let context = self.context();
        if matches!(context.identity, Identity::Root) {
            return Ok(());
        }
        let own = context.identity.role();
        let centurion = |item: &LaunchItem| {
            let role = item.agent.as_deref().and_then(|role| loaded.catalog.resolve(role, own).ok());
            role.is_some_and(|role| role.name == CENTURION)
        };
        if launch.items.iter().any(centurion) {
            return Err(SubagentError::invalid("centurion can only be launched by root"));
        }
        Ok(())
    }

    /// One item, resolved; an error is its `✗` line.
    pub(super) fn plan_item(&self, call: &CallPlan, launch: &Launch, item: &LaunchItem) -> Result<Plan> {
        let context = self.context();
        let own_role = context.identity.role();
        let Some(role) = item.agent.as_deref().filter(|role| !role.is_empty()) else {
            let roster: Vec<&str> = call.loaded.catalog.roster(own_role).map(|agent| agent.name.as_str()).collect();
            return Err(SubagentError::invalid(format!("agent is required; available: {}", roster.join(", "))));
        };
        let agent = call.loaded.catalog.resolve(role, own_role)?;
        if launch.dispatch == Dispatch::Vexillatio && !agent.utility {
            let utility = call.loaded.catalog.roster(own_role).filter(|agent| agent.utility);
            let names: Vec<&str> = utility.map(|agent| agent.name.as_str()).collect();
            let (role, names) = (&agent.name, names.join(", "));
            return Err(SubagentError::invalid(format!("'{role}' is not a utility agent; vexillatio takes: {names}")));
        }
        if item.task.trim().is_empty() {
            return Err(SubagentError::invalid("task is empty"));
        }
        let name = item.name.as_deref().map(check_child_name).transpose();
        let name = name.map_err(|error| SubagentError::invalid(error.to_string()))?;
        let mut warnings = Vec::new();
        self.arbitrate(&agent, item, &mut warnings)?;
        refuse_unbuilt(&agent)?;
        if let Some(entry) = missing_extension(&agent, &context.cwd) {
            let role = &agent.name;
            return Err(SubagentError::invalid(format!("extension not found: {entry} (role '{role}')")));
        }

        let session_role = context.identity.child().and_then(|scope| scope.acceptance_role);
        let card = agent.acceptance_spec();
        let (acceptance, loosened) = acceptance::in_force(&card, item.acceptance.as_ref(), session_role)?;
        warnings.extend(loosened);

        let inputs = call.settings.model_inputs(&agent, item.model.as_deref(), call.parent_model.as_deref());
        let thinking = ThinkingInputs { call: item.thinking.map(Thinking::Level), preset: None, agent: agent.thinking };
        let step = resolve_step_model(&inputs, thinking)?;
        let named = item.model.as_deref().is_some_and(|model| !model.trim().is_empty());
        let fallbacks: &[String] = if named { &[] } else { &agent.fallback_models };
        let candidates = model_candidates(&step.spawn, fallbacks, thinking.configured());
        let waits = launch.dispatch == Dispatch::Vexillatio || !launch.run_async.unwrap_or(agent.run_async);
        let budget_ms = launch.timeout_ms.or(agent.timeout_ms).or(call.settings.inprocess.wait_timeout_ms);
        let label = name.clone().unwrap_or_else(|| agent.name.clone());
        Ok(Plan {
            label,
            task: item.task.clone(),
            name,
            step,
            candidates,
            acceptance,
            warnings,
            waits,
            budget_ms,
            agent,
        })
    }

    /// Backend arbitration (ORC-33): without a worktree a child runs in-process; the one role that may hold one cannot
    /// get it in this build, and any other is demoted (ORC-32).
    fn arbitrate(&self, agent: &AgentConfig, item: &LaunchItem, warnings: &mut Vec<String>) -> Result<()> {
        if !item.worktree.unwrap_or(agent.worktree) {
            return Ok(());
        }
        if agent.may_hold_worktree() {
            return Err(worktree_not_available(&agent.name));
        }
        if self.book().demoted.insert(agent.name.clone()) {
            warnings.push(format!("worktree is reserved for centurion; '{}' runs without one", agent.name));
        }
        Ok(())
    }
}

/// What a card asks for and this build does not have.
fn refuse_unbuilt(agent: &AgentConfig) -> Result<()> {
    let role = &agent.name;
    if agent.phases.is_some() && agent.name == CENTURION {
        return Err(not_available(&format!("the phase machine of role '{role}'")));
    }
    if let Some(preset) = &agent.preset {
        return Err(not_available(&format!("preset '{preset}' of role '{role}'")));
    }
    match agent.team.as_deref().filter(|team| *team != "default") {
        Some(team) => Err(not_available(&format!("team '{team}' of role '{role}'"))),
        None => Ok(()),
    }
}
