//! What both sides tell about themselves at `init` and `attach`.

use serde::{Deserialize, Serialize};

use crate::scope::ScopeJson;

/// How a session talks to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Interactive,
    Print,
    Json,
    Rpc,
}

/// Answer of `host.info`, and the JSON of `init`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostInfo {
    pub name: String,
    pub version: String,
    pub mode: Mode,
    pub has_ui: bool,
    pub cwd: String,
    /// The host's user directory, such as `~/.pi/agent`.
    pub agent_dir: String,
    pub project_trusted: bool,
    /// Operations, events and gates that this host knows.
    pub ops: Vec<String>,
    pub events: Vec<String>,
    pub gates: Vec<String>,
}

/// Answer of an extension's `info`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionInfo {
    pub name: String,
    pub version: String,
    /// Version of `host-abi` that it was built with.
    pub abi: String,
    /// Operations that it uses.
    #[serde(default)]
    pub ops: Vec<String>,
    /// Events and gates that it may ask for.
    #[serde(default)]
    pub events: Vec<String>,
}

/// The JSON of `attach` (ABI-14).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachSpec {
    /// The logical agent: it stays the same when the session is rebuilt (ABI-3).
    pub agent_id: String,
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    pub cwd: String,
    pub mode: Mode,
    pub has_ui: bool,
    pub project_trusted: bool,
    /// Verbatim what the `child.create` of this session carried; absent for every other session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_scope: Option<ScopeJson>,
}

/// What a tool, command or gate is told of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ctx {
    pub cwd: String,
    pub mode: Mode,
    pub has_ui: bool,
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// `provider/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub idle: bool,
}
