//! `cargo xtask generate`: files that are made from code, so that they cannot differ from it (ABI-25, DOC-2).

use std::path::Path;

use crate::sh;

/// A file of the checkout and what makes its text.
type Generator = (&'static str, fn() -> String);

const GENERATORS: &[Generator] = &[
    ("docs/abi.md", host_abi::docs::abi_markdown),
    ("docs/reference/tools.md", legion_ext::tools::docs::tools_markdown),
];

/// Writes every file whose text has changed.
pub fn write() -> Result<(), String> {
    let root = sh::root();
    for (path, text) in differing(&root, GENERATORS) {
        let target = root.join(path);
        target
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&target, text))
            .map_err(|error| format!("failed to write {path}: {error}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails with the name of every file that differs from what the code makes.
pub fn check() -> Result<(), String> {
    let stale: Vec<_> = differing(&sh::root(), GENERATORS).into_iter().map(|(path, _)| path).collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("not what the code makes: {}; run `cargo xtask generate` and commit the result", stale.join(", ")))
}

fn differing(root: &Path, generators: &[Generator]) -> Vec<(&'static str, String)> {
    let made = generators.iter().map(|(path, make)| (*path, make()));
    made.filter(|(path, text)| std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QLT-2, DOC-2
    #[test]
    fn a_missing_and_a_stale_file_differ() {
        let root = tempfile::tempdir().unwrap();
        let generators: &[Generator] = &[("made.md", || "new\n".to_owned())];
        assert_eq!(differing(root.path(), generators).len(), 1, "missing");
        std::fs::write(root.path().join("made.md"), "old\n").unwrap();
        assert_eq!(differing(root.path(), generators), [("made.md", "new\n".to_owned())]);
        std::fs::write(root.path().join("made.md"), "new\n").unwrap();
        assert!(differing(root.path(), generators).is_empty());
    }
}
