use serde_json::json;

use super::*;
use crate::core::mail::{MailKind, Urgency};
use crate::core::naming::check_child_name;
use crate::core::node_status::NodeStatus;
use crate::ledger::launch::{LaunchFailure, ResumeReason, mark_running, roll_back};
use crate::ledger::messages::{self, NewMail, Quota};
use crate::ledger::orphans::{abandon_stale, converge_orphan};
use crate::ledger::settle::{
    Settled, TeamActivity, close_root, fail_team_if_all_children_failed, mark_blocked, mark_handled, mark_unblocked,
    mark_woken, open_root, record_settled, retire,
};
use crate::ledger::usage::{self, UsageRow};

const STALE_MS: i64 = 90_000;

fn settle_as(db: &LegionDb, id: &str, execution: ExecutionStatus) -> Settled {
    db.write(|tx| record_settled(tx, &ended(id, execution), NOW)).unwrap()
}

fn last_event(db: &LegionDb, id: &str) -> (String, serde_json::Value) {
    events_of(db, id).pop().unwrap()
}

/// 06-T6: S1 to S18 with their events.
#[test]
fn each_change_of_the_table_works_with_its_event() {
    let (_dir, db) = fresh();

    // S1, S2
    let reserved = db.write(|tx| reserve(tx, "root", "w1")).unwrap();
    let id = reserved.node_id.as_str();
    assert_eq!((row(&db, id).status, events_of(&db, id).len()), (NodeStatus::Starting, 0));
    db.write(|tx| mark_running(tx, id, &started(), NOW + 1)).unwrap();
    let running = row(&db, id);
    assert_eq!((running.status, running.updated_at), (NodeStatus::Running, NOW + 1));
    let data = json!({"role": "worker", "model": "cb/x", "supervisor": "inprocess", "sessionFile": "/s/child.jsonl"});
    assert_eq!(last_event(&db, id), ("node_launched".into(), data));

    // S4, S5
    db.write(|tx| mark_blocked(tx, id, "may I?", NOW)).unwrap();
    assert_eq!(row(&db, id).status, NodeStatus::Blocked);
    assert_eq!(last_event(&db, id), ("node_blocked".into(), json!({"reason": "may I?"})));
    db.write(|tx| mark_unblocked(tx, id, NOW)).unwrap();
    assert_eq!(row(&db, id).status, NodeStatus::Running);
    assert_eq!(last_event(&db, id), ("node_resumed".into(), json!({"reason": "unblocked"})));

    // S6, S7, S8, and S13 between them
    let ends = [
        (ExecutionStatus::Success, NodeStatus::Settled, "node_settled"),
        (ExecutionStatus::Failed, NodeStatus::Failed, "node_failed"),
        (ExecutionStatus::Truncated, NodeStatus::Failed, "node_failed"),
        (ExecutionStatus::Aborted, NodeStatus::Retired, "node_retired"),
        (ExecutionStatus::Unknown, NodeStatus::Retired, "node_retired"),
    ];
    for (execution, status, event) in ends {
        assert_eq!(settle_as(&db, id, execution), Settled::Written(status));
        assert_eq!(row(&db, id).status, status);
        assert_eq!(last_event(&db, id), (event.into(), json!({"execution": execution.as_str(), "round": 1})));
        db.write(|tx| mark_woken(tx, id, NOW)).unwrap();
        assert_eq!(row(&db, id).status, NodeStatus::Running);
        assert_eq!(last_event(&db, id), ("node_resumed".into(), json!({"reason": "woken"})));
    }

    // S9, and once more without a word
    assert!(db.write(|tx| retire(tx, id, "stopped", 5, NOW)).unwrap());
    assert_eq!(row(&db, id).status, NodeStatus::Retired);
    let data = json!({"execution": "aborted", "reason": "stopped", "round": 5});
    assert_eq!(last_event(&db, id), ("node_retired".into(), data));
    let before = (row(&db, id), events_of(&db, id).len());
    assert!(!db.write(|tx| retire(tx, id, "stopped", 5, NOW + 9)).unwrap());
    assert_eq!((row(&db, id), events_of(&db, id).len()), before);

    // S3
    let failed = db.write(|tx| reserve(tx, "root", "w2")).unwrap();
    db.write(|tx| roll_back(tx, &failed, LaunchFailure::StartFailed("no model"), NOW)).unwrap();
    assert_eq!(row(&db, "root/w2").status, NodeStatus::Failed);
    let data = json!({"execution": "failed", "reason": "no model", "round": 0});
    assert_eq!(last_event(&db, "root/w2"), ("node_failed".into(), data));

    // S11, S14
    db.write(|tx| run(tx, "root", "w3")).unwrap();
    let found = db.write(|tx| converge_orphan(tx, "root/w3", NOW + STALE_MS, STALE_MS)).unwrap();
    assert_eq!(found.unwrap().status, NodeStatus::Running);
    assert_eq!(row(&db, "root/w3").status, NodeStatus::Failed);
    let told: Vec<_> = events_of(&db, "root/w3").into_iter().skip(1).collect();
    assert_eq!(
        told,
        [
            ("orphan_detected".into(), json!({"staleMs": STALE_MS, "detectedAt": NOW + STALE_MS})),
            ("node_abandoned".into(), json!({"reason": "no_active_supervisor", "staleMs": STALE_MS})),
        ]
    );
    assert_eq!(settle_as(&db, "root/w3", ExecutionStatus::Success), Settled::Written(NodeStatus::Settled));
    assert_eq!(row(&db, "root/w3").status, NodeStatus::Settled);

    // S12, then S14 with another end
    db.write(|tx| run(tx, "root", "w4")).unwrap();
    db.write(|tx| abandon_stale(tx, "root/w4", NOW + 100, 100)).unwrap().unwrap();
    assert_eq!(last_event(&db, "root/w4"), ("node_abandoned".into(), json!({"reason": "hygiene", "staleMs": 100})));
    assert_eq!(settle_as(&db, "root/w4", ExecutionStatus::Aborted), Settled::Written(NodeStatus::Retired));

    // S15, S18
    db.write(|tx| close_root(tx, NOW + 7)).unwrap();
    assert_eq!(row(&db, "root").status, NodeStatus::Settled);
    let counts = json!({"settled": 1, "failed": 1, "retired": 2});
    assert_eq!(last_event(&db, "root"), ("tree_finalized".into(), counts));
    let closed = row(&db, "root");
    db.write(|tx| open_root(tx, "r-00000001", Some(Path::new("/s/other.jsonl")), NOW + 8)).unwrap();
    let opened = row(&db, "root");
    assert_eq!((opened.status, opened.created_at), (NodeStatus::Running, closed.created_at));
    assert_eq!(opened.session_file.as_deref(), Some(Path::new("/s/other.jsonl")));
}

/// 06-T6, LED-38: from every status, each writer that has no business there is refused and changes nothing.
#[test]
fn every_other_change_is_rejected() {
    let (_dir, db) = fresh();
    let reserved = db.write(|tx| reserve(tx, "root", "w1")).unwrap();
    let id = reserved.node_id.clone();
    let former = super::super::nodes::NodeRow { status: NodeStatus::Settled, ..row(&db, &id) };
    let revived = Reserved { former: Some(Box::new(former)), ..reserved.clone() };

    type Writer<'a> = (&'a str, &'a [&'a str], Box<dyn Fn(&Tx<'_>) -> LResult<()> + 'a>);
    let writers: Vec<Writer<'_>> = vec![
        ("running", &["starting"], Box::new(|tx| mark_running(tx, &id, &started(), NOW))),
        ("failed", &["starting"], Box::new(|tx| roll_back(tx, &reserved, LaunchFailure::StartFailed("x"), NOW))),
        ("no row", &["starting"], Box::new(|tx| roll_back(tx, &reserved, LaunchFailure::Refused, NOW))),
        ("settled", &["starting"], Box::new(|tx| roll_back(tx, &revived, LaunchFailure::Refused, NOW))),
        ("blocked", &["running"], Box::new(|tx| mark_blocked(tx, &id, "x", NOW))),
        ("running", &["blocked"], Box::new(|tx| mark_unblocked(tx, &id, NOW))),
        ("running", &["settled", "failed", "retired"], Box::new(|tx| mark_woken(tx, &id, NOW))),
    ];
    for (target, legal_from, writer) in &writers {
        for status in NodeStatus::ALL {
            if legal_from.contains(&status.as_str()) {
                continue;
            }
            db.write(|tx| {
                force_status(tx, &id, status.as_str());
                Ok(())
            })
            .unwrap();
            let before = row(&db, &id);
            let error = db.write(|tx| writer(tx)).unwrap_err();
            let text = format!("node 'root/w1': illegal status change from {status} to {target}");
            assert_eq!(error.to_string(), text);
            assert_eq!(row(&db, &id), before);
            assert_eq!(events_of(&db, &id), []);
        }
    }

    // Live names are not reserved again, and an end that is not of this turn stays.
    for status in ["starting", "running", "blocked"] {
        db.write(|tx| {
            force_status(tx, &id, status);
            assert!(matches!(launch::reserve(tx, &new_node("root", "w1"), &ROOMY, NOW)?, Reserve::Alive(_)));
            Ok(())
        })
        .unwrap();
    }
    for status in [NodeStatus::Settled, NodeStatus::Failed, NodeStatus::Retired] {
        db.write(|tx| {
            force_status(tx, &id, status.as_str());
            Ok(())
        })
        .unwrap();
        for execution in [ExecutionStatus::Success, ExecutionStatus::Failed, ExecutionStatus::Aborted] {
            assert_eq!(settle_as(&db, &id, execution), Settled::Kept(status));
        }
        assert_eq!(db.write(|tx| converge_orphan(tx, &id, NOW * 2, 0)).unwrap(), None);
        assert_eq!(row(&db, &id).status, status);
    }
    assert_eq!(events_of(&db, &id), []);
    let running = db.write(|tx| record_settled(tx, &ended(&id, ExecutionStatus::Running), NOW)).unwrap_err();
    assert_eq!(running.to_string(), "node 'root/w1' cannot settle as 'running'");

    // What belongs to children is not done to the root, and the other way round.
    let error = db.write(|tx| retire(tx, "root", "x", 0, NOW)).unwrap_err();
    assert_eq!(error.to_string(), "node 'root': illegal status change from running to retired");
    assert_eq!(db.write(|tx| converge_orphan(tx, "root", NOW * 2, 0)).unwrap(), None);
    assert_eq!(row(&db, "root").status, NodeStatus::Running);
}

/// 06-T6: S16, S17 and the row that something refers to.
#[test]
fn a_refused_launch_leaves_the_ledger_as_it_was() {
    let (_dir, db) = fresh();
    let fresh_row = db.write(|tx| reserve(tx, "root", "w1")).unwrap();
    db.write(|tx| roll_back(tx, &fresh_row, LaunchFailure::Refused, NOW)).unwrap();
    assert_eq!(db.read(|conn| nodes::get(conn, "root/w1")).unwrap(), None);

    for (end, failure) in [
        (ExecutionStatus::Success, LaunchFailure::Refused),
        (ExecutionStatus::Failed, LaunchFailure::StartFailed("no model")),
        (ExecutionStatus::Aborted, LaunchFailure::Refused),
    ] {
        let id = db.write(|tx| run(tx, "root", "w2")).unwrap_or_else(|_| child("w2"));
        settle_as(&db, &id, end);
        let (before, told) = (row(&db, &id), events_of(&db, &id).len());
        let node = NewNode {
            role: "scout",
            run_id: "r-00000002",
            session_file: Path::new("/s/new.jsonl"),
            team: Some("blue"),
            task: "another",
            ..new_node("root", "w2")
        };
        let revived = db
            .write(|tx| match launch::reserve(tx, &node, &ROOMY, NOW + 1)? {
                Reserve::Reserved(reserved) => Ok(reserved),
                other => panic!("{other:?}"),
            })
            .unwrap();
        let changed = row(&db, &id);
        assert_eq!((changed.status, changed.role.as_str()), (NodeStatus::Starting, "scout"));
        db.write(|tx| roll_back(tx, &revived, failure, NOW + 2)).unwrap();
        let after = row(&db, &id);
        assert_eq!(after, NodeRow { updated_at: NOW + 2, ..before });
        assert_eq!(events_of(&db, &id).len(), told);
    }

    let addressed = db.write(|tx| reserve(tx, "root", "w3")).unwrap();
    db.write(|tx| {
        let mail = NewMail {
            from_node: "root",
            to_nodes: &["root/w3"],
            subject: "s",
            body: "b",
            kind: MailKind::Report,
            urgency: Urgency::Info,
        };
        messages::send(tx, &mail, Quota::Platform, NOW)
    })
    .unwrap()
    .unwrap();
    db.write(|tx| roll_back(tx, &addressed, LaunchFailure::Refused, NOW)).unwrap();
    assert_eq!(row(&db, "root/w3").status, NodeStatus::Failed);
    assert_eq!(last_event(&db, "root/w3").0, "node_failed");
}

/// 06-T26, LED-25, ORC-41
#[test]
fn a_revival_goes_through_starting() {
    for name in ["root", "all", "ROOT"] {
        assert!(check_child_name(name).is_err());
    }
    let (_dir, db) = fresh();
    let id = db.write(|tx| run(tx, "root", "w1")).unwrap();
    settle_as(&db, &id, ExecutionStatus::Success);
    for (reason, word) in [(ResumeReason::Continue, "continue"), (ResumeReason::Resume, "resume")] {
        let reserved = db.write(|tx| reserve(tx, "root", "w1")).unwrap();
        assert!(reserved.former.is_some());
        assert_eq!(row(&db, &id).status, NodeStatus::Starting);
        let started = Started { resumed: Some(reason), ..started() };
        db.write(|tx| mark_running(tx, &id, &started, NOW)).unwrap();
        assert_eq!(row(&db, &id).status, NodeStatus::Running);
        assert_eq!(last_event(&db, &id), ("node_resumed".into(), json!({"reason": word})));
        settle_as(&db, &id, ExecutionStatus::Failed);
    }
}

/// 06-T7, LED-40, LED-41
#[test]
fn a_team_fails_with_all_its_children() {
    let (_dir, db) = fresh();
    let lead = |tx: &Tx<'_>, name: &str| -> LResult<String> {
        let node = NewNode { role: "centurion", ..new_node("root", name) };
        let Reserve::Reserved(reserved) = launch::reserve(tx, &node, &ROOMY, NOW)? else { panic!("no slot") };
        mark_running(tx, &reserved.node_id, &started(), NOW)?;
        Ok(reserved.node_id)
    };
    let idle = TeamActivity::default();
    let net = |id: &str, activity| db.write(|tx| fail_team_if_all_children_failed(tx, id, activity, NOW)).unwrap();

    let team = db.write(|tx| lead(tx, "centurion-0")).unwrap();
    assert!(!net(&team, idle), "without children nothing has failed");
    for name in ["w1", "w2"] {
        let id = db.write(|tx| run(tx, &team, name)).unwrap();
        assert!(!net(&team, idle), "a child is live");
        settle_as(&db, &id, ExecutionStatus::Failed);
    }
    assert!(!net(&team, TeamActivity { turn_in_flight: true, ..idle }));
    assert!(!net(&team, TeamActivity { launch_queued: true, ..idle }));
    assert_eq!(row(&db, &team).status, NodeStatus::Running);
    assert!(net(&team, idle));
    assert_eq!(row(&db, &team).status, NodeStatus::Failed);
    assert_eq!(last_event(&db, &team), ("node_failed".into(), json!({"reason": "all_children_failed"})));
    assert!(!net(&team, idle), "once");

    // A later good turn of the team does not hide it.
    db.write(|tx| mark_woken(tx, &team, NOW)).unwrap();
    assert_eq!(settle_as(&db, &team, ExecutionStatus::Success), Settled::Written(NodeStatus::Failed));
    let data = json!({"execution": "success", "reason": "all_children_failed", "round": 1});
    assert_eq!(last_event(&db, &team), ("node_failed".into(), data));

    // A child that was dealt with, or one that did not fail, keeps the net from firing.
    db.write(|tx| mark_handled(tx, "root/centurion-0/w1", &team, "implementing", NOW)).unwrap();
    db.write(|tx| mark_woken(tx, &team, NOW)).unwrap();
    assert!(!net(&team, idle));
    assert_eq!(settle_as(&db, &team, ExecutionStatus::Success), Settled::Written(NodeStatus::Settled));

    // Another role has no net.
    let worker = db.write(|tx| run(tx, "root", "worker-0")).unwrap();
    let below = db.write(|tx| run(tx, &worker, "s1")).unwrap();
    settle_as(&db, &below, ExecutionStatus::Failed);
    assert!(!net(&worker, idle));
    assert_eq!(settle_as(&db, &worker, ExecutionStatus::Success), Settled::Written(NodeStatus::Settled));
}

/// 03-T29, LED-39, LED-54, ORC-110
#[test]
fn a_second_settlement_changes_nothing() {
    let (_dir, db) = fresh();
    let id = db.write(|tx| run(tx, "root", "w1")).unwrap();
    let usage_row = UsageRow { tokens_in: 100, tokens_out: 20, cost_usd: 0.5 };
    let settlement = Settlement { usage: Some(usage_row), reason: Some("r"), ..ended(&id, ExecutionStatus::Failed) };
    for expected in [Settled::Written(NodeStatus::Failed), Settled::Kept(NodeStatus::Failed)] {
        assert_eq!(db.write(|tx| record_settled(tx, &settlement, NOW)).unwrap(), expected);
        assert_eq!(db.read(|conn| usage::get(conn, &id)).unwrap(), usage_row);
        assert_eq!(events_of(&db, &id).len(), 2);
    }
}
