//! The tools as a host registers them: schemas, descriptions, hints (09 §1).
//!
//! A schema is contract: it has every action and parameter, those too that this build refuses. The description says
//! which these are.

use std::{fmt::Write as _, sync::LazyLock};

use host_abi::registration::{Annotations, ToolDef};
use serde_json::{Value, json};

use super::action::{Action, NOT_BUILT};
use crate::context::{Identity, SessionContext};

pub const SUBAGENT: &str = "subagent";
pub const VEXILLATIO: &str = "vexillatio";
pub const LEGION_MAIL: &str = "legion_mail";
pub const LEGION_TREE: &str = "legion_tree";

/// The tools of a session. `legion_phase` exists only in governed sessions, which this build has none of (SURF-2).
pub fn registrations(context: &SessionContext) -> Vec<ToolDef> {
    all().into_iter().filter(|tool| has_tool(&context.identity, &tool.name)).collect()
}

/// The table of 09 §1 (SURF-1, SURF-3).
pub fn has_tool(identity: &Identity, tool: &str) -> bool {
    match tool {
        SUBAGENT => identity.may_launch(),
        VEXILLATIO => !identity.utility(),
        LEGION_MAIL | LEGION_TREE => identity.child().is_some(),
        _ => false,
    }
}

/// Every tool of this build.
pub fn all() -> [ToolDef; 4] {
    [subagent(), vexillatio(), legion_mail(), legion_tree()]
}

fn subagent() -> ToolDef {
    let mut description = String::from(
        "Start and manage child agents. A child is a full agent session with its own context, tools and model; it sees its task, not this conversation. A launch returns at once and a notice arrives when a child ends, unless async: false.\n",
    );
    for action in Action::ALL.into_iter().filter(|action| action.built()) {
        writeln!(description, "{}: {}", action.as_str(), action.about()).expect("writing to a String");
    }
    let missing: Vec<String> = Action::ALL
        .into_iter()
        .filter(|action| !action.built())
        .map(|action| format!("{} ({})", action.as_str(), action.about()))
        .collect();
    write!(
        description,
        "Not available in this build: {}; parameters {}.\nResults are capped; the full text is kept in an artifact that collect pages. timeoutMs only ends the wait, never a child.",
        missing.join(", "),
        NOT_BUILT.join(", "),
    )
    .expect("writing to a String");
    ToolDef {
        prompt_snippet: Some("Delegate work to child agents: launch, wait, collect, steer, stop.".to_owned()),
        prompt_guidelines: guidelines(&[
            "subagent: write a task that stands alone: goal, files it may touch, checks to run, what to report.",
            "subagent: start independent tasks in one call with tasks; never give two children the same files to write.",
            "subagent: after an async launch go on with other work; a notice brings the result, so do not poll status.",
            "subagent: read a long result on with collect and offset; never launch a child again to see the rest.",
            "subagent: when a wait ends by its timeout the child still runs; wait again, or use one of the offered calls.",
        ]),
        ..tool(SUBAGENT, "Subagent", description, &SUBAGENT_SCHEMA)
    }
}

fn vexillatio() -> ToolDef {
    let description = "Send read-only scouts and wait for their reports. Each task goes to a child of a utility role (default scout) that searches and reads, changes nothing and launches nobody. The reports come back in task order; several tasks run side by side. timeoutMs only ends the wait: what is not done by then is listed as still running.";
    ToolDef {
        prompt_snippet: Some("Send read-only scouts and get their reports.".to_owned()),
        prompt_guidelines: guidelines(&[
            "vexillatio: use it for a question that needs many searches or reads before it has a short answer.",
            "vexillatio: ask one clear question per task and name where to start looking.",
        ]),
        annotations: read_only(),
        ..tool(VEXILLATIO, "Vexillatio", description.to_owned(), &VEXILLATIO_SCHEMA)
    }
}

fn legion_mail() -> ToolDef {
    let description = "Send a message to your parent, to your children, or to your squad (the other children of your parent). kind: question (an answer is needed), report (default), handoff, notice. Subject at most 256 bytes, body at most 32768 and better under 4096; only a few mails per minute. Sending does not wait and proves no delivery.";
    ToolDef {
        prompt_snippet: Some("Send a message to your parent, children or squad.".to_owned()),
        prompt_guidelines: guidelines(&[
            "legion_mail: ask your parent when a decision is missing, then go on with other work or end your turn; never poll for the answer.",
            "legion_mail: put long material into a file and send its path.",
        ]),
        ..tool(LEGION_MAIL, "Legion mail", description.to_owned(), &MAIL_SCHEMA)
    }
}

fn legion_tree() -> ToolDef {
    let description =
        "Show your own subtree: yourself and everything below you, one line per node with role, state and model.";
    ToolDef {
        prompt_snippet: Some("Show your subtree.".to_owned()),
        annotations: read_only(),
        ..tool(LEGION_TREE, "Legion tree", description.to_owned(), &TREE_SCHEMA)
    }
}

fn tool(name: &str, label: &str, description: String, schema: &Value) -> ToolDef {
    ToolDef {
        name: name.to_owned(),
        label: label.to_owned(),
        description,
        prompt_snippet: None,
        prompt_guidelines: Vec::new(),
        parameters: schema.clone(),
        output_schema: Some(OUTPUT_SCHEMA.clone()),
        execution_mode: None,
        exposure: Some("direct".to_owned()),
        annotations: None,
        default_active: None,
        render_call: false,
        render_result: false,
    }
}

fn guidelines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn read_only() -> Option<Annotations> {
    Some(Annotations { read_only_hint: true })
}

const THINKING: [&str; 7] = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Parameters of `subagent` (09 §1.1).
pub static SUBAGENT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({ "type": "object", "properties": {
        "action": { "type": "string", "enum": Action::ALL.map(Action::as_str), "description": "Default: launch." },
        "agent": { "type": "string", "description": "Role to launch (see action list). Default role for tasks[]." },
        "task": { "type": "string", "description": "One task. Exclusive with tasks." },
        "tasks": { "type": "array", "minItems": 1, "maxItems": 64, "description": "Independent tasks, started together.",
            "items": { "type": "object", "required": ["task"], "properties": {
                "task": { "type": "string" },
                "agent": { "type": "string" },
                "name": { "type": "string" },
                "model": { "type": "string" },
                "preset": { "type": "string" },
                "thinking": { "type": "string", "enum": THINKING },
                "worktree": { "type": "boolean" },
                "acceptance": { "type": "object", "description": "As acceptance below." } } } },
        "name": { "type": "string", "description": "launch: name for the child. Other actions: the child." },
        "names": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "Several children (wait, collect, stop)." },
        "model": { "type": "string", "description": "provider/id, optionally :level. Highest precedence for this run." },
        "preset": { "type": "string" },
        "team": { "type": "string", "description": "Roster for this dispatch." },
        "thinking": { "type": "string", "enum": THINKING },
        "worktree": { "type": "boolean", "description": "Own git worktree. Centurion only." },
        "async": { "type": "boolean", "description": "Default true: return at once, be notified on completion. false: wait for the results." },
        "acceptance": { "type": "object", "description": "What the result must show; replaces the role card's. launch only.", "properties": {
            "level": { "type": "string", "enum": ["none", "attested", "verified"] },
            "role": { "type": "string", "enum": ["read-only", "writer"] },
            "criteria": { "type": "array", "items": { "type": "object", "required": ["text"], "properties": {
                "id": { "type": "string" },
                "text": { "type": "string" },
                "evidence": { "type": "string", "enum": ["attestation", "verification-output"] },
                "command": { "type": "string", "description": "Run by the parent when the child is done." },
                "required": { "type": "boolean" } } } } } },
        "phases": { "anyOf": [ { "type": "array", "items": { "type": "object" } }, { "type": "object" }, { "type": "string" } ],
            "description": "Phase machine for a centurion: phase list, machine object, or JSON text. Root only, launch only. Omitted: no phase, no legion_phase and no collection prompt." },
        "start": { "type": "string", "description": "Start phase; only for a bare phase list." },
        "message": { "type": "string", "description": "Text for continue, steer, resume." },
        "timeoutMs": { "type": "integer", "minimum": 1, "description": "Wait budget. Never kills a child." },
        "force": { "type": "boolean", "description": "stop: skip the graceful phase." },
        "all": { "type": "boolean", "description": "stop: every live child and the queue. status: finished children too." },
        "section": { "type": "string", "enum": ["summary", "extensions", "models", "spawn", "memory", "tools", "storage", "runtime", "errors", "next"] },
        "scope": { "type": "string", "enum": ["user", "project", "both"], "description": "list: where to look for roles." },
        "view": { "type": "string", "enum": ["summary", "transcript"], "description": "status of one child." },
        "lines": { "type": "integer", "minimum": 1, "maximum": 500, "description": "view transcript: tail length. Default 80." },
        "offset": { "type": "integer", "minimum": 0, "description": "collect: continue reading a long result at this byte." },
        "limit": { "type": "integer", "minimum": 1, "description": "collect: page size in bytes. Default 32768." }
    } })
});

/// Parameters of `vexillatio` (09 §1.2).
pub static VEXILLATIO_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({ "type": "object", "properties": {
        "task": { "type": "string" },
        "tasks": { "type": "array", "minItems": 1, "maxItems": 16, "items": { "type": "object", "required": ["task"], "properties": {
            "task": { "type": "string" },
            "name": { "type": "string" },
            "agent": { "type": "string" },
            "model": { "type": "string" } } } },
        "agent": { "type": "string", "description": "Utility role. Default scout." },
        "model": { "type": "string" },
        "timeoutMs": { "type": "integer", "minimum": 1 } } })
});

/// Parameters of `legion_mail` (09 §1.3).
pub static MAIL_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({ "type": "object", "required": ["to", "subject", "body"], "properties": {
        "to": { "type": "string", "enum": ["parent", "children", "squad"], "description": "squad: the other children of your parent." },
        "subject": { "type": "string", "description": "At most 256 bytes." },
        "body": { "type": "string", "description": "Keep under 4096 bytes; at most 32768. Put long material in a file." },
        "kind": { "type": "string", "enum": ["question", "report", "handoff", "notice"], "description": "Default report." },
        "urgency": { "type": "string", "enum": ["info", "action-needed"], "description": "Default action-needed for a question, else info." } } })
});

/// Parameters of `legion_tree` (09 §1.3).
pub static TREE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({ "type": "object", "properties": {
        "node": { "type": "string", "description": "Yourself or a descendant, by name or node id. Default: yourself." },
        "depth": { "type": "integer", "minimum": 1, "maximum": 64, "description": "Levels below the node. Default 64." },
        "show": { "type": "string", "enum": ["active", "all"], "description": "active: leave out finished nodes. Default all." } } })
});

/// What `structuredContent` of every tool is: the `details` of 09 §2.2. It only names what is always there, since
/// `details` grows.
pub static OUTPUT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({ "type": "object", "required": ["schema", "tool", "ok"], "properties": {
        "schema": { "type": "string" },
        "tool": { "type": "string" },
        "action": { "type": "string" },
        "ok": { "type": "boolean" },
        "children": { "type": "array", "items": { "type": "object" } },
        "results": { "type": "array", "items": { "type": "object" } },
        "error": { "type": "object" } } })
});

#[cfg(test)]
mod tests;
