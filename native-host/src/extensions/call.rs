//! One call into an extension, as a future.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use host_abi::AbiError;
use host_abi::sdk::host::{CallTarget, ExtensionHandle, ReplySink};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Attached;

/// What to call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// One of [`host_abi::calls::kinds`].
    pub kind: &'a str,
    /// The tool, command or gate.
    pub name: &'a str,
    /// How long a cancelled call may take to answer (ABI-50); it is left alone after that.
    pub grace: Duration,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("{0}")]
    Failed(AbiError),
    /// It was cancelled and did not answer.
    #[error("the call was cancelled")]
    Cancelled,
}

/// Takes the partial results of a call; called on the extension's threads, in order.
pub type Progress = Box<dyn Fn(&str) + Send + Sync>;

/// Calls the extension and awaits its answer, JSON in and out. When `cancel` is cancelled the extension is
/// told; dropping the future tells it too.
pub async fn call<P: Serialize + ?Sized>(
    extension: &Attached,
    call: Call<'_>,
    payload: &P,
    progress: Option<Progress>,
    cancel: &CancellationToken,
) -> Result<String, CallError> {
    let (sender, mut receiver) = oneshot::channel();
    let handle = extension.library.handle.clone();
    let mut open = OpenCall { handle: handle.clone(), id: next_call(), answered: false };
    let target = CallTarget { scope: extension.scope, call: open.id, kind: call.kind, name: call.name };
    handle.invoke(target, payload, Sink { sender: Mutex::new(Some(sender)), progress });
    let answer = match cancel.run_until_cancelled(&mut receiver).await {
        Some(answer) => Some(answer),
        None => {
            handle.cancel(open.id);
            tokio::time::timeout(call.grace, receiver).await.ok()
        }
    };
    let Some(answer) = answer else {
        if call.grace > Duration::ZERO {
            let library = extension.library.name();
            tracing::warn!(library, kind = call.kind, name = call.name, "a cancelled call did not answer");
        }
        return Err(CallError::Cancelled);
    };
    open.answered = true;
    let lost = || AbiError::host("the call was lost");
    answer.unwrap_or_else(|_| Err(lost())).map_err(CallError::Failed)
}

fn next_call() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Cancels the call when its future is dropped before the answer.
struct OpenCall {
    handle: ExtensionHandle,
    id: u64,
    answered: bool,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.answered {
            self.handle.cancel(self.id);
        }
    }
}

struct Sink {
    sender: Mutex<Option<oneshot::Sender<Result<String, AbiError>>>>,
    progress: Option<Progress>,
}

impl ReplySink for Sink {
    fn progress(&self, json: &str) {
        if let Some(progress) = &self.progress {
            progress(json);
        }
    }

    fn finish(&self, result: Result<String, AbiError>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Nobody listens any more when the call was given up.
        let _ = sender.map(|sender| sender.send(result));
    }
}
