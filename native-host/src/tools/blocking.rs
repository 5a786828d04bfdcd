//! Runs file work beside the async threads, without a thread for each session.

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::ToolOutput;

/// File work of all sessions that runs at the same time. Disks and cores gain nothing from more, and a
/// thousand children that read at once must not become a thousand threads.
static PERMITS: Semaphore = Semaphore::const_new(8);

/// What a cancelled call says.
pub const ABORTED: &str = "Operation aborted";

/// Runs `work` on a blocking thread. A cancelled call answers at once; `work` sees the token and stops soon.
pub async fn run(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<ToolOutput, String> + Send + 'static,
) -> ToolOutput {
    cancel.run_until_cancelled(on_thread(cancel.clone(), work)).await.unwrap_or_else(|| ToolOutput::error(ABORTED))
}

/// Like [`run`] for work that changes a file: once begun it is waited for, cancelled or not, so that
/// nobody else gets the file while it is half-written.
pub async fn run_to_end(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<ToolOutput, String> + Send + 'static,
) -> ToolOutput {
    on_thread(cancel.clone(), move |cancel| if cancel.is_cancelled() { Err(ABORTED.to_owned()) } else { work(cancel) })
        .await
}

async fn on_thread(
    cancel: CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<ToolOutput, String> + Send + 'static,
) -> ToolOutput {
    let permit = PERMITS.acquire().await.expect("the semaphore is never closed");
    let done = tokio::task::spawn_blocking(move || {
        // Held by the work, not by the call: a cancelled call leaves work behind that still takes a thread.
        let _permit = permit;
        work(&cancel)
    });
    match done.await {
        Ok(Ok(output)) => output,
        Ok(Err(problem)) => ToolOutput::error(problem),
        Err(panicked) => ToolOutput::error(format!("the tool failed: {panicked}")),
    }
}
