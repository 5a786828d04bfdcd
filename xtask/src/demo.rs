//! `cargo xtask demo`: the tour on a fresh machine (QLT-1).

use std::path::{Path, PathBuf};

use crate::sh;

/// What the tour is made of.
const PACKAGES: &[&str] = &["native-host", "legion-ext", "child-guard"];

/// Builds in release and becomes `legion demo` with these arguments; it returns only with an error.
pub fn run(args: &[String]) -> Result<(), String> {
    sh::build_release(PACKAGES)?;
    let target = sh::target_dir()?;
    let mut all = vec!["demo".to_owned()];
    all.extend_from_slice(args);
    if !args.iter().any(|arg| arg == "--dir" || arg.starts_with("--dir=") || arg == "--help" || arg == "-h") {
        let dir = new_dir(&target.join("demo"))?;
        all.extend(["--dir".to_owned(), dir.to_string_lossy().into_owned()]);
    }
    Err(sh::become_program(&target.join("release").join("legion"), &all))
}

/// A new directory for one tour, so that nothing is left outside the checkout and two tours do not meet.
fn new_dir(parent: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(parent).map_err(|error| format!("failed to make {}: {error}", parent.display()))?;
    for number in 1_u32.. {
        let dir = parent.join(format!("tour-{number}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("failed to make {}: {error}", dir.display())),
        }
    }
    unreachable!("numbers do not run out")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QLT-1
    #[test]
    fn each_tour_has_a_directory_of_its_own() {
        let parent = tempfile::tempdir().unwrap();
        let dirs: Vec<PathBuf> = (0..3).map(|_| new_dir(&parent.path().join("demo")).unwrap()).collect();
        let names: Vec<_> = dirs.iter().map(|dir| dir.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["tour-1", "tour-2", "tour-3"]);
        assert!(dirs.iter().all(|dir| std::fs::read_dir(dir).unwrap().next().is_none()));
    }
}
