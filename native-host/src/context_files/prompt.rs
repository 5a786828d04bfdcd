//! The system prompt: pure.

use super::{ContextFile, Skill};
use crate::tools::ToolDef;

/// What the system prompt is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct PromptParts<'a> {
    /// In place of the default prompt, with its tools and rules.
    pub custom: Option<&'a str>,
    /// Behind the prompt.
    pub append: Option<&'a str>,
    /// The active tools.
    pub tools: &'a [&'a ToolDef],
    pub context_files: &'a [ContextFile],
    pub skills: &'a [Skill],
    pub cwd: &'a str,
    /// Such as `2026-01-31`.
    pub date: &'a str,
}

/// Puts the parts together.
pub fn system_prompt(parts: &PromptParts<'_>) -> String {
    let mut sections = vec![parts.custom.map_or_else(|| default_prompt(parts.tools), str::to_owned)];
    sections.extend(parts.append.map(str::to_owned));
    if !parts.context_files.is_empty() {
        sections.push(context(parts.context_files));
    }
    let skills: Vec<&Skill> = parts.skills.iter().filter(|skill| !skill.hidden).collect();
    let can_open = parts.tools.iter().any(|tool| tool.name == "read" || tool.name == "bash");
    if can_open && !skills.is_empty() {
        sections.push(skill_list(&skills));
    }
    sections.push(format!("Date: {}\nWorking directory: {}", parts.date, parts.cwd));
    sections.join("\n\n")
}

fn default_prompt(tools: &[&ToolDef]) -> String {
    let listed: Vec<String> =
        tools.iter().filter_map(|tool| Some(format!("- {}: {}", tool.name, tool.prompt_snippet.as_ref()?))).collect();
    let listed = if listed.is_empty() { "(none)".to_owned() } else { listed.join("\n") };
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    let searches = ["grep", "find", "ls"].into_iter().any(has);
    let mut rules: Vec<&str> = Vec::new();
    match (has("bash"), searches) {
        (true, true) => rules.push("Search with grep, find and ls before bash: they are quick and skip ignored files."),
        (true, false) => rules.push("Look for files and text with bash (ls, find, grep)."),
        (false, _) => {}
    }
    rules.extend(tools.iter().flat_map(|tool| tool.prompt_guidelines.iter().map(String::as_str)));
    rules.extend(["Answer briefly.", "Name files by their paths."]);
    let mut seen = std::collections::HashSet::new();
    let rules: Vec<String> = rules
        .into_iter()
        .map(str::trim)
        .filter(|rule| !rule.is_empty() && seen.insert(*rule))
        .map(|rule| format!("- {rule}"))
        .collect();
    format!(
        "You are a coding agent. You work in a directory of a person's machine: you read its files, run commands and \
         change code to do what you are asked.\n\nTools:\n{listed}\nOther tools may be there too; each describes \
         itself.\n\nRules:\n{}",
        rules.join("\n")
    )
}

fn context(files: &[ContextFile]) -> String {
    let files: Vec<String> = files
        .iter()
        .map(|file| {
            format!("<instructions path=\"{}\">\n{}\n</instructions>", file.path.display(), file.content.trim_end())
        })
        .collect();
    format!("Instructions of this machine and project, the nearest last:\n\n{}", files.join("\n\n"))
}

fn skill_list(skills: &[&Skill]) -> String {
    let skills: Vec<String> = skills
        .iter()
        .map(|skill| {
            format!(
                "  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>",
                escape(&skill.name),
                escape(&skill.description),
                escape(&skill.path.to_string_lossy())
            )
        })
        .collect();
    format!(
        "Skills are instructions for particular work. When a task fits a description, open the skill's file first and \
         follow it. Paths in a skill are relative to its own directory.\n\n<available_skills>\n{}\n</available_skills>",
        skills.join("\n")
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
