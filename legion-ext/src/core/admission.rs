//! May a launch start now? The gates of 05 §2 over plain counts, with their texts (ADM-1 … ADM-22).
//!
//! Nothing here counts, waits or remembers: a verdict is a function of numbers, so that the probe of the orchestrator
//! and the supervisor's own check can never disagree on the same counts.

use super::budget::{TreeCounts, TreeLimits, check_tree_budget};

/// Parent key of the root session in texts (ADM-7).
pub const ROOT_PARENT_KEY: &str = "<root>";

/// The ceiling that no setting raises (ORC-65).
pub const HARD_MAX_DEPTH: u32 = 4;

/// Which count a queueable gate is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdmissionDimension {
    /// Children of one parent.
    Fanout,
    /// Children of the process, or of the tree.
    Active,
}

/// A gate that a free slot opens again (ADM-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueableGate {
    InProcessFanout,
    InProcessActive,
    LedgerFanout,
    LedgerActive,
}

impl QueueableGate {
    /// The name of 05 §2.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProcessFanout => "inprocess.maxChildrenPerNode",
            Self::InProcessActive => "inprocess.maxActive",
            Self::LedgerFanout => "ledger.maxChildrenPerNode",
            Self::LedgerActive => "ledger.maxActiveNodes",
        }
    }

    pub const fn dimension(self) -> AdmissionDimension {
        match self {
            Self::InProcessFanout | Self::LedgerFanout => AdmissionDimension::Fanout,
            Self::InProcessActive | Self::LedgerActive => AdmissionDimension::Active,
        }
    }

    /// Whether the ledger's reservation judges it.
    pub const fn is_of_ledger(self) -> bool {
        matches!(self, Self::LedgerFanout | Self::LedgerActive)
    }
}

/// A gate that waiting does not open (ADM-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HardGate {
    InProcessSpawns,
    InProcessDepth,
    InProcessFanoutDisabled,
    LedgerFanoutDisabled,
    LedgerDepth,
    ParentNotFound,
    OrchestratorDepth,
    OrchestratorSpawns,
}

impl HardGate {
    /// The name of 05 §2.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProcessSpawns => "inprocess.maxSpawnsPerSession",
            Self::InProcessDepth => "inprocess.maxDepth",
            Self::InProcessFanoutDisabled => "inprocess.maxChildrenPerNode.disabled",
            Self::LedgerFanoutDisabled => "ledger.maxChildrenPerNode.disabled",
            Self::LedgerDepth => "legion.maxDepth",
            Self::ParentNotFound => "legion.parentNotFound",
            Self::OrchestratorDepth => "orchestrator.maxDepth",
            Self::OrchestratorSpawns => "orchestrator.maxSpawns",
        }
    }

    /// Whether the ledger's reservation judges it.
    pub const fn is_of_ledger(self) -> bool {
        matches!(self, Self::LedgerFanoutDisabled | Self::LedgerDepth | Self::ParentNotFound)
    }
}

/// What the gates say to one launch (ADM-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionVerdict {
    Admitted,
    /// A slot is missing; waiting can help.
    Queue {
        gate: QueueableGate,
        message: String,
    },
    Refuse {
        gate: HardGate,
        message: String,
    },
}

/// Limits of children in this process (SET-34 … SET-37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InProcessLimits {
    pub max_depth: u32,
    /// 0 means no children at all (ADM-8).
    pub max_children_per_node: u32,
    pub max_active: u32,
    /// `None` is unlimited.
    pub max_spawns_per_session: Option<u32>,
}

/// What an in-process launch is judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InProcessAdmissionCounts {
    /// [`ROOT_PARENT_KEY`], or the parent's node id.
    pub parent_key: String,
    /// Live in-process children of the same parent (ADM-20).
    pub siblings: u32,
    /// Live in-process children of the process.
    pub active: u32,
    /// Children that this session has started so far.
    pub spawn_count: u32,
    /// Nesting depth of the caller, 0 for the root (SUP-50).
    pub depth: u32,
    pub limits: InProcessLimits,
}

/// Launches that passed a probe and that the gate's own count does not hold yet (ADM-21).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inflight {
    pub fanout: u32,
    pub active: u32,
}

/// Limits of the orchestrator itself (03 §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrchestratorLimits {
    /// The ceiling `C`, see [`depth_ceiling`].
    pub max_depth: u32,
    /// `subagents.maxSubagentSpawnsPerSession`.
    pub max_spawns: Option<u32>,
}

/// The ceiling `C` of 03 §7: the lowest of the hard cap, the setting, the session's own budget and the card.
pub fn depth_ceiling(setting: u32, own_budget: Option<u32>, card: Option<u32>) -> u32 {
    [Some(setting), own_budget, card].into_iter().flatten().fold(HARD_MAX_DEPTH, u32::min)
}

/// The gates of the orchestrator (ORC-64, ORC-65); none of them queues. `depth` is the caller's.
pub fn evaluate_orchestrator(depth: u32, spawned: u32, limits: &OrchestratorLimits) -> AdmissionVerdict {
    if depth >= limits.max_depth {
        let message = orchestrator_depth_message(depth, limits.max_depth);
        return AdmissionVerdict::Refuse { gate: HardGate::OrchestratorDepth, message };
    }
    match limits.max_spawns {
        Some(limit) if spawned >= limit => AdmissionVerdict::Refuse {
            gate: HardGate::OrchestratorSpawns,
            message: orchestrator_spawns_message(spawned, limit),
        },
        Some(_) | None => AdmissionVerdict::Admitted,
    }
}

/// The first in-process gate that fails, in the order of ADM-12.
pub fn evaluate_in_process_admission(counts: &InProcessAdmissionCounts, inflight: Inflight) -> AdmissionVerdict {
    failing_in_process(counts, inflight).into_iter().next().unwrap_or(AdmissionVerdict::Admitted)
}

/// The tree's gates as a verdict, `inflight` added to the counts.
pub fn evaluate_tree(
    parent_id: &str,
    counts: &TreeCounts,
    limits: &TreeLimits,
    inflight: Inflight,
) -> AdmissionVerdict {
    let counts = TreeCounts {
        live_children: counts.live_children.saturating_add(inflight.fanout),
        active_nodes: counts.active_nodes.saturating_add(inflight.active),
        ..*counts
    };
    let Err(refusal) = check_tree_budget(parent_id, &counts, limits) else { return AdmissionVerdict::Admitted };
    let message = refusal.message;
    let queue = |gate| AdmissionVerdict::Queue { gate, message: message.clone() };
    let refuse = |gate| AdmissionVerdict::Refuse { gate, message: message.clone() };
    use super::budget::RefusalReason;
    match refusal.reason {
        RefusalReason::ParentNotFound => refuse(HardGate::ParentNotFound),
        RefusalReason::MaxDepth => refuse(HardGate::LedgerDepth),
        RefusalReason::MaxChildrenPerNode if refusal.queueable => queue(QueueableGate::LedgerFanout),
        RefusalReason::MaxChildrenPerNode => refuse(HardGate::LedgerFanoutDisabled),
        RefusalReason::MaxActiveNodes => queue(QueueableGate::LedgerActive),
    }
}

/// The probe of an in-process launch: in-process gates, then those of the tree (ADM-10). A hard verdict of either wins
/// over a queueable one, so that nothing waits for a slot that could never help it (ADM-13).
pub fn probe(in_process: &InProcessAdmissionCounts, inflight: Inflight, tree: AdmissionVerdict) -> AdmissionVerdict {
    let mut verdicts = failing_in_process(in_process, inflight);
    verdicts.push(tree);
    let hard = verdicts.iter().position(|verdict| matches!(verdict, AdmissionVerdict::Refuse { .. }));
    let first = hard.or_else(|| verdicts.iter().position(|verdict| *verdict != AdmissionVerdict::Admitted));
    first.map_or(AdmissionVerdict::Admitted, |at| verdicts.swap_remove(at))
}

/// Every in-process gate that fails, in the order of ADM-12.
fn failing_in_process(counts: &InProcessAdmissionCounts, inflight: Inflight) -> Vec<AdmissionVerdict> {
    let limits = &counts.limits;
    let siblings = counts.siblings.saturating_add(inflight.fanout);
    let active = counts.active.saturating_add(inflight.active);
    let fanout = in_process_fanout_message(&counts.parent_key, siblings, limits.max_children_per_node);
    let mut failing = Vec::new();
    if limits.max_children_per_node == 0 {
        let gate = HardGate::InProcessFanoutDisabled;
        failing.push(AdmissionVerdict::Refuse { gate, message: fanout.clone() });
    }
    if let Some(limit) = limits.max_spawns_per_session.filter(|limit| counts.spawn_count >= *limit) {
        let message = in_process_spawns_message(counts.spawn_count, limit);
        failing.push(AdmissionVerdict::Refuse { gate: HardGate::InProcessSpawns, message });
    }
    if active >= limits.max_active {
        let message = in_process_active_message(active, limits.max_active);
        failing.push(AdmissionVerdict::Queue { gate: QueueableGate::InProcessActive, message });
    }
    if counts.depth >= limits.max_depth {
        let message = in_process_depth_message(counts.depth, limits.max_depth);
        failing.push(AdmissionVerdict::Refuse { gate: HardGate::InProcessDepth, message });
    }
    if limits.max_children_per_node > 0 && siblings >= limits.max_children_per_node {
        failing.push(AdmissionVerdict::Queue { gate: QueueableGate::InProcessFanout, message: fanout });
    }
    failing
}

pub fn in_process_spawns_message(spawn_count: u32, limit: u32) -> String {
    format!(
        "inprocess spawn budget exhausted ({spawn_count}/{limit}); \
         raise subagents.inprocess.maxSpawnsPerSession to allow more"
    )
}

pub fn in_process_active_message(active: u32, limit: u32) -> String {
    format!("inprocess maxActive reached ({active}/{limit}); raise subagents.inprocess.maxActive to allow more")
}

pub fn in_process_depth_message(depth: u32, limit: u32) -> String {
    format!(
        "inprocess nesting limit reached (depth {depth}, max {limit}); \
         raise subagents.inprocess.maxDepth to allow deeper nesting"
    )
}

pub fn in_process_fanout_message(parent_key: &str, siblings: u32, limit: u32) -> String {
    format!("inprocess maxChildrenPerNode reached for '{parent_key}' ({siblings}/{limit})")
}

pub fn orchestrator_depth_message(depth: u32, ceiling: u32) -> String {
    format!(
        "subagent nesting limit reached (depth {depth}, max {ceiling}); \
         raise maxSubagentDepth (at most {HARD_MAX_DEPTH}) to allow deeper nesting"
    )
}

pub fn orchestrator_spawns_message(spawned: u32, limit: u32) -> String {
    format!(
        "subagent spawn budget exhausted ({spawned}/{limit}); \
         raise subagents.maxSubagentSpawnsPerSession to allow more"
    )
}

#[cfg(test)]
mod tests;
