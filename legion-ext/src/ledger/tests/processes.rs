//! Races between real processes: this test binary runs itself again, with its part in the environment.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;
use crate::core::events::EventType;
use crate::core::mail::{MailKind, Urgency};
use crate::ledger::messages::{self, NewMail, Quota};
use crate::ledger::{LedgerError, events};

const PART: &str = "LEGION_LEDGER_TEST_PART";
const WHO: &str = "LEGION_LEDGER_TEST_WHO";
const DIR: &str = "LEGION_LEDGER_TEST_DIR";

/// A copy of this process that plays a part; it waits for a line before each round.
struct Player {
    process: Child,
    stdin: Option<ChildStdin>,
}

impl Player {
    fn start(part: &str, who: usize, dir: &Path) -> Self {
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::a_part_in_another_process"), "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(WHO, who.to_string())
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        Self { process, stdin }
    }

    fn go(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    fn finish(mut self) {
        drop(self.stdin.take());
        let output = self.process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn play(part: &str, players: usize, rounds: usize, dir: &Path) {
    let mut playing: Vec<Player> = (0..players).map(|who| Player::start(part, who, dir)).collect();
    for _ in 0..rounds {
        for player in &mut playing {
            player.go();
        }
    }
    for player in playing {
        player.finish();
    }
}

/// Not a test of its own: what the copies of this process do.
#[test]
#[expect(clippy::disallowed_methods, reason = "a copy of the test binary is told its part by its environment")]
fn a_part_in_another_process() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let who: usize = std::env::var(WHO).unwrap().parse().unwrap();
    let dir = PathBuf::from(std::env::var(DIR).unwrap());
    for (round, line) in std::io::stdin().lock().lines().enumerate() {
        assert_eq!(line.unwrap(), "go");
        match part.as_str() {
            "open" => open_fresh(&dir, round),
            "last slot" => take_last_slot(&dir, who, round),
            "write" => write_much(&dir, who),
            "claim" => claim_much(&dir, who),
            other => panic!("no part '{other}'"),
        }
    }
}

fn open_fresh(dir: &Path, round: usize) {
    let db = open_legion_db(&legion_db_path(&dir.join(round.to_string())), OpenMode::RootCreate).unwrap();
    db.write(|tx| settle::open_root(tx, "r-00000001", None, NOW)).unwrap();
}

fn take_last_slot(dir: &Path, who: usize, round: usize) {
    let db = open_legion_db(&legion_db_path(&dir.join(round.to_string())), OpenMode::Existing).unwrap();
    let limits = TreeLimits { max_children_per_node: 2, ..TreeLimits::default() };
    let name = format!("p{who}");
    let outcome = db.write(|tx| launch::reserve(tx, &new_node("root", &name), &limits, NOW)).unwrap();
    assert!(matches!(outcome, Reserve::Reserved(_) | Reserve::Refused(_)), "{outcome:?}");
}

/// 06-T3, LED-11, LED-20, 03-T6
#[test]
fn two_processes_at_once_make_one_schema_and_share_the_last_slot() {
    const ROUNDS: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    play("open", 2, ROUNDS, dir.path());
    for round in 0..ROUNDS {
        let db = open_legion_db(&legion_db_path(&dir.path().join(round.to_string())), OpenMode::Existing).unwrap();
        db.write(|tx| run(tx, "root", "first")).unwrap();
    }
    play("last slot", 2, ROUNDS, dir.path());
    for round in 0..ROUNDS {
        let db = open_legion_db(&legion_db_path(&dir.path().join(round.to_string())), OpenMode::Existing).unwrap();
        let children = db.read(|conn| nodes::children(conn, "root")).unwrap();
        assert_eq!(children.len(), 2, "one row of two racers");
        let refused = events_of(&db, "root").into_iter().filter(|(kind, _)| kind == "budget_refused").count();
        assert_eq!(refused, 1);
    }
}

/// Transactions per process; enough that the processes meet at the lock thousands of times.
const WRITES: usize = 700;

fn write_much(dir: &Path, who: usize) {
    let db = open_legion_db(&legion_db_path(dir), OpenMode::Existing).unwrap();
    let team = db.write(|tx| run(tx, "root", &format!("p{who}"))).unwrap();
    for n in 0..WRITES {
        let written = db.write(|tx| {
            let id = run(tx, &team, &format!("c{n}"))?;
            let mail = NewMail {
                from_node: &id,
                to_nodes: &["root"],
                subject: "s",
                body: &id,
                kind: MailKind::Report,
                urgency: Urgency::Info,
            };
            let sent = messages::send(tx, &mail, Quota::Platform, NOW)?;
            settle::record_settled(tx, &ended(&id, ExecutionStatus::Success), NOW)?;
            Ok(sent)
        });
        match written {
            Ok(sent) => drop(sent.unwrap()),
            // A reported busy is no lost write: nothing of it is there, and it is tried again.
            Err(LedgerError::Busy) => panic!("busy for five seconds among three writers"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// 06-T24
#[test]
fn three_processes_write_without_loss() {
    let (dir, db) = fresh();
    play("write", 3, 1, dir.path());
    let totals = db.read(crate::ledger::usage::ledger_totals).unwrap();
    let writes = 3 * WRITES as u64;
    assert_eq!((totals.nodes, totals.messages, totals.events), (1 + 3 + writes, writes, 3 + 3 * writes));
    let rows = db.read(|conn| events::read_events_after(conn, 0, usize::MAX)).unwrap();
    let ids: BTreeSet<i64> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), rows.len());
    let settled = rows.iter().filter(|row| row.kind == EventType::NodeSettled).count();
    assert_eq!(settled, 3 * WRITES);
}

/// Mails that two processes race for.
const MAILS: i64 = 300;

fn claim_much(dir: &Path, who: usize) {
    let db = open_legion_db(&legion_db_path(dir), OpenMode::Existing).unwrap();
    for id in 1..=MAILS {
        let won = db.write(|tx| messages::claim_for_delivery(tx, id, NOW + who as i64, 60_000)).unwrap();
        if won.is_some() {
            // Left where the test can count it: one event per won claim.
            let data = events::event_data([("messageId", serde_json::json!(id))]);
            db.write(|tx| events::append(tx, "root", EventType::MailDelivered, &data, NOW)).unwrap();
        }
    }
}

/// MAIL-13, part of 08-T5: its first sentence.
#[test]
fn of_two_processes_one_wins_each_claim() {
    let (dir, db) = fresh();
    db.write(|tx| {
        let mail = NewMail {
            from_node: "root",
            to_nodes: &["root"],
            subject: "s",
            body: "b",
            kind: MailKind::Report,
            urgency: Urgency::Info,
        };
        for _ in 0..MAILS {
            messages::send(tx, &mail, Quota::Platform, NOW)?.unwrap();
        }
        Ok(())
    })
    .unwrap();
    play("claim", 2, 1, dir.path());
    let rows = db.read(|conn| events::read_events_after(conn, 0, usize::MAX)).unwrap();
    let claimed: Vec<_> = rows
        .iter()
        .filter(|row| row.kind == EventType::MailDelivered)
        .map(|row| row.data["messageId"].as_i64())
        .collect();
    assert_eq!(claimed.len(), usize::try_from(MAILS).unwrap());
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>().len(), usize::try_from(MAILS).unwrap());
}
