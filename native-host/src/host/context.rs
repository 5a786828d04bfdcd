//! What a session is told of its project and user, and how the host is set up: pi's files, and what was wrong
//! with them.

use std::path::{Path, PathBuf};

use host_abi::ops::{ChildSpec, Stream};

use super::core::Core;
use crate::context_files::{
    Compaction, ContextFile, Loaded, Settings, Skill, default_skill_places, load_context_files, load_prompt_files,
    load_skills,
};
use crate::session::compaction::CompactionPolicy;
use crate::session::prompt::PromptSource;
use crate::session::run_state::{Policy, QueueMode, RetryPolicy};

/// The prompt of a first session.
pub fn of_root(core: &Core, cwd: &Path, system: Option<String>) -> PromptSource {
    let (own, append) = prompt_files(core, cwd);
    PromptSource {
        system: system.or(own),
        append,
        context_files: context(core, cwd, true),
        skills: skills(core, cwd, true, &[]),
    }
}

/// The prompt of a child, as its spec says. A text of the spec goes before the file of the same purpose.
pub fn of_child(core: &Core, cwd: &Path, spec: &ChildSpec) -> PromptSource {
    let (own, append) = match &spec.system_prompt {
        Some(_) => (None, None),
        None => prompt_files(core, cwd),
    };
    PromptSource {
        system: spec.system_prompt.clone().or(own),
        append: spec.append_system_prompt.clone().or(append),
        context_files: context(core, cwd, spec.context_files),
        skills: skills(core, cwd, spec.host_skills, &spec.skills),
    }
}

/// How sessions behave, by the settings.
pub fn policy(settings: &Settings) -> Policy {
    let retry = settings.retry;
    let max = if retry.enabled { u32::try_from(retry.max_retries).unwrap_or(u32::MAX) } else { 0 };
    let retry = RetryPolicy { max, base_delay_ms: retry.base_delay_ms, ..RetryPolicy::default() };
    let mode = |all| if all { QueueMode::All } else { QueueMode::OneAtATime };
    Policy { retry, steering: mode(settings.steer_all_at_once), follow_up: mode(settings.follow_up_all_at_once) }
}

/// When sessions compact themselves, by the settings.
pub fn compaction(settings: &Settings) -> CompactionPolicy {
    let Compaction { enabled, reserve_tokens, keep_recent_tokens } = settings.compaction;
    CompactionPolicy { automatic: enabled, reserve_tokens, keep_tokens: keep_recent_tokens }
}

fn prompt_files(core: &Core, cwd: &Path) -> (Option<String>, Option<String>) {
    let files = told(core, load_prompt_files(cwd, &core.config.agent_dir, core.config.project_trusted));
    (files.system, files.append)
}

fn context(core: &Core, cwd: &Path, wanted: bool) -> Vec<ContextFile> {
    if wanted { told(core, load_context_files(cwd, &core.config.agent_dir)) } else { Vec::new() }
}

/// The host's skills where they are wanted, and those that are named.
fn skills(core: &Core, cwd: &Path, host: bool, named: &[String]) -> Vec<Skill> {
    let mut places: Vec<PathBuf> = named.iter().map(|path| cwd.join(path)).collect();
    if host {
        let config = &core.config;
        places.extend(default_skill_places(cwd, &config.agent_dir, core.env.home(), config.project_trusted));
    }
    told(core, load_skills(&places))
}

/// The value; each warning is told to the person at the host.
pub fn told<T>(core: &Core, loaded: Loaded<T>) -> T {
    loaded.warnings.iter().for_each(|warning| core.print(Stream::Err, warning));
    loaded.value
}
