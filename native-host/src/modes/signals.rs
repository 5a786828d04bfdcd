//! Signals that end the host (HOST-5).

use tokio::signal::unix::{self, SignalKind};

/// A request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
    HangUp,
}

/// The signals of this process; from here on they do not end it by themselves.
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: unix::signal(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hang_up.recv() => Signal::HangUp,
        }
    }

    /// The end of `work`, or the signal that came before it. `work` is dropped then.
    pub async fn race<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::select! {
            biased;
            signal = self.next() => Err(signal),
            done = work => Ok(done),
        }
    }
}

impl Signal {
    pub const fn name(self) -> &'static str {
        match self {
            Signal::Interrupt => "SIGINT",
            Signal::Terminate => "SIGTERM",
            Signal::HangUp => "SIGHUP",
        }
    }
}
