//! Result files: written once, complete before anybody is told, and read page by page (03 §18, CAP-5).

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use super::files::{RunDir, create_private_dir, create_private_file, private_options};

/// A complete result file, to be registered in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactFile {
    /// At least the round that was asked for.
    pub round: u32,
    pub path: PathBuf,
    pub bytes: u64,
}

/// Writes a result as `r<round>.md`, or under the next free number: an existing file is never changed (ORC-154). One
/// that already holds this text, left by a crash before its registration, is taken as it is (ORC-155).
///
/// A result that could not be written whole leaves no file, so the round is not used up (ORC-158).
pub fn write_artifact(dir: &RunDir, name: &str, round: u32, text: &str) -> io::Result<ArtifactFile> {
    create_private_dir(&dir.artifacts(name))?;
    let bytes = text.len() as u64;
    let mut round = round.max(1);
    loop {
        let path = dir.artifact(name, round);
        match create_private_file(&path) {
            Ok(mut file) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    drop(file);
                    let _ = fs::remove_file(&path);
                    return Err(error);
                }
                return Ok(ArtifactFile { round, path, bytes });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if holds(&path, text)? {
                    return Ok(ArtifactFile { round, path, bytes });
                }
                round += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn holds(path: &Path, text: &str) -> io::Result<bool> {
    if fs::metadata(path)?.len() != text.len() as u64 {
        return Ok(false);
    }
    Ok(fs::read(path)? == text.as_bytes())
}

/// Why a page of a result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("artifact missing: {}", .0.display())]
    Missing(PathBuf),
    #[error("failed to read {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A piece of a result, never cut inside a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub text: String,
    /// First byte; an offset inside a character moves to its beginning.
    pub from: u64,
    /// Behind the last byte.
    pub to: u64,
    pub total: u64,
}

/// Reads at most `limit` bytes from `offset` on; at or past the end the page is empty. At least one character is
/// returned where there is one, so that pages always get on.
pub fn read_page(path: &Path, offset: u64, limit: usize) -> Result<Page, PageError> {
    read_page_io(path, offset, limit).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PageError::Missing(path.to_owned()),
        _ => PageError::Io { path: path.to_owned(), source },
    })
}

fn read_page_io(path: &Path, offset: u64, limit: usize) -> io::Result<Page> {
    // A character has at most four bytes, so its beginning is at most three before any of them.
    const WITHIN: u64 = 3;
    let mut file = File::open(path)?;
    let total = file.metadata()?.len();
    let offset = offset.min(total);
    let start = offset.saturating_sub(WITHIN);
    file.seek(SeekFrom::Start(start))?;
    let skip = usize::try_from(offset - start).unwrap_or_default();
    let mut bytes = Vec::new();
    file.take((skip + limit + 4) as u64).read_to_end(&mut bytes)?;
    let continues = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut begin = skip.min(bytes.len());
    while begin > 0 && continues(begin) {
        begin -= 1;
    }
    let mut end = (begin + limit).min(bytes.len());
    while end > begin && continues(end) {
        end -= 1;
    }
    if end == begin && begin < bytes.len() {
        end = begin + 1;
        while continues(end) {
            end += 1;
        }
    }
    let text = String::from_utf8_lossy(&bytes[begin..end]).into_owned();
    Ok(Page { text, from: start + begin as u64, to: start + end as u64, total })
}

/// Why a result was not copied to `out/`.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("output '{0}' is not a path below out/")]
    NotBelowOut(String),
    #[error("output '{}' leads out of the run directory", .0.display())]
    LeavesRun(PathBuf),
    #[error("failed to write output {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Copies a result to `out/<output>`, replacing an earlier copy as a whole (CARD-29). A symlink on the way that leaves
/// the run directory is refused, and nothing is made behind it (ORC-157).
pub fn copy_output(dir: &RunDir, output: &str, text: &str) -> Result<PathBuf, OutputError> {
    let parts = fold(output).ok_or_else(|| OutputError::NotBelowOut(output.to_owned()))?;
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| OutputError::Io { path, source }
    };
    let run = fs::canonicalize(dir.path()).map_err(io_error(dir.path()))?;
    let (file_name, folders) = parts.split_last().ok_or_else(|| OutputError::NotBelowOut(output.to_owned()))?;
    let mut folder = run.clone();
    for part in std::iter::once("out").chain(folders.iter().copied()) {
        let next = folder.join(part);
        folder = enter(&run, &next)?.map_err(io_error(&next))?;
    }
    let target = folder.join(file_name);
    if let Ok(metadata) = target.symlink_metadata() {
        // A link that leads nowhere cannot be shown to stay inside.
        let inside = fs::canonicalize(&target).is_ok_and(|real| real.starts_with(&run));
        if metadata.is_symlink() && !inside {
            return Err(OutputError::LeavesRun(target));
        }
    }
    // Renaming replaces a link instead of writing through it.
    let temporary = folder.join(format!(".{file_name}.tmp"));
    let written = private_options()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, &target));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(OutputError::Io { path: target, source });
    }
    Ok(target)
}

/// The real path of a directory inside the run, made if it is missing.
fn enter(run: &Path, folder: &Path) -> Result<io::Result<PathBuf>, OutputError> {
    if folder.symlink_metadata().is_err() {
        return Ok(create_private_dir(folder).map(|()| folder.to_owned()));
    }
    match fs::canonicalize(folder) {
        Ok(real) if real.starts_with(run) => Ok(Ok(real)),
        Ok(_) => Err(OutputError::LeavesRun(folder.to_owned())),
        // A link that leads nowhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OutputError::LeavesRun(folder.to_owned())),
        Err(error) => Ok(Err(error)),
    }
}

/// The parts of a relative path after folding `.` and `..`; `None` when it is absolute, empty or leaves its place.
fn fold(path: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    if path.contains('\0') {
        return None;
    }
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then_some(parts)
}
