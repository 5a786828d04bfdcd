//! The `legion` command: one file per subcommand. It reads the command line, and nothing else.

mod completions;
mod demo;
mod look;
mod place;
mod records;
mod run;

use clap::{Parser, Subcommand};

use crate::env::Env;

/// Many agents at work for one: runs sessions, and looks at what they did.
#[derive(Debug, Parser)]
#[command(name = "legion", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failure, 2 usage, 3 refused, 130 interrupted.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Demo(demo::Args),
    /// Shows the children of a run and what is below them.
    Status(records::RunArgs),
    /// Shows the whole tree of a run, one line per node.
    Tree(records::RunArgs),
    Show(look::ShowArgs),
    /// Lists the mail of a run, oldest first.
    Mail(records::RunArgs),
    /// Lists the events of a run, oldest first.
    Events(records::RunArgs),
    /// Lists what each node of a run used.
    Usage(records::RunArgs),
    Completions(completions::Args),
}

/// Runs the command line of this process and gives its exit code.
pub fn main() -> u8 {
    let command = Cli::parse().command;
    let env = match Env::read() {
        Ok(env) => env,
        Err(error) => return fail(&format!("failed to read the environment: {error}")),
    };
    let code = match command {
        Command::Run(args) => run::run(args, env),
        Command::Demo(args) => demo::run(args, env),
        Command::Status(args) => answer(look::status(&args, &env)),
        Command::Tree(args) => answer(look::tree(&args, &env)),
        Command::Show(args) => answer(look::show(&args, &env)),
        Command::Mail(args) => answer(records::mail(&args, &env)),
        Command::Events(args) => answer(records::events(&args, &env)),
        Command::Usage(args) => answer(records::usage(&args, &env)),
        Command::Completions(args) => answer(completions::completions(&args)),
    };
    match crate::console::StdConsole::output_failure() {
        Some(error) if code == crate::modes::exit::OK => fail(&format!("failed to write to standard output: {error}")),
        Some(_) | None => code,
    }
}

/// The text of a command that only looks.
type Answer = Result<String, Failure>;

/// Why a command that only looks has no answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Place(#[from] place::PlaceError),
    #[error(transparent)]
    Run(#[from] legion_ext::error::SubagentError),
    #[error(transparent)]
    Ledger(#[from] legion_ext::ledger::LedgerError),
}

/// Writes the answer, and nothing when it is empty.
fn answer(answer: Answer) -> u8 {
    use crate::console::Console as _;
    match answer {
        Ok(text) if text.is_empty() => crate::modes::exit::OK,
        Ok(text) => {
            crate::console::StdConsole.line(host_abi::ops::Stream::Out, &text);
            crate::modes::exit::OK
        }
        Err(failure) => {
            let code = fail(&failure.to_string());
            if let Failure::Run(legion_ext::error::SubagentError { hint: Some(hint), .. }) = &failure {
                fail(&format!("hint: {hint}"));
            }
            code
        }
    }
}

/// Runs `work` in a runtime of its own and gives its exit code.
fn in_runtime(work: impl Future<Output = u8>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("failed to start: {error}")),
    };
    let code = runtime.block_on(work);
    // A tool that blocks a thread must not keep the process: its session is gone.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    code
}

/// Tells a failure on standard error.
fn fail(message: &str) -> u8 {
    use crate::console::Console as _;
    crate::console::StdConsole.line(host_abi::ops::Stream::Err, message);
    crate::modes::exit::FAILURE
}
