use proptest::prelude::*;

use super::*;

const LIMITS: InProcessLimits =
    InProcessLimits { max_depth: 4, max_children_per_node: 8, max_active: 30, max_spawns_per_session: Some(50) };

fn counts(siblings: u32, active: u32, spawn_count: u32, depth: u32) -> InProcessAdmissionCounts {
    let parent_key = ROOT_PARENT_KEY.to_owned();
    InProcessAdmissionCounts { parent_key, siblings, active, spawn_count, depth, limits: LIMITS }
}

fn queue(gate: QueueableGate, message: &str) -> AdmissionVerdict {
    AdmissionVerdict::Queue { gate, message: message.to_owned() }
}

fn refuse(gate: HardGate, message: &str) -> AdmissionVerdict {
    AdmissionVerdict::Refuse { gate, message: message.to_owned() }
}

/// 04-T4 (its pure half), ADM-7, ADM-12 and the in-process texts of 05 §2.
#[test]
fn in_process_gates_are_reported_in_their_order() {
    let rows = [
        (counts(0, 0, 0, 0), AdmissionVerdict::Admitted),
        (counts(7, 29, 49, 3), AdmissionVerdict::Admitted),
        (
            counts(8, 30, 50, 4),
            refuse(
                HardGate::InProcessSpawns,
                "inprocess spawn budget exhausted (50/50); raise subagents.inprocess.maxSpawnsPerSession to allow more",
            ),
        ),
        (
            counts(8, 30, 49, 4),
            queue(
                QueueableGate::InProcessActive,
                "inprocess maxActive reached (30/30); raise subagents.inprocess.maxActive to allow more",
            ),
        ),
        (
            counts(8, 29, 49, 4),
            refuse(
                HardGate::InProcessDepth,
                "inprocess nesting limit reached (depth 4, max 4); raise subagents.inprocess.maxDepth to allow deeper nesting",
            ),
        ),
        (
            counts(8, 29, 49, 3),
            queue(QueueableGate::InProcessFanout, "inprocess maxChildrenPerNode reached for '<root>' (8/8)"),
        ),
    ];
    for (counts, verdict) in rows {
        assert_eq!(evaluate_in_process_admission(&counts, Inflight::default()), verdict, "{counts:?}");
    }
}

/// ADM-8, ADM-9
#[test]
fn a_limit_of_zero_is_refused_before_everything_else() {
    let mut none = counts(0, 30, 50, 4);
    none.limits.max_children_per_node = 0;
    let text = "inprocess maxChildrenPerNode reached for '<root>' (0/0)";
    let verdict = evaluate_in_process_admission(&none, Inflight::default());
    assert_eq!(verdict, refuse(HardGate::InProcessFanoutDisabled, text));
}

/// ADM-21, ADM-22
#[test]
fn launches_under_way_count_for_the_two_dimensions_only() {
    let inflight = Inflight { fanout: 3, active: 3 };
    let verdict = evaluate_in_process_admission(&counts(5, 5, 0, 0), inflight);
    assert_eq!(
        verdict,
        queue(QueueableGate::InProcessFanout, "inprocess maxChildrenPerNode reached for '<root>' (8/8)")
    );
    let verdict = evaluate_in_process_admission(&counts(0, 0, 48, 3), inflight);
    assert_eq!(verdict, AdmissionVerdict::Admitted);
}

/// ADM-10, ADM-13: a hard gate of either side beats a full pool.
#[test]
fn nothing_queues_behind_a_gate_that_never_opens() {
    let room = TreeCounts { parent_depth: Some(0), live_children: 0, active_nodes: 0 };
    let deep = TreeCounts { parent_depth: Some(4), ..room };
    let limits = TreeLimits::default();
    let tree = |counts: &TreeCounts| evaluate_tree("root", counts, &limits, Inflight::default());
    let full = counts(8, 30, 0, 0);

    let verdict = probe(&full, Inflight::default(), tree(&room));
    assert!(matches!(verdict, AdmissionVerdict::Queue { gate: QueueableGate::InProcessActive, .. }));
    let verdict = probe(&full, Inflight::default(), tree(&deep));
    assert!(matches!(verdict, AdmissionVerdict::Refuse { gate: HardGate::LedgerDepth, .. }));
    let verdict = probe(&counts(8, 30, 0, 4), Inflight::default(), tree(&room));
    assert!(matches!(verdict, AdmissionVerdict::Refuse { gate: HardGate::InProcessDepth, .. }));
    let crowded = TreeCounts { live_children: 6, ..room };
    let inflight = Inflight { fanout: 2, active: 2 };
    let verdict = probe(&counts(0, 0, 0, 0), Inflight::default(), evaluate_tree("root", &crowded, &limits, inflight));
    assert!(matches!(verdict, AdmissionVerdict::Queue { gate: QueueableGate::LedgerFanout, .. }));
}

/// ORC-64, ORC-65 and the orchestrator's texts of 05 §2.
#[test]
fn the_orchestrator_has_a_ceiling_and_a_spawn_budget() {
    assert_eq!(depth_ceiling(9, None, None), 4);
    assert_eq!(depth_ceiling(3, Some(2), None), 2);
    assert_eq!(depth_ceiling(4, Some(3), Some(1)), 1);
    let limits = OrchestratorLimits { max_depth: 2, max_spawns: Some(3) };
    assert_eq!(evaluate_orchestrator(1, 2, &limits), AdmissionVerdict::Admitted);
    assert_eq!(
        evaluate_orchestrator(2, 3, &limits),
        refuse(
            HardGate::OrchestratorDepth,
            "subagent nesting limit reached (depth 2, max 2); raise maxSubagentDepth (at most 4) to allow deeper nesting"
        )
    );
    assert_eq!(
        evaluate_orchestrator(0, 3, &limits),
        refuse(
            HardGate::OrchestratorSpawns,
            "subagent spawn budget exhausted (3/3); raise subagents.maxSubagentSpawnsPerSession to allow more"
        )
    );
}

proptest! {
    /// ADM-12, ADM-22: whoever is admitted is within every limit, and a launch under way is worth a live child.
    #[test]
    fn admission_keeps_every_limit(
        siblings in 0..12_u32, active in 0..40_u32, spawned in 0..60_u32, depth in 0..6_u32,
        fanout in 0..4_u32, others in 0..4_u32,
    ) {
        let inflight = Inflight { fanout, active: fanout + others };
        let verdict = evaluate_in_process_admission(&counts(siblings, active, spawned, depth), inflight);
        let within = siblings + fanout < 8 && active + fanout + others < 30 && spawned < 50 && depth < 4;
        prop_assert_eq!(verdict == AdmissionVerdict::Admitted, within);
        let live = evaluate_in_process_admission(
            &counts(siblings + fanout, active + fanout + others, spawned, depth), Inflight::default());
        prop_assert_eq!(verdict, live);
    }
}
