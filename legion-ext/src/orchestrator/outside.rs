//! A run seen from outside a session: read-only, of a live, a finished or a damaged run (CLI-2, LED-92).

use std::{cell::RefCell, collections::HashMap, path::Path, sync::Arc};

use super::{
    project::{Look, Records, transcript},
    report::{ChildView, Projection},
};
use crate::{
    clock,
    core::naming::{ROOT, normalize_name},
    error::{Code, Result, SubagentError},
    ledger::{
        LegionDb, OpenMode, legion_db_path,
        nodes::{DEFAULT_SUBTREE_MAX_DEPTH, SubtreeRow, get_subtree},
        open_legion_db,
    },
    runs::{RunDir, RunRecord},
    settings::LegionSettings,
};

/// A run directory, opened for looking.
#[derive(Debug)]
pub struct OutsideRun {
    pub dir: RunDir,
    pub db: LegionDb,
    /// Absent when `run.json` is missing or damaged: the ledger still tells the tree.
    pub record: Option<Arc<RunRecord>>,
    /// Why there is no record.
    pub warnings: Vec<String>,
}

/// Opens the run at `run_dir`; changes no byte.
///
/// # Errors
/// `LEDGER` when there is no database, or one of another version.
pub fn open(run_dir: &Path) -> Result<OutsideRun> {
    let dir = RunDir::at(run_dir);
    let db = open_legion_db(&legion_db_path(run_dir), OpenMode::ReadOnly)?;
    let mut warnings = Vec::new();
    let record = read_record(&dir, &mut warnings);
    Ok(OutsideRun { dir, db, record, warnings })
}

/// The children of the root and everything below, as `status` and `tree` show them.
///
/// # Errors
/// See [`open`].
pub fn project(run_dir: &Path) -> Result<Projection> {
    open(run_dir)?.project()
}

impl OutsideRun {
    /// The whole tree; the direct children are the root's.
    ///
    /// # Errors
    /// `LEDGER` when the database cannot be read.
    pub fn project(&self) -> Result<Projection> {
        self.look(|look, rows, records| {
            let tree = look.tree(rows, None, records);
            let children = self.children(look, rows, ROOT);
            Ok(Projection { children, tree, single: false, transcript: None, all: true })
        })
    }

    /// One node, by id or unique name, with the end of its transcript.
    ///
    /// # Errors
    /// `NOT_FOUND` for a node that is not there, `INVALID_PARAMS` for a name that several have.
    pub fn node(&self, name: &str, transcript_lines: usize) -> Result<Projection> {
        self.look(|look, rows, records| {
            let lower = normalize_name(name);
            let found: Vec<&SubtreeRow> =
                rows.iter().filter(|row| row.node.id == name || row.node.name == lower).collect();
            let row = match found.as_slice() {
                [row] => *row,
                [] => return Err(SubagentError::new(Code::NotFound, format!("no node '{name}' in this run"))),
                several => {
                    let ids: Vec<&str> = several.iter().map(|row| row.node.id.as_str()).collect();
                    return Err(SubagentError::invalid(format!("'{name}' is ambiguous: {}", ids.join(", "))));
                }
            };
            let record = records.by_node.get(&row.node.id).map(Arc::as_ref);
            let view = look.child(Some(row), record, false);
            let below = format!("{}/", row.node.id);
            let tree = look.tree(rows, None, records);
            let tree = tree.into_iter().filter(|node| node.id == row.node.id || node.id.starts_with(&below)).collect();
            let transcript = Some(transcript(view.session_file.as_deref(), transcript_lines));
            Ok(Projection { children: vec![view], tree, single: true, transcript, all: true })
        })
    }

    fn look<T>(&self, view: impl FnOnce(&Look<'_>, &[SubtreeRow], &Records) -> Result<T>) -> Result<T> {
        let rows = self.db.read(|conn| get_subtree(conn, ROOT, DEFAULT_SUBTREE_MAX_DEPTH))?;
        let stale_ms = i64::try_from(LegionSettings::default().orphan_stale_ms).unwrap_or(i64::MAX);
        let look = Look {
            now: clock::now_ms(),
            stale_ms,
            shared: None,
            root_dir: Some(&self.dir),
            owners: RefCell::default(),
        };
        view(&look, &rows, &self.records(&rows))
    }

    /// Records of every run of the tree, each file read once.
    fn records(&self, rows: &[SubtreeRow]) -> Records {
        let mut records = Records::default();
        let mut runs: HashMap<&str, Option<Arc<RunRecord>>> = HashMap::new();
        for row in rows {
            let Some(run_id) = row.node.run_id.as_deref() else { continue };
            let run = runs.entry(run_id).or_insert_with(|| {
                let dir = self.dir.beside(run_id);
                if dir == self.dir { self.record.clone() } else { read_record(&dir, &mut Vec::new()) }
            });
            let child = run.as_ref().and_then(|run| run.child(&row.node.name));
            if let Some(child) = child.filter(|child| child.node_id.as_deref() == Some(&row.node.id)) {
                records.by_node.insert(row.node.id.clone(), Arc::clone(child));
            }
        }
        records
    }

    /// Direct children of `parent`: those of its record, in launch order, then rows that no record knows.
    fn children(&self, look: &Look<'_>, rows: &[SubtreeRow], parent: &str) -> Vec<ChildView> {
        let direct: Vec<&SubtreeRow> =
            rows.iter().filter(|row| row.node.parent_id.as_deref() == Some(parent)).collect();
        let recorded = self.record.iter().flat_map(|record| &record.children);
        let mut views: Vec<ChildView> = Vec::new();
        for record in recorded {
            let row = direct.iter().find(|row| record.node_id.as_deref() == Some(&row.node.id)).copied();
            views.push(look.child(row, Some(record), false));
        }
        for row in direct {
            if !views.iter().any(|view| view.node_id == row.node.id) {
                views.push(look.child(Some(row), None, false));
            }
        }
        views
    }
}

/// Reads a record without setting anything aside: only the owner of a run may do that.
fn read_record(dir: &RunDir, warnings: &mut Vec<String>) -> Option<Arc<RunRecord>> {
    let path = dir.run_json();
    let read = std::fs::read(&path).map_err(|error| error.to_string());
    let parsed = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match parsed {
        Ok(record) => Some(Arc::new(record)),
        Err(error) => {
            warnings.push(format!("failed to read {}: {error}", path.display()));
            None
        }
    }
}
