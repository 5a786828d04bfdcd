//! Card text to [`AgentConfig`], strictly (CARD-1 … CARD-77). Pure: what a path means on disk is not asked here.

use serde_json::{Map, Value};

use super::acceptance::read_acceptance;
use super::error::{CardError, CardProblem, Fault, UnknownKey};
use super::reader::{A_SLUG, Nulls, Reader, expected, is_slug};
use super::types::{
    AgentConfig, CARD_KEYS, CardSource, OnBlocked, Output, Steer, SystemPromptMode, ToolBlock, ToolBudget, TurnBudget,
};
use super::yaml::{Frontmatter, parse_frontmatter};
use crate::core::model::{Thinking, ThinkingLevel};

/// The largest card that is read, in bytes (CARD-3).
pub const MAX_CARD_BYTES: usize = 1 << 20;

/// Parses one card. `path` is only quoted in errors and kept in the result.
///
/// # Errors
/// Everything that is wrong with the card, with its place where there is one; unknown top-level keys are reported
/// alone, because nothing else is read from such a card (CARD-4).
pub fn parse_agent_document(source: CardSource, path: &str, bytes: &[u8]) -> Result<AgentConfig, CardError> {
    let failed = |name: Option<String>, problem| CardError { path: path.to_owned(), name, problem };
    let document = |message: &str| failed(None, CardProblem::Document { at: None, message: message.to_owned() });

    if bytes.len() > MAX_CARD_BYTES {
        return Err(document("a card may have at most 1 MiB"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        document(&format!("a card is UTF-8 text, but byte {} is not", error.valid_up_to().saturating_add(1)))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let Some((yaml, body)) = split_document(&text) else {
        return Err(document("a card starts with a line '---', its fields as YAML, and a second line '---'"));
    };
    // The YAML begins on the second line of the file.
    let Frontmatter { map, places } = parse_frontmatter(yaml, 2).map_err(|error| {
        failed(None, CardProblem::Document { at: error.at, message: format!("invalid frontmatter: {}", error.message) })
    })?;

    let name = map.get("name").and_then(Value::as_str).map(str::trim).filter(|name| is_slug(name));
    let unknown: Vec<UnknownKey> = map
        .keys()
        .filter(|key| !CARD_KEYS.contains(&key.as_str()))
        .map(|key| UnknownKey { key: key.clone(), at: places.get(key).copied() })
        .collect();
    if !unknown.is_empty() {
        return Err(failed(name.map(str::to_owned), CardProblem::UnknownKeys(unknown)));
    }

    let mut faults = Vec::new();
    let agent = read_fields(&map, source, path, body.trim(), &mut faults);
    if faults.is_empty() {
        return Ok(agent);
    }
    for fault in &mut faults {
        fault.at = places.get(&fault.key).copied();
    }
    Err(failed(name.map(str::to_owned), CardProblem::Faults(faults)))
}

/// The frontmatter and the body; `None` when a fence line is missing.
fn split_document(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.split_once('\n')?;
    if !is_fence(first) {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        let end = at + line.len();
        if is_fence(line) {
            return Some((&rest[..at], &rest[end..]));
        }
        at = end;
    }
    None
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Reads every field; what is wrong goes to `faults` and its field keeps the default.
fn read_fields(
    map: &Map<String, Value>,
    source: CardSource,
    path: &str,
    body: &str,
    faults: &mut Vec<Fault>,
) -> AgentConfig {
    let mut card = Reader::new(map, "", Nulls::Absent, faults);
    let any = |_: &str| Ok(());
    let slug = |entry: &str| {
        if is_slug(entry) { Ok(()) } else { Err(expected(A_SLUG, &Value::String(entry.to_owned()))) }
    };
    let mut agent = AgentConfig::new(source, path, String::new());

    agent.name = required_name(&mut card);
    agent.description = required_description(&mut card);
    agent.foreign_kind = card.string("kind").filter(|kind| kind != "pi");
    agent.model = card.string("model");
    agent.thinking = thinking(&mut card, "thinking");
    agent.alias = card.list("alias", slug).unwrap_or_default();
    agent.aliases = card.list("aliases", slug).unwrap_or_default();
    agent.preset = card.string("preset");
    agent.team = card.string("team");
    agent.output = output(&mut card);
    agent.fallback_models = card.list("fallbackModels", any).unwrap_or_default();

    agent.system_prompt_mode = card
        .word("systemPromptMode", SystemPromptMode::ALL, SystemPromptMode::as_str)
        .unwrap_or(agent.system_prompt_mode);
    agent.inherit_project_context = card.boolean("inheritProjectContext").unwrap_or(agent.inherit_project_context);
    agent.inherit_skills = card.boolean("inheritSkills").unwrap_or(agent.inherit_skills);
    agent.inherit_extensions = card.boolean("inheritExtensions");
    agent.exclude_extensions = card.list("excludeExtensions", any).unwrap_or_default();
    agent.skill_path = card.list("skillPath", any).unwrap_or_default();
    agent.skills = card.list("skills", any).unwrap_or_default();
    agent.default_reads = card.list("defaultReads", any).unwrap_or_default();

    agent.tools = card.list("tools", tool_name);
    agent.extensions = card.list("extensions", any).unwrap_or_default();
    agent.subagent_only_extensions = card.list("subagentOnlyExtensions", any).unwrap_or_default();

    agent.default_progress = card.boolean("defaultProgress").unwrap_or(agent.default_progress);
    agent.run_async = card.boolean("async").unwrap_or(agent.run_async);
    agent.timeout_ms = card.positive("timeoutMs");
    agent.tool_timeout_ms = card.positive("toolTimeoutMs");
    agent.loop_notice_ms = card.integer("loopNoticeMs").unwrap_or(agent.loop_notice_ms);
    agent.completion_guard = card.boolean("completionGuard").unwrap_or(agent.completion_guard);
    agent.max_subagent_depth = card.non_negative_count("maxSubagentDepth");
    agent.allow_nested_subagents = card.boolean("allowNestedSubagents").unwrap_or(agent.allow_nested_subagents);
    agent.renewable = card.boolean("renewable").unwrap_or(agent.renewable);
    agent.max_renewals = card.non_negative_count("maxRenewals").unwrap_or(agent.max_renewals);
    agent.utility = card.boolean("utility").unwrap_or(agent.utility);
    agent.disabled = card.boolean("disabled").unwrap_or(agent.disabled);
    agent.worktree = card.boolean("worktree").unwrap_or(agent.worktree);
    agent.steer = steer(&mut card).unwrap_or(agent.steer);
    agent.on_blocked = card.word("onBlocked", OnBlocked::ALL, OnBlocked::as_str).unwrap_or(agent.on_blocked);
    agent.tool_budget = tool_budget(&mut card);
    agent.turn_budget = turn_budget(&mut card);
    agent.phases = phases(&mut card);
    agent.acceptance = read_acceptance(&mut card, "acceptance");

    if agent.utility && agent.allow_nested_subagents {
        card.fault("allowNestedSubagents", "expected false with utility: true, got true");
    }
    agent.system_prompt = body.to_owned();
    if body.is_empty() && agent.system_prompt_mode == SystemPromptMode::Replace {
        card.fault("body", "it is empty, and with systemPromptMode: replace it is the whole system prompt");
    }
    agent
}

fn required_name(card: &mut Reader<'_, '_>) -> String {
    let value = card.raw("name").unwrap_or(&Value::Null);
    match value.as_str().map(str::trim) {
        Some(name) if is_slug(name) => return name.to_owned(),
        _ if value.is_null() => card.fault("name", format!("expected {A_SLUG}, got nothing")),
        _ => card.expected("name", A_SLUG, value),
    }
    String::new()
}

fn required_description(card: &mut Reader<'_, '_>) -> String {
    let value = card.raw("description").unwrap_or(&Value::Null);
    match value.as_str().map(str::trim) {
        // It is shown as one line, whatever its YAML form.
        Some(text) if !text.is_empty() => return text.split_whitespace().collect::<Vec<_>>().join(" "),
        _ if value.is_null() => card.fault("description", "expected one line of text, got nothing"),
        _ => card.expected("description", "one line of text", value),
    }
    String::new()
}

/// `thinking` under `key`: a known level, or `false` (CARD-24).
fn thinking(card: &mut Reader<'_, '_>, key: &str) -> Option<Thinking> {
    let value = card.value(key)?;
    let thinking = match value {
        Value::Bool(false) => Some(Thinking::Disabled),
        Value::String(word) => ThinkingLevel::parse(word.trim()).map(Thinking::Level),
        _ => None,
    };
    if thinking.is_none() {
        card.expected(key, "off, minimal, low, medium, high, xhigh, max or false", value);
    }
    thinking
}

fn output(card: &mut Reader<'_, '_>) -> Option<Output> {
    let value = card.value("output")?;
    match value {
        Value::Bool(false) => Some(Output::Disabled),
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => {
            let folded = fold_output(text.trim());
            if folded.is_none() {
                card.expected("output", "a relative path that stays under out/", value);
            }
            folded.map(Output::File)
        }
        other => {
            card.expected("output", "a relative path under out/, or false", other);
            None
        }
    }
}

/// The path with `.` and `..` folded; `None` when it is absolute, leaves its root, or names nothing (CARD-29).
fn fold_output(path: &str) -> Option<String> {
    let windows_drive = path.as_bytes().get(1) == Some(&b':');
    if windows_drive || path.starts_with(['/', '\\', '~']) || path.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// A tool name, not an extension and not a change to a list (CARD-42).
fn tool_name(entry: &str) -> Result<(), String> {
    if entry.starts_with(['+', '-']) {
        return Err(format!("tools takes plain names, got \"{entry}\""));
    }
    let looks_like_path = entry.contains(['/', '\\'])
        || [".ts", ".js", ".so", ".dylib", ".dll"].iter().any(|ending| entry.ends_with(ending));
    if looks_like_path {
        return Err(format!("\"{entry}\" looks like an extension: list it under extensions"));
    }
    Ok(())
}

fn steer(card: &mut Reader<'_, '_>) -> Option<Steer> {
    let value = card.value("steer")?;
    let steer = match value {
        Value::Bool(true) => Some(Steer::Steer),
        Value::Bool(false) => Some(Steer::Refused),
        Value::String(word) => [Steer::Steer, Steer::FollowUp].into_iter().find(|one| one.as_str() == word.trim()),
        _ => None,
    };
    if steer.is_none() {
        card.expected("steer", "steer, followUp, true or false", value);
    }
    steer
}

const A_BUDGET: &str = "a positive integer or a mapping with hard";

fn tool_budget(card: &mut Reader<'_, '_>) -> Option<ToolBudget> {
    match card.value("toolBudget")? {
        Value::Object(_) => {
            let mut budget = card.mapping("toolBudget")?;
            budget.refuse_unknown(&["soft", "hard", "block"]);
            let block = tool_block(&mut budget);
            let (hard, soft) = steps(&mut budget)?;
            Some(ToolBudget { hard, soft, block: block.unwrap_or_default() })
        }
        _ => Some(ToolBudget { hard: bare_budget(card, "toolBudget")?, soft: None, block: ToolBlock::All }),
    }
}

fn turn_budget(card: &mut Reader<'_, '_>) -> Option<TurnBudget> {
    match card.value("turnBudget")? {
        Value::Object(_) => {
            let mut budget = card.mapping("turnBudget")?;
            budget.refuse_unknown(&["soft", "hard"]);
            let (hard, soft) = steps(&mut budget)?;
            Some(TurnBudget { hard, soft })
        }
        _ => Some(TurnBudget { hard: bare_budget(card, "turnBudget")?, soft: None }),
    }
}

fn bare_budget(card: &mut Reader<'_, '_>, key: &str) -> Option<u32> {
    let value = card.value(key)?;
    let hard = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    if hard.is_none() {
        card.expected(key, A_BUDGET, value);
    }
    hard
}

/// `hard` and `soft` of a budget mapping (CARD-61).
fn steps(budget: &mut Reader<'_, '_>) -> Option<(u32, Option<u32>)> {
    let soft = budget.positive_count("soft");
    if budget.value("hard").is_none() {
        budget.fault("hard", "expected a positive integer, got nothing");
    }
    let hard = budget.positive_count("hard")?;
    if let (Some(soft), Some(value)) = (soft, budget.value("soft"))
        && soft >= hard
    {
        budget.expected("soft", &format!("a positive integer below hard ({hard})"), value);
    }
    Some((hard, soft))
}

fn tool_block(budget: &mut Reader<'_, '_>) -> Option<ToolBlock> {
    let value = budget.value("block")?;
    if value.as_str().map(str::trim) == Some("*") {
        return Some(ToolBlock::All);
    }
    let names = budget.list("block", |_| Ok(()))?;
    if names.is_empty() {
        budget.expected("block", "\"*\" or a list of tool names", value);
        return None;
    }
    if names.iter().any(|name| name == "*") { Some(ToolBlock::All) } else { Some(ToolBlock::Names(names)) }
}

/// The declaration of a phase machine: its form only; what is inside belongs to the phase rules (CARD-65).
fn phases(card: &mut Reader<'_, '_>) -> Option<Value> {
    let value = card.value("phases")?;
    let declared = match value {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(declared) => declared,
            Err(_) if text.trim().is_empty() => Value::Null,
            Err(error) => {
                card.fault("phases", format!("expected a phase machine, got text that is not JSON: {error}"));
                return None;
            }
        },
        other => other.clone(),
    };
    let empty = match &declared {
        Value::Array(phases) => phases.is_empty(),
        Value::Object(machine) => {
            machine.get("phases").is_none_or(|phases| phases.as_array().is_some_and(Vec::is_empty))
        }
        _ => {
            card.expected("phases", "a list of phases, a mapping with phases, or JSON text of one of them", value);
            return None;
        }
    };
    if empty {
        card.fault("phases", "expected at least one phase, got none");
        return None;
    }
    Some(declared)
}
