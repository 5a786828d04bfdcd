//! `run.json`: what a run remembers beside the ledger. Fields that this build does not know are kept (ORC-150).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::RunDir;

/// The version written into new records. Version 1 is the first.
pub const RUN_RECORD_VERSION: u32 = 1;

/// The record of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub version: u32,
    pub run_id: String,
    pub cwd: PathBuf,
    /// ISO time.
    pub created_at: String,
    /// ISO time of the last change.
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<String>,
    pub owner: Owner,
    /// The transcript of the session that this run belongs to; a session finds its run by it (ORC-177).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_session_file: Option<PathBuf>,
    pub herdr: Herdr,
    pub lineage: Lineage,
    pub budget: Budget,
    #[serde(default)]
    pub children: Vec<Arc<ChildRecord>>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl RunRecord {
    /// The record of a child.
    pub fn child(&self, name: &str) -> Option<&Arc<ChildRecord>> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// The process that may write this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    pub pid: u32,
    /// Start of that process, milliseconds since the epoch; 0 where the system does not tell.
    #[serde(default)]
    pub started_at: i64,
}

/// The backend of the run's own process, which decides nothing (ORC-151), and its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Herdr {
    pub supervisor: String,
    pub node_id: String,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Where a run is in its tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    pub root_run_id: String,
    pub root_run_dir: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<String>,
    pub depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// What a session has spent of its launches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    pub spawned: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_spawns: Option<u32>,
    pub max_depth: u32,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// State of a child in its parent's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChildState {
    Queued,
    Launching,
    Working,
    /// Its turn is over, or it waits for work of its own.
    Awaiting,
    Blocked,
    Retired,
    Exited,
}

impl ChildState {
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Launching, Self::Working, Self::Awaiting, Self::Blocked, Self::Retired, Self::Exited];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Launching => "launching",
            Self::Working => "working",
            Self::Awaiting => "awaiting",
            Self::Blocked => "blocked",
            Self::Retired => "retired",
            Self::Exited => "exited",
        }
    }
}

/// A child in its parent's run (03 §17).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRecord {
    pub name: String,
    pub agent: String,
    pub task: String,
    pub state: ChildState,
    /// The arbitrated backend: `inprocess`, `rpc` or `terminal`.
    pub spawn_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_started_at: Option<i64>,
    pub session_file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The declared machine (PHM-79).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_spec: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalRef>,
    /// ISO time.
    pub spawned_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
    /// 1-based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_waited_ms: Option<u64>,
    /// The former record of a queued revival (ADM-103).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<Box<ChildRecord>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<AcceptanceRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Last artifact round, 0 for none.
    #[serde(default)]
    pub round: u32,
    #[serde(default)]
    pub renewals: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal_baseline: Option<ProgressBaseline>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl ChildRecord {
    /// A record with what every child has; the rest is absent.
    pub fn new(
        name: impl Into<String>,
        agent: impl Into<String>,
        task: impl Into<String>,
        state: ChildState,
        spawn_mode: impl Into<String>,
        session_file: impl Into<PathBuf>,
        spawned_at: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            agent: agent.into(),
            task: task.into(),
            state,
            spawn_mode: spawn_mode.into(),
            node_id: None,
            pid: None,
            pid_started_at: None,
            session_file: session_file.into(),
            model: None,
            model_provider: None,
            thinking: None,
            team: None,
            phases: None,
            acceptance_role: None,
            acceptance_spec: None,
            worktree_path: None,
            branch: None,
            terminal: None,
            spawned_at: spawned_at.into(),
            settled_at: None,
            retired_at: None,
            queue_position: None,
            queue_waited_ms: None,
            prior: None,
            execution: None,
            acceptance: None,
            verdict: None,
            round: 0,
            renewals: 0,
            renewal_baseline: None,
            warnings: Vec::new(),
            unknown: Map::new(),
        }
    }
}

/// A visible terminal (SUP-121).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalRef {
    pub driver: String,
    pub id: String,
}

/// The outcome of the last recorded turn, in the words of 03 §12.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRecord {
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// The acceptance of the last recorded turn (ORC-137, ORC-147).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptanceRecord {
    pub level: String,
    pub status: String,
    #[serde(default)]
    pub pending: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<String>,
}

/// The child's own verdict (PHM-44).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub ok: bool,
}

/// Where progress is counted from (ORC-135).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressBaseline {
    /// Milliseconds since the epoch.
    pub at: i64,
    pub tool_results: u64,
    pub assistant_messages: u64,
    pub files: u64,
}

/// What was found where a record should be.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadRecord {
    Record(Box<RunRecord>),
    Missing,
    /// It could not be parsed and now is at `moved_to`; nothing of it is lost (ORC-149).
    Quarantined {
        moved_to: PathBuf,
        reason: String,
    },
}

/// Reads a run's record; one that cannot be parsed is renamed to `run.json.corrupt`, with a number if that exists, and
/// counts as no record (ORC-149). Only the owner of the run may call this.
pub fn read_run_record(dir: &RunDir) -> io::Result<ReadRecord> {
    let path = dir.run_json();
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ReadRecord::Missing),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Ok(ReadRecord::Record(record)),
        Err(error) => Ok(ReadRecord::Quarantined { moved_to: quarantine(&path)?, reason: error.to_string() }),
    }
}

fn quarantine(path: &Path) -> io::Result<PathBuf> {
    let numbered = |n: u32| match n {
        0 => path.with_file_name("run.json.corrupt"),
        n => path.with_file_name(format!("run.json.corrupt.{n}")),
    };
    let free = (0..).map(numbered).find(|place| place.symlink_metadata().is_err()).expect("numbers do not run out");
    fs::rename(path, &free)?;
    Ok(free)
}
