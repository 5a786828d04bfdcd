//! PERF-6: rows written per second, by one process and by four on one file.

use std::path::Path;

use clap::ValueEnum;
use legion_ext::clock;
use legion_ext::core::budget::TreeLimits;
use legion_ext::core::events::EventType;
use legion_ext::core::mail::{MailKind, Urgency};
use legion_ext::core::naming::{ROOT, node_id_for_child};
use legion_ext::ledger::events::{self, event_data};
use legion_ext::ledger::launch::{NewNode, Reserve, reserve};
use legion_ext::ledger::messages::{self, NewMail, Quota};
use legion_ext::ledger::settle::open_root;
use legion_ext::ledger::{LResult, OpenMode, Tx, legion_db_path, open_legion_db};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Form;
use crate::parts;
use crate::sheet::{Bar, Grows, Series, number};
use crate::stats::median;

/// What a writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    Events,
    Mails,
}

/// When a writer wrote; milliseconds since the epoch, so that writers can be compared.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Written {
    begun_ms: f64,
    ended_ms: f64,
}

pub fn measure(form: Form) -> Result<Vec<Series>, String> {
    let sizes = form.pick([4_000, 16_000, 64_000], [4_000, 16_000, 64_000], [40, 80, 160]);
    let mut all = Vec::new();
    for (kind, processes, work) in [
        (Rows::Events, 1, "events by one process"),
        (Rows::Mails, 1, "mails by one process"),
        (Rows::Events, 4, "events by four processes on one file"),
        (Rows::Mails, 4, "mails by four processes on one file"),
    ] {
        let mut points = Vec::new();
        for size in sizes {
            let times: Result<Vec<f64>, String> =
                (0..form.repetitions()).map(|_| race(kind, processes, size)).collect();
            points.push((size as f64, median(&times?)));
        }
        let (rows, ms) = points.last().copied().unwrap_or((f64::NAN, f64::NAN));
        let rate = rows / ms * 1e3;
        let (floor, text) = if processes == 1 { (20_000.0, "≥ 20,000/s") } else { (5_000.0, "≥ 5,000/s") };
        all.push(Series {
            id: "PERF-6",
            work,
            size_unit: "rows",
            cost_unit: "ms",
            points,
            grows: Grows::WithSize,
            headline: format!("{}/s, no writer was refused", number(rate)),
            bar: (form != Form::Tiny).then_some(Bar { text, met: rate >= floor }),
        });
    }
    Ok(all)
}

/// Milliseconds from the first row of the first writer to the last of the last. A writer that is refused fails it.
fn race(kind: Rows, processes: usize, rows: usize) -> Result<f64, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = legion_db_path(dir.path());
    let names: Vec<String> = (0..processes).map(|at| format!("writer-{at}")).collect();
    prepare(&path, &names).map_err(|error| error.to_string())?;
    let kind = kind.to_possible_value().expect("no kind is hidden");
    let share = (rows / processes).to_string();
    let ledger = path.to_string_lossy();
    let writers: Result<Vec<parts::Running>, String> = names
        .iter()
        .map(|name| parts::start(&["write", &ledger, &node_id_for_child(ROOT, name), kind.get_name(), &share]))
        .collect();
    std::fs::write(go(&path), "").map_err(|error| error.to_string())?;
    let written: Result<Vec<Written>, String> = writers?.into_iter().map(parts::Running::answer).collect();
    let written = written?;
    let begun = written.iter().map(|writer| writer.begun_ms).fold(f64::INFINITY, f64::min);
    let ended = written.iter().map(|writer| writer.ended_ms).fold(0.0, f64::max);
    Ok(ended - begun)
}

fn prepare(path: &Path, names: &[String]) -> LResult<()> {
    let limits = TreeLimits { max_children_per_node: 64, max_active_nodes: 64, ..TreeLimits::default() };
    let db = open_legion_db(path, OpenMode::RootCreate)?;
    db.write(|tx| {
        open_root(tx, "r-bench", None, 0)?;
        for name in names {
            let session_file = path.with_file_name(name);
            let node = NewNode {
                parent_id: ROOT,
                name,
                role: "worker",
                run_id: "r-bench",
                session_file: &session_file,
                team: None,
                phase: None,
                task: "write",
            };
            assert!(matches!(reserve(tx, &node, &limits, 0)?, Reserve::Reserved(_)), "there is room");
        }
        Ok(())
    })
}

/// Writes so many rows, one a transaction, as soon as all writers may.
pub fn write(path: &Path, node: &str, kind: Rows, rows: usize) -> Result<Written, String> {
    let db = open_legion_db(path, OpenMode::Existing).map_err(|error| error.to_string())?;
    while !go(path).exists() {
        std::thread::yield_now();
    }
    let (epoch, instant) = (clock::now_ms() as f64, clock::instant());
    for _ in 0..rows {
        db.write(|tx| row(tx, node, kind)).map_err(|error| format!("a writer was refused: {error}"))?;
    }
    let took = (clock::instant() - instant).as_secs_f64() * 1e3;
    Ok(Written { begun_ms: epoch, ended_ms: epoch + took })
}

fn row(tx: &Tx<'_>, node: &str, kind: Rows) -> LResult<()> {
    let now = clock::now_ms();
    match kind {
        Rows::Events => {
            let data = event_data([("tool", json!("bash")), ("turn", json!(3)), ("durationMs", json!(1_250))]);
            events::append(tx, node, EventType::NodeLaunched, &data, now).map(drop)
        }
        Rows::Mails => {
            let mail = NewMail {
                from_node: node,
                to_nodes: &[ROOT],
                subject: "green: 2 passed, 0 failed",
                body: "Successfully replaced 1 block(s) in lib/slug.sh.\n\n2 passed, 0 failed",
                kind: MailKind::Report,
                urgency: Urgency::Info,
            };
            messages::send(tx, &mail, Quota::Platform, now).map(drop)
        }
    }
}

/// The file whose appearance starts the writers.
fn go(path: &Path) -> std::path::PathBuf {
    path.with_file_name("go")
}
