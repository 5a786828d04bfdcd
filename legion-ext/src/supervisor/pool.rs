//! The slots of in-process children, counted once per process (ADM-17 … ADM-24, SUP-52, SUP-123).
//!
//! A slot is a value: [`Pool::admit`] judges and reserves in one step, [`Reservation::commit`] makes the slot a child's,
//! and dropping either gives it back. So no way out of a launch can leak one, and of twelve launches that start together
//! with a limit of eight exactly eight pass.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::core::{
    admission::{AdmissionVerdict, InProcessAdmissionCounts, InProcessLimits, Inflight, evaluate_tree, probe},
    budget::{TreeCounts, TreeLimits},
};

/// Whose children are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParentKey {
    /// Unique among the sessions of the process: the agent id.
    pub session: String,
    /// As texts show it: `<root>`, or the parent's node id (ADM-7).
    pub label: String,
}

/// What a launch is judged by, apart from what the pool counts itself.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub parent: &'a ParentKey,
    pub name: &'a str,
    /// Nesting depth of the caller.
    pub depth: u32,
    /// Children that this session has started so far.
    pub spawn_count: u32,
    pub limits: InProcessLimits,
    /// The tree's counts, read a moment ago; `None` judges the in-process gates alone.
    pub tree: Option<TreeAsk<'a>>,
}

/// The tree's side of an [`Ask`].
#[derive(Debug, Clone, Copy)]
pub struct TreeAsk<'a> {
    pub parent_id: &'a str,
    pub counts: TreeCounts,
    pub limits: TreeLimits,
}

/// A slot that a child gave back, once per child (SUP-52).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReleased {
    pub name: String,
    pub parent: ParentKey,
    /// `retired` or `exited`.
    pub state: &'static str,
}

type Listener = dyn Fn(&SlotReleased) + Send + Sync;

/// The pool; one per process.
#[derive(Default)]
pub struct Pool {
    counts: Mutex<Counts>,
    listeners: Mutex<HashMap<u64, Arc<Listener>>>,
    next_listener: AtomicU64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("counts", &*self.lock()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Counts {
    parents: HashMap<ParentKey, ParentCounts>,
    active: u32,
    admitting: u32,
    /// Reservations without a `starting` row yet.
    without_row: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct ParentCounts {
    live: u32,
    admitting: u32,
    without_row: u32,
}

impl Pool {
    /// Judges a launch and, if it may go on, reserves its slot; both under one lock (ADM-23).
    ///
    /// # Errors
    /// The verdict, never `Admitted`.
    pub fn admit(self: &Arc<Self>, ask: &Ask<'_>) -> Result<Reservation, AdmissionVerdict> {
        let mut counts = self.lock();
        let parent = counts.parents.get(ask.parent).copied().unwrap_or_default();
        let in_process = counts.in_process(ask, parent);
        let inflight = Inflight { fanout: parent.admitting, active: counts.admitting };
        let tree = ask.tree.as_ref().map_or(AdmissionVerdict::Admitted, |tree| {
            let rowless = Inflight { fanout: parent.without_row, active: counts.without_row };
            evaluate_tree(tree.parent_id, &tree.counts, &tree.limits, rowless)
        });
        match probe(&in_process, inflight, tree) {
            AdmissionVerdict::Admitted => {}
            verdict @ (AdmissionVerdict::Queue { .. } | AdmissionVerdict::Refuse { .. }) => return Err(verdict),
        }
        let parent = counts.parents.entry(ask.parent.clone()).or_default();
        parent.admitting += 1;
        parent.without_row += 1;
        counts.admitting += 1;
        counts.without_row += 1;
        drop(counts);
        let holder = Holder { pool: Arc::clone(self), parent: ask.parent.clone(), name: ask.name.to_owned() };
        Ok(Reservation { holder: Some(holder), has_row: false })
    }

    /// What the in-process gates would be judged by now; changes nothing (SUP-49).
    pub fn counts(&self, ask: &Ask<'_>) -> InProcessAdmissionCounts {
        let counts = self.lock();
        let parent = counts.parents.get(ask.parent).copied().unwrap_or_default();
        counts.in_process(ask, parent)
    }

    /// Live in-process children of the process.
    pub fn active(&self) -> u32 {
        self.lock().active
    }

    /// Calls `listener` for every slot that is given back, until the subscription is dropped (SUP-22).
    pub fn subscribe(self: &Arc<Self>, listener: impl Fn(&SlotReleased) + Send + Sync + 'static) -> Subscription {
        let id = self.next_listener.fetch_add(1, Ordering::Relaxed);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(listener));
        Subscription { pool: Arc::downgrade(self), id }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A listener that panics stops neither the others nor the take-down (SUP-23).
    fn tell(&self, released: &SlotReleased) {
        let listeners: Vec<Arc<Listener>> =
            self.listeners.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for listener in listeners {
            if catch_unwind(AssertUnwindSafe(|| listener(released))).is_err() {
                tracing::warn!(child = %released.name, "a listener for released slots panicked");
            }
        }
    }
}

impl Counts {
    fn in_process(&self, ask: &Ask<'_>, parent: ParentCounts) -> InProcessAdmissionCounts {
        InProcessAdmissionCounts {
            parent_key: ask.parent.label.clone(),
            siblings: parent.live,
            active: self.active,
            spawn_count: ask.spawn_count,
            depth: ask.depth,
            limits: ask.limits,
        }
    }

    fn change(&mut self, key: &ParentKey, change: impl FnOnce(&mut ParentCounts)) {
        let Some(parent) = self.parents.get_mut(key) else { return };
        change(parent);
        if *parent == ParentCounts::default() {
            self.parents.remove(key);
        }
    }
}

#[derive(Debug)]
struct Holder {
    pool: Arc<Pool>,
    parent: ParentKey,
    name: String,
}

/// A slot of a launch that is on its way. Dropping it gives the slot back.
#[derive(Debug)]
#[must_use = "a dropped reservation gives its slot back"]
pub struct Reservation {
    holder: Option<Holder>,
    has_row: bool,
}

impl Reservation {
    /// The ledger's own count holds this launch from now on (ADM-21).
    pub fn row_written(&mut self) {
        if let Some(holder) = self.holder.as_ref().filter(|_| !self.has_row) {
            let mut counts = holder.pool.lock();
            counts.without_row -= 1;
            counts.change(&holder.parent, |parent| parent.without_row -= 1);
            self.has_row = true;
        }
    }

    /// The slot is a registered child's from now on (ADM-24).
    pub fn commit(mut self) -> Slot {
        self.row_written();
        let holder = self.holder.take().expect("only commit and drop take the holder");
        {
            let mut counts = holder.pool.lock();
            counts.admitting -= 1;
            counts.active += 1;
            counts.change(&holder.parent, |parent| {
                parent.admitting -= 1;
                parent.live += 1;
            });
        }
        Slot { holder: Some(holder) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.row_written();
        if let Some(holder) = self.holder.take() {
            let mut counts = holder.pool.lock();
            counts.admitting -= 1;
            counts.change(&holder.parent, |parent| parent.admitting -= 1);
        }
    }
}

/// The slot of a registered child. Dropping it counts as `exited`.
#[derive(Debug)]
#[must_use = "a dropped slot is free"]
pub struct Slot {
    holder: Option<Holder>,
}

impl Slot {
    /// Gives the slot back; `state` is `retired` or `exited`.
    pub fn release(mut self, state: &'static str) {
        self.free(state);
    }

    fn free(&mut self, state: &'static str) {
        let Some(holder) = self.holder.take() else { return };
        {
            let mut counts = holder.pool.lock();
            counts.active -= 1;
            counts.change(&holder.parent, |parent| parent.live -= 1);
        }
        holder.pool.tell(&SlotReleased { name: holder.name, parent: holder.parent, state });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.free("exited");
    }
}

/// A listener's place in the pool.
#[derive(Debug)]
#[must_use = "a dropped subscription ends at once"]
pub struct Subscription {
    pool: Weak<Pool>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::admission::{QueueableGate, ROOT_PARENT_KEY};

    fn key(session: &str) -> ParentKey {
        ParentKey { session: session.to_owned(), label: ROOT_PARENT_KEY.to_owned() }
    }

    fn ask(parent: &ParentKey) -> Ask<'_> {
        let limits =
            InProcessLimits { max_depth: 4, max_children_per_node: 8, max_active: 10, max_spawns_per_session: None };
        Ask { parent, name: "w", depth: 0, spawn_count: 0, limits, tree: None }
    }

    /// ADM-23, 05 §3: of twelve at once exactly eight pass, and the rest see a full pool whatever stage the eight are in.
    #[test]
    fn reservations_and_slots_count_alike() {
        let (pool, parent) = (Arc::new(Pool::default()), key("a"));
        let mut held: Vec<Reservation> = (0..12).filter_map(|_| pool.admit(&ask(&parent)).ok()).collect();
        assert_eq!(held.len(), 8);
        let slots: Vec<Slot> = held.drain(..4).map(Reservation::commit).collect();
        let full = pool.admit(&ask(&parent)).unwrap_err();
        let message = "inprocess maxChildrenPerNode reached for '<root>' (8/8)".to_owned();
        assert_eq!(full, AdmissionVerdict::Queue { gate: QueueableGate::InProcessFanout, message });
        assert_eq!(pool.active(), 4);
        // Another session's children have a count of their own and share the process's.
        let other = key("b");
        let two: Vec<Reservation> = (0..3).filter_map(|_| pool.admit(&ask(&other)).ok()).collect();
        assert_eq!(two.len(), 2);
        drop((held, two));
        drop(slots);
        assert_eq!(format!("{:?}", pool.lock()), format!("{:?}", Counts::default()), "nothing leaks");
    }

    /// 04-T5 (its pool half), SUP-23, SUP-52
    #[test]
    fn every_release_is_told_once_and_a_panicking_listener_stops_nobody() {
        let (pool, parent) = (Arc::new(Pool::default()), key("a"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let bad = pool.subscribe(|_| panic!("a listener's fault"));
        let heard = Arc::clone(&seen);
        let good = pool.subscribe(move |released| heard.lock().unwrap().push(released.state));
        pool.admit(&ask(&parent)).unwrap().commit().release("retired");
        drop(pool.admit(&ask(&parent)).unwrap().commit());
        drop(pool.admit(&ask(&parent)).unwrap());
        assert_eq!(*seen.lock().unwrap(), ["retired", "exited"]);
        drop((good, bad));
        pool.admit(&ask(&parent)).unwrap().commit().release("retired");
        assert_eq!(seen.lock().unwrap().len(), 2);
    }

    /// ADM-21: a launch whose row is written is in the tree's own count and not counted twice.
    #[test]
    fn a_row_is_not_counted_twice() {
        let (pool, parent) = (Arc::new(Pool::default()), key("a"));
        let limits = TreeLimits { max_children_per_node: 2, ..TreeLimits::default() };
        let with = |live| {
            let counts = TreeCounts { parent_depth: Some(0), live_children: live, active_nodes: live };
            Ask { tree: Some(TreeAsk { parent_id: "root", counts, limits }), ..ask(&parent) }
        };
        let mut first = pool.admit(&with(0)).unwrap();
        first.row_written();
        let second = pool.admit(&with(1)).unwrap();
        assert!(pool.admit(&with(1)).is_err());
        drop(second);
        assert!(pool.admit(&with(1)).is_ok());
    }
}
