//! [`AgentConfig`] back to card text: parsing the result gives an equal value (BUND-4).

use serde_json::{Map, Value, json};

use super::types::{
    AcceptanceSpec, AgentConfig, Criterion, Evidence, Output, Steer, ToolBlock, ToolBudget, TurnBudget,
};

/// The card as a document. Fields that hold their default are left out. The values are written as JSON, which YAML 1.2
/// reads as it is, so that no string needs quoting rules of its own.
pub fn to_document(agent: &AgentConfig) -> String {
    let mut text = String::from("---\n");
    for (key, value) in fields(agent) {
        text.push_str(&format!("{key}: {value}\n"));
    }
    text.push_str("---\n");
    text.push_str(&agent.system_prompt);
    text.push('\n');
    text
}

/// The frontmatter, keys in the order of 02 §2.
fn fields(agent: &AgentConfig) -> Map<String, Value> {
    let default = AgentConfig::new(agent.source, "", "");
    let mut map = Map::new();
    let mut put = |key: &str, value: Value, default: &Value| {
        if value != *default {
            map.insert(key.to_owned(), value);
        }
    };
    let null = &Value::Null;
    put("name", json!(agent.name), null);
    put("description", json!(agent.description), null);
    put("kind", json!(agent.foreign_kind), null);
    put("model", json!(agent.model), null);
    put("thinking", json!(agent.thinking), null);
    put("alias", json!(agent.alias), &json!([]));
    put("aliases", json!(agent.aliases), &json!([]));
    put("preset", json!(agent.preset), null);
    put("team", json!(agent.team), null);
    put("output", output(agent.output.as_ref()), null);
    put("fallbackModels", json!(agent.fallback_models), &json!([]));
    put("systemPromptMode", json!(agent.system_prompt_mode), &json!(default.system_prompt_mode));
    put("inheritProjectContext", json!(agent.inherit_project_context), &json!(default.inherit_project_context));
    put("inheritSkills", json!(agent.inherit_skills), &json!(default.inherit_skills));
    put("inheritExtensions", json!(agent.inherit_extensions), null);
    put("excludeExtensions", json!(agent.exclude_extensions), &json!([]));
    put("skillPath", json!(agent.skill_path), &json!([]));
    put("skills", json!(agent.skills), &json!([]));
    put("defaultReads", json!(agent.default_reads), &json!([]));
    // An empty allowlist is not an absent one.
    put("tools", json!(agent.tools), null);
    put("extensions", json!(agent.extensions), &json!([]));
    put("subagentOnlyExtensions", json!(agent.subagent_only_extensions), &json!([]));
    put("defaultProgress", json!(agent.default_progress), &json!(default.default_progress));
    put("async", json!(agent.run_async), &json!(default.run_async));
    put("timeoutMs", json!(agent.timeout_ms), null);
    put("toolTimeoutMs", json!(agent.tool_timeout_ms), null);
    put("loopNoticeMs", json!(agent.loop_notice_ms), &json!(default.loop_notice_ms));
    put("completionGuard", json!(agent.completion_guard), &json!(default.completion_guard));
    put("maxSubagentDepth", json!(agent.max_subagent_depth), null);
    put("allowNestedSubagents", json!(agent.allow_nested_subagents), &json!(default.allow_nested_subagents));
    put("renewable", json!(agent.renewable), &json!(default.renewable));
    put("maxRenewals", json!(agent.max_renewals), &json!(default.max_renewals));
    put("utility", json!(agent.utility), &json!(default.utility));
    put("disabled", json!(agent.disabled), &json!(default.disabled));
    put("worktree", json!(agent.worktree), &json!(default.worktree));
    put("steer", steer(agent.steer), &steer(default.steer));
    put("onBlocked", json!(agent.on_blocked), &json!(default.on_blocked));
    put("toolBudget", tool_budget(agent.tool_budget.as_ref()), null);
    put("turnBudget", turn_budget(agent.turn_budget.as_ref()), null);
    put("phases", json!(agent.phases), null);
    put("acceptance", acceptance(agent.acceptance.as_ref()), null);
    map
}

fn output(output: Option<&Output>) -> Value {
    match output {
        None => Value::Null,
        Some(Output::Disabled) => json!(false),
        Some(Output::File(path)) => json!(path),
    }
}

fn steer(steer: Steer) -> Value {
    match steer {
        Steer::Refused => json!(false),
        Steer::Steer | Steer::FollowUp => json!(steer.as_str()),
    }
}

fn tool_budget(budget: Option<&ToolBudget>) -> Value {
    match budget {
        None => Value::Null,
        Some(ToolBudget { hard, soft: None, block: ToolBlock::All }) => json!(hard),
        Some(ToolBudget { hard, soft, block }) => json!({ "soft": soft, "hard": hard, "block": block }),
    }
}

fn turn_budget(budget: Option<&TurnBudget>) -> Value {
    match budget {
        None => Value::Null,
        Some(TurnBudget { hard, soft: None }) => json!(hard),
        Some(TurnBudget { hard, soft }) => json!({ "soft": soft, "hard": hard }),
    }
}

fn acceptance(spec: Option<&AcceptanceSpec>) -> Value {
    let Some(AcceptanceSpec { level, role, criteria }) = spec else { return Value::Null };
    let criteria: Vec<Value> = criteria.iter().map(criterion).collect();
    json!({ "level": level, "role": role, "criteria": criteria })
}

fn criterion(criterion: &Criterion) -> Value {
    let Criterion { id, text, evidence, command, required } = criterion;
    let evidence: &Evidence = evidence;
    json!({ "id": id, "text": text, "evidence": evidence, "command": command, "required": required })
}
