//! The life of a node: six statuses and the changes S1 to S18 of 06 §2.3.
//!
//! [`next_status`] is the only place that knows which change is legal. Whether a row exists, which event a change
//! writes and who may ask for it is the caller's business.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Every value of the `nodes.status` column (LED-35).
pub const NODE_STATUSES: [&str; 6] = ["starting", "running", "blocked", "settled", "failed", "retired"];

/// Status of a node in the ledger. Display and run-store states (`queued`, `idle`, `awaiting`, …) are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    Starting,
    Running,
    Blocked,
    Settled,
    Failed,
    Retired,
}

impl NodeStatus {
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Running, Self::Blocked, Self::Settled, Self::Failed, Self::Retired];

    /// The column's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Blocked => "blocked",
            Self::Settled => "settled",
            Self::Failed => "failed",
            Self::Retired => "retired",
        }
    }

    /// Reads the column's value; `None` for a label that is not one of the six.
    pub fn parse(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == label)
    }

    /// Whether the node holds a slot: `starting`, `running` or `blocked`.
    pub const fn is_live(self) -> bool {
        match self {
            Self::Starting | Self::Running | Self::Blocked => true,
            Self::Settled | Self::Failed | Self::Retired => false,
        }
    }

    /// The complement of [`Self::is_live`].
    pub const fn is_terminal(self) -> bool {
        !self.is_live()
    }
}

impl fmt::Display for NodeStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One of the three terminal statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndStatus {
    Settled,
    Failed,
    Retired,
}

impl EndStatus {
    pub const ALL: [Self; 3] = [Self::Settled, Self::Failed, Self::Retired];
}

impl From<EndStatus> for NodeStatus {
    fn from(end: EndStatus) -> Self {
        match end {
            EndStatus::Settled => Self::Settled,
            EndStatus::Failed => Self::Failed,
            EndStatus::Retired => Self::Retired,
        }
    }
}

impl TryFrom<NodeStatus> for EndStatus {
    type Error = NodeStatus;

    /// The live status itself is the error.
    fn try_from(status: NodeStatus) -> Result<Self, NodeStatus> {
        match status {
            NodeStatus::Settled => Ok(Self::Settled),
            NodeStatus::Failed => Ok(Self::Failed),
            NodeStatus::Retired => Ok(Self::Retired),
            live @ (NodeStatus::Starting | NodeStatus::Running | NodeStatus::Blocked) => Err(live),
        }
    }
}

/// What happens to a node; the numbers are those of 06 §2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeChange {
    /// S1: a launch or a revival takes the slot.
    Reserve,
    /// S2: the first real start.
    Start,
    /// S3: the start of a new node failed.
    FailStart,
    /// S4: the child waits for an answer to a dialog.
    Block,
    /// S5: the dialog was answered, or the child is active again.
    Unblock,
    /// S6, S7, S8: a turn ended and its outcome is recorded.
    Settle(EndStatus),
    /// S9: taken down by its parent.
    Retire,
    /// S10: every child of the team failed.
    FailTeam,
    /// S11, S12: no living owner.
    Abandon,
    /// S13: a new turn of a child that had settled and is still alive.
    Wake,
    /// S14: the outcome of a child that had been given up and turned out to be alive.
    SettleAbandoned(EndStatus),
    /// S15: clean shutdown of the root.
    CloseRoot,
    /// S16: a new launch was refused after the reservation; the row goes.
    Discard,
    /// S17: a revival was refused or failed; the row is as it was.
    Restore(EndStatus),
    /// S18, and the first insertion of the root.
    OpenRoot,
}

impl NodeChange {
    /// Whether the change is made for the root row, and only for it.
    pub const fn is_of_root(self) -> bool {
        matches!(self, Self::OpenRoot | Self::CloseRoot)
    }

    /// The status the change leads to; `None` when the row goes.
    pub fn target(self) -> Option<NodeStatus> {
        match self {
            Self::Reserve => Some(NodeStatus::Starting),
            Self::Start | Self::Unblock | Self::Wake | Self::OpenRoot => Some(NodeStatus::Running),
            Self::Block => Some(NodeStatus::Blocked),
            Self::Settle(end) | Self::SettleAbandoned(end) | Self::Restore(end) => Some(end.into()),
            Self::Retire => Some(NodeStatus::Retired),
            Self::FailStart | Self::FailTeam | Self::Abandon => Some(NodeStatus::Failed),
            Self::CloseRoot => Some(NodeStatus::Settled),
            Self::Discard => None,
        }
    }

    fn is_legal_from(self, from: Option<NodeStatus>) -> bool {
        let Some(status) = from else {
            return matches!(self, Self::Reserve | Self::OpenRoot);
        };
        match self {
            Self::Reserve | Self::Wake => status.is_terminal(),
            Self::Start | Self::FailStart | Self::Discard | Self::Restore(_) => status == NodeStatus::Starting,
            Self::Block => status == NodeStatus::Running,
            Self::Unblock => status == NodeStatus::Blocked,
            Self::Settle(_) | Self::Retire | Self::Abandon | Self::CloseRoot => status.is_live(),
            Self::FailTeam => status != NodeStatus::Failed,
            Self::SettleAbandoned(_) => status == NodeStatus::Failed,
            Self::OpenRoot => true,
        }
    }
}

/// A change that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal status change from {} to {}", label(*.from), label(.change.target()))]
pub struct IllegalTransition {
    /// `None`: there is no row.
    pub from: Option<NodeStatus>,
    pub change: NodeChange,
}

fn label(status: Option<NodeStatus>) -> &'static str {
    status.map_or("no row", NodeStatus::as_str)
}

/// The status after `change`, from the status of the row (`None`: no row) to that of the row afterwards.
pub fn next_status(from: Option<NodeStatus>, change: NodeChange) -> Result<Option<NodeStatus>, IllegalTransition> {
    if change.is_legal_from(from) { Ok(change.target()) } else { Err(IllegalTransition { from, change }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 06-T5, LED-35
    #[test]
    fn there_are_six_statuses_and_no_display_state_among_them() {
        assert_eq!(NodeStatus::ALL.map(NodeStatus::as_str), NODE_STATUSES);
        assert_eq!(NODE_STATUSES.len(), 6);
        for label in ["queued", "idle", "awaiting", "launching", "working", "exited"] {
            assert_eq!(NodeStatus::parse(label), None);
        }
        for status in NodeStatus::ALL {
            assert_eq!(NodeStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        let live: Vec<_> = NodeStatus::ALL.into_iter().filter(|s| s.is_live()).collect();
        assert_eq!(live, [NodeStatus::Starting, NodeStatus::Running, NodeStatus::Blocked]);
    }

    /// LED-38: the table of 06 §2.3, every pair of status and change.
    #[test]
    fn only_the_changes_of_the_table_are_legal() {
        use NodeStatus::{Blocked, Failed, Retired, Running, Settled, Starting};
        let live = vec![Starting, Running, Blocked];
        let ended = vec![Settled, Failed, Retired];
        let mut legal: Vec<(NodeChange, Vec<NodeStatus>)> = vec![
            (NodeChange::Reserve, ended.clone()),
            (NodeChange::Start, vec![Starting]),
            (NodeChange::FailStart, vec![Starting]),
            (NodeChange::Block, vec![Running]),
            (NodeChange::Unblock, vec![Blocked]),
            (NodeChange::Retire, live.clone()),
            (NodeChange::FailTeam, vec![Starting, Running, Blocked, Settled, Retired]),
            (NodeChange::Abandon, live.clone()),
            (NodeChange::Wake, ended),
            (NodeChange::CloseRoot, live.clone()),
            (NodeChange::Discard, vec![Starting]),
            (NodeChange::OpenRoot, NodeStatus::ALL.to_vec()),
        ];
        for end in EndStatus::ALL {
            legal.push((NodeChange::Settle(end), live.clone()));
            legal.push((NodeChange::SettleAbandoned(end), vec![Failed]));
            legal.push((NodeChange::Restore(end), vec![Starting]));
        }
        for (change, from) in legal {
            for status in NodeStatus::ALL {
                let next = next_status(Some(status), change);
                if from.contains(&status) {
                    assert_eq!(next, Ok(change.target()), "{status} {change:?}");
                } else {
                    assert_eq!(next, Err(IllegalTransition { from: Some(status), change }));
                }
            }
            let inserts = matches!(change, NodeChange::Reserve | NodeChange::OpenRoot);
            assert_eq!(next_status(None, change).is_ok(), inserts, "{change:?} without a row");
        }
    }

    #[test]
    fn an_illegal_change_names_both_ends() {
        let error = next_status(Some(NodeStatus::Settled), NodeChange::Start).unwrap_err();
        assert_eq!(error.to_string(), "illegal status change from settled to running");
        let error = next_status(None, NodeChange::Retire).unwrap_err();
        assert_eq!(error.to_string(), "illegal status change from no row to retired");
    }
}
