//! What the orchestrators of one process have in common.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    Orchestrator,
    definitions::{Definitions, Loaded},
    kid::Kid,
};
use crate::{
    cards::{DefinitionRoots, WarnOnce},
    supervisor::{ActivityBoard, Pool},
};

/// One per process; `process` makes it and hands it to every orchestrator.
#[derive(Debug, Default)]
pub struct Shared {
    /// Slots of all in-process children.
    pub pool: Arc<Pool>,
    /// What the children of this process are doing; `process` tells it every event of a child session.
    pub activity: Arc<ActivityBoard>,
    /// Orchestrators of child sessions, by session file: a parent takes a child's children down first (ORC-117).
    sessions: Mutex<HashMap<PathBuf, Weak<Orchestrator>>>,
    /// Children that are launching or alive, by session file: facts in memory for every view (LED-93).
    kids: Mutex<HashMap<PathBuf, Arc<Kid>>>,
    definitions: Mutex<HashMap<DefinitionRoots, Arc<Mutex<Definitions>>>>,
    warned: WarnOnce,
    serial: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// A number that no other spawn of this process has.
    pub(super) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// The orchestrator of the child session with this transcript, if it lives in this process.
    pub(super) fn session(&self, session_file: &Path) -> Option<Arc<Orchestrator>> {
        lock(&self.sessions).get(session_file).and_then(Weak::upgrade)
    }

    pub(super) fn add_session(&self, session_file: &Path, orchestrator: &Arc<Orchestrator>) {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|_, session| session.strong_count() > 0);
        sessions.insert(session_file.to_owned(), Arc::downgrade(orchestrator));
    }

    pub(super) fn kid(&self, session_file: &Path) -> Option<Arc<Kid>> {
        lock(&self.kids).get(session_file).cloned()
    }

    pub(super) fn add_kid(&self, kid: &Arc<Kid>) {
        lock(&self.kids).insert(kid.session_file.clone(), Arc::clone(kid));
    }

    /// The child is gone; a successor on the same transcript stays.
    pub(super) fn remove_kid(&self, kid: &Arc<Kid>) {
        let mut kids = lock(&self.kids);
        if kids.get(&kid.session_file).is_some_and(|known| Arc::ptr_eq(known, kid)) {
            kids.remove(&kid.session_file);
        }
    }

    /// Cards and settings as they stand on disk now, with those warnings that were never given before (DISC-10).
    pub(super) fn load(&self, roots: &DefinitionRoots) -> (Loaded, Vec<String>) {
        let definitions = Arc::clone(lock(&self.definitions).entry(roots.clone()).or_default());
        let loaded = lock(&definitions).load(roots);
        let fresh = self.warned.fresh(&loaded.warnings).into_iter().map(str::to_owned).collect();
        (loaded, fresh)
    }
}
