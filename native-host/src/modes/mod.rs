//! How a host talks to its user: text at the end, or one JSON event a line.

pub mod signals;

use std::sync::Arc;

use host_abi::ops::Stream;

use crate::console::Console;
use crate::host::{Host, RunOutcome, SIGNAL_BOUND};
use crate::session_file::Header;

use self::signals::{Signal, Signals};

/// Exit codes of the `legion` command (CLI-4).
pub mod exit {
    pub const OK: u8 = 0;
    pub const FAILURE: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const REFUSED: u8 = 3;
    pub const INTERRUPTED: u8 = 130;
}

/// What is written to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The final text.
    Text,
    /// The root's events, one JSON value a line.
    Events,
}

/// Runs one prompt to the end of the host, signals included, and gives the exit code.
pub async fn run(host: Host, prompt: &str, output: Output, console: Arc<dyn Console>, mut signals: Signals) -> u8 {
    let writer = (output == Output::Events).then(|| write_events(&host, Arc::clone(&console)));
    let ended = signals.race(host.run_prompt(prompt)).await;
    let mut code = match ended {
        Err(signal) => {
            let session = host.root().shared.identity.session_file.clone();
            let code = interrupt(&host, signal, &mut signals).await;
            let kept = session.map(|file| format!("; the session so far is in {}", file.display())).unwrap_or_default();
            console.line(Stream::Err, &format!("interrupted by {}{kept}", signal.name()));
            code
        }
        Ok(result) => match signals.race(host.finish()).await {
            Ok(drained) => tell(drained.map_or(result, Ok), output, console.as_ref()),
            // The answer is there already; only the drain was cut short.
            Err(signal) => {
                tell(result, output, console.as_ref());
                interrupt(&host, signal, &mut signals).await
            }
        },
    };
    drop(host);
    if let Some(writer) = writer
        && writer.await.is_err()
    {
        code = exit::FAILURE;
    }
    code
}

/// Ends the host; a second signal does not wait for its extensions.
async fn interrupt(host: &Host, signal: Signal, signals: &mut Signals) -> u8 {
    let _ = signals.race(host.interrupt(signal.name(), SIGNAL_BOUND)).await;
    exit::INTERRUPTED
}

fn tell(result: Result<RunOutcome, host_abi::AbiError>, output: Output, console: &dyn Console) -> u8 {
    match result {
        Ok(RunOutcome { error: Some(error), .. }) => {
            console.line(Stream::Err, &error);
            exit::FAILURE
        }
        Ok(RunOutcome { aborted: true, .. }) => {
            console.line(Stream::Err, "the run was aborted");
            exit::FAILURE
        }
        Ok(RunOutcome { text, .. }) => {
            if let (Output::Text, Some(text)) = (output, text) {
                console.line(Stream::Out, &text);
            }
            exit::OK
        }
        Err(error) => {
            console.line(Stream::Err, &error.to_string());
            if let Some(hint) = error.hint {
                console.line(Stream::Err, &format!("hint: {hint}"));
            }
            exit::FAILURE
        }
    }
}

/// Writes the root's header and events until the host is gone.
fn write_events(host: &Host, console: Arc<dyn Console>) -> tokio::task::JoinHandle<()> {
    let header = header(host);
    let mut events = host.subscribe();
    if let Ok(line) = serde_json::to_string(&header) {
        console.line(Stream::Out, &line);
    }
    let root = host.root().scope();
    host.core().runtime.spawn(async move {
        while let Some(event) = events.recv().await {
            if event.scope != root {
                continue;
            }
            if let Some(json) = event.event.to_json() {
                console.line(Stream::Out, &json.to_string());
            }
            if matches!(*event.event, crate::session::event::SessionEvent::SessionEnd) {
                return;
            }
        }
    })
}

fn header(host: &Host) -> Header {
    let identity = &host.root().shared.identity;
    Header {
        kind: "session".to_owned(),
        version: crate::session_file::SESSION_VERSION,
        id: identity.session_id.clone(),
        timestamp: legion_ext::clock::iso(legion_ext::clock::now_ms()),
        cwd: identity.cwd.to_string_lossy().into_owned(),
        parent_session: None,
        extra: crate::session_file::Extra::new(),
    }
}
