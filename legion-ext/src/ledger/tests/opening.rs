use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::*;
use crate::core::mail::Delivery;
use crate::ledger::db::require_wal;
use crate::ledger::{LEGION_DB_USER_VERSION, LedgerError, events, messages};

fn raw(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

fn version(path: &Path) -> i64 {
    raw(path).query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// A file of an old version with one node, one event and one delivered message.
fn old_file(dir: &Path, version: i64) -> PathBuf {
    let path = dir.join(format!("v{version}.db"));
    if version == 3 {
        drop(open_legion_db(&path, OpenMode::RootCreate).unwrap());
    }
    let conn = raw(&path);
    if version > 0 {
        // The four tables as version 1 made them, without what later builds might add.
        conn.execute_batch(include_str!("v1.sql")).unwrap();
        conn.execute_batch(
            "INSERT INTO nodes (id, name, role, depth, status, created_at, updated_at)
               VALUES ('root', 'root', 'root', 0, 'running', 1, 1);
             INSERT INTO events (node_id, type, data, ts) VALUES ('root', 'node_launched', '{}', 5);
             INSERT INTO messages (from_node, to_node, subject, body, kind, urgency, delivered, delivered_at, created_at)
               VALUES ('root', 'root', 's', 'b', 'report', 'info', 1, 7, 6);",
        )
        .unwrap();
    }
    conn.pragma_update(None, "user_version", version).unwrap();
    path
}

/// 06-T1, LED-4, LED-5
#[test]
fn opening_asserts_wal() {
    let (dir, db) = fresh();
    let pragma = |name: &str| -> String {
        db.write(|tx| {
            Ok(tx.raw().query_row(&format!("PRAGMA {name}"), [], |row| {
                Ok(match row.get_ref(0)? {
                    rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                    other => other.as_str().unwrap().to_owned(),
                })
            })?)
        })
        .unwrap()
    };
    assert_eq!(pragma("journal_mode"), "wal");
    assert_eq!(pragma("synchronous"), "1");
    assert_eq!(pragma("foreign_keys"), "1");
    assert_eq!(pragma("busy_timeout"), "5000");

    // SQLite has no WAL without a file: such a connection answers with another mode.
    let memory = Connection::open_in_memory().unwrap();
    let mode: String = memory.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    let path = dir.path().join("legion.db");
    let error = require_wal(&path, &mode).unwrap_err();
    let expected = format!("legion ledger requires WAL journal mode; got 'memory' at {}", path.display());
    assert_eq!(error.to_string(), expected);
}

/// 06-T2, LED-9, LED-10, LED-12
#[test]
fn every_old_version_reaches_the_current_one() {
    let dir = tempfile::tempdir().unwrap();
    for old in 0..=3 {
        let path = if old == 0 { dir.path().join("v0.db") } else { old_file(dir.path(), old) };
        if old == 0 {
            fs::write(&path, b"").unwrap();
        }
        let dump = |path: &Path| -> Vec<String> {
            let conn = raw(path);
            let mut statement =
                conn.prepare("SELECT name || ':' || coalesce(sql, '') FROM sqlite_schema ORDER BY name").unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        let mut schemas = Vec::new();
        for _ in 0..2 {
            let db = open_legion_db(&path, OpenMode::Existing).unwrap();
            if old > 0 {
                let mail = db.read(|conn| messages::get(conn, 1)).unwrap().unwrap();
                assert_eq!((mail.delivered, mail.delivered_at), (Delivery::Accepted, Some(7)));
                let event = &db.read(|conn| events::read_events_after(conn, 0, 10)).unwrap()[0];
                assert_eq!((event.id, event.ts), (1, 5));
                assert_eq!(row(&db, "root").updated_at, 1);
            }
            drop(db);
            assert_eq!(version(&path), LEGION_DB_USER_VERSION);
            schemas.push(dump(&path));
        }
        assert_eq!(schemas[0], schemas[1], "a second migration changes nothing");
    }

    let path = dir.path().join("v4.db");
    fs::copy(dir.path().join("v3.db"), &path).unwrap();
    raw(&path).pragma_update(None, "user_version", 4).unwrap();
    let before = fs::read(&path).unwrap();
    let error = open_legion_db(&path, OpenMode::RootCreate).unwrap_err();
    let canonical = fs::canonicalize(&path).unwrap();
    let expected =
        format!("legion ledger at {} has schema version 4; this build supports up to 3", canonical.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// 06-T4, LED-17
#[test]
fn a_cached_statement_sees_a_changed_schema() {
    let (_dir, db) = fresh();
    assert_eq!(row(&db, "root").name, "root");
    raw(db.path()).execute_batch("ALTER TABLE nodes ADD COLUMN nickname TEXT; UPDATE nodes SET name = 'r2'").unwrap();
    assert_eq!(row(&db, "root").name, "r2");
    db.write(|tx| run(tx, "root", "w1")).unwrap();
    let columns = db.read(|conn| Ok(conn.raw().prepare_cached("SELECT * FROM nodes")?.column_count())).unwrap();
    assert_eq!(columns, 20);
}

/// 06-T25, LED-12, LED-92
#[test]
fn reading_from_outside_changes_no_byte() {
    let (dir, db) = fresh();
    let path = db.path().to_owned();
    db.write(|tx| run(tx, "root", "w1")).unwrap();
    drop(db);
    let before = fs::read(&path).unwrap();
    let reader = open_legion_db(&path, OpenMode::ReadOnly).unwrap();
    assert_eq!(row(&reader, "root/w1").name, "w1");
    let error = reader.write(|tx| run(tx, "root", "w2")).unwrap_err();
    assert_eq!(error.to_string(), format!("legion ledger at {} is open for reading only", path.display()));
    drop(reader);
    assert_eq!(fs::read(&path).unwrap(), before);

    let old = fs::canonicalize(old_file(dir.path(), 2)).unwrap();
    let before = fs::read(&old).unwrap();
    let error = open_legion_db(&old, OpenMode::ReadOnly).unwrap_err();
    let expected =
        format!("legion ledger at {} has schema version 2; open its run once in a session to update it", old.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(fs::read(&old).unwrap(), before);

    // A newer file keeps its journal mode and its bytes, whoever opens it.
    let newer = fs::canonicalize(old_file(dir.path(), 1)).unwrap();
    raw(&newer).pragma_update(None, "user_version", 9).unwrap();
    let before = fs::read(&newer).unwrap();
    for mode in [OpenMode::RootCreate, OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_legion_db(&newer, mode).unwrap_err();
        assert!(matches!(error, LedgerError::NewerSchema { version: 9, .. }), "{error}");
        assert_eq!(fs::read(&newer).unwrap(), before);
    }
    let mode: String = raw(&newer).query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
}

/// LED-12: the log of a newer build's crashed process is not written back either.
#[test]
fn a_newer_file_with_a_log_beside_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a.db"), dir.path().join("b.db"));
    let conn = raw(&path);
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); PRAGMA user_version = 7;").unwrap();
    // As after a crash: the log is there, and nobody has the file open.
    fs::copy(&path, &copy).unwrap();
    fs::copy(dir.path().join("a.db-wal"), dir.path().join("b.db-wal")).unwrap();
    let before = fs::read(&copy).unwrap();
    let error = open_legion_db(&copy, OpenMode::Existing).unwrap_err();
    assert!(matches!(error, LedgerError::NewerSchema { version: 7, .. }), "{error}");
    assert_eq!(fs::read(&copy).unwrap(), before);
}

/// LED-3, and the first row of the bad input of part 06.
#[test]
fn what_is_no_ledger_is_named_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no/legion.db");
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_legion_db(&missing, mode).unwrap_err();
        assert_eq!(error.to_string(), format!("legion ledger not found: {}", missing.display()));
    }
    assert!(!missing.parent().unwrap().exists());

    let text = dir.path().join("text.db");
    fs::write(&text, b"this is a letter and not a database, whatever its name says ........................").unwrap();
    let path = fs::canonicalize(&text).unwrap();
    for mode in [OpenMode::RootCreate, OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_legion_db(&text, mode).unwrap_err().to_string();
        assert!(error.starts_with(&format!("legion ledger at {} cannot be opened: ", path.display())), "{error}");
        assert!(error.contains("not a database"), "{error}");
    }
    assert!(fs::read(&text).unwrap().starts_with(b"this is a letter"));

    // Damaged in the middle of its schema.
    let (other, db) = fresh();
    let damaged = db.path().to_owned();
    drop(db);
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[100..200].fill(0xFF);
    fs::write(&damaged, &bytes).unwrap();
    let error = open_legion_db(&damaged, OpenMode::RootCreate).unwrap_err().to_string();
    assert!(error.contains("cannot be opened: "), "{error}");
    assert_eq!(fs::read(&damaged).unwrap(), bytes);
    drop(other);

    // A directory where the file should be.
    let error = open_legion_db(dir.path(), OpenMode::RootCreate).unwrap_err().to_string();
    assert!(error.contains("cannot be opened: "), "{error}");
}

/// LED-13
#[test]
fn a_missing_column_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = old_file(dir.path(), 2);
    raw(&path).execute_batch("ALTER TABLE messages RENAME COLUMN urgency TO hurry").unwrap();
    let error = open_legion_db(&path, OpenMode::Existing).unwrap_err();
    let path = fs::canonicalize(&path).unwrap();
    assert_eq!(error.to_string(), format!("legion ledger at {} lacks column messages.urgency", path.display()));
}

/// LED-6: one pair of connections per process and file, however it is named; REL-6.
#[test]
fn sessions_of_a_process_share_their_connections() {
    let dir = tempfile::tempdir().unwrap();
    let path = legion_db_path(&dir.path().join("a/b"));
    let first = open_legion_db(&path, OpenMode::RootCreate).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("a"), &link).unwrap();
    let second = open_legion_db(&link.join("b/legion.db"), OpenMode::Existing).unwrap();
    assert_eq!(first.path(), second.path());
    let open_files = || {
        let held = fs::read_dir("/proc/self/fd").unwrap();
        held.flatten().filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == first_path(&path))).count()
    };
    assert_eq!(open_files(), 2, "a writer and a reader");
    first.write(|tx| settle::open_root(tx, "r-00000001", None, NOW)).unwrap();
    assert_eq!(row(&second, "root").name, "root");
    for (file, mode) in [("a", 0o700), ("a/b", 0o700), ("a/b/legion.db", 0o600), ("a/b/legion.db-wal", 0o600)] {
        let real = fs::metadata(dir.path().join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(real, mode, "{file}");
    }
    drop(first);
    assert_eq!(open_files(), 2);
    drop(second);
    assert_eq!(open_files(), 0);
    // LED-23: the log was brought home.
    assert!(!dir.path().join("a/b/legion.db-wal").exists());
}

fn first_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap()
}

/// LED-19: an error or a panic inside a transaction leaves nothing of it, and the ledger usable.
#[test]
fn nothing_half_written_remains() {
    let (_dir, db) = fresh();
    let error = db
        .write(|tx| {
            run(tx, "root", "w1")?;
            settle::retire(tx, "root/nobody", "x", 0, NOW)
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "node 'root/nobody' is not in the ledger");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.write(|tx| {
            run(tx, "root", "w2").unwrap();
            if tx.raw().is_autocommit() { Ok(()) } else { panic!("in the middle of a transaction") }
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(db.read(|conn| nodes::children(conn, "root")).unwrap(), []);
    db.write(|tx| run(tx, "root", "w3")).unwrap();
}

/// LED-7, LED-21: another connection holds the file; readers and timers go on, and the waiting write succeeds.
#[tokio::test]
async fn a_locked_file_holds_up_neither_readers_nor_timers() {
    let (_dir, db) = fresh();
    let other = raw(db.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writer = db.clone();
    let write = async move { writer.write_async(|tx| run(tx, "root", "w1")).await };
    let release = async {
        // On a runtime with one thread these only pass if the write does not block it.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(row(&db, "root").name, "root");
        }
        other.execute_batch("COMMIT").unwrap();
    };
    let (written, ()) = tokio::join!(write, release);
    assert_eq!(written.unwrap(), "root/w1");
}

/// LED-21
#[test]
fn a_write_that_stays_locked_gives_up() {
    let (_dir, db) = fresh();
    let other = raw(db.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = db.write_within(Duration::from_millis(30), |tx| run(tx, "root", "w1")).unwrap_err();
    assert_eq!(error.to_string(), "legion ledger is busy (5000 ms)");
    other.execute_batch("ROLLBACK").unwrap();
    db.write(|tx| run(tx, "root", "w1")).unwrap();
}

/// The last row of the bad input of part 06: a full disk fails the write as a whole.
#[test]
fn a_full_disk_keeps_earlier_rows() {
    let (_dir, db) = fresh();
    db.write(|tx| run(tx, "root", "w1")).unwrap();
    db.write(|tx| Ok(tx.raw().pragma_update(None, "max_page_count", 1)?)).unwrap();
    let big = "x".repeat(4_000_000);
    let error = db
        .write(|tx| {
            run(tx, "root", "w2")?;
            let node = NewNode { session_file: Path::new(&big), ..new_node("root", "w3") };
            launch::reserve(tx, &node, &ROOMY, NOW)
        })
        .unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    let names: Vec<_> = db.read(|conn| nodes::children(conn, "root")).unwrap().into_iter().map(|n| n.name).collect();
    assert_eq!(names, ["w1"]);
}
