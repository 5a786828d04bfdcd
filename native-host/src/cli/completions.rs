//! `legion completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Answer;

/// Writes completions for a shell to standard output.
#[derive(Debug, clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn completions(args: &Args) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "legion", &mut script);
    Ok(String::from_utf8_lossy(&script).trim_end().to_owned())
}
