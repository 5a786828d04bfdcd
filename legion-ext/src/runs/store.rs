//! The writer of `run.json`: changes are made in memory and go out together (ORC-148).
//!
//! ```text
//! update ──> record (in memory, at once) ──> dirty ──> one writer thread ──> temporary file ──> rename
//!                                              ^                │ changes of the meantime
//!                                              └────────────────┘ pause, then once more
//! ```
//!
//! What a crash in that window loses, the ledger row and the transcript still hold (ORC-61).

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::files::{RunDir, write_atomic};
use super::record::{ChildRecord, RunRecord};
use crate::{clock, context};

/// Shortest time between two writes of a burst: the number of writes grows with its time, not with its changes.
const PAUSE: Duration = Duration::from_millis(100);

/// A write of the record that failed; the file before it is intact (ORC-153).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to write {}: {reason}", .path.display())]
pub struct StoreError {
    pub path: PathBuf,
    pub reason: String,
}

/// A run's record in memory and on disk. Cheap to clone; every clone is the same record.
#[derive(Clone)]
pub struct RunStore {
    shared: Arc<Shared>,
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore").field("dir", self.dir()).finish_non_exhaustive()
    }
}

struct Shared {
    dir: RunDir,
    state: Mutex<State>,
    /// The writer came to a rest, or a flush wants it to hurry.
    moved: Condvar,
}

struct State {
    record: Arc<RunRecord>,
    /// Place of each child in the record, which only grows.
    places: HashMap<String, usize>,
    /// Changes so far, and how many of them the file holds.
    changes: u64,
    written: u64,
    writing: bool,
    /// Flushes that wait.
    hurried: usize,
    writes: u64,
    last_error: Option<StoreError>,
}

impl RunStore {
    /// Takes over `record` for the run at `dir`; the caller holds its owner lock. Nothing is written before the first
    /// change or [`Self::flush`].
    pub fn new(dir: RunDir, record: RunRecord) -> Self {
        let places = record.children.iter().enumerate().map(|(place, child)| (child.name.clone(), place)).collect();
        let state = State {
            record: Arc::new(record),
            places,
            changes: 1,
            written: 0,
            writing: false,
            hurried: 0,
            writes: 0,
            last_error: None,
        };
        Self { shared: Arc::new(Shared { dir, state: Mutex::new(state), moved: Condvar::new() }) }
    }

    pub fn dir(&self) -> &RunDir {
        &self.shared.dir
    }

    /// The record as it is now; it does not change any more.
    pub fn record(&self) -> Arc<RunRecord> {
        Arc::clone(&self.lock().record)
    }

    /// The record of a child.
    pub fn child(&self, name: &str) -> Option<Arc<ChildRecord>> {
        let state = self.lock();
        state.places.get(name).and_then(|place| state.record.children.get(*place)).cloned()
    }

    /// Changes what is not a child, such as budget and owner. Returns at once; the file follows.
    pub fn update(&self, change: impl FnOnce(&mut RunRecord)) {
        let mut state = self.lock();
        change(Arc::make_mut(&mut state.record));
        self.changed(state);
    }

    /// Adds a child, or puts the record of one with the same name in the place of the former.
    pub fn put_child(&self, child: ChildRecord) {
        let mut state = self.lock();
        let place = state.places.get(&child.name).copied();
        let record = Arc::make_mut(&mut state.record);
        let (name, child) = (child.name.clone(), Arc::new(child));
        match place.and_then(|place| record.children.get_mut(place)) {
            Some(former) => *former = child,
            None => {
                record.children.push(child);
                let place = record.children.len() - 1;
                state.places.insert(name, place);
            }
        }
        self.changed(state);
    }

    /// Changes a child's record and returns the new one; `None` for an unknown name. A name never changes.
    pub fn update_child(&self, name: &str, change: impl FnOnce(&mut ChildRecord)) -> Option<Arc<ChildRecord>> {
        let mut state = self.lock();
        let place = *state.places.get(name)?;
        let child = Arc::make_mut(&mut state.record).children.get_mut(place)?;
        change(Arc::make_mut(child));
        let child = Arc::clone(child);
        self.changed(state);
        Some(child)
    }

    /// Takes a child's record out, as when a queued launch ends without a former record.
    pub fn remove_child(&self, name: &str) -> Option<Arc<ChildRecord>> {
        let mut state = self.lock();
        let place = state.places.remove(name)?;
        let child = Arc::make_mut(&mut state.record).children.remove(place);
        for other in state.places.values_mut().filter(|other| **other > place) {
            *other -= 1;
        }
        self.changed(state);
        Some(child)
    }

    /// Waits until the file holds every change made so far; blocks for the write. The error of a failed write is
    /// returned, and the next change or flush tries again.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let wanted = state.changes;
        if state.written < wanted && !state.writing {
            self.start_writer(state);
            state = self.lock();
        }
        state.hurried += 1;
        self.shared.moved.notify_all();
        while state.writing && state.written < wanted {
            state = self.shared.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.hurried -= 1;
        match &state.last_error {
            Some(error) if state.written < wanted => Err(error.clone()),
            Some(_) | None => Ok(()),
        }
    }

    /// Number of writes so far.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// The error of the last write, if it failed.
    pub fn last_error(&self) -> Option<StoreError> {
        self.lock().last_error.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the change and sees to it that one writer is at work.
    fn changed(&self, mut state: MutexGuard<'_, State>) {
        Arc::make_mut(&mut state.record).updated_at = clock::iso(clock::now_ms());
        state.changes += 1;
        if !state.writing {
            self.start_writer(state);
        }
    }

    fn start_writer(&self, mut state: MutexGuard<'_, State>) {
        state.writing = true;
        drop(state);
        let store = self.clone();
        if let Err(error) = context::thread_for_process("legion-run-writer", move || store.write_until_clean()) {
            let mut state = self.lock();
            state.last_error =
                Some(StoreError { path: self.dir().run_json(), reason: format!("no thread for it: {error}") });
            self.rest(state);
        }
    }

    fn write_until_clean(&self) {
        let mut state = self.lock();
        loop {
            state = self.write_once(state);
            let failed = state.last_error.is_some();
            // Changes of the meantime wait a little for more of their kind, unless someone waits for them.
            if !failed && state.hurried == 0 {
                let wait = |state: &mut State| state.hurried == 0;
                state =
                    self.shared.moved.wait_timeout_while(state, PAUSE, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
            if failed || state.written == state.changes {
                self.rest(state);
                return;
            }
        }
    }

    /// Writes the record as it is now. The lock is not held while it is made into text and written.
    fn write_once<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.writes += 1;
        let changes = state.changes;
        let record = Arc::clone(&state.record);
        drop(state);
        let path = self.dir().run_json();
        let written =
            serde_json::to_vec_pretty(&*record).map_err(io::Error::from).and_then(|bytes| write_atomic(&path, &bytes));
        drop(record);
        let mut state = self.lock();
        match written {
            Ok(()) => {
                state.written = changes;
                state.last_error = None;
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the run record could not be written");
                state.last_error = Some(StoreError { path, reason: error.to_string() });
            }
        }
        self.shared.moved.notify_all();
        state
    }

    fn rest(&self, mut state: MutexGuard<'_, State>) {
        state.writing = false;
        drop(state);
        self.shared.moved.notify_all();
    }
}
