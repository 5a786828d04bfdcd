//! The place of one tour: its directory, the repository in it, and the programs that are run there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::content::{Commit, HISTORY, RepoFile, SETTINGS};

/// Where one tour takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub dir: PathBuf,
    /// The repository; the root session works here.
    pub repo: PathBuf,
    /// The host's user directory, so that the person's own settings and sessions stay out of it.
    pub agent_dir: PathBuf,
}

/// Why there is no place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("{} is not empty; choose a new directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("failed to make {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the tour needs git, which is not there; install it and try again")]
    NoGit,
    #[error("`{command}` failed: {reason}")]
    Program { command: String, reason: String },
}

impl Place {
    /// Makes the place with its repository: in `dir`, which is new or empty, else in a new temporary directory.
    pub fn make(dir: Option<&Path>) -> Result<Place, PlaceError> {
        let dir = match dir {
            Some(dir) => given(dir)?,
            None => temporary()?,
        };
        let place = Place { repo: dir.join("repo"), agent_dir: dir.join("agent"), dir };
        make_dir(&place.repo)?;
        make_dir(&place.agent_dir)?;
        write(&place.agent_dir.join("settings.json"), SETTINGS)?;
        place.git(&["init", "--quiet"])?;
        for commit in HISTORY {
            place.commit(commit)?;
        }
        Ok(place)
    }

    fn commit(&self, commit: &Commit) -> Result<(), PlaceError> {
        for RepoFile { path, text, executable } in commit.files {
            let path = self.repo.join(path);
            path.parent().map_or(Ok(()), make_dir)?;
            write(&path, text)?;
            if *executable {
                make_executable(&path)?;
            }
        }
        self.git(&["add", "."])?;
        self.git(&["commit", "--quiet", "--message", commit.message]).map(drop)
    }

    /// The last line of the test run, such as `10 passed, 6 failed`, and whether all passed.
    pub fn run_tests(&self) -> Result<(String, bool), PlaceError> {
        let mut command = Command::new("sh");
        command.arg("run-tests.sh").current_dir(&self.repo);
        let output = run(command, "sh run-tests.sh")?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok((text.lines().last().unwrap_or("no output").to_owned(), output.status.success()))
    }

    /// What was changed since the last commit, in git's own words.
    pub fn changes(&self) -> Result<String, PlaceError> {
        self.git(&["diff", "--stat"])
    }

    /// Runs git in the repository, apart from the person's configuration and from a repository around this one.
    fn git(&self, args: &[&str]) -> Result<String, PlaceError> {
        let mut command = Command::new("git");
        command.current_dir(&self.repo).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", null_device());
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
            command.env_remove(variable);
        }
        for setting in ["user.name=Legion tour", "user.email=tour@localhost", "init.defaultBranch=main"] {
            command.args(["-c", setting]);
        }
        command.args(args);
        let name = format!("git {}", args.join(" "));
        let output = run(command, &name)?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(PlaceError::Program { command: name, reason });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn run(mut command: Command, name: &str) -> Result<std::process::Output, PlaceError> {
    let is_git = command.get_program() == "git";
    command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if is_git => PlaceError::NoGit,
        _ => PlaceError::Program { command: name.to_owned(), reason: error.to_string() },
    })
}

/// A directory that was asked for: new, or there and empty.
fn given(dir: &Path) -> Result<PathBuf, PlaceError> {
    make_dir(dir)?;
    let failed = |source| PlaceError::Io { path: dir.to_owned(), source };
    if fs::read_dir(dir).map_err(failed)?.next().is_some() {
        return Err(PlaceError::NotEmpty(dir.to_owned()));
    }
    dir.canonicalize().map_err(failed)
}

/// A directory of its own, so that two tours never meet. It stays, since the tour ends with what to look at there.
fn temporary() -> Result<PathBuf, PlaceError> {
    let made = tempfile::Builder::new().prefix("legion-demo-").tempdir();
    let dir = made.map_err(|source| PlaceError::Io { path: "a temporary directory".into(), source })?.keep();
    dir.canonicalize().map_err(|source| PlaceError::Io { path: dir.clone(), source })
}

fn make_dir(path: &Path) -> Result<(), PlaceError> {
    fs::create_dir_all(path).map_err(|source| PlaceError::Io { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), PlaceError> {
    fs::write(path, text).map_err(|source| PlaceError::Io { path: path.to_owned(), source })
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), PlaceError> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|source| PlaceError::Io { path: path.to_owned(), source })
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<(), PlaceError> {
    Ok(())
}

fn null_device() -> OsString {
    if cfg!(windows) { "NUL".into() } else { "/dev/null".into() }
}
