//! Where things are in a run directory, and how files that only their owner may read are made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The directory of all of a project's runs, below its working directory.
const RUNS: &str = ".pi-subagents/runs";

/// A run directory; knows the layout of 03 §17.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// The run `run_id` of the project at `cwd`; nothing is made.
    pub fn of(cwd: &Path, run_id: &str) -> Self {
        Self { path: cwd.join(RUNS).join(run_id) }
    }

    /// The run directory at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Another run of the same project: a child's run lies beside its root's (ORC-42).
    pub fn beside(&self, run_id: &str) -> Self {
        Self { path: self.path.with_file_name(run_id) }
    }

    /// Makes the directory, and `.pi-subagents/` with a `.gitignore` when it is new (ORC-176). Making it again changes
    /// nothing.
    pub fn create(&self) -> io::Result<()> {
        let project = self.path.parent().and_then(Path::parent);
        create_private_dir(&self.path)?;
        if let Some(ignore) = project.filter(|dir| dir.ends_with(".pi-subagents")).map(|dir| dir.join(".gitignore")) {
            match create_private_file(&ignore) {
                Ok(mut file) => file.write_all(b"*\n")?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The run's id, which is the directory's name.
    pub fn run_id(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub fn run_json(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// The transcript of a child.
    pub fn session_file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.jsonl"))
    }

    /// Creates the transcript of a child empty; an existing one is kept (ORC-38).
    pub fn create_session_file(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.session_file(name);
        match create_private_file(&path) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(path),
            Err(error) => Err(error),
        }
    }

    /// The results of a child.
    pub fn artifacts(&self, name: &str) -> PathBuf {
        self.path.join("artifacts").join(name)
    }

    /// The result of one round.
    pub fn artifact(&self, name: &str, round: u32) -> PathBuf {
        self.artifacts(name).join(format!("r{round}.md"))
    }

    /// Products of the run, made on demand.
    pub fn out(&self) -> PathBuf {
        self.path.join("out")
    }

    pub fn owner_lock(&self) -> PathBuf {
        self.path.join("owner.lock")
    }
}

/// Makes a directory that only its owner may enter, with those above it that are missing.
pub(super) fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a new file that only its owner may read; an existing one is an error.
pub(super) fn create_private_file(path: &Path) -> io::Result<File> {
    private_options().write(true).create_new(true).open(path)
}

/// Options under which a file that is made may be read by its owner only.
pub(super) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Replaces `path` as a whole: a reader, and a crash, sees the old bytes or the new ones (ORC-148).
pub(super) fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let written = private_options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What could not be completed is of no use; the next write would replace it anyway.
        let _ = fs::remove_file(&temporary);
    }
    written
}
