//! The requests of extensions that are being worked on (ABI-8).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A table of requests in flight; an entry lives as long as the future of its request.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
}

/// A request in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    pub scope: u64,
    pub op: String,
}

/// Keeps a request in the table.
#[derive(Debug)]
pub struct Entry {
    table: Arc<Table>,
    id: u64,
}

impl Requests {
    pub fn enter(&self, scope: u64, op: &str) -> Entry {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let open = Open { scope, op: op.to_owned() };
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, open);
        Entry { table: Arc::clone(&self.0), id }
    }

    /// The requests in flight, oldest first.
    pub fn open(&self) -> Vec<Open> {
        let open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(u64, Open)> = open.iter().map(|(id, open)| (*id, open.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, open)| open).collect()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
