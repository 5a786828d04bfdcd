//! `cargo xtask`: the project's own commands. Each sets up what it needs and runs from any directory of the checkout.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its own terminal")]

mod bench;
mod demo;
mod generate;
mod sh;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything that must pass; stops at the first step that fails.
    Test,
    /// Check the house rules: directions, bans, forgotten files, ids of rules and tests.
    Tidy,
    /// Build in release and go on the tour; further arguments are those of `legion demo`.
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measure, and write docs/benchmarks.md.
    Bench {
        /// In about three minutes.
        #[arg(long)]
        quick: bool,
    },
    /// Write the files that are made from code.
    Generate {
        /// Write nothing; fail where a file differs from what the code makes.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test => test::run(),
        Command::Tidy => test::tidy(),
        Command::Demo { args } => demo::run(&args),
        Command::Bench { quick } => bench::run(if quick { bench::Form::Quick } else { bench::Form::Full }),
        Command::Generate { check: true } => generate::check(),
        Command::Generate { check: false } => generate::write(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
