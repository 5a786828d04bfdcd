//! The thirteen actions of `subagent`: their words, the parameters they use, and which of them this build has.

/// An action (ORC-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    Launch,
    Continue,
    Steer,
    Abort,
    Resume,
    Retire,
    Status,
    Collect,
    List,
    Wait,
    Stop,
    Diagnose,
    Extend,
}

impl Action {
    /// In the order of the schema.
    pub const ALL: [Self; 13] = [
        Self::Launch,
        Self::Continue,
        Self::Steer,
        Self::Abort,
        Self::Resume,
        Self::Retire,
        Self::Status,
        Self::Collect,
        Self::List,
        Self::Wait,
        Self::Stop,
        Self::Diagnose,
        Self::Extend,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Continue => "continue",
            Self::Steer => "steer",
            Self::Abort => "abort",
            Self::Resume => "resume",
            Self::Retire => "retire",
            Self::Status => "status",
            Self::Collect => "collect",
            Self::List => "list",
            Self::Wait => "wait",
            Self::Stop => "stop",
            Self::Diagnose => "diagnose",
            Self::Extend => "extend",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }

    /// Parameters that mean something to this action, beside `action` (09 §1.1).
    pub const fn uses(self) -> &'static [&'static str] {
        match self {
            Self::Launch => &[
                "agent",
                "task",
                "tasks",
                "name",
                "model",
                "preset",
                "team",
                "thinking",
                "worktree",
                "async",
                "acceptance",
                "phases",
                "start",
                "timeoutMs",
            ],
            Self::Continue | Self::Resume => &["name", "message", "model", "timeoutMs"],
            Self::Steer => &["name", "message"],
            Self::Abort | Self::Retire => &["name"],
            Self::Status => &["name", "all", "view", "lines"],
            Self::Collect => &["name", "names", "timeoutMs", "offset", "limit"],
            Self::List => &["scope"],
            Self::Wait => &["name", "names", "timeoutMs"],
            Self::Stop => &["name", "names", "all", "force"],
            Self::Diagnose => &["section", "name"],
            Self::Extend => &["name", "timeoutMs"],
        }
    }

    /// What it does, in the words of the tool's description.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Launch => "start one task or several (tasks)",
            Self::Continue => "give a child more work in its session",
            Self::Steer => "message into a running child",
            Self::Abort => "end a child's current turn",
            Self::Resume => "revive a finished child",
            Self::Retire => "end one child gracefully",
            Self::Status => "state of one or all children",
            Self::Collect => "wait for a result and return it, or read on in a long one (offset)",
            Self::List => "roles you may launch, and this run's children",
            Self::Wait => "block until children settle",
            Self::Stop => "end children; force skips the graceful phase",
            Self::Diagnose => "self-check",
            Self::Extend => "more wait budget",
        }
    }

    /// Whether this build carries it out; the others refuse.
    pub const fn built(self) -> bool {
        match self {
            Self::Launch | Self::Retire | Self::Status | Self::Collect | Self::List | Self::Wait | Self::Stop => true,
            Self::Continue | Self::Steer | Self::Abort | Self::Resume | Self::Diagnose | Self::Extend => false,
        }
    }
}

/// Parameters that would change the meaning of another action (SUB-2).
pub const LAUNCH_ONLY: [&str; 7] = ["phases", "start", "team", "preset", "worktree", "async", "acceptance"];

/// Parameters of `launch` that this build cannot serve.
pub const NOT_BUILT: [&str; 4] = ["phases", "start", "team", "preset"];
