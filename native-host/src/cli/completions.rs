//! `legion completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

/// Writes completions for a shell to standard output.
#[derive(Debug, clap::Args)]
pub struct Args {
    shell: Shell,
}

pub fn run(args: Args) -> u8 {
    clap_complete::generate(args.shell, &mut super::Cli::command(), "legion", &mut std::io::stdout());
    crate::modes::exit::OK
}
