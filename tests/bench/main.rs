//! `cargo xtask bench`: how fast and how small it is, with the bars of the specification's part 12 §3.
//!
//! Each measure is taken at three sizes, since cost must grow no faster than the work. What needs a fresh process (its
//! memory, several writers on one file) runs this program again as a [`parts::Part`]. Nothing here is a test of a time:
//! a bar that is missed is told, and the exit code stays 0.
#![expect(clippy::print_stdout, reason = "a command line tool speaks on its own terminal")]

mod boundary;
mod fanout;
mod ledger;
mod machine;
mod parts;
mod provider;
mod sheet;
mod stats;
mod transcript;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use self::sheet::Series;

#[derive(Debug, Parser)]
#[command(name = "legion-bench", about = "Measures the parts of pi-legion and prints how each grows.")]
struct Cli {
    /// How much is measured.
    #[arg(long, value_enum, default_value_t = Form::Full)]
    form: Form,
    /// Writes the page of results to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the page says of the compiler.
    #[arg(long, default_value = "rustc")]
    toolchain: String,
    /// Runs one measurement in this process and prints it as JSON.
    #[command(subcommand)]
    part: Option<parts::Part>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For the page.
    Full,
    /// In about three minutes.
    Quick,
    /// As little as shows that everything runs; its figures mean nothing.
    Tiny,
}

impl Form {
    /// One of three values.
    pub const fn pick<T: Copy>(self, full: T, quick: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Tiny => tiny,
        }
    }

    /// How often each figure is taken; the median counts.
    pub const fn repetitions(self) -> usize {
        self.pick(5, 3, 1)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.part {
        Some(part) => part.run().map(|json| println!("{json}")),
        None => measure(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("legion-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

type Measure = fn(Form) -> Result<Vec<Series>, String>;

fn measure(cli: &Cli) -> Result<(), String> {
    let measures: [Measure; 4] = [fanout::measure, boundary::measure, ledger::measure, transcript::measure];
    let mut all = Vec::new();
    for measure in measures {
        for series in measure(cli.form)? {
            println!("{}", series.line());
            all.push(series);
        }
    }
    if let Some(out) = &cli.out {
        let page = sheet::page(&machine::facts(&cli.toolchain), cli.form, &all);
        std::fs::write(out, page).map_err(|error| format!("failed to write {}: {error}", out.display()))?;
    }
    Ok(())
}
