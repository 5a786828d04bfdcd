//! Who the running work belongs to (ABI-9): a task-local that only scoped spawns hand on.

use std::sync::Arc;

use host_abi::{AbiError, info::AttachSpec};
use tokio::{runtime::Handle, task::JoinHandle};

tokio::task_local! {
    static IDENTITY: Arc<Identity>;
}

/// One session, as its attach told it.
#[derive(Debug)]
pub struct Identity {
    pub scope: u64,
    pub spec: AttachSpec,
}

/// The identity of the task that asks.
pub fn current() -> Result<Arc<Identity>, AbiError> {
    IDENTITY.try_with(Arc::clone).map_err(|_| AbiError::host("this task was spawned without an identity"))
}

/// Spawns with the identity of the task that asks: the only way to spawn from within a task.
pub fn spawn_scoped<F>(future: F) -> Result<JoinHandle<F::Output>, AbiError>
where
    F: Future<Output: Send> + Send + 'static,
{
    Ok(spawn_scoped_on(&Handle::current(), current()?, future))
}

/// Spawns with a given identity: the way in from a call of the host.
pub fn spawn_scoped_on<F>(runtime: &Handle, identity: Arc<Identity>, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    runtime.spawn(IDENTITY.scope(identity, future))
}
