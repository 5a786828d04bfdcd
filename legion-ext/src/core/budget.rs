//! The gates of the ledger: depth, fan-out and active nodes of a tree (05 §2).
//!
//! The reservation and the read-only probe judge by the same function, so they can never disagree on the same counts.

use serde::{Deserialize, Serialize};

/// Default of `subagents.legion.maxDepth`.
pub const DEFAULT_MAX_DEPTH: u32 = 4;
/// Default of `subagents.legion.maxChildrenPerNode`.
pub const DEFAULT_MAX_CHILDREN_PER_NODE: u32 = 8;
/// Default of `subagents.legion.maxActiveNodes`.
pub const DEFAULT_MAX_ACTIVE_NODES: u32 = 30;

/// Limits of the tree, from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// Deepest legal child; the root has depth 0.
    pub max_depth: u32,
    /// Live children per node; 0 means no children at all (ADM-8).
    pub max_children_per_node: u32,
    /// Live nodes in the tree, the root not counted.
    pub max_active_nodes: u32,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            max_depth: DEFAULT_MAX_DEPTH,
            max_children_per_node: DEFAULT_MAX_CHILDREN_PER_NODE,
            max_active_nodes: DEFAULT_MAX_ACTIVE_NODES,
        }
    }
}

/// The counts a launch is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeCounts {
    /// Depth of the parent; `None` when it is not in the ledger.
    pub parent_depth: Option<u32>,
    /// Live children of the parent.
    pub live_children: u32,
    /// Live nodes of the tree without the root.
    pub active_nodes: u32,
}

/// Which gate refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    ParentNotFound,
    MaxDepth,
    MaxChildrenPerNode,
    MaxActiveNodes,
}

impl RefusalReason {
    /// The word in the text and in the event's `reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ParentNotFound => "parent_not_found",
            Self::MaxDepth => "max_depth",
            Self::MaxChildrenPerNode => "max_children_per_node",
            Self::MaxActiveNodes => "max_active_nodes",
        }
    }
}

/// A launch the tree has no room for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BudgetRefusal {
    pub reason: RefusalReason,
    /// The gate of 05 §2, such as `ledger.maxChildrenPerNode`.
    pub gate: &'static str,
    /// Whether waiting for a slot can help (ADM-1, ADM-8).
    pub queueable: bool,
    pub message: String,
}

/// Judges one more child; hard gates come before those that queue (ADM-9, ADM-13).
pub fn check_tree_budget(parent_id: &str, counts: &TreeCounts, limits: &TreeLimits) -> Result<(), BudgetRefusal> {
    let refuse = |reason: RefusalReason, gate, queueable, tail: String| {
        let message = format!("legion launch refused ({}): {tail}", reason.as_str());
        Err(BudgetRefusal { reason, gate, queueable, message })
    };
    let Some(parent_depth) = counts.parent_depth else {
        let tail = format!("parent node '{parent_id}' is not in the ledger");
        return refuse(RefusalReason::ParentNotFound, "legion.parentNotFound", false, tail);
    };
    let depth = parent_depth.saturating_add(1);
    if depth > limits.max_depth {
        let tail = format!("child depth would be {depth}; maxDepth is {}", limits.max_depth);
        return refuse(RefusalReason::MaxDepth, "legion.maxDepth", false, tail);
    }
    let (live, max_children) = (counts.live_children, limits.max_children_per_node);
    if live >= max_children {
        let tail = format!("parent already has {live} live children; maxChildrenPerNode is {max_children}");
        return if max_children == 0 {
            refuse(RefusalReason::MaxChildrenPerNode, "ledger.maxChildrenPerNode.disabled", false, tail)
        } else {
            refuse(RefusalReason::MaxChildrenPerNode, "ledger.maxChildrenPerNode", true, tail)
        };
    }
    let (active, max_active) = (counts.active_nodes, limits.max_active_nodes);
    if active >= max_active {
        let tail = format!("tree already has {active} active nodes; maxActiveNodes is {max_active}");
        return refuse(RefusalReason::MaxActiveNodes, "ledger.maxActiveNodes", true, tail);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: TreeCounts = TreeCounts { parent_depth: Some(0), live_children: 0, active_nodes: 0 };

    fn refusal(counts: TreeCounts, limits: TreeLimits) -> (String, &'static str, bool) {
        let refusal = check_tree_budget("root/x", &counts, &limits).unwrap_err();
        assert!(refusal.message.contains(refusal.reason.as_str()));
        (refusal.message, refusal.gate, refusal.queueable)
    }

    /// ADM-1, ADM-8, ADM-13 and the ledger texts of 05 §2.
    #[test]
    fn each_gate_has_its_text_and_its_order() {
        let limits = TreeLimits::default();
        assert_eq!(check_tree_budget("root", &ROOM, &limits), Ok(()));

        let full = TreeCounts { parent_depth: Some(0), live_children: 8, active_nodes: 30 };
        let lost = TreeCounts { parent_depth: None, ..full };
        let text = "legion launch refused (parent_not_found): parent node 'root/x' is not in the ledger";
        assert_eq!(refusal(lost, limits), (text.into(), "legion.parentNotFound", false));

        let deep = TreeCounts { parent_depth: Some(4), ..full };
        let text = "legion launch refused (max_depth): child depth would be 5; maxDepth is 4";
        assert_eq!(refusal(deep, limits), (text.into(), "legion.maxDepth", false));

        let text = "legion launch refused (max_children_per_node): parent already has 8 live children; maxChildrenPerNode is 8";
        assert_eq!(refusal(full, limits), (text.into(), "ledger.maxChildrenPerNode", true));

        let crowded = TreeCounts { live_children: 7, ..full };
        let text = "legion launch refused (max_active_nodes): tree already has 30 active nodes; maxActiveNodes is 30";
        assert_eq!(refusal(crowded, limits), (text.into(), "ledger.maxActiveNodes", true));

        let none = TreeLimits { max_children_per_node: 0, ..limits };
        let text = "legion launch refused (max_children_per_node): parent already has 0 live children; maxChildrenPerNode is 0";
        assert_eq!(refusal(ROOM, none), (text.into(), "ledger.maxChildrenPerNode.disabled", false));
    }
}
