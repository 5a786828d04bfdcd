use serde_json::{Value, json};

use super::*;
use crate::core::events::{EventType, LEGION_EVENT_TYPES, LEGION_PROCESS_EVENT_TYPES};
use crate::ledger::events::{EventPoller, append, event_data, last_id, last_of_node, read_events_after};

fn poison(db: &LegionDb, kind: &str, data: Option<&str>) {
    db.write(|tx| {
        let sql = "INSERT INTO events (node_id, type, data, ts) VALUES ('root', ?1, ?2, 0)";
        Ok(tx.raw().execute(sql, rusqlite::params![kind, data])?)
    })
    .unwrap();
}

fn tell(db: &LegionDb, kind: EventType) -> i64 {
    db.write(|tx| append(tx, "root", kind, &event_data([("k", json!(1)), ("none", Value::Null)]), NOW)).unwrap()
}

/// 06-T10, LED-46, LED-48, LED-49, LED-50: an unknown type is no value of the enum, so it cannot be appended.
#[test]
fn the_sets_are_closed_and_the_strict_reader_fails_on_poison() {
    assert_eq!(LEGION_EVENT_TYPES.len(), 16);
    assert_eq!(LEGION_PROCESS_EVENT_TYPES.len(), 10);
    assert!(LEGION_EVENT_TYPES.iter().all(|name| !LEGION_PROCESS_EVENT_TYPES.contains(name)));
    let (_dir, db) = fresh();
    for kind in EventType::ALL {
        tell(&db, kind);
    }
    poison(&db, "node_settled", None);
    let rows = db.read(|conn| read_events_after(conn, 0, 100)).unwrap();
    assert_eq!(rows.iter().map(|row| row.kind).take(16).collect::<Vec<_>>(), EventType::ALL);
    assert_eq!(Value::from(rows[0].data.clone()), json!({"k": 1}));
    assert_eq!(Value::from(rows[16].data.clone()), json!({}), "NULL reads as an empty object");
    assert_eq!(db.read(|conn| read_events_after(conn, 10, 3)).unwrap().len(), 3);

    for (kind, data) in [("agent_start", Some("{}")), ("node_settled", Some("[1]")), ("node_settled", Some("{"))] {
        let (_dir, db) = fresh();
        tell(&db, EventType::NodeSettled);
        poison(&db, kind, data);
        let error = db.read(|conn| read_events_after(conn, 0, 100)).unwrap_err();
        assert!(error.to_string().starts_with("events row 2 is unreadable: "), "{error}");
        assert_eq!(db.read(|conn| read_events_after(conn, 0, 1)).unwrap().len(), 1);
        assert!(db.read(|conn| last_of_node(conn, "root", 5)).is_err());
    }
}

/// 06-T11, LED-51, LED-53
#[test]
fn the_poller_passes_over_poison_once() {
    let (_dir, db) = fresh();
    let mut poller = db.read(EventPoller::at_end).unwrap();
    tell(&db, EventType::NodeLaunched);
    poison(&db, "gibberish", Some("{}"));
    tell(&db, EventType::PhaseChange);
    let mut errors = Vec::new();
    let mut poll = |errors: &mut Vec<i64>| -> Vec<EventType> {
        let rows = db.read(|conn| poller.poll(conn, |id, _| errors.push(id))).unwrap();
        assert_eq!(poller.cursor(), db.read(last_id).unwrap());
        rows.into_iter().map(|row| row.kind).collect()
    };
    assert_eq!(poll(&mut errors), [EventType::NodeLaunched, EventType::PhaseChange]);
    assert_eq!(errors, [2]);
    assert_eq!(poll(&mut errors), []);
    assert_eq!(errors, [2]);
    tell(&db, EventType::NodeSettled);
    assert_eq!(poll(&mut errors), [EventType::NodeSettled]);
    assert_eq!(errors, [2]);

    // History is not replayed, and a failed read keeps the cursor.
    assert_eq!(db.read(EventPoller::at_end).unwrap().cursor(), 4);
    let mut stuck = EventPoller::after(1);
    db.write(|tx| Ok(tx.raw().execute_batch("ALTER TABLE events RENAME TO away")?)).unwrap();
    assert!(db.read(|conn| stuck.poll(conn, |_, _| {})).is_err());
    assert_eq!(stuck.cursor(), 1);
}

/// LED-16: an id is never used twice, so a cursor misses nothing.
#[test]
fn ids_go_on_rising_after_pruning() {
    let (_dir, db) = fresh();
    let last = tell(&db, EventType::MailSent);
    db.write(|tx| Ok(tx.raw().execute("DELETE FROM events", [])?)).unwrap();
    assert_eq!(tell(&db, EventType::MailSent), last + 1);
}
