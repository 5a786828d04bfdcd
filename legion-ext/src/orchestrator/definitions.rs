//! Cards and settings of a session, as they stand on disk (DISC-1 … DISC-10).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use host_abi::scope::Env;

use crate::{
    cards::{CardStore, Catalog, DefinitionRoots, DefinitionWarning},
    context::{Identity, SessionContext},
    error::{Code, Result, SubagentError},
    settings::{Settings, SettingsState, SettingsStore},
};

/// Operator variables (SUP-119).
pub(super) mod vars {
    pub const EXTRA_AGENT_DIRS: [&str; 2] = ["PI_SUBAGENTS_EXTRA_AGENT_DIRS", "PI_HERDR_SUBAGENTS_EXTRA_AGENT_DIRS"];
    pub const CHILD_EXTENSIONS: &str = "PI_LEGION_CHILD_EXTENSIONS";
    pub const CHILD_INHERIT_EXTENSIONS: &str = "PI_LEGION_CHILD_INHERIT_EXTENSIONS";
    pub const TEAM: &str = "PI_SUBAGENTS_TEAM";
}

/// What a path list is separated by on this system.
const PATH_LIST: char = if cfg!(windows) { ';' } else { ':' };

/// The readers of one set of roots.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    cards: CardStore,
    settings: SettingsStore,
}

/// Cards and settings at one moment; one call works with one of these.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub catalog: Arc<Catalog>,
    pub settings: SettingsState,
    pub warnings: Vec<DefinitionWarning>,
}

impl Definitions {
    pub(super) fn load(&mut self, roots: &DefinitionRoots) -> Loaded {
        let catalog = self.cards.load(roots);
        let settings = self.settings.load(roots);
        let mut warnings = catalog.warnings().to_vec();
        let notice = |name: &str, text: String| DefinitionWarning {
            place: roots.project_dir.display().to_string(),
            name: name.to_owned(),
            value: String::new(),
            text,
        };
        warnings.extend(roots.untrusted_notice().map(|text| notice("trust", text.to_owned())));
        let unapplied = settings.last_good.unapplied();
        if !unapplied.is_empty() {
            let keys = unapplied.join(", ");
            warnings.push(notice(&keys, format!("legion: not available in this build and not applied: {keys}")));
        }
        Loaded { catalog, settings, warnings }
    }
}

impl Loaded {
    /// The settings for a launch.
    ///
    /// # Errors
    /// While the settings are broken (SET-3), and where they ask for what this build does not have and would break a
    /// promise by leaving out.
    pub(super) fn for_launch(&self, env: &dyn Env) -> Result<&Arc<Settings>> {
        let settings = self.settings.for_launch()?;
        let team = env.var(vars::TEAM).filter(|team| !team.trim().is_empty()).or_else(|| settings.raw.team.clone());
        if let Some(team) = team.filter(|team| team.trim() != "default") {
            return Err(not_available(&format!("team '{}'", team.trim())));
        }
        let enforced = settings.raw.model_scope.as_ref().and_then(|scope| scope.get("enforce")?.as_bool());
        if enforced == Some(true) {
            return Err(not_available("subagents.modelScope with enforce"));
        }
        Ok(settings)
    }
}

/// `<what> is not available in this build`.
pub(super) fn not_available(what: &str) -> SubagentError {
    SubagentError::new(Code::NotAvailable, format!("{what} is not available in this build"))
}

/// Where a session's cards and settings are: a child reads those of its root's project (SET-6).
pub(super) fn roots(context: &SessionContext, agent_dir: &Path, env: &dyn Env) -> DefinitionRoots {
    let project = match &context.identity {
        Identity::Root => context.cwd.clone(),
        Identity::Child(scope) => project_of_run(Path::new(&scope.root_run_dir)).unwrap_or_else(|| context.cwd.clone()),
    };
    let extra = vars::EXTRA_AGENT_DIRS.iter().filter_map(|name| env.var(name));
    let extra_agent_dirs = extra
        .flat_map(|list| list.split(PATH_LIST).map(|dir| dir.trim().to_owned()).collect::<Vec<_>>())
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .collect();
    DefinitionRoots {
        agent_dir: agent_dir.to_owned(),
        project_dir: project.join(".pi"),
        project_trusted: context.project_trusted,
        extra_agent_dirs,
    }
}

/// `<project>/.pi-subagents/runs/<id>` → `<project>`.
fn project_of_run(run_dir: &Path) -> Option<PathBuf> {
    run_dir.parent()?.parent()?.parent().map(Path::to_owned)
}
