//! Whether a child is alive: the one judgement every view, count and notice uses (06 §6).
//!
//! It reads no clock, file, database or timer; the facts come as arguments. No allow-list of live states takes part:
//! what is not terminal is not terminal, also when the label is unknown (LED-66).

use std::fmt;

use super::node_status::NodeStatus;

/// The verdict. `Unknown` is neither counted as live nor listed as dead (LED-67).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    Live,
    Dead,
    Unknown,
}

impl Liveness {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the ledger says about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerFact<'a> {
    pub status: &'a str,
    /// Milliseconds since the epoch; read only as an age.
    pub updated_at: i64,
}

impl LedgerFact<'_> {
    /// The fact of a row.
    pub const fn of(status: NodeStatus, updated_at: i64) -> LedgerFact<'static> {
        LedgerFact { status: status.as_str(), updated_at }
    }
}

/// What is known about a child, gathered cheapest first (LED-93).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivenessFacts<'a> {
    /// The state in this process's registry; `queued` for a launch in this process's queue (LED-68).
    pub in_memory: Option<&'a str>,
    pub ledger: Option<LedgerFact<'a>>,
    /// The state in `run.json`.
    pub record: Option<&'a str>,
    /// `None`: there is no process marker (LED-91).
    pub pid_alive: Option<bool>,
    pub now: i64,
    /// `subagents.legion.orphanStaleMs`.
    pub stale_ms: i64,
}

/// Labels that mean the end, whichever store they come from (LED-64).
pub const TERMINAL_LABELS: [&str; 10] =
    ["settled", "success", "completed", "done", "failed", "aborted", "error", "truncated", "retired", "exited"];

/// Whether `label` is in the terminal set; everything else, unknown labels too, is not terminal.
pub fn is_terminal_label(label: &str) -> bool {
    TERMINAL_LABELS.contains(&label)
}

/// The verdict on these facts (LED-63).
pub fn liveness(facts: &LivenessFacts<'_>) -> Liveness {
    liveness_step(facts).0
}

/// The verdict and the step of LED-63 that decided, 1 to 9.
pub fn liveness_step(facts: &LivenessFacts<'_>) -> (Liveness, u8) {
    if let Some(state) = facts.in_memory {
        return if is_terminal_label(state) { (Liveness::Dead, 2) } else { (Liveness::Live, 1) };
    }
    match facts.pid_alive {
        Some(true) => return (Liveness::Live, 3),
        Some(false) => return (Liveness::Dead, 4),
        None => {}
    }
    if let Some(ledger) = facts.ledger {
        if is_terminal_label(ledger.status) {
            return (Liveness::Dead, 7);
        }
        let fresh = facts.now.saturating_sub(ledger.updated_at) < facts.stale_ms;
        return if fresh { (Liveness::Live, 5) } else { (Liveness::Dead, 6) };
    }
    match facts.record {
        Some(state) if is_terminal_label(state) => (Liveness::Dead, 8),
        Some(_) | None => (Liveness::Unknown, 9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: LivenessFacts<'static> =
        LivenessFacts { in_memory: None, ledger: None, record: None, pid_alive: None, now: 100_000, stale_ms: 90_000 };
    const FRESH: LedgerFact<'static> = LedgerFact { status: "running", updated_at: 99_000 };
    const STALE: LedgerFact<'static> = LedgerFact { status: "running", updated_at: 10_000 };
    const ENDED: LedgerFact<'static> = LedgerFact { status: "settled", updated_at: 99_000 };

    /// 06-T13, LED-62 … LED-68: every step against weaker facts that say the opposite.
    #[test]
    fn the_first_step_that_matches_decides() {
        let table = [
            (LivenessFacts { in_memory: Some("working"), pid_alive: Some(false), ledger: Some(ENDED), ..NOTHING }, 1),
            (LivenessFacts { in_memory: Some("awaiting"), record: Some("exited"), ..NOTHING }, 1),
            (LivenessFacts { in_memory: Some("queued"), record: Some("retired"), ..NOTHING }, 1),
            (LivenessFacts { in_memory: Some("levitating"), ledger: Some(ENDED), ..NOTHING }, 1),
            (LivenessFacts { in_memory: Some("exited"), pid_alive: Some(true), ledger: Some(FRESH), ..NOTHING }, 2),
            (LivenessFacts { pid_alive: Some(true), ledger: Some(STALE), record: Some("exited"), ..NOTHING }, 3),
            (LivenessFacts { pid_alive: Some(false), ledger: Some(FRESH), record: Some("working"), ..NOTHING }, 4),
            (LivenessFacts { ledger: Some(FRESH), record: Some("retired"), ..NOTHING }, 5),
            (LivenessFacts { ledger: Some(LedgerFact { status: "levitating", ..FRESH }), ..NOTHING }, 5),
            (LivenessFacts { ledger: Some(STALE), record: Some("working"), ..NOTHING }, 6),
            (LivenessFacts { ledger: Some(ENDED), record: Some("working"), ..NOTHING }, 7),
            (LivenessFacts { record: Some("exited"), ..NOTHING }, 8),
            (LivenessFacts { record: Some("queued"), ..NOTHING }, 9),
            (LivenessFacts { record: Some("awaiting"), ..NOTHING }, 9),
            (NOTHING, 9),
        ];
        for (facts, step) in table {
            let expected = match step {
                1 | 3 | 5 => Liveness::Live,
                9 => Liveness::Unknown,
                _ => Liveness::Dead,
            };
            assert_eq!(liveness_step(&facts), (expected, step), "{facts:?}");
            assert_eq!(liveness(&facts), expected);
        }
    }

    /// LED-64, LED-65
    #[test]
    fn awaiting_is_not_terminal_and_exited_is() {
        assert!(!is_terminal_label("awaiting"));
        assert!(!is_terminal_label("blocked"));
        assert!(!is_terminal_label(""));
        assert!(is_terminal_label("exited"));
        assert!(TERMINAL_LABELS.iter().all(|label| is_terminal_label(label)));
    }

    /// LED-63, part of 06-T14
    #[test]
    fn a_row_frozen_in_starting_with_an_expired_heartbeat_is_dead() {
        let row = LedgerFact { status: "starting", updated_at: 0 };
        let facts = LivenessFacts { ledger: Some(row), record: Some("working"), ..NOTHING };
        assert_eq!(liveness(&facts), Liveness::Dead);
    }

    /// The border of the age: exactly `stale_ms` old is expired.
    #[test]
    fn the_heartbeat_expires_at_its_limit() {
        let at = |updated_at| LivenessFacts { ledger: Some(LedgerFact { status: "running", updated_at }), ..NOTHING };
        assert_eq!(liveness(&at(10_001)), Liveness::Live);
        assert_eq!(liveness(&at(10_000)), Liveness::Dead);
        assert_eq!(liveness(&at(i64::MAX)), Liveness::Live);
    }
}
