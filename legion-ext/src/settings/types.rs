//! The typed settings with their defaults: each default stands here and nowhere else (SET-5).

use std::fmt;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::cards::AgentConfig;
use crate::core::model::ModelInputs;

/// The `subagents` object, user and project merged, every key with its value or its default.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// SET-10.
    pub enabled: bool,
    /// SET-14: trimmed, not blank, never `inherit`.
    pub default_model: Option<String>,
    /// SET-18: `None` is unlimited.
    pub max_subagent_spawns_per_session: Option<u32>,
    /// SET-19.
    pub scout_guard: bool,
    pub legion: LegionSettings,
    pub inprocess: InprocessSettings,
    pub rpc: RpcSettings,
    pub terminal: TerminalSettings,
    /// The parts of the definition layer that this build reads but does not apply.
    pub raw: RawBlocks,
}

/// Limits of the ledger and of whole trees, SET-20 … SET-33 and SET-48. None of them stands in for an in-process one
/// (SET-43).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegionSettings {
    pub max_depth: u32,
    /// `0` forbids children.
    pub max_children_per_node: u32,
    pub max_active_nodes: u32,
    /// Milliseconds by phase id: the explicit entries only; the built-in ones are [`DEFAULT_PHASE_TIMEOUTS`].
    pub phase_timeouts: IndexMap<String, u64>,
    pub verify_command_timeout_ms: u64,
    /// Empty is off.
    pub worktree_bootstrap: String,
    pub worktree_bootstrap_timeout_ms: u64,
    pub mail_rate_per_5_min: u32,
    pub usage_poll_ms: u64,
    pub orphan_stale_ms: u64,
    /// 0 or less is off.
    pub silence_notice_ms: i64,
    pub retention_days: u32,
    pub stale_node_hours: u32,
    pub event_retention_days: u32,
    pub event_max_rows: u64,
    pub verify_slots: u32,
}

/// The built-in limits of phases, in milliseconds (SET-23). They are not explicit entries (PHM-71).
pub const DEFAULT_PHASE_TIMEOUTS: &[(&str, u64)] =
    &[("planning", 900_000), ("implementing", 3_600_000), ("reviewing", 1_800_000), ("verifying", 900_000)];

impl Default for LegionSettings {
    fn default() -> Self {
        Self {
            max_depth: 4,
            max_children_per_node: 8,
            max_active_nodes: 30,
            phase_timeouts: IndexMap::new(),
            verify_command_timeout_ms: 600_000,
            worktree_bootstrap: String::new(),
            worktree_bootstrap_timeout_ms: 600_000,
            mail_rate_per_5_min: 10,
            usage_poll_ms: 30_000,
            orphan_stale_ms: 90_000,
            silence_notice_ms: 120_000,
            retention_days: 14,
            stale_node_hours: 72,
            event_retention_days: 14,
            event_max_rows: 50_000,
            verify_slots: 2,
        }
    }
}

/// Limits of children in this process, SET-34 … SET-41. None of them stands in for a ledger one (SET-43).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InprocessSettings {
    pub max_depth: u32,
    /// `0` forbids children.
    pub max_children_per_node: u32,
    pub max_active: u32,
    /// `None` is unlimited.
    pub max_spawns_per_session: Option<u32>,
    /// `None` is no limit.
    pub wait_timeout_ms: Option<u64>,
    pub max_queued_launches: u32,
    pub launch_queue_timeout_ms: u64,
    pub spawn_start_timeout_ms: u64,
}

/// `inprocess.maxActive` when the block exists without the key (SET-36).
pub const MAX_ACTIVE_IN_A_BLOCK: u32 = 8;

impl Default for InprocessSettings {
    /// What holds with no `inprocess` block at all (SET-36).
    fn default() -> Self {
        Self {
            max_depth: 4,
            max_children_per_node: 8,
            max_active: 30,
            max_spawns_per_session: None,
            wait_timeout_ms: None,
            max_queued_launches: 32,
            launch_queue_timeout_ms: 900_000,
            spawn_start_timeout_ms: 15_000,
        }
    }
}

/// SET-42, SET-46.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcSettings {
    pub approve: bool,
    /// MiB; `0` turns the gate off.
    pub min_free_memory_mb: u64,
}

impl Default for RpcSettings {
    fn default() -> Self {
        Self { approve: false, min_free_memory_mb: 256 }
    }
}

/// SET-47.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TerminalSettings {
    pub driver: TerminalDriver,
}

/// Who opens the windows of the terminal backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TerminalDriver {
    #[default]
    Hc,
    Tmux,
    Auto,
    Off,
}

impl TerminalDriver {
    pub const ALL: &'static [Self] = &[Self::Hc, Self::Tmux, Self::Auto, Self::Off];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hc => "hc",
            Self::Tmux => "tmux",
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for TerminalDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Merged by SET-50 … SET-54, checked for their outer form, and otherwise as written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RawBlocks {
    pub team: Option<String>,
    pub teams: Map<String, Value>,
    pub presets: Map<String, Value>,
    pub agent_overrides: Map<String, Value>,
    pub agent_overrides_by_provider: Map<String, Value>,
    pub model_scope: Option<Map<String, Value>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            default_model: None,
            max_subagent_spawns_per_session: None,
            scout_guard: false,
            legion: LegionSettings::default(),
            inprocess: InprocessSettings::default(),
            rpc: RpcSettings::default(),
            terminal: TerminalSettings::default(),
            raw: RawBlocks::default(),
        }
    }
}

impl Settings {
    /// The levels of 02 §8 that a step of `agent` can draw on in this build, for
    /// [`resolve_step_model`](crate::core::model::resolve_step_model): this call's, the provider's override, the
    /// role's, the default and the dispatching session's current model. Presets (2) and `agentOverrides` (5) are not
    /// applied yet.
    pub fn model_inputs<'a>(
        &'a self,
        agent: &'a AgentConfig,
        call: Option<&'a str>,
        parent: Option<&'a str>,
    ) -> ModelInputs<'a> {
        ModelInputs {
            role: &agent.name,
            call,
            agent: agent.model.as_deref(),
            agent_tag: agent.model_source.as_ref(),
            provider_override: parent.and_then(|parent| self.provider_override(parent, &agent.name)),
            default_model: self.default_model.as_deref(),
            parent,
            ..ModelInputs::default()
        }
    }

    /// The model for `role` under the provider of the session's model, the text before its first `/` (OVR-6, OVR-8).
    fn provider_override(&self, session_model: &str, role: &str) -> Option<&str> {
        let (provider, _) = session_model.split_once('/')?;
        self.raw.agent_overrides_by_provider.get(provider)?.get(role)?.get("model")?.as_str()
    }

    /// The keys that are set and that this build reads without applying them, for one clear notice instead of a
    /// setting that looks configured while doing nothing.
    pub fn unapplied(&self) -> Vec<&'static str> {
        let raw = &self.raw;
        [
            ("subagents.team", raw.team.as_deref().is_some_and(|team| team != "default")),
            ("subagents.teams", !raw.teams.is_empty()),
            ("subagents.presets", !raw.presets.is_empty()),
            ("subagents.agentOverrides", !raw.agent_overrides.is_empty()),
            ("subagents.modelScope", raw.model_scope.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
        .collect()
    }
}
