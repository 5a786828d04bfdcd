use super::*;
use crate::core::budget::RefusalReason;
use crate::core::node_status::NodeStatus;
use crate::ledger::launch::Pending;
use crate::ledger::nodes::{
    DEFAULT_SUBTREE_MAX_DEPTH, count_active_nodes, count_live_children, get_subtree, heartbeat_is_due, heartbeat_node,
    running_children,
};
use crate::ledger::orphans::{any_live, converge_orphan, orphan_candidates};
use crate::ledger::settle::{mark_blocked, record_settled};
use crate::ledger::usage::{self, UsageRow};
use crate::ledger::{LedgerError, events};

const STALE_MS: i64 = 90_000;

/// LED-24, LED-27
#[test]
fn rows_hold_what_the_rules_say() {
    let (_dir, db) = fresh();
    let root = row(&db, "root");
    assert_eq!((root.name.as_str(), root.role.as_str(), root.depth), ("root", "root", 0));
    assert_eq!((root.parent_id, root.status, root.kind.as_str()), (None, NodeStatus::Running, "pi"));

    let task = format!("\n  {} \nsecond line", "é".repeat(300));
    let node = NewNode { team: Some("default"), phase: Some("planning"), task: &task, ..new_node("root", "w1") };
    db.write(|tx| launch::reserve(tx, &node, &ROOMY, NOW)).unwrap();
    let child = row(&db, "root/w1");
    assert_eq!((child.depth, child.team, child.parent_id.as_deref()), (1, None, Some("root")));
    assert_eq!(child.task_summary, Some("é".repeat(200)));
    assert_eq!((child.phase.as_deref(), child.phase_since), (Some("planning"), Some(NOW)));
    let started = Started { team: Some("blue"), worktree_path: Some(Path::new("/w")), ..started() };
    db.write(|tx| launch::mark_running(tx, "root/w1", &started, NOW + 5)).unwrap();
    let child = row(&db, "root/w1");
    assert_eq!((child.team.as_deref(), child.model.as_deref()), (Some("blue"), Some("cb/x")));
    assert_eq!((child.worktree_path.as_deref(), child.updated_at), (Some(Path::new("/w")), NOW + 5));
    assert_eq!((child.created_at, child.phase_since), (NOW, Some(NOW)));

    // The same name under another parent is another node (LED-26).
    db.write(|tx| run(tx, "root/w1", "w1")).unwrap();
    assert_eq!(row(&db, "root/w1/w1").depth, 2);
}

/// LED-20, LED-28, LED-47, ADM-15, part of 03-T5
#[test]
fn a_full_tree_refuses_with_one_event_and_a_probe_with_none() {
    let (_dir, db) = fresh();
    let limits = TreeLimits { max_depth: 2, max_children_per_node: 2, max_active_nodes: 4 };
    let refusals = || events_of(&db, "root").len();
    let reserve_in =
        |parent: &str, name: &str| db.write(|tx| launch::reserve(tx, &new_node(parent, name), &limits, NOW)).unwrap();
    let reason = |outcome: Reserve| match outcome {
        Reserve::Refused(refusal) => refusal.reason,
        other => panic!("{other:?}"),
    };
    db.write(|tx| run(tx, "root", "a")).unwrap();
    db.write(|tx| run(tx, "root", "b")).unwrap();
    db.write(|tx| run(tx, "root/a", "a")).unwrap();

    assert_eq!(reason(reserve_in("root", "c")), RefusalReason::MaxChildrenPerNode);
    assert_eq!(refusals(), 1);
    let told = events_of(&db, "root").pop().unwrap();
    let text =
        "legion launch refused (max_children_per_node): parent already has 2 live children; maxChildrenPerNode is 2";
    assert_eq!(told.1, serde_json::json!({"reason": "max_children_per_node", "message": text}));

    assert_eq!(reason(reserve_in("root/a/a", "x")), RefusalReason::MaxDepth);
    assert_eq!(events_of(&db, "root/a/a").len(), 2, "launched, refused");
    assert_eq!(reason(reserve_in("root/nobody", "x")), RefusalReason::ParentNotFound);
    assert_eq!(refusals(), 2, "told on the root");

    assert!(matches!(reserve_in("root/b", "a"), Reserve::Reserved(_)));
    assert_eq!(reason(reserve_in("root/b", "b")), RefusalReason::MaxActiveNodes);

    let count = || db.read(events::last_id).unwrap();
    let before = count();
    let probe = |parent: &str, pending| db.read(|conn| launch::probe(conn, parent, &limits, pending)).unwrap();
    assert_eq!(probe("root", Pending::default()).unwrap_err().reason, RefusalReason::MaxChildrenPerNode);
    assert_eq!(probe("root/b", Pending::default()).unwrap_err().reason, RefusalReason::MaxActiveNodes);
    db.write(|tx| settle::retire(tx, "root/b/a", "x", 0, NOW)).unwrap();
    let before = before + 1;
    assert_eq!(probe("root/b", Pending::default()), Ok(()));
    assert_eq!(probe("root/b", Pending { fanout: 0, active: 1 }).unwrap_err().reason, RefusalReason::MaxActiveNodes);
    let held = Pending { fanout: 2, active: 0 };
    assert_eq!(probe("root/b", held).unwrap_err().reason, RefusalReason::MaxChildrenPerNode);
    assert_eq!(count(), before);

    // A revival goes through the same check.
    assert!(matches!(reserve_in("root/b", "z"), Reserve::Reserved(_)));
    assert_eq!(reason(reserve_in("root/b", "a")), RefusalReason::MaxActiveNodes);
    assert_eq!(row(&db, "root/b/a").status, NodeStatus::Retired);
}

/// LED-43, ORC-66
#[test]
fn live_nodes_are_counted_without_the_root() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        let _held = reserve(tx, "root", "starting")?;
        run(tx, "root", "running")?;
        let blocked = run(tx, "root", "blocked")?;
        mark_blocked(tx, &blocked, "x", NOW)?;
        run(tx, "root/running", "below")?;
        for (name, execution) in
            [("s", ExecutionStatus::Success), ("f", ExecutionStatus::Failed), ("r", ExecutionStatus::Aborted)]
        {
            let id = run(tx, "root", name)?;
            record_settled(tx, &ended(&id, execution), NOW)?;
        }
        Ok(())
    })
    .unwrap();
    let (children, active) =
        db.read(|conn| Ok((count_live_children(conn, "root")?, count_active_nodes(conn)?))).unwrap();
    assert_eq!((children, active), (3, 4));
    db.write(|tx| settle::close_root(tx, NOW)).unwrap();
    assert_eq!(db.read(count_active_nodes).unwrap(), 4);
    assert!(db.read(any_live).unwrap());
}

/// LED-42
#[test]
fn a_subtree_is_in_order_and_carries_usage() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        for (parent, name) in [("root", "z"), ("root", "a"), ("root/z", "y"), ("root/z", "b"), ("root/a", "q")] {
            run(tx, parent, name)?;
        }
        usage::record(tx, "root/z/b", &UsageRow { tokens_in: 7, tokens_out: 3, cost_usd: 0.25 }, NOW)?;
        // Any later write must not change the order of creation.
        settle::retire(tx, "root/z", "x", 0, NOW)?;
        Ok(())
    })
    .unwrap();
    let tree = |id: &str, depth: u32| -> Vec<(String, u32)> {
        let rows = db.read(|conn| get_subtree(conn, id, depth)).unwrap();
        rows.into_iter().map(|row| (row.node.id, row.level)).collect()
    };
    let expected = [("root", 0), ("root/z", 1), ("root/z/y", 2), ("root/z/b", 2), ("root/a", 1), ("root/a/q", 2)];
    assert_eq!(tree("root", DEFAULT_SUBTREE_MAX_DEPTH), expected.map(|(id, level)| (id.to_owned(), level)));
    assert_eq!(tree("root", 1).len(), 3);
    assert_eq!(tree("root/z", 0), [("root/z".to_owned(), 0)]);
    assert_eq!(tree("root/nobody", 64), []);
    let rows = db.read(|conn| get_subtree(conn, "root/z", 64)).unwrap();
    assert_eq!(rows[2].usage, UsageRow { tokens_in: 7, tokens_out: 3, cost_usd: 0.25 });
    assert_eq!(rows[1].usage, UsageRow::default());
}

/// 06-T23, LED-42
#[test]
fn deep_chains_and_loops_end_at_the_cap() {
    let (_dir, db) = fresh();
    let bottom = db
        .write(|tx| {
            let mut id = "root".to_owned();
            for _ in 0..65 {
                id = run(tx, &id, "c")?;
            }
            Ok(id)
        })
        .unwrap();
    let rows = db.read(|conn| get_subtree(conn, "root", DEFAULT_SUBTREE_MAX_DEPTH)).unwrap();
    assert_eq!(rows.len(), 65, "the node and 64 levels");
    assert_eq!(rows.last().unwrap().level, 64);
    assert!(rows.iter().all(|row| row.node.id != bottom));

    db.write(|tx| Ok(tx.raw().execute("UPDATE nodes SET parent_id = 'root/c/c' WHERE id = 'root/c'", [])?)).unwrap();
    let rows = db.read(|conn| get_subtree(conn, "root/c", DEFAULT_SUBTREE_MAX_DEPTH)).unwrap();
    assert_eq!(rows.len(), 65, "each node once");
}

/// 06-T9, LED-44, LED-57
#[test]
fn a_heartbeat_revives_nothing_and_spares_the_young() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        run(tx, "root", "live")?;
        run(tx, "root", "gone")?;
        settle::retire(tx, "root/gone", "x", 0, NOW)
    })
    .unwrap();
    let ids = ["root", "root/live", "root/gone", "root/nobody"];
    let beat = |now: i64| db.write(|tx| heartbeat_node(tx, &ids, now, STALE_MS)).unwrap();
    let due = |now: i64| db.read(|conn| heartbeat_is_due(conn, &ids, now, STALE_MS)).unwrap();
    assert!(!due(NOW + 22_499));
    assert_eq!(beat(NOW + 22_499), 0);
    assert!(due(NOW + 22_500));
    assert_eq!(beat(NOW + 22_500), 2);
    assert_eq!(row(&db, "root/live").updated_at, NOW + 22_500);
    let gone = row(&db, "root/gone");
    assert_eq!((gone.status, gone.updated_at), (NodeStatus::Retired, NOW));
    assert_eq!(db.write(|tx| heartbeat_node(tx, &[], NOW * 2, STALE_MS)).unwrap(), 0);
}

/// LED-58, LED-59, part of 06-T18
#[test]
fn orphans_are_found_by_age_and_failed_once() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        run(tx, "root", "old")?;
        run(tx, "root", "young")?;
        run(tx, "root", "ended")?;
        settle::retire(tx, "root/ended", "x", 0, NOW)?;
        heartbeat_node(tx, &["root/young"], NOW + STALE_MS, STALE_MS)
    })
    .unwrap();
    let found = |now: i64| -> Vec<String> {
        let rows = db.read(|conn| orphan_candidates(conn, now, STALE_MS)).unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(found(NOW + STALE_MS - 1), [] as [&str; 0]);
    assert_eq!(found(NOW + STALE_MS), ["root/old"], "the root, as old, is not among them");
    let converge = |id: &str, now| db.write(|tx| converge_orphan(tx, id, now, STALE_MS)).unwrap();
    assert!(converge("root/young", NOW + STALE_MS).is_none(), "it came back between scan and write");
    assert!(converge("root/old", NOW + STALE_MS).is_some());
    assert!(converge("root/old", NOW + STALE_MS).is_none());
    assert_eq!(found(NOW + STALE_MS), [] as [&str; 0]);
    assert_eq!(events_of(&db, "root/old").len(), 3);
    // A run that is taken over does not wait for the age (ORC-172), also under a clock set back.
    assert!(db.write(|tx| converge_orphan(tx, "root/young", NOW - 5, 0)).unwrap().is_some());
}

/// LED-54, LED-55, part of 06-T20: the writing rule, and which rows a poll is about.
#[test]
fn usage_only_rises_and_only_running_rows_are_polled() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        let _held = reserve(tx, "root", "starting")?;
        run(tx, "root", "a")?;
        run(tx, "root/a", "b")?;
        run(tx, "root", "ended")?;
        settle::retire(tx, "root/ended", "x", 0, NOW)
    })
    .unwrap();
    let polled = |parents: &[&str]| -> Vec<String> {
        db.read(|conn| running_children(conn, parents)).unwrap().into_iter().map(|row| row.id).collect()
    };
    assert_eq!(polled(&["root"]), ["root/a"]);
    assert_eq!(polled(&["root", "root/a"]), ["root/a", "root/a/b"]);

    let write = |tokens_in, tokens_out, cost_usd| {
        db.write(|tx| usage::record(tx, "root/a", &UsageRow { tokens_in, tokens_out, cost_usd }, NOW)).unwrap()
    };
    let stored = || db.read(|conn| usage::get(conn, "root/a")).unwrap();
    assert!(write(100, 10, 0.5));
    assert!(!write(100, 10, 0.5));
    assert!(!write(90, 9, 0.1));
    assert_eq!(stored(), UsageRow { tokens_in: 100, tokens_out: 10, cost_usd: 0.5 });
    assert!(write(101, 9, f64::NAN));
    assert!(!write(0, 0, -3.0));
    assert_eq!(stored(), UsageRow { tokens_in: 101, tokens_out: 10, cost_usd: 0.5 });
    let totals = db.read(usage::ledger_totals).unwrap();
    assert_eq!((totals.nodes, totals.usage.tokens_in), (5, 101));
}

/// Bad input: an unknown node in any row rolls the transaction back.
#[test]
fn unknown_nodes_are_refused_by_the_schema() {
    let (_dir, db) = fresh();
    let error = db
        .write(|tx| {
            run(tx, "root", "w1")?;
            usage::record(tx, "root/nobody", &UsageRow::default(), NOW)
        })
        .unwrap_err();
    assert!(matches!(error, LedgerError::ForeignKey), "{error}");
    let data = events::event_data([]);
    let error = db
        .write(|tx| events::append(tx, "root/nobody", crate::core::events::EventType::NodeSettled, &data, NOW))
        .unwrap_err();
    assert!(matches!(error, LedgerError::ForeignKey), "{error}");
    assert_eq!(db.read(|conn| nodes::children(conn, "root")).unwrap(), []);
}

/// A status that no build of ours writes is an error that names it, not a guess.
#[test]
fn an_unknown_status_is_named() {
    let (_dir, db) = fresh();
    db.write(|tx| {
        run(tx, "root", "w1")?;
        force_status(tx, "root/w1", "levitating");
        Ok(())
    })
    .unwrap();
    let error = db.read(|conn| nodes::require(conn, "root/w1")).unwrap_err();
    assert!(error.to_string().contains("unknown status 'levitating'"), "{error}");
}
