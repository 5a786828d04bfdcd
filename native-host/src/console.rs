//! Where lines for the person at the host go.

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use host_abi::ops::Stream;

/// Takes whole lines.
pub trait Console: Send + Sync {
    fn line(&self, stream: Stream, line: &str);
}

/// Standard output and standard error. A reader that went away is not an error: what is left to say is lost. Any other
/// failure of standard output, such as a full disk, is kept for [`StdConsole::output_failure`].
#[derive(Debug, Clone, Copy, Default)]
pub struct StdConsole;

static OUTPUT_FAILURE: OnceLock<String> = OnceLock::new();

impl StdConsole {
    /// Why standard output lost a line, if it did.
    pub fn output_failure() -> Option<&'static str> {
        OUTPUT_FAILURE.get().map(String::as_str)
    }
}

impl Console for StdConsole {
    fn line(&self, stream: Stream, line: &str) {
        match stream {
            Stream::Out => {
                let written = writeln!(io::stdout().lock(), "{line}").and_then(|()| io::stdout().flush());
                if let Err(error) = written
                    && error.kind() != io::ErrorKind::BrokenPipe
                {
                    // Only the first failure is told.
                    let _ = OUTPUT_FAILURE.set(error.to_string());
                }
            }
            // Nobody is left to tell it to.
            Stream::Err => drop(writeln!(io::stderr().lock(), "{line}")),
        }
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
