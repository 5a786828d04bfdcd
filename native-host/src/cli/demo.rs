//! `legion demo`: the tour.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::{fail, in_runtime};
use crate::console::StdConsole;
use crate::demo::content::Pace;
use crate::demo::{DemoError, Ending, Look, Options, PlaceError, tour};
use crate::env::Env;
use crate::modes::exit;
use crate::modes::signals::Signals;

/// Shows a team at work: a scripted parent sends twelve children that mend a small repository.
///
/// Needs git, and neither a model nor a key nor a network. Only what the models say is written beforehand. Exit code 0
/// when every child succeeded and the tests are green, 1 otherwise.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where it takes place: a new or empty directory. A new temporary one when left out; it is kept.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Without the pauses that let a person follow.
    #[arg(long)]
    fast: bool,
    /// Where the libraries of legion are.
    #[arg(long, value_name = "DIR")]
    lib_dir: Option<PathBuf>,
}

pub fn run(args: Args, env: Env) -> u8 {
    let look = match std::io::stdout().is_terminal() {
        true => Look::Live { colour: !env.no_color },
        false => Look::Plain,
    };
    let options = Options {
        dir: args.dir.map(|dir| env.cwd.join(dir)),
        pace: if args.fast { Pace::Instant } else { Pace::Visible },
        look,
        lib_dir: args.lib_dir,
    };
    in_runtime(async move {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return fail(&format!("failed to listen for signals: {error}")),
        };
        match tour(options, env, Arc::new(StdConsole), &mut signals).await {
            Ok(Ending::Succeeded) => exit::OK,
            Ok(Ending::Failed) => exit::FAILURE,
            Ok(Ending::Interrupted(_)) => exit::INTERRUPTED,
            Err(error @ DemoError::Place(PlaceError::NotEmpty(_))) => {
                fail(&error.to_string());
                exit::REFUSED
            }
            Err(error) => fail(&error.to_string()),
        }
    })
}
