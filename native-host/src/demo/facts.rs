//! Reads the end of the tour from what it left behind.

use std::path::{Path, PathBuf};

use legion_ext::ledger::{self, OpenMode};
use legion_ext::runs::{ChildRecord, RunDir, RunRecord};

use super::repo::{Place, PlaceError};
use super::report::{ChildFacts, Facts, RunFacts};

/// Everything but what the root said.
pub fn gather(place: &Place, before: String) -> Result<Facts, PlaceError> {
    let (after, green) = place.run_tests()?;
    Ok(Facts {
        dir: place.dir.clone(),
        repo: place.repo.clone(),
        run: run(place),
        before,
        after,
        green,
        changes: place.changes()?,
        ..Facts::default()
    })
}

/// What the run directory of the tour says; absent when there is none that can be read.
pub fn run(place: &Place) -> Option<RunFacts> {
    let dir = run_dir(&place.repo)?;
    let record: RunRecord = serde_json::from_slice(&std::fs::read(dir.run_json()).ok()?).ok()?;
    let db = ledger::open_legion_db(&ledger::legion_db_path(dir.path()), OpenMode::ReadOnly).ok()?;
    let totals = db.read(ledger::usage::ledger_totals).unwrap_or_default();
    let mut children: Vec<ChildFacts> = record
        .children
        .iter()
        .map(|child| {
            let node = child.node_id.as_deref().unwrap_or_default();
            let usage = db.read(|conn| ledger::usage::get(conn, node)).unwrap_or_default();
            ChildFacts { tokens_in: usage.tokens_in, tokens_out: usage.tokens_out, ..child_facts(child) }
        })
        .collect();
    // Workers first: they changed something.
    children.sort_by(|a, b| b.agent.cmp(&a.agent).then_with(|| a.name.cmp(&b.name)));
    Some(RunFacts { dir: dir.path().to_owned(), children, totals })
}

fn child_facts(child: &ChildRecord) -> ChildFacts {
    let execution = child.execution.as_ref();
    ChildFacts {
        name: child.name.clone(),
        agent: child.agent.clone(),
        status: execution.map(|execution| execution.status.clone()),
        reason: execution.and_then(|execution| execution.reason.clone()),
        verdict: child.verdict.map(|verdict| verdict.ok),
        duration_ms: child.settled_at.as_deref().and_then(|end| milliseconds(&child.spawned_at, end)),
        ..ChildFacts::default()
    }
}

/// From one ISO time to another.
fn milliseconds(start: &str, end: &str) -> Option<i64> {
    let at = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond());
    Some(at(end)? - at(start)?)
}

/// The root's run: the one that has the ledger.
fn run_dir(repo: &Path) -> Option<RunDir> {
    let dirs = std::fs::read_dir(RunDir::of(repo, "run").path().parent()?).ok()?;
    let paths: Vec<PathBuf> = dirs.flatten().map(|entry| entry.path()).collect();
    paths.into_iter().find(|path| ledger::legion_db_path(path).is_file()).map(RunDir::at)
}
