//! `legion run`: a session of this host with legion loaded.

use std::path::PathBuf;
use std::sync::Arc;

use host_abi::info::Mode;
use tracing_subscriber::EnvFilter;

use super::fail;
use crate::console::StdConsole;
use crate::env::Env;
use crate::host::Host;
use crate::modes::signals::Signals;
use crate::modes::{self, Output};

/// Runs a task and writes the final answer.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    task: String,
    /// The model, as `provider/id` or `id`, with `:level` at its end for the thinking level.
    #[arg(long)]
    model: Option<String>,
    /// Answers from this script (YAML or JSON) instead of a model.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The working directory.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// The session file: begun when absent, else continued.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    /// Writes the final text only; this is the default.
    #[arg(short, long, conflicts_with = "json")]
    print: bool,
    /// Writes each event of the session as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Where the libraries of legion are.
    #[arg(long, value_name = "DIR")]
    lib_dir: Option<PathBuf>,
    /// One more extension library.
    #[arg(short, long = "extension", value_name = "FILE")]
    extensions: Vec<String>,
    /// Trusts the project: its settings, cards and skills are used.
    #[arg(long, conflicts_with = "no_approve")]
    approve: bool,
    /// Does not trust the project.
    #[arg(long)]
    no_approve: bool,
    /// Runs without legion.
    #[arg(long)]
    no_legion: bool,
    /// Writes a log to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub fn run(args: Args, env: Env) -> u8 {
    if let Err(error) = args.log.as_deref().map_or(Ok(()), log_to) {
        return fail(&error);
    }
    super::in_runtime(run_in(args, env))
}

async fn run_in(args: Args, env: Env) -> u8 {
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("failed to listen for signals: {error}")),
    };
    let (mode, output) = if args.json { (Mode::Json, Output::Events) } else { (Mode::Print, Output::Text) };
    let console = Arc::new(StdConsole);
    let mut builder = Host::builder().env(env).mode(mode).console(console.clone());
    if let Some(cwd) = args.cwd {
        builder = builder.cwd(cwd);
    }
    if let Some(script) = args.script {
        builder = builder.script(script);
    }
    if let Some(model) = args.model {
        builder = builder.model(model);
    }
    if let Some(session) = args.session {
        builder = builder.session_file(session);
    }
    if let Some(dir) = args.lib_dir {
        builder = builder.lib_dir(dir);
    }
    if args.approve || args.no_approve {
        builder = builder.approve(args.approve);
    }
    if args.no_legion {
        builder = builder.no_legion();
    }
    for extension in args.extensions {
        builder = builder.extension(extension);
    }
    match builder.build() {
        Ok(host) => modes::run(host, &args.task, output, console, signals).await,
        Err(error) => fail(&error.to_string()),
    }
}

/// Everything from level `info` on goes to `path`.
fn log_to(path: &std::path::Path) -> Result<(), String> {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| format!("failed to open the log {}: {error}", path.display()))?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("info"))
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file))
        .finish();
    tracing::subscriber::set_global_default(subscriber).map_err(|error| format!("failed to log: {error}"))
}
