//! Extension libraries that cargo built beside the running test.

use std::path::PathBuf;

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

/// `target/<profile>` of the running program: a test's own file is in its `deps`, other programs are in it.
///
/// # Panics
/// The program has no file.
pub fn target_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a running program has a file");
    let dir = exe.parent().expect("a file is in a directory");
    if dir.ends_with("deps") { dir.parent().expect("`deps` is in a directory").to_owned() } else { dir.to_owned() }
}
