//! Where lines for the person at the host go.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use host_abi::ops::Stream;

/// Takes whole lines.
pub trait Console: Send + Sync {
    fn line(&self, stream: Stream, line: &str);
}

/// Standard output and standard error. A reader that went away is not an error: what is left to say is lost.
#[derive(Debug, Clone, Copy, Default)]
pub struct StdConsole;

impl Console for StdConsole {
    fn line(&self, stream: Stream, line: &str) {
        let _ = match stream {
            Stream::Out => writeln!(std::io::stdout().lock(), "{line}").and_then(|()| std::io::stdout().flush()),
            Stream::Err => writeln!(std::io::stderr().lock(), "{line}"),
        };
    }
}

/// Keeps the lines, for tests and for hosts that show them in their own way.
#[derive(Debug, Default)]
pub struct MemoryConsole(Mutex<Vec<(Stream, String)>>);

impl MemoryConsole {
    /// The lines of one stream so far.
    pub fn lines(&self, stream: Stream) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|(to, _)| *to == stream).map(|(_, line)| line.clone()).collect()
    }
}

impl Console for MemoryConsole {
    fn line(&self, stream: Stream, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((stream, line.to_owned()));
    }
}
