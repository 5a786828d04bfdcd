//! Paths as models write them.

use std::path::{Component, Path, PathBuf};

/// The file that `written` names for a call with this working directory: `~` is the home directory, a
/// leading `@` is dropped, spaces of other scripts that models mix up with plain ones become plain ones,
/// and `.` and `..` are resolved by their text.
pub fn resolve(written: &str, cwd: &Path, home: Option<&Path>) -> PathBuf {
    let path = expand(&written.replace(is_special_space, " "), home);
    tidy(&cwd.join(path))
}

/// Like [`resolve`] for an existing file: where the tidied name does not exist, the name as written does
/// count, since a file name can hold a special space.
pub fn resolve_existing(written: &str, cwd: &Path, home: Option<&Path>) -> PathBuf {
    let tidied = resolve(written, cwd, home);
    if tidied.exists() {
        return tidied;
    }
    let literal = tidy(&cwd.join(expand(written, home)));
    if literal.exists() { literal } else { tidied }
}

/// `path` relative to `base` with `/` between its parts, or the path itself when it is not below.
pub fn relative(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned()
}

fn expand(written: &str, home: Option<&Path>) -> PathBuf {
    let name = written.strip_prefix('@').unwrap_or(written);
    let name = name.strip_prefix("file://").unwrap_or(name);
    match (home, name) {
        (Some(home), "~") => home.to_owned(),
        (Some(home), _) if name.starts_with("~/") => home.join(&name[2..]),
        _ => PathBuf::from(name),
    }
}

fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                tidy.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => tidy.push(part),
        }
    }
    tidy
}

fn is_special_space(c: char) -> bool {
    matches!(c, '\u{00a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}
