//! The run of a session: its directory, its record, the tree's ledger (ORC-42, ORC-172, ORC-177, ORC-181).

use std::path::{Path, PathBuf};

use super::definitions::not_available;
use crate::{
    clock,
    context::{Identity, SessionContext},
    error::{Code, Result, SubagentError},
    host::SessionHost,
    ledger::{LedgerError, LegionDb, OpenMode, legion_db_path, open_legion_db, settle},
    runs::{
        Budget, Herdr, Lineage, OpenedRun, Owner, OwnerLock, RUN_RECORD_VERSION, RunDir, RunIdentity, RunRecord,
        RunStore, child_run_id, open_child_run, open_root_run, root_run_id,
    },
};

/// A run that this session owns.
#[derive(Debug)]
pub(super) struct Run {
    pub dir: RunDir,
    pub root_dir: RunDir,
    pub db: LegionDb,
    pub store: RunStore,
    /// The run was another process's, or an earlier session's of this one.
    pub taken_over: bool,
    /// Held as long as the session may write the run.
    _lock: OwnerLock,
}

impl Run {
    pub(super) fn id(&self) -> String {
        self.dir.run_id()
    }

    pub(super) fn db_path(&self) -> PathBuf {
        legion_db_path(self.root_dir.path())
    }
}

/// Opens the session's run, the former one where there is one, and makes it otherwise. Blocks for a few file and
/// database calls; once per session.
///
/// # Errors
/// `LEDGER` when the ledger cannot be opened, `INTERNAL` with the path when the directory cannot be made.
pub(super) fn open(context: &SessionContext, host: &SessionHost, max_depth: u32) -> Result<Run> {
    match &context.identity {
        Identity::Root => open_root(context, host, max_depth),
        Identity::Child(scope) => {
            let root_dir = RunDir::at(&scope.root_run_dir);
            let db = child_ledger(Path::new(&scope.db_path))?;
            let dir = root_dir.beside(&child_run_id(&root_dir.run_id(), &scope.node_id));
            let opened = open_child_run(dir.clone()).map_err(|error| file_error(dir.path(), &error))?;
            let opened = opened.map_err(|held| {
                let text = format!("run {} is in use by pid {}", held.run_id, held.pid);
                SubagentError::new(Code::NameTaken, text)
            })?;
            let lineage = Lineage {
                root_run_id: root_dir.run_id(),
                root_run_dir: root_dir.path().to_owned(),
                parent_run_id: RunDir::at(&scope.run_dir).run_id().into(),
                parent_node_id: scope.parent_path.last().cloned(),
                depth: scope.depth,
                team: scope.team.clone().filter(|team| team != "default"),
                unknown: serde_json::Map::new(),
            };
            Ok(assemble(context, host, opened, root_dir, db, lineage, max_depth))
        }
    }
}

/// Whether an earlier session of this transcript left a run: one look, nothing is made (ORC-177).
pub(super) fn former_exists(context: &SessionContext) -> bool {
    match &context.identity {
        Identity::Root => {
            context.session_file.is_some()
                && RunDir::of(&context.cwd, &root_run_id(&context.session_id, 0)).run_json().exists()
        }
        Identity::Child(scope) => {
            let root_dir = RunDir::at(&scope.root_run_dir);
            root_dir.beside(&child_run_id(&root_dir.run_id(), &scope.node_id)).run_json().exists()
        }
    }
}

/// The ledger of a child session, which the root has made (LED-3).
pub(super) fn child_ledger(path: &Path) -> Result<LegionDb, LedgerError> {
    open_legion_db(path, OpenMode::Existing)
}

fn open_root(context: &SessionContext, host: &SessionHost, max_depth: u32) -> Result<Run> {
    let identity = RunIdentity {
        cwd: &context.cwd,
        session_id: &context.session_id,
        session_file: context.session_file.as_deref(),
    };
    let opened = open_root_run(&identity).map_err(|error| file_error(&context.cwd, &error))?;
    let (dir, run_id) = (opened.dir.clone(), opened.dir.run_id());
    if let Some(in_use) = &opened.in_use {
        host.warn(format!("legion: {}", in_use.message(&run_id)));
    }
    let db = open_legion_db(&legion_db_path(dir.path()), OpenMode::RootCreate)?;
    let session_file = context.session_file.clone();
    db.write(|tx| settle::open_root(tx, &run_id, session_file.as_deref(), clock::now_ms()))?;
    let lineage = Lineage {
        root_run_id: run_id,
        root_run_dir: dir.path().to_owned(),
        parent_run_id: None,
        parent_node_id: None,
        depth: 0,
        team: None,
        unknown: serde_json::Map::new(),
    };
    Ok(assemble(context, host, opened, dir, db, lineage, max_depth))
}

fn assemble(
    context: &SessionContext,
    host: &SessionHost,
    opened: OpenedRun,
    root_dir: RunDir,
    db: LegionDb,
    lineage: Lineage,
    max_depth: u32,
) -> Run {
    for (path, reason) in &opened.quarantined {
        host.warn(format!("legion: the run record could not be read ({reason}); it is kept as {}", path.display()));
    }
    let taken_over = opened.former.is_some();
    let now = clock::iso(clock::now_ms());
    let record = match opened.former {
        Some(former) => RunRecord {
            owner: Owner::this_process(),
            closed_at: None,
            root_session_file: context.session_file.clone(),
            ..*former
        },
        None => RunRecord {
            version: RUN_RECORD_VERSION,
            run_id: opened.dir.run_id(),
            cwd: context.cwd.clone(),
            created_at: now.clone(),
            updated_at: now,
            closed_at: None,
            owner: Owner::this_process(),
            root_session_file: context.session_file.clone(),
            herdr: Herdr {
                supervisor: context.identity.child().map_or("rpc", |scope| &scope.spawn_mode).to_owned(),
                node_id: context.identity.node_id().to_owned(),
                unknown: serde_json::Map::new(),
            },
            lineage,
            budget: Budget { spawned: 0, max_spawns: None, max_depth, unknown: serde_json::Map::new() },
            children: Vec::new(),
            unknown: serde_json::Map::new(),
        },
    };
    let store = RunStore::new(opened.dir.clone(), record);
    // The owner stands in the file before anything is launched, so that a second process sees whose run it is.
    if let Err(error) = store.flush() {
        host.warn(format!("legion: {error}"));
    }
    Run { dir: opened.dir, root_dir, db, store, taken_over, _lock: opened.lock }
}

fn file_error(path: &Path, error: &std::io::Error) -> SubagentError {
    SubagentError::internal(format!("failed to open a run directory in {}: {error}", path.display()))
}

/// A launch that needs a git worktree.
pub(super) fn worktree_not_available(agent: &str) -> SubagentError {
    not_available(&format!(
        "'{agent}' asks for a git worktree (pass worktree: false to run it in this directory); a worktree"
    ))
}
