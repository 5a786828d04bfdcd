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

/// Builds the packages in release.
pub fn build_release(packages: &[&str]) -> Result<(), String> {
    let mut args = vec!["build", "--release"];
    args.extend(packages.iter().flat_map(|package| ["--package", package]));
    cargo(&args)
}

/// The target directory, in which cargo put this program: `target/<profile>/xtask`.
pub fn target_dir() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let target = program.parent().and_then(Path::parent);
    target.map(Path::to_path_buf).ok_or_else(|| format!("{} is in no target directory", program.display()))
}

/// Name and version of the compiler, such as `rustc 1.95.0`.
pub fn toolchain() -> Result<String, String> {
    let program = variable("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(program).arg("--version").current_dir(root()).output();
    let output = output.map_err(|error| format!("failed to start rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// Becomes the program, so that signals reach it and nothing stands between it and the terminal; returns why it could
/// not.
#[cfg(unix)]
pub fn become_program(program: &Path, args: &[String]) -> String {
    use std::os::unix::process::CommandExt as _;
    let error = Command::new(program).args(args).exec();
    format!("failed to start {}: {error}", program.display())
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
