use super::*;
use crate::ledger::artifacts::{NewArtifact, consumption, latest, mark_notified, of_round, record_read, register};

fn result<'a>(node_id: &'a str, round: u32, bytes: u64) -> NewArtifact<'a> {
    NewArtifact { node_id, parent_id: "root", name: "w1", round, path: "/r/artifacts/w1/r1.md", bytes }
}

/// A tree with one child and no results.
fn family() -> (TempDir, LegionDb) {
    let (dir, db) = fresh();
    db.write(|tx| {
        run(tx, "root", "w1")?;
        run(tx, "root", "w2")
    })
    .unwrap();
    (dir, db)
}

fn add(db: &LegionDb, round: u32, bytes: u64) -> i64 {
    db.write(|tx| register(tx, &result("root/w1", round, bytes), NOW)).unwrap()
}

fn read(db: &LegionDb, id: i64, from: u64, to: u64) -> u64 {
    db.write(|tx| record_read(tx, id, "root", from, to, NOW)).unwrap()
}

fn owed(db: &LegionDb, consumer: &str) -> Vec<(i64, u64)> {
    db.undelivered(consumer).unwrap().into_iter().map(|owed| (owed.artifact.id, owed.read_bytes)).collect()
}

/// 06-T19, LED-74, LED-76 … LED-79, CAP-6
#[test]
fn a_result_is_owed_until_it_is_read_or_announced() {
    let (_dir, db) = family();
    let fresh = add(&db, 1, 1000);
    assert_eq!(owed(&db, "root"), [(fresh, 0)]);
    assert_eq!(owed(&db, "root/w2"), [], "only its parent is owed it");

    // Part of it; the head of a preview, whose tail is never reported; a last page without the middle.
    assert_eq!(read(&db, fresh, 0, 100), 100);
    assert_eq!(owed(&db, "root"), [(fresh, 100)]);
    assert_eq!(read(&db, fresh, 900, 1000), 100);
    assert_eq!(owed(&db, "root"), [(fresh, 100)]);
    // Pages that join on, one of them twice and one overlapping.
    assert_eq!(read(&db, fresh, 100, 500), 500);
    assert_eq!(read(&db, fresh, 0, 100), 500);
    assert_eq!(read(&db, fresh, 400, 1000), 1000);
    assert_eq!(owed(&db, "root"), []);

    // A notice settles it; a mark that failed leaves it owed.
    let announced = add(&db, 2, 10);
    let failed = db.write(|tx| {
        mark_notified(tx, &[announced], "root", NOW)?;
        register(tx, &result("root/nobody", 1, 1), NOW)
    });
    assert!(failed.is_err());
    assert_eq!(owed(&db, "root"), [(announced, 0)]);
    db.write(|tx| mark_notified(tx, &[announced], "root", NOW)).unwrap();
    assert_eq!(owed(&db, "root"), []);
    db.write(|tx| mark_notified(tx, &[announced], "root", NOW + 9)).unwrap();
    let mark = db.read(|conn| consumption(conn, announced, "root")).unwrap();
    assert_eq!(mark.notified_at, Some(NOW), "the first notice counts");

    // Nothing to read: only a notice settles an empty result.
    let empty = add(&db, 3, 0);
    assert_eq!(read(&db, empty, 0, 0), 0);
    assert_eq!(owed(&db, "root"), [(empty, 0)]);
    db.write(|tx| mark_notified(tx, &[empty], "root", NOW)).unwrap();
    assert_eq!(owed(&db, "root"), []);

    // What another consumer has read settles nothing for the parent.
    let shared = add(&db, 4, 50);
    db.write(|tx| record_read(tx, shared, "root/w2", 0, 50, NOW)).unwrap();
    assert_eq!(owed(&db, "root"), [(shared, 0)]);
}

/// 06-T19, LED-77: an old debt is kept, and a call reads the new rows only.
#[test]
fn a_look_costs_what_is_new() {
    let (_dir, db) = family();
    let old = add(&db, 1, 1000);
    read(&db, old, 0, 10);
    assert_eq!(owed(&db, "root"), [(old, 10)]);
    let cost = |db: &LegionDb, expected: &[(i64, u64)]| -> i32 {
        db.forget_statements();
        assert_eq!(owed(db, "root"), expected);
        db.statements().iter().map(|run| run.steps).sum()
    };
    let fill = |rounds: std::ops::Range<u32>| {
        let ids: Vec<i64> =
            db.write(|tx| rounds.map(|round| register(tx, &result("root/w1", round, 5), NOW)).collect()).unwrap();
        db.write(|tx| mark_notified(tx, &ids, "root", NOW)).unwrap();
    };
    fill(2..12);
    assert_eq!(owed(&db, "root"), [(old, 10)]);
    let few = cost(&db, &[(old, 10)]);
    fill(12..2012);
    assert_eq!(owed(&db, "root"), [(old, 10)]);
    assert_eq!(cost(&db, &[(old, 10)]), few);

    // A process that starts now finds the same.
    let path = db.path().to_owned();
    drop(db);
    let db = open_legion_db(&path, OpenMode::Existing).unwrap();
    assert_eq!(owed(&db, "root"), [(old, 10)]);
    read(&db, old, 10, 1000);
    assert_eq!(owed(&db, "root"), []);
}

/// LED-81
#[test]
fn a_round_is_registered_once() {
    let (_dir, db) = family();
    let first = add(&db, 1, 10);
    assert_eq!(add(&db, 1, 99), first);
    let row = db.read(|conn| of_round(conn, "root/w1", 1)).unwrap().unwrap();
    assert_eq!((row.id, row.bytes, row.parent_id.as_str()), (first, 10, "root"));
    let second = add(&db, 2, 20);
    assert_eq!(db.read(|conn| latest(conn, "root/w1")).unwrap().unwrap().id, second);
    assert_eq!(db.read(|conn| latest(conn, "root/w2")).unwrap(), None);
    let unknown = db.write(|tx| register(tx, &result("root/nobody", 1, 1), NOW)).unwrap_err();
    assert_eq!(unknown.to_string(), "a row names a node, message or artifact that is not in the ledger");
}
