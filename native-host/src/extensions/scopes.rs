//! Which session a scope number means. The numbers are unique in the process and never come twice (ABI-1).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use host_abi::AbiError;
use host_abi::ops::{Log, LogLevel, Post};
use host_abi::sdk::{BoxFuture, decode, host::Host};

/// What a session answers to its extensions. The bodies run on the extensions' threads, without a runtime of
/// this crate around them.
pub trait ScopeOps: Send + Sync {
    /// Must not block.
    fn post(&self, library: &Path, op: &str, json: &str);
    /// Dropping the future ends the work.
    fn request(&self, op: &str, json: String) -> BoxFuture<Result<String, AbiError>>;
}

type Table = RwLock<HashMap<u64, Arc<dyn ScopeOps>>>;

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(Table::default)
}

/// A number for a new session.
pub fn next_scope() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// From now on `scope` is answered by `ops`.
pub fn enter(scope: u64, ops: Arc<dyn ScopeOps>) {
    table().write().unwrap_or_else(PoisonError::into_inner).insert(scope, ops);
}

/// From now on `scope` is gone.
pub fn leave(scope: u64) {
    let gone = table().write().unwrap_or_else(PoisonError::into_inner).remove(&scope);
    // Outside the lock: the last owner of a session may go with it.
    drop(gone);
}

fn find(scope: u64) -> Option<Arc<dyn ScopeOps>> {
    table().read().unwrap_or_else(PoisonError::into_inner).get(&scope).cloned()
}

/// The host as one library sees it.
#[derive(Debug)]
pub struct Port {
    library: PathBuf,
}

impl Port {
    pub fn new(library: PathBuf) -> Port {
        Port { library }
    }
}

impl Host for Port {
    fn post(&self, scope: u64, op: &str, json: &str) {
        match find(scope) {
            Some(ops) => ops.post(&self.library, op, json),
            // A library logs also where no session is concerned, such as from its panic hook.
            None if op == Log::OP => {
                if let Ok(record) = decode(op, json) {
                    log(&self.library, &record);
                }
            }
            None => {}
        }
    }

    fn request(&self, scope: u64, op: &str, json: String) -> BoxFuture<Result<String, AbiError>> {
        match find(scope) {
            Some(ops) => ops.request(op, json),
            None => Box::pin(std::future::ready(Err(AbiError::scope_gone(scope)))),
        }
    }
}

/// Writes a library's record into the host's log (ABI-13).
pub fn log(library: &Path, record: &Log) {
    let library = library.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let Log { level, target, message, fields } = record;
    match level {
        LogLevel::Trace => tracing::trace!(%library, extension_target = %target, %fields, "{message}"),
        LogLevel::Debug => tracing::debug!(%library, extension_target = %target, %fields, "{message}"),
        LogLevel::Info => tracing::info!(%library, extension_target = %target, %fields, "{message}"),
        LogLevel::Warn => tracing::warn!(%library, extension_target = %target, %fields, "{message}"),
        LogLevel::Error => tracing::error!(%library, extension_target = %target, %fields, "{message}"),
    }
}
