//! The identity of a child session, in its two forms: the `extensionScope` of an in-process child (SUP-30)
//! and the environment of a subprocess child (SUP-119). `legion-ext` fills both, `legion-ext` and
//! `child-guard` read both; to a host the scope is opaque.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An `extensionScope` as it travels: hosts hand it over without looking inside.
pub type ScopeJson = Value;

/// The `schema` of the scopes that this build writes and reads.
pub const SCOPE_SCHEMA: &str = "legion.scope/1";

/// Identity of an in-process child. An absent member means "none", never "ask the environment".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionScope {
    /// [`SCOPE_SCHEMA`]; anything else fails the attach.
    pub schema: String,
    /// Name within the parent's run.
    pub name: String,
    pub role: String,
    /// Ledger node, such as `root/worker-1`.
    pub node_id: String,
    /// Absolute path of `legion.db`.
    pub db_path: String,
    /// The pre-created transcript: the credential of the node.
    pub session_file: String,
    /// Directory of the run that this child belongs to.
    pub run_dir: String,
    pub root_run_dir: String,
    /// Node ids from the root down to the parent.
    pub parent_path: Vec<String>,
    /// 0 is the root.
    pub depth: u32,
    /// `inprocess`, `rpc` or `terminal`.
    pub spawn_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_role: Option<AcceptanceRole>,
    #[serde(default)]
    pub utility: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ChildBudget>,
    /// The phase declaration as written, for a governed centurion only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Value>,
}

impl ExtensionScope {
    /// Reads a scope of this build's schema.
    ///
    /// # Errors
    /// The schema is another one, or a member is missing or of the wrong type.
    pub fn parse(json: &ScopeJson) -> Result<Self, String> {
        let schema = json.get("schema").and_then(Value::as_str).unwrap_or("none");
        if schema != SCOPE_SCHEMA {
            return Err(format!("extensionScope has schema '{schema}'; this build reads '{SCOPE_SCHEMA}'"));
        }
        serde_path_to_error::deserialize(json).map_err(|error| match error.path().to_string().as_str() {
            "." => format!("extensionScope cannot be read: {}", error.inner()),
            path => format!("extensionScope cannot be read at {path}: {}", error.inner()),
        })
    }

    /// The wire form.
    pub fn to_json(&self) -> ScopeJson {
        serde_json::to_value(self).expect("the scope holds strings, numbers and JSON only")
    }
}

/// What `bash` may do for a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptanceRole {
    ReadOnly,
    Writer,
}

impl AcceptanceRole {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Writer => "writer",
        }
    }
}

/// Limits of one child. An absent limit limits nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildBudget {
    /// Deepest tree depth of the child's subtree, root being 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    /// Whether the child may launch children of its own.
    pub allow_nested: bool,
    /// Tool calls in one round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Model turns in one round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Upper bound of one `bash` call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout_ms: Option<u64>,
    /// Call at which the child is told to finish; absent: no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_soft: Option<u32>,
    /// Which tools are refused once `max_tool_calls` is reached.
    pub tool_block: ToolBlock,
    /// Turn at which the child is told to finish; absent: no such step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_soft: Option<u32>,
}

/// `"*"`, or a list of tool names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolBlock {
    #[default]
    All,
    Names(Vec<String>),
}

impl Serialize for ToolBlock {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::Names(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ToolBlock {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Names(Vec<String>),
        }
        match Form::deserialize(deserializer)? {
            Form::Text(text) if text == "*" => Ok(Self::All),
            Form::Text(text) => {
                Err(serde::de::Error::custom(format!("expected \"*\" or a list of tool names, got \"{text}\"")))
            }
            Form::Names(names) => Ok(Self::Names(names)),
        }
    }
}

/// The soft step of a limit where none is given: four fifths, and none where that is 0 (CARD-61).
pub const fn default_soft(hard: u32) -> Option<u32> {
    match hard as u64 * 4 / 5 {
        0 => None,
        #[expect(clippy::cast_possible_truncation, reason = "four fifths of a u32 fit into a u32")]
        soft => Some(soft as u32),
    }
}

/// Names of the variables of a subprocess child (SUP-119, kind *child*).
pub mod vars {
    pub const DB: &str = "PI_LEGION_DB";
    pub const NODE_ID: &str = "PI_LEGION_NODE_ID";
    pub const ROLE: &str = "PI_SUBAGENT_ROLE";
    pub const TEAM: &str = "PI_SUBAGENTS_TEAM";
    pub const PHASES: &str = "PI_LEGION_PHASES";
    pub const UTILITY_CHILD: &str = "PI_SUBAGENT_UTILITY_CHILD";
    pub const ACCEPTANCE_ROLE: &str = "PI_SUBAGENT_ACCEPTANCE_ROLE";
    pub const MAX_DEPTH: &str = "PI_SUBAGENT_MAX_DEPTH";
    pub const ALLOW_NESTED: &str = "PI_SUBAGENT_ALLOW_NESTED";
    pub const MAX_TOOL_CALLS: &str = "PI_SUBAGENT_MAX_TOOL_CALLS";
    pub const TOOL_SOFT: &str = "PI_SUBAGENT_TOOL_SOFT";
    pub const TOOL_BLOCK: &str = "PI_SUBAGENT_TOOL_BLOCK";
    pub const MAX_TURNS: &str = "PI_SUBAGENT_MAX_TURNS";
    pub const TURN_SOFT: &str = "PI_SUBAGENT_TURN_SOFT";
    pub const TOOL_TIMEOUT_MS: &str = "PI_SUBAGENT_TOOL_TIMEOUT_MS";
    pub const SIGNAL_FILE: &str = "PI_LEGION_SIGNAL_FILE";

    /// All of them: removed from an inherited environment before a child's own values are set.
    pub const CHILD: &[&str] = &[
        DB,
        NODE_ID,
        ROLE,
        TEAM,
        PHASES,
        UTILITY_CHILD,
        ACCEPTANCE_ROLE,
        MAX_DEPTH,
        ALLOW_NESTED,
        MAX_TOOL_CALLS,
        TOOL_SOFT,
        TOOL_BLOCK,
        MAX_TURNS,
        TURN_SOFT,
        TOOL_TIMEOUT_MS,
        SIGNAL_FILE,
    ];
}

/// A source of variables: the process environment in a session without a scope, a map in tests.
pub trait Env {
    fn var(&self, name: &str) -> Option<String>;
}

impl Env for std::collections::HashMap<String, String> {
    fn var(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}

/// The environment form of a budget; an absent limit gives no entry.
pub fn budget_to_env(budget: &ChildBudget) -> Vec<(&'static str, String)> {
    let mut out = vec![(vars::ALLOW_NESTED, if budget.allow_nested { "1" } else { "0" }.to_owned())];
    let mut push = |name, value: Option<String>| out.extend(value.map(|value| (name, value)));
    push(vars::MAX_DEPTH, budget.max_depth.map(|n| n.to_string()));
    push(vars::MAX_TOOL_CALLS, budget.max_tool_calls.map(|n| n.to_string()));
    push(vars::TOOL_SOFT, soft_to_env(budget.tool_soft, budget.max_tool_calls));
    push(
        vars::TOOL_BLOCK,
        match &budget.tool_block {
            ToolBlock::All => None,
            ToolBlock::Names(names) => Some(names.join(",")),
        },
    );
    push(vars::MAX_TURNS, budget.max_turns.map(|n| n.to_string()));
    push(vars::TURN_SOFT, soft_to_env(budget.turn_soft, budget.max_turns));
    push(vars::TOOL_TIMEOUT_MS, budget.tool_timeout_ms.map(|n| n.to_string()));
    out
}

fn soft_to_env(soft: Option<u32>, hard: Option<u32>) -> Option<String> {
    (soft != hard.and_then(default_soft)).then(|| soft.unwrap_or(0).to_string())
}

/// Reads a budget from variables. A malformed value counts as unset and adds one warning line (GUARD-29).
pub fn budget_from_env(env: &dyn Env) -> (ChildBudget, Vec<String>) {
    let mut warnings = Vec::new();
    let mut number = |name: &'static str, least: u64, most: u64| -> Option<u64> {
        let text = env.var(name)?;
        match text.parse::<u64>() {
            Ok(n) if (least..=most).contains(&n) => Some(n),
            _ => {
                let what = if least == 0 { "a non-negative integer" } else { "a positive integer" };
                warnings.push(format!("{name}='{text}' is not {what}; ignored"));
                None
            }
        }
    };
    let small = u64::from(u32::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "bounded by u32::MAX when it was read")]
    let narrow = |n: u64| n as u32;
    let max_tool_calls = number(vars::MAX_TOOL_CALLS, 1, small).map(narrow);
    let max_turns = number(vars::MAX_TURNS, 1, small).map(narrow);
    let tool_soft = number(vars::TOOL_SOFT, 0, small).map(narrow);
    let turn_soft = number(vars::TURN_SOFT, 0, small).map(narrow);
    let max_depth = number(vars::MAX_DEPTH, 0, small).map(narrow);
    let tool_timeout_ms = number(vars::TOOL_TIMEOUT_MS, 1, u64::MAX);
    let soft = |given: Option<u32>, hard: Option<u32>| match given {
        Some(0) => None,
        Some(n) => Some(n),
        None => hard.and_then(default_soft),
    };
    let tool_block = match env.var(vars::TOOL_BLOCK) {
        None => ToolBlock::All,
        Some(text) if text.trim() == "*" || text.trim().is_empty() => ToolBlock::All,
        Some(text) => {
            ToolBlock::Names(text.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect())
        }
    };
    let budget = ChildBudget {
        max_depth,
        allow_nested: env.var(vars::ALLOW_NESTED).is_some_and(|text| text == "1"),
        max_tool_calls,
        max_turns,
        tool_timeout_ms,
        tool_soft: soft(tool_soft, max_tool_calls),
        tool_block,
        turn_soft: soft(turn_soft, max_turns),
    };
    (budget, warnings)
}
