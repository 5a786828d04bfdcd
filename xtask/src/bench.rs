//! `cargo xtask bench`: measures and writes `docs/benchmarks.md` (QLT-3).

use std::process::Command;

use crate::sh;

/// What is measured; the probe extension stands for any extension.
const PACKAGES: &[&str] = &["tests", "legion-ext", "child-guard", "probe-ext"];

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Full,
    Quick,
}

/// Builds in release, measures, and writes the page.
pub fn run(form: Form) -> Result<(), String> {
    sh::build_release(PACKAGES)?;
    let program = sh::target_dir()?.join("release").join("legion-bench");
    let mut command = Command::new(&program);
    command.args(["--form", if form == Form::Quick { "quick" } else { "full" }]);
    command.args(["--toolchain", &sh::toolchain()?]);
    command.arg("--out").arg(sh::root().join("docs").join("benchmarks.md"));
    let status = command.status().map_err(|error| format!("failed to start {}: {error}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("the benchmarks failed with {status}")) }
}
