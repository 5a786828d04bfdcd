//! Whether a project's own settings and resources may be read.

use std::collections::HashMap;
use std::path::Path;

use super::{DefaultTrust, PROJECT_DIR, read_text};

/// What in a project directory needs trust; the bare directory does not. Role cards put prompts into children, so they
/// are as much to be trusted as the project's own prompts.
const PROTECTED: [&str; 9] = [
    "settings.json",
    "mcp.json",
    "extensions",
    "skills",
    "prompts",
    "themes",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "agents",
];

/// What a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct TrustQuestion<'a> {
    pub cwd: &'a Path,
    pub agent_dir: &'a Path,
    pub home: Option<&'a Path>,
    /// `--approve` or `--no-approve`, for this process.
    pub command_line: Option<bool>,
    pub default: DefaultTrust,
}

/// Decides without asking anybody: the command line, then the nearest saved decision for the directory or one
/// above it, then the default. A project with nothing to protect is trusted unless a decision says otherwise. A
/// store that cannot be read decides against, with a warning.
pub fn project_trusted(question: TrustQuestion<'_>) -> (bool, Option<String>) {
    if let Some(decided) = question.command_line {
        return (decided, None);
    }
    let cwd = question.cwd.canonicalize().unwrap_or_else(|_| question.cwd.to_owned());
    let saved = match saved_decision(&cwd, &question.agent_dir.join("trust.json")) {
        Ok(saved) => saved,
        Err(warning) => return (false, Some(warning)),
    };
    let trusted = match (saved, question.default) {
        (Some(decided), _) => decided,
        (None, _) if !needs_trust(&cwd, question.home) => true,
        (None, DefaultTrust::Always) => true,
        (None, DefaultTrust::Ask | DefaultTrust::Never) => false,
    };
    (trusted, None)
}

fn saved_decision(cwd: &Path, store: &Path) -> Result<Option<bool>, String> {
    if !store.exists() {
        return Ok(None);
    }
    let decisions: HashMap<String, Option<bool>> = serde_json::from_str(&read_text(store)?)
        .map_err(|error| format!("{}: {error}; no project is trusted", store.display()))?;
    Ok(cwd.ancestors().find_map(|dir| decisions.get(dir.to_str()?).copied().flatten()))
}

fn needs_trust(cwd: &Path, home: Option<&Path>) -> bool {
    let protected = cwd.join(PROJECT_DIR);
    let shared = |dir: &Path| dir.join(".agents").join("skills");
    // The user's own skills are not the project's, not even where the project is the home directory.
    let users = home.map(|home| shared(&home.canonicalize().unwrap_or_else(|_| home.to_owned())));
    PROTECTED.iter().any(|name| protected.join(name).exists())
        || cwd.ancestors().map(shared).any(|skills| Some(&skills) != users.as_ref() && skills.exists())
}
