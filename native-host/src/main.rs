//! The `legion` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(native_host::cli::main())
}
