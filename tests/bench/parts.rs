//! Measurements that need a process of their own, and running them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use clap::Subcommand;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{fanout, ledger};

/// What this program can be started for.
#[derive(Debug, Clone, Subcommand)]
#[command(hide = true)]
pub enum Part {
    /// A fan-out of so many children.
    Fanout { children: usize },
    /// One writer of a ledger: so many rows from one node, once the file `go` exists beside the ledger.
    Write { ledger: PathBuf, node: String, kind: ledger::Rows, rows: usize },
}

impl Part {
    /// Takes the measurement; JSON on one line.
    pub fn run(self) -> Result<String, String> {
        match self {
            Self::Fanout { children } => json(&fanout::run(children)?),
            Self::Write { ledger, node, kind, rows } => json(&ledger::write(&ledger, &node, kind, rows)?),
        }
    }
}

fn json<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

/// A part that is running.
#[derive(Debug)]
pub struct Running {
    process: Child,
    what: String,
}

/// Starts this program for a part.
pub fn start(args: &[&str]) -> Result<Running, String> {
    let what = args.join(" ");
    let failed = |error: std::io::Error| format!("failed to start the part `{what}`: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let process =
        Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    Ok(Running { process, what })
}

impl Running {
    /// Waits for its answer.
    pub fn answer<T: DeserializeOwned>(self) -> Result<T, String> {
        let Self { process, what } = self;
        let output = process.wait_with_output().map_err(|error| format!("part `{what}`: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("part `{what}` ended with {}: {}", output.status, text.trim()));
        }
        serde_json::from_str(text.trim()).map_err(|error| format!("part `{what}` answered {text:?}: {error}"))
    }
}

/// Runs a part to its end.
pub fn run<T: DeserializeOwned>(args: &[&str]) -> Result<T, String> {
    start(args)?.answer()
}
