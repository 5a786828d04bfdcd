//! The two closed sets of events: those the ledger keeps and those that only pass through the process.

/// Defines a closed set with its names in one place.
macro_rules! closed_set {
    ($(#[$meta:meta])* $set:ident, $all:ident: $count:literal { $($variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $set { $($variant),+ }

        /// Every name of the set.
        pub const $all: [&str; $count] = [$($name),+];

        impl $set {
            pub const ALL: [Self; $count] = [$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// `None` for a name outside the set.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

closed_set! {
    /// Persisted event types; what their `data` holds is the table of LED-46.
    EventType, LEGION_EVENT_TYPES: 16 {
        NodeLaunched = "node_launched",
        NodeSettled = "node_settled",
        NodeFailed = "node_failed",
        NodeRetired = "node_retired",
        NodeResumed = "node_resumed",
        NodeBlocked = "node_blocked",
        NodeAbandoned = "node_abandoned",
        NodeHandled = "node_handled",
        PhaseChange = "phase_change",
        PhaseTimeout = "phase_timeout",
        MailSent = "mail_sent",
        MailDelivered = "mail_delivered",
        MailBounced = "mail_bounced",
        BudgetRefused = "budget_refused",
        OrphanDetected = "orphan_detected",
        TreeFinalized = "tree_finalized",
    }
}

closed_set! {
    /// Events of one process, never written to the database (LED-48).
    ProcessEventType, LEGION_PROCESS_EVENT_TYPES: 10 {
        AgentStart = "agent_start",
        AgentEnd = "agent_end",
        AgentSettled = "agent_settled",
        TurnStart = "turn_start",
        TurnEnd = "turn_end",
        TextDelta = "text_delta",
        ToolCall = "tool_call",
        ToolResult = "tool_result",
        LaunchQueued = "launch_queued",
        LaunchAdmitted = "launch_admitted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LED-46, LED-48, LED-49
    #[test]
    fn the_sets_are_exact_and_disjoint() {
        assert_eq!(EventType::ALL.map(EventType::as_str), LEGION_EVENT_TYPES);
        assert_eq!(ProcessEventType::ALL.map(ProcessEventType::as_str), LEGION_PROCESS_EVENT_TYPES);
        for name in LEGION_EVENT_TYPES {
            assert_eq!(EventType::parse(name).map(EventType::as_str), Some(name));
            assert_eq!(ProcessEventType::parse(name), None);
        }
        for name in LEGION_PROCESS_EVENT_TYPES {
            assert_eq!(EventType::parse(name), None);
            assert_eq!(ProcessEventType::parse(name).map(ProcessEventType::as_str), Some(name));
        }
    }
}
