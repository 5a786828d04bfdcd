//! What a session is told before its first prompt: context files, skills, the system prompt; and the
//! settings and trust decisions that say which of it may be read. The rules are pi's.
//!
//! Everything here reads files and returns values; a fault in a file becomes a warning that names it, and
//! the session starts without that part.

mod prompt;
mod settings;
mod skills;
mod trust;

use std::path::{Path, PathBuf};

pub use prompt::{PromptParts, system_prompt};
pub use settings::{Compaction, DefaultTrust, Retry, Settings};
pub use skills::{Skill, default_skill_places, load_skills};
pub use trust::{TrustQuestion, project_trusted};

/// The directory of a project's settings and resources.
pub const PROJECT_DIR: &str = ".pi";

/// The names of a context file, the first that exists in a directory counts.
const CONTEXT_NAMES: [&str; 5] = ["AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];

/// A value and what was wrong with the files that it comes from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded<T> {
    pub value: T,
    pub warnings: Vec<String>,
}

/// Instructions from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    pub path: PathBuf,
    pub content: String,
}

/// A person's own texts for the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptFiles {
    /// `SYSTEM.md`: in place of the default prompt.
    pub system: Option<String>,
    /// `APPEND_SYSTEM.md`: behind it.
    pub append: Option<String>,
}

/// The context files of the agent directory and of every directory from the root down to `cwd`, in this
/// order, one of each. They need no trust.
pub fn load_context_files(cwd: &Path, agent_dir: &Path) -> Loaded<Vec<ContextFile>> {
    let mut loaded: Loaded<Vec<ContextFile>> = Loaded::default();
    let mut ancestors: Vec<&Path> = cwd.ancestors().collect();
    ancestors.reverse();
    for dir in std::iter::once(agent_dir).chain(ancestors) {
        let Some(path) = CONTEXT_NAMES.iter().map(|name| dir.join(name)).find(|path| path.is_file()) else { continue };
        if loaded.value.iter().any(|file| file.path == path) {
            continue;
        }
        if let Some(content) = loaded.warn(read_text(&path)) {
            loaded.value.push(ContextFile { path, content });
        }
    }
    loaded
}

/// The prompt files; a trusted project's one goes before that of the agent directory.
pub fn load_prompt_files(cwd: &Path, agent_dir: &Path, project_trusted: bool) -> Loaded<PromptFiles> {
    let mut loaded: Loaded<PromptFiles> = Loaded::default();
    let dirs = [cwd.join(PROJECT_DIR), agent_dir.to_owned()];
    let dirs = if project_trusted { &dirs[..] } else { &dirs[1..] };
    let mut find = |name: &str| {
        let path = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file())?;
        loaded.warn(read_text(&path))
    };
    let files = PromptFiles { system: find("SYSTEM.md"), append: find("APPEND_SYSTEM.md") };
    Loaded { value: files, ..loaded }
}

impl<T> Loaded<T> {
    /// The good value; a fault is kept as a warning.
    fn warn<V>(&mut self, result: Result<V, String>) -> Option<V> {
        result.map_err(|warning| self.warnings.push(warning)).ok()
    }
}

/// The text of a file, without a byte order mark.
fn read_text(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests;
