//! Extension libraries that cargo built beside the running test.

use std::path::{Path, PathBuf};

/// The file of the extension library `name` (`probe_ext`), in the target directory of the running test.
///
/// # Panics
/// The library was not built.
pub fn library(name: &str) -> PathBuf {
    let file = target_dir().join(host_abi::library_file_name(name));
    assert!(
        file.is_file(),
        "{} is missing: run `cargo xtask test`, which builds the extension libraries first, or `cargo build -p {}`",
        file.display(),
        name.replace('_', "-"),
    );
    file
}

/// `target/<profile>` of the running test, whose own file is in its `deps`.
///
/// # Panics
/// The test does not run from a target directory.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a running program has a file");
    let dir = exe.parent().filter(|dir| dir.ends_with("deps")).and_then(Path::parent);
    dir.unwrap_or_else(|| panic!("{} is not in the `deps` of a target directory", exe.display())).to_owned()
}
