//! What a child inherits, as the one `ChildSpec` that its host gets (02 §12). Pure but for looking for skills.

use std::path::{Path, PathBuf};

use host_abi::{
    ops::{ChildSpec, ExtensionEntry},
    scope::{ChildBudget, Env, ExtensionScope, SCOPE_SCHEMA},
};

use super::{
    child_context::{ChildFacts, child_context},
    definitions::vars,
    run::Run,
};
use crate::{
    cards::{AcceptanceSpec, AgentConfig, DefinitionRoots, SystemPromptMode, child_budget_from_agent},
    context::SessionContext,
    supervisor::SpawnMode,
};

/// The two libraries that a host loads into every child by itself (INH-9).
const LIBRARIES: [&str; 2] = ["legion-ext", "child-guard"];
/// Extension of the host that runs tools from code (INH-8).
const CODEMODE: &str = "builtin:codemode";

/// What a spec is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpecInput<'a> {
    pub context: &'a SessionContext,
    pub run: &'a Run,
    pub roots: &'a DefinitionRoots,
    /// The parent session's extensions (INH-12).
    pub inherited: &'a [ExtensionEntry],
    /// Different at every spawn: a successor of the same name is another agent to the host.
    pub serial: u64,
    pub name: &'a str,
    pub node_id: &'a str,
    pub session_file: &'a Path,
    pub agent: &'a AgentConfig,
    pub acceptance: &'a AcceptanceSpec,
}

/// The spec, without model and thinking, and the warnings that its making gave.
pub(super) fn child_spec(input: &SpecInput<'_>, env: &dyn Env) -> (ChildSpec, Vec<String>) {
    let SpecInput { context, agent, .. } = *input;
    let mut warnings = Vec::new();
    let budget = child_budget(input);
    let facts = ChildFacts {
        name: input.name,
        parent: parent_name(context),
        agent,
        acceptance: input.acceptance,
        budget: &budget,
    };
    let prompt = join(&agent.system_prompt, &child_context(&facts));
    let (system_prompt, append_system_prompt) = match agent.system_prompt_mode {
        SystemPromptMode::Replace => (Some(prompt), None),
        SystemPromptMode::Append => (None, Some(prompt)),
    };
    let skills = skills(agent, input.roots, &mut warnings);
    let spec = ChildSpec {
        agent_id: format!("{}/{}#{}", context.agent_id, input.name, input.serial),
        name: input.name.to_owned(),
        cwd: context.cwd.display().to_string(),
        session_file: Some(input.session_file.display().to_string()),
        session_dir: None,
        session_id: None,
        parent_session: context.session_file.as_ref().map(|path| path.display().to_string()),
        system_prompt,
        append_system_prompt,
        tools: tools(agent, &budget, !skills.is_empty()),
        exclude_tools: Vec::new(),
        model: None,
        thinking: None,
        extensions: extensions(agent, &context.cwd, input.inherited, env, &mut warnings),
        skills,
        context_files: agent.inherit_project_context,
        host_skills: agent.inherit_skills,
        extension_scope: Some(scope(input, budget).to_json()),
    };
    (spec, warnings)
}

/// The identity of the child (SUP-30).
fn scope(input: &SpecInput<'_>, budget: ChildBudget) -> ExtensionScope {
    let identity = &input.context.identity;
    let mut parent_path = identity.child().map(|scope| scope.parent_path.clone()).unwrap_or_default();
    parent_path.push(identity.node_id().to_owned());
    ExtensionScope {
        schema: SCOPE_SCHEMA.to_owned(),
        name: input.name.to_owned(),
        role: input.agent.name.clone(),
        node_id: input.node_id.to_owned(),
        db_path: input.run.db_path().display().to_string(),
        session_file: input.session_file.display().to_string(),
        run_dir: input.run.dir.path().display().to_string(),
        root_run_dir: input.run.root_dir.path().display().to_string(),
        parent_path,
        depth: identity.depth() + 1,
        spawn_mode: SpawnMode::InProcess.as_str().to_owned(),
        // Always handed over (TEAM-9); there is one team in this build.
        team: Some("default".to_owned()),
        acceptance_role: input.acceptance.role,
        utility: input.agent.utility,
        budget: Some(budget),
        phases: None,
    }
}

/// The card's limits, the depth never above the session's own (CARD-50).
fn child_budget(input: &SpecInput<'_>) -> ChildBudget {
    let mut budget = child_budget_from_agent(input.agent);
    let own = input.context.identity.child().and_then(|scope| scope.budget.as_ref()?.max_depth);
    budget.max_depth = budget.max_depth.into_iter().chain(own).min();
    budget
}

fn parent_name(context: &SessionContext) -> &str {
    context.identity.child().map_or("root", |scope| &scope.name)
}

fn join(body: &str, child_context: &str) -> String {
    if body.is_empty() { child_context.to_owned() } else { format!("{body}\n\n{child_context}") }
}

/// The card's allowlist with what it cannot cut off (CARD-43), and `read` for a selected skill (INH-16).
fn tools(agent: &AgentConfig, budget: &ChildBudget, has_skills: bool) -> Option<Vec<String>> {
    let mut tools = agent.tools.clone()?;
    let own = [
        ("legion_mail", true),
        ("legion_tree", true),
        ("vexillatio", !agent.utility),
        ("subagent", budget.allow_nested),
        ("read", has_skills),
    ];
    for (tool, wanted) in own {
        if wanted && !tools.iter().any(|known| known == tool) {
            tools.push(tool.to_owned());
        }
    }
    Some(tools)
}

/// INH-8, INH-10, INH-11; the two libraries are the host's own business (INH-9).
fn extensions(
    agent: &AgentConfig,
    cwd: &Path,
    inherited: &[ExtensionEntry],
    env: &dyn Env,
    warnings: &mut Vec<String>,
) -> Vec<String> {
    for entry in &agent.exclude_extensions {
        if LIBRARIES.iter().any(|library| matches_glob(entry, library)) {
            warnings.push(format!("excludeExtensions '{entry}' is ignored: it names a library that every child has"));
        }
    }
    let inherit = agent.inherit_extensions.unwrap_or_else(|| inherits_by_default(env));
    let kept = inherited.iter().filter(|extension| inherit && !is_excluded(extension, &agent.exclude_extensions));
    let listed = env.var(vars::CHILD_EXTENSIONS).unwrap_or_default();
    let listed = listed.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned);
    let codemode = inherited.iter().any(|extension| extension.entry == CODEMODE)
        && agent.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == "codemode"));
    let mut entries: Vec<String> = Vec::new();
    let all = kept
        .map(|extension| extension.path.clone().unwrap_or_else(|| extension.entry.clone()))
        .chain(own_extensions(agent).map(|entry| resolved(entry, agent, cwd).unwrap_or_else(|| entry.to_owned())))
        .chain(listed)
        .chain(codemode.then(|| CODEMODE.to_owned()));
    for entry in all {
        let library = stem(&entry).is_some_and(|stem| LIBRARIES.contains(&stem.as_str()));
        if !library && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

/// The first entry of the card that is a path and leads nowhere (INH-17).
pub(super) fn missing_extension<'a>(agent: &'a AgentConfig, cwd: &Path) -> Option<&'a str> {
    own_extensions(agent).find(|entry| is_path(entry) && resolved(entry, agent, cwd).is_none())
}

fn own_extensions(agent: &AgentConfig) -> impl Iterator<Item = &str> {
    agent.extensions.iter().chain(&agent.subagent_only_extensions).map(String::as_str)
}

/// A name such as `builtin:x` or `npm:y` is the host's to find.
fn is_path(entry: &str) -> bool {
    let (scheme, _) = entry.split_once(':').unwrap_or_default();
    let named = scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphabetic());
    !named && (entry.contains(['/', '\\']) || Path::new(entry).extension().is_some())
}

/// The file of a path entry: beside the card, else in the working directory.
fn resolved(entry: &str, agent: &AgentConfig, cwd: &Path) -> Option<String> {
    if !is_path(entry) {
        return None;
    }
    let beside = Path::new(&agent.path).parent().unwrap_or(Path::new(""));
    let found = [beside, cwd].into_iter().map(|place| place.join(entry)).find(|path| path.exists())?;
    Some(found.display().to_string())
}

fn inherits_by_default(env: &dyn Env) -> bool {
    !matches!(env.var(vars::CHILD_INHERIT_EXTENSIONS).as_deref().map(str::trim), Some("0" | "false"))
}

/// By entry, resolved path, file stem or package name (INH-10).
fn is_excluded(extension: &ExtensionEntry, exclude: &[String]) -> bool {
    let stem = stem(extension.path.as_deref().unwrap_or(&extension.entry));
    let names = [Some(extension.entry.clone()), extension.path.clone(), stem, extension.package_name.clone()];
    exclude.iter().any(|pattern| names.iter().flatten().any(|name| matches_glob(pattern, name)))
}

/// The file stem, without the `lib` of a library's file and with its `_` as `-`.
fn stem(entry: &str) -> Option<String> {
    let stem = Path::new(entry).file_stem()?.to_str()?;
    Some(stem.strip_prefix("lib").unwrap_or(stem).replace('_', "-"))
}

/// `*` stands for any run of characters.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Paths of the selected skills (INH-4); one that cannot be found is a warning (INH-16).
fn skills(agent: &AgentConfig, roots: &DefinitionRoots, warnings: &mut Vec<String>) -> Vec<String> {
    let home = roots.agent_dir.parent().and_then(Path::parent);
    let mut found: Vec<PathBuf> = agent.skill_paths(home);
    found.retain(|path| {
        let there = path.exists();
        if !there {
            warnings.push(format!("skill not found: {}", path.display()));
        }
        there
    });
    let project = roots.project_trusted.then(|| roots.project_dir.join("skills"));
    let places: Vec<PathBuf> = project.into_iter().chain([roots.agent_dir.join("skills")]).collect();
    for name in &agent.skills {
        let candidates =
            places.iter().flat_map(|place| [place.join(name).join("SKILL.md"), place.join(format!("{name}.md"))]);
        match candidates.into_iter().find(|path| path.is_file()) {
            Some(path) if !found.contains(&path) => found.push(path),
            Some(_) => {}
            None => warnings.push(format!("skill not found: {name}")),
        }
    }
    found.into_iter().map(|path| path.display().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::cards::CardSource;

    fn entry(entry: &str, package: Option<&str>) -> ExtensionEntry {
        ExtensionEntry { entry: entry.into(), path: None, package_name: package.map(str::to_owned) }
    }

    fn none() -> HashMap<String, String> {
        HashMap::new()
    }

    /// INH-8 … INH-11, part of 02-T26, part of 02-T30
    #[test]
    fn extensions_come_in_order_and_without_the_two_libraries() {
        let inherited = [
            entry("/x/todo.ts", None),
            entry("npm:lint", Some("@me/lint")),
            entry("/lib/liblegion_ext.so", None),
            entry(CODEMODE, None),
        ];
        let mut agent = AgentConfig::new(CardSource::Bundled, "x", "worker");
        agent.extensions = vec!["./own.ts".into()];
        agent.subagent_only_extensions = vec!["./only.ts".into(), "./own.ts".into()];
        let env = HashMap::from([(vars::CHILD_EXTENSIONS.to_owned(), " builtin:a , ,./b.ts".to_owned())]);
        let mut warnings = Vec::new();
        let cwd = Path::new("/nowhere");
        let all = extensions(&agent, cwd, &inherited, &env, &mut warnings);
        assert_eq!(all, ["/x/todo.ts", "npm:lint", CODEMODE, "./own.ts", "./only.ts", "builtin:a", "./b.ts"]);

        agent.exclude_extensions = vec!["to*".into(), "@me/*".into(), "child-guard".into(), "nothing".into()];
        agent.tools = Some(vec!["read".into()]);
        let kept = extensions(&agent, cwd, &inherited, &none(), &mut warnings);
        assert_eq!(kept, [CODEMODE, "./own.ts", "./only.ts"]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        agent.inherit_extensions = Some(false);
        assert_eq!(extensions(&agent, cwd, &inherited, &none(), &mut warnings), ["./own.ts", "./only.ts"]);
        agent.inherit_extensions = None;
        let off = HashMap::from([(vars::CHILD_INHERIT_EXTENSIONS.to_owned(), "false".to_owned())]);
        assert_eq!(extensions(&agent, cwd, &inherited, &off, &mut warnings), ["./own.ts", "./only.ts"]);
    }

    /// INH-17
    #[test]
    fn an_extension_of_a_card_is_found_beside_it_or_where_the_child_works() {
        let dir = tempfile::tempdir().unwrap();
        let (cards, cwd) = (dir.path().join("agents"), dir.path().join("project"));
        for (place, file) in [(&cards, "own.ts"), (&cwd, "tool.so")] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join(file), "").unwrap();
        }
        let path = cards.join("worker.md").display().to_string();
        let mut agent = AgentConfig::new(CardSource::Project, path, "worker");
        agent.extensions = vec!["own.ts".into(), "builtin:codemode".into(), "npm:@me/x".into(), "./tool.so".into()];
        assert_eq!(missing_extension(&agent, &cwd), None);
        let all = extensions(&agent, &cwd, &[], &none(), &mut Vec::new());
        assert_eq!(all[0], cards.join("own.ts").display().to_string());
        assert_eq!(&all[1..3], ["builtin:codemode", "npm:@me/x"]);
        agent.subagent_only_extensions = vec!["gone.ts".into()];
        assert_eq!(missing_extension(&agent, &cwd), Some("gone.ts"));
    }

    /// CARD-39, CARD-43, INH-5, INH-16
    #[test]
    fn an_allowlist_cannot_cut_a_child_off() {
        let mut agent = AgentConfig::new(CardSource::Bundled, "x", "worker");
        let budget = child_budget_from_agent(&agent);
        assert_eq!(tools(&agent, &budget, true), None);
        agent.tools = Some(vec![]);
        assert_eq!(tools(&agent, &budget, true).unwrap(), ["legion_mail", "legion_tree", "vexillatio", "read"]);
        agent.utility = true;
        agent.tools = Some(vec!["grep".into()]);
        assert_eq!(tools(&agent, &budget, false).unwrap(), ["grep", "legion_mail", "legion_tree"]);
        agent.utility = false;
        agent.allow_nested_subagents = true;
        let budget = child_budget_from_agent(&agent);
        assert!(tools(&agent, &budget, false).unwrap().contains(&"subagent".to_owned()));
    }

    #[test]
    fn a_star_stands_for_any_run() {
        for (pattern, text, want) in [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abbc", true),
            ("*", "", true),
            ("a*a", "a", false),
            ("*b*d", "abcd", true),
            ("*bd", "abcd", false),
        ] {
            assert_eq!(matches_glob(pattern, text), want, "{pattern} {text}");
        }
    }
}
