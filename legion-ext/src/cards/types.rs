//! What a card says, typed: one member of [`AgentConfig`] per field of 02 §2.

use std::fmt;
use std::path::{Path, PathBuf};

use host_abi::scope::default_soft;
pub use host_abi::scope::{AcceptanceRole, ToolBlock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::model::{ModelSourceInfo, Thinking};

/// Declares an enum whose values are fixed words on the wire.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word on the wire and on screen.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The layer a card comes from, lowest precedence first (DISC-1 … DISC-4).
    CardSource { Bundled = "bundled", Extra = "extra", User = "user", Project = "project", }
}
words! {
    /// The kind of agent; `pi` is the only one (CARD-22).
    AgentKind { Pi = "pi", }
}
words! {
    /// How a role's body joins the host's system prompt (CARD-31).
    SystemPromptMode { Replace = "replace", Append = "append", }
}
words! {
    /// How a parent's `steer` enters (CARD-57).
    Steer {
        Steer = "steer",
        FollowUp = "followUp",
        /// `steer: false`: steering is refused for this role.
        Refused = "false",
    }
}
words! {
    /// What happens when the child waits for a dialog (CARD-58).
    OnBlocked { Notify = "notify", Wait = "wait", Cancel = "cancel", Stop = "stop", }
}
words! {
    /// How much acceptance is asked of a child (CARD-71).
    AcceptanceLevel { None = "none", Attested = "attested", Verified = "verified", }
}
words! {
    /// Who shows that a criterion holds (CARD-74).
    Evidence { Attestation = "attestation", VerificationOutput = "verification-output", }
}

/// The legal top-level keys of a card, in the order of 02 §2 (CARD-4).
pub const CARD_KEYS: &[&str] = &[
    "name",
    "description",
    "kind",
    "model",
    "thinking",
    "alias",
    "aliases",
    "preset",
    "team",
    "output",
    "fallbackModels",
    "systemPromptMode",
    "inheritProjectContext",
    "inheritSkills",
    "inheritExtensions",
    "excludeExtensions",
    "skillPath",
    "skills",
    "defaultReads",
    "tools",
    "extensions",
    "subagentOnlyExtensions",
    "defaultProgress",
    "async",
    "timeoutMs",
    "toolTimeoutMs",
    "loopNoticeMs",
    "completionGuard",
    "maxSubagentDepth",
    "allowNestedSubagents",
    "renewable",
    "maxRenewals",
    "utility",
    "disabled",
    "worktree",
    "steer",
    "onBlocked",
    "toolBudget",
    "turnBudget",
    "phases",
    "acceptance",
];

/// A role, as its card declares it. Fields that a card leaves out hold the default of 02 §2; an `Option` is `None`
/// where the default is "none" or depends on something outside the card.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentConfig {
    pub name: String,
    pub description: String,
    pub source: CardSource,
    /// The file, or `bundled:agents/<file>`.
    pub path: String,
    pub kind: AgentKind,
    /// A declared `kind` other than `pi`: ignored, and warned about once (CARD-80).
    pub foreign_kind: Option<String>,
    pub model: Option<String>,
    /// The tag that folding a team or `defaultModel` leaves (MODEL-5, TEAM-11); no card sets it.
    pub model_source: Option<ModelSourceInfo>,
    pub thinking: Option<Thinking>,
    pub alias: Vec<String>,
    pub aliases: Vec<String>,
    pub preset: Option<String>,
    pub team: Option<String>,
    pub output: Option<Output>,
    pub fallback_models: Vec<String>,

    pub system_prompt_mode: SystemPromptMode,
    pub inherit_project_context: bool,
    pub inherit_skills: bool,
    /// `None` follows the operator's default, else `true` (CARD-34, INH-11).
    pub inherit_extensions: Option<bool>,
    pub exclude_extensions: Vec<String>,
    /// As written; [`AgentConfig::skill_paths`] resolves them.
    pub skill_path: Vec<String>,
    pub skills: Vec<String>,
    pub default_reads: Vec<String>,

    /// `None`: the host's default tools; empty: none of the host's (CARD-39).
    pub tools: Option<Vec<String>>,
    pub extensions: Vec<String>,
    pub subagent_only_extensions: Vec<String>,

    pub default_progress: bool,
    /// The card's `async`.
    pub run_async: bool,
    pub timeout_ms: Option<u64>,
    pub tool_timeout_ms: Option<u64>,
    /// Milliseconds; 0 or less turns the long-running line off.
    pub loop_notice_ms: i64,
    pub completion_guard: bool,
    pub max_subagent_depth: Option<u32>,
    pub allow_nested_subagents: bool,
    pub renewable: bool,
    pub max_renewals: u32,
    pub utility: bool,
    pub disabled: bool,
    /// As declared; only a [`CENTURION`] can hold one (CARD-56).
    pub worktree: bool,
    pub steer: Steer,
    pub on_blocked: OnBlocked,
    pub tool_budget: Option<ToolBudget>,
    pub turn_budget: Option<TurnBudget>,

    /// The declaration, a list or a mapping; JSON text is kept as what it says.
    pub phases: Option<Value>,
    /// `None` without an `acceptance` key, which asks for nothing.
    pub acceptance: Option<AcceptanceSpec>,

    /// The trimmed body, with LF line ends.
    pub system_prompt: String,
}

/// The one role that can hold a worktree (CARD-56) and a phase machine (CARD-69).
pub const CENTURION: &str = "centurion";

/// The default of `loopNoticeMs` (CARD-48).
pub const DEFAULT_LOOP_NOTICE_MS: i64 = 1_800_000;

/// The default of `maxRenewals` (CARD-53).
pub const DEFAULT_MAX_RENEWALS: u32 = 2;

impl AgentConfig {
    /// A role with every default of 02 §2.
    pub fn new(source: CardSource, path: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            source,
            path: path.into(),
            kind: AgentKind::Pi,
            foreign_kind: None,
            model: None,
            model_source: None,
            thinking: None,
            alias: Vec::new(),
            aliases: Vec::new(),
            preset: None,
            team: None,
            output: None,
            fallback_models: Vec::new(),
            system_prompt_mode: SystemPromptMode::Replace,
            inherit_project_context: false,
            inherit_skills: false,
            inherit_extensions: None,
            exclude_extensions: Vec::new(),
            skill_path: Vec::new(),
            skills: Vec::new(),
            default_reads: Vec::new(),
            tools: None,
            extensions: Vec::new(),
            subagent_only_extensions: Vec::new(),
            default_progress: false,
            run_async: true,
            timeout_ms: None,
            tool_timeout_ms: None,
            loop_notice_ms: DEFAULT_LOOP_NOTICE_MS,
            completion_guard: true,
            max_subagent_depth: None,
            allow_nested_subagents: false,
            renewable: true,
            max_renewals: DEFAULT_MAX_RENEWALS,
            utility: false,
            disabled: false,
            worktree: false,
            steer: Steer::Steer,
            on_blocked: OnBlocked::Notify,
            tool_budget: None,
            turn_budget: None,
            phases: None,
            acceptance: None,
            system_prompt: String::new(),
        }
    }

    /// The acceptance in force from the card alone.
    pub fn acceptance_spec(&self) -> AcceptanceSpec {
        self.acceptance.clone().unwrap_or_default()
    }

    /// The restriction child-guard puts on the child, from the card alone.
    pub fn acceptance_role(&self) -> Option<AcceptanceRole> {
        self.acceptance.as_ref().and_then(|acceptance| acceptance.role)
    }

    /// Whether a launch of this role may hold a worktree (CARD-56).
    pub fn may_hold_worktree(&self) -> bool {
        self.name == CENTURION
    }

    /// The private skill paths: `~` is `home`, and what is relative stands beside the card (CARD-36).
    pub fn skill_paths(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let beside = Path::new(&self.path).parent().unwrap_or(Path::new(""));
        let expand = |path: &str| {
            let below_home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
            match (below_home, home) {
                (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
                _ => beside.join(path),
            }
        };
        self.skill_path.iter().map(|path| expand(path)).collect()
    }

    /// Other names of the role: `alias` and `aliases`, first mention first (CARD-26).
    pub fn other_names(&self) -> impl Iterator<Item = &str> {
        let further = self.aliases.iter().filter(|name| !self.alias.contains(name));
        self.alias.iter().chain(further).map(String::as_str)
    }
}

/// Where the final text is copied to (CARD-29).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// `output: false`.
    Disabled,
    /// A path under the run's `out/` directory, `.` and `..` folded away.
    File(String),
}

/// Tool calls of one round (CARD-59).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolBudget {
    pub hard: u32,
    /// As written; [`ToolBudget::soft_step`] has the default.
    pub soft: Option<u32>,
    pub block: ToolBlock,
}

impl ToolBudget {
    /// The call at which the child is told to wrap up, if any (CARD-61).
    pub fn soft_step(&self) -> Option<u32> {
        self.soft.or_else(|| default_soft(self.hard))
    }
}

/// Turns of one round (CARD-60).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBudget {
    pub hard: u32,
    /// As written; [`TurnBudget::soft_step`] has the default.
    pub soft: Option<u32>,
}

impl TurnBudget {
    /// The turn at which the child is told to wrap up, if any (CARD-61).
    pub fn soft_step(&self) -> Option<u32> {
        self.soft.or_else(|| default_soft(self.hard))
    }
}

/// What a child has to show at its end (CARD-70 … CARD-77), from a card, an override or a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptanceSpec {
    pub level: AcceptanceLevel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AcceptanceRole>,
    #[serde(default)]
    pub criteria: Vec<Criterion>,
}

impl Default for AcceptanceSpec {
    fn default() -> Self {
        Self { level: AcceptanceLevel::None, role: None, criteria: Vec::new() }
    }
}

/// One thing the child must achieve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Criterion {
    pub id: String,
    pub text: String,
    pub evidence: Evidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub required: bool,
}
