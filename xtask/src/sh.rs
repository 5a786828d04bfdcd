//! The root of the checkout, and programs run in it. The only reader of the environment here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the checkout that cargo runs this in.
pub fn root() -> PathBuf {
    let own = variable("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// Runs cargo in the root with its output on this terminal.
///
/// Fails with a sentence that names the command.
pub fn cargo(args: &[&str]) -> Result<(), String> {
    let command = format!("cargo {}", args.join(" "));
    let status = cargo_command()
        .args(args)
        .status()
        .map_err(|error| format!("failed to start `{command}`: {error}; is cargo on the PATH?"))?;
    if status.success() { Ok(()) } else { Err(format!("`{command}` failed with {status}")) }
}

/// Whether cargo has the subcommand, such as `nextest`.
pub fn has_cargo(subcommand: &str) -> bool {
    cargo_command()
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn cargo_command() -> Command {
    let mut command = Command::new(variable("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

#[expect(clippy::disallowed_methods, reason = "this module reads the environment for xtask")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
