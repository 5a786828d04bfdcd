//! One change at a time to a file, whoever makes it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The files that are being changed, over all sessions of the process: children of one parent often work
/// on the same tree.
static QUEUES: Mutex<Option<HashMap<PathBuf, Weak<AsyncMutex<()>>>>> = Mutex::new(None);

/// The turn to change a file; ends when it is dropped.
#[derive(Debug)]
pub struct Turn {
    _guard: OwnedMutexGuard<()>,
}

/// Waits until nobody else changes `path`. Turns come in the order of the calls; a symbolic link counts as
/// the file it leads to.
pub async fn turn(path: &Path) -> Turn {
    let key = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let queue = {
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        let queues = queues.get_or_insert_default();
        match queues.get(&key).and_then(Weak::upgrade) {
            Some(queue) => queue,
            None => {
                queues.retain(|_, queue| queue.strong_count() > 0);
                let queue = Arc::new(AsyncMutex::new(()));
                queues.insert(key, Arc::downgrade(&queue));
                queue
            }
        }
    };
    Turn { _guard: queue.lock_owned().await }
}
