//! Narrow port over `host-abi`: the host as one agent sees it.
//!
//! An agent keeps its port across `/reload` and `/new`, which give its session a new scope (ABI-3). Tests use the
//! recording [`fake`].

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use host_abi::{
    AbiError,
    ops::{LogLevel, Post, Print, Request, Stream},
    sdk::extension::HostHandle,
};

#[cfg(test)]
pub mod fake;

/// The host, for one agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionHost {
    handle: HostHandle,
    scope: Arc<AtomicU64>,
}

/// Scope of an agent whose session is gone; hosts never pick it.
const NO_SCOPE: u64 = u64::MAX;

impl SessionHost {
    pub fn new(handle: HostHandle, scope: u64) -> Self {
        Self { handle, scope: Arc::new(AtomicU64::new(scope)) }
    }

    /// The scope of the agent's present session, if it has one.
    pub fn scope(&self) -> Option<u64> {
        Some(self.scope.load(Ordering::Acquire)).filter(|scope| *scope != NO_SCOPE)
    }

    /// The agent's session was rebuilt: everything goes to the new one from now on.
    pub fn repoint(&self, scope: u64) {
        self.scope.store(scope, Ordering::Release);
    }

    /// The agent's session `scope` is gone; a session that took its place stays.
    pub fn leave(&self, scope: u64) {
        // Losing the exchange means that a newer session is there already.
        let _ = self.scope.compare_exchange(scope, NO_SCOPE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Asks the host; dropping the future cancels the work there.
    ///
    /// # Errors
    /// The host's error; `SCOPE_GONE` while the agent has no session.
    pub async fn request<R: Request>(&self, input: &R) -> Result<R::Answer, AbiError> {
        let scope = self.scope().ok_or_else(|| AbiError::scope_gone(NO_SCOPE))?;
        self.handle.request(scope, input).await
    }

    /// Tells the host; lost while the agent has no session.
    pub fn post<P: Post>(&self, input: &P) {
        if let Some(scope) = self.scope() {
            self.handle.post(scope, input);
        }
    }

    /// A warning line for the person at the host, and in the log (ABI-44).
    pub fn warn(&self, line: impl Into<String>) {
        let line = line.into();
        self.log(LogLevel::Warn, &line);
        self.post(&Print { line, stream: Stream::Err });
    }

    /// A log record.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.post(&host_abi::ops::Log {
            level,
            target: "legion_ext".to_owned(),
            message: message.to_owned(),
            fields: serde_json::Value::Null,
        });
    }
}
