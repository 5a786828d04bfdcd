//! Finding a session's former run, or making its new one (ORC-172, ORC-173, ORC-177, ORC-181).

use std::io;
use std::path::{Path, PathBuf};

use super::files::RunDir;
use super::ids::{random_run_id, root_run_id};
use super::owner::{LockError, OwnerLock};
use super::record::{Owner, ReadRecord, RunRecord, read_run_record};

/// Who asks for a run.
#[derive(Debug, Clone, Copy)]
pub struct RunIdentity<'a> {
    pub cwd: &'a Path,
    pub session_id: &'a str,
    /// `None`: nothing to find again, so the run takes random digits.
    pub session_file: Option<&'a Path>,
}

/// A run that this process owns.
#[derive(Debug)]
pub struct OpenedRun {
    pub dir: RunDir,
    pub lock: OwnerLock,
    /// The record of the run that is taken over; `None` for a new run.
    pub former: Option<Box<RunRecord>>,
    /// The session's run is held by a living process, and this is another one.
    pub in_use: Option<InUse>,
    /// Records that could not be parsed and were set aside, with the reason; to be reported (ORC-173).
    pub quarantined: Vec<(PathBuf, String)>,
}

/// A run that a living process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    pub run_id: String,
    /// 0 when its record could not be read.
    pub pid: u32,
}

impl InUse {
    /// The line that is printed once (ORC-181).
    pub fn message(&self, run_id: &str) -> String {
        format!("run {} is in use by pid {}; this session uses run {run_id}", self.run_id, self.pid)
    }
}

/// Finds the run of a session by computing its id, or makes a new directory; takes its owner lock. Looks at one
/// directory in the ordinary case and never lists `runs/`.
pub fn open_root_run(identity: &RunIdentity<'_>) -> io::Result<OpenedRun> {
    let mut in_use = None;
    let mut quarantined = Vec::new();
    for counter in 0.. {
        let run_id = match identity.session_file {
            Some(_) => root_run_id(identity.session_id, counter),
            None => random_run_id()?,
        };
        let dir = RunDir::of(identity.cwd, &run_id);
        let is_new = !dir.path().exists();
        dir.create()?;
        match take(dir, |record| belongs_to(record, identity.session_file), is_new, &mut quarantined)? {
            Taken::Run { dir, lock, former } => return Ok(OpenedRun { dir, lock, former, in_use, quarantined }),
            Taken::Held(held) => {
                in_use.get_or_insert(held);
            }
            Taken::Foreign => {}
        }
    }
    Err(io::Error::other("no free run id is left"))
}

/// Takes the run of a child that may nest, whose id is known, with its former record if there is one (ORC-42).
pub fn open_child_run(dir: RunDir) -> io::Result<Result<OpenedRun, InUse>> {
    let mut quarantined = Vec::new();
    dir.create()?;
    Ok(match take(dir.clone(), |_| true, true, &mut quarantined)? {
        Taken::Run { dir, lock, former } => Ok(OpenedRun { dir, lock, former, in_use: None, quarantined }),
        Taken::Held(held) => Err(held),
        // Nothing is foreign to a child's own id.
        Taken::Foreign => Err(InUse { run_id: dir.run_id(), pid: 0 }),
    })
}

enum Taken {
    Run {
        dir: RunDir,
        lock: OwnerLock,
        former: Option<Box<RunRecord>>,
    },
    Held(InUse),
    /// Another session's, or one whose record is gone: it stays as it is.
    Foreign,
}

fn take(
    dir: RunDir,
    is_ours: impl FnOnce(&RunRecord) -> bool,
    may_begin: bool,
    quarantined: &mut Vec<(PathBuf, String)>,
) -> io::Result<Taken> {
    let lock = match OwnerLock::try_take(&dir, recorded_owner(&dir).as_ref()) {
        Ok(lock) => lock,
        Err(LockError::Held) => {
            let pid = recorded_owner(&dir).map_or(0, |owner| owner.pid);
            return Ok(Taken::Held(InUse { run_id: dir.run_id(), pid }));
        }
        Err(LockError::Io(error)) => return Err(error),
    };
    match read_run_record(&dir)? {
        ReadRecord::Record(record) if is_ours(&record) => Ok(Taken::Run { dir, lock, former: Some(record) }),
        ReadRecord::Record(_) => Ok(Taken::Foreign),
        ReadRecord::Missing if may_begin || is_untouched(&dir) => Ok(Taken::Run { dir, lock, former: None }),
        ReadRecord::Missing => Ok(Taken::Foreign),
        ReadRecord::Quarantined { moved_to, reason } => {
            quarantined.push((moved_to, reason));
            if may_begin { Ok(Taken::Run { dir, lock, former: None }) } else { Ok(Taken::Foreign) }
        }
    }
}

/// The owner that the record names, read without taking it over: a damaged record names nobody.
fn recorded_owner(dir: &RunDir) -> Option<Owner> {
    #[derive(serde::Deserialize)]
    struct OwnerOnly {
        owner: Owner,
    }
    let bytes = std::fs::read(dir.run_json()).ok()?;
    serde_json::from_slice::<OwnerOnly>(&bytes).ok().map(|record| record.owner)
}

/// A directory in which nothing but the lock was made yet: its maker died before it wrote anything.
fn is_untouched(dir: &RunDir) -> bool {
    std::fs::read_dir(dir.path()).is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == "owner.lock"))
}

/// Paths are compared as the file system knows them, since a record may have been written through a symlink.
fn belongs_to(record: &RunRecord, session_file: Option<&Path>) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match (&record.root_session_file, session_file) {
        (Some(recorded), Some(asked)) => recorded == asked || canonical(recorded) == canonical(asked),
        (Some(_) | None, _) => false,
    }
}
