//! Recipients whose mail a blocked call takes itself (08 §4).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Open holds by node id. They nest: the postman skips a node while at least one is open.
#[derive(Debug, Default)]
pub struct Holds(Mutex<HashMap<String, Held>>);

#[derive(Debug)]
struct Held {
    open: usize,
    arrived: Arc<Notify>,
}

/// One open hold; dropping it closes it (MAIL-29).
#[derive(Debug)]
pub struct HoldGuard {
    holds: Arc<Holds>,
    node: String,
    arrived: Arc<Notify>,
}

impl Holds {
    /// Opens a hold for `node`.
    pub fn begin(self: &Arc<Self>, node: &str) -> HoldGuard {
        let mut held = self.lock();
        let entry = held.entry(node.to_owned()).or_insert_with(|| Held { open: 0, arrived: Arc::default() });
        entry.open += 1;
        HoldGuard { holds: Arc::clone(self), node: node.to_owned(), arrived: Arc::clone(&entry.arrived) }
    }

    pub fn is_held(&self, node: &str) -> bool {
        self.lock().contains_key(node)
    }

    pub fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Mail for `node` is there: wakes its blocked calls.
    pub fn wake(&self, node: &str) {
        if let Some(held) = self.lock().get(node) {
            held.arrived.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HoldGuard {
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Told of arrivals after this call, even before the future is polled.
    pub fn notify(&self) -> Arc<Notify> {
        Arc::clone(&self.arrived)
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        let mut held = self.holds.lock();
        if let Some(entry) = held.get_mut(&self.node) {
            entry.open -= 1;
            if entry.open == 0 {
                held.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MAIL-29, part of 08-T11: nested holds end with the last one, on a panic too.
    #[test]
    fn holds_nest_and_end_on_every_way_out() {
        let holds = Arc::new(Holds::default());
        let outer = holds.begin("root");
        {
            let _inner = holds.begin("root");
            assert!(holds.is_held("root"));
        }
        assert!(holds.is_held("root"));
        drop(outer);
        assert!(!holds.is_held("root") && !holds.any());
        let in_thread = Arc::clone(&holds);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = in_thread.begin("root");
            panic!("the call fails");
        }));
        assert!(panicked.is_err() && !holds.any());
    }
}
