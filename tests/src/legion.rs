//! The `legion` command in a world of its own: an empty environment, a temporary home.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tempfile::TempDir;

use crate::libraries::target_dir;

/// Longest wait for a line or an end. Reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The variable by which a world's processes are found again.
const MARK: &str = "LEGION_TEST_WORLD";

/// A home for commands of one test.
#[derive(Debug)]
pub struct World {
    home: TempDir,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `None` after a signal.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// # Panics
    /// No temporary directory can be made.
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        std::fs::create_dir(home.path().join("tmp")).expect("the home is new");
        Self { home }
    }

    /// The home directory, which is also the working directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where temporary files go.
    pub fn temp(&self) -> PathBuf {
        self.home().join("tmp")
    }

    /// `legion` with these arguments.
    ///
    /// # Panics
    /// It was not built.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let program = target_dir().join(format!("legion{}", std::env::consts::EXE_SUFFIX));
        assert!(
            program.is_file(),
            "{} is missing: run `cargo xtask test`, or `cargo build -p native-host -p legion-ext -p child-guard`",
            program.display()
        );
        self.program(&program, args)
    }

    /// Another program in this world.
    pub fn program<S: AsRef<OsStr>>(&self, program: &Path, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.home())
            .env_clear()
            .env("HOME", self.home())
            .env("TMPDIR", self.temp())
            .env("PATH", path())
            .env(MARK, self.home())
            .stdin(Stdio::null());
        command
    }

    /// Runs `legion` to its end.
    ///
    /// # Panics
    /// It does not start.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ended {
        ended(&mut self.command(args))
    }

    /// Processes of this world that run, as `<pid> <command line>`. Only Linux tells.
    #[cfg(target_os = "linux")]
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.home().display());
        let of = |pid: &str, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|pid| of(pid, "environ").split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()))
            .map(|pid| format!("{pid} {}", String::from_utf8_lossy(&of(&pid, "cmdline")).replace('\0', " ")))
            .collect()
    }
}

/// Runs a command to its end.
///
/// # Panics
/// It does not start.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A command that runs; ended by force when it is dropped.
#[derive(Debug)]
pub struct Running {
    process: Child,
    lines: Receiver<String>,
    /// The lines of standard output so far.
    pub seen: Vec<String>,
}

impl Running {
    /// # Panics
    /// It does not start.
    pub fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let out = process.stdout.take().expect("standard output is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // A test that has seen enough no longer listens.
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines, seen: Vec::new() }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).expect("process ids are small")
    }

    /// Its sockets of the internet's protocols, as lines of the system's tables. Only Linux tells.
    ///
    /// # Panics
    /// It has ended.
    #[cfg(target_os = "linux")]
    pub fn network_sockets(&self) -> Vec<String> {
        let proc = PathBuf::from(format!("/proc/{}", self.pid()));
        let entries = std::fs::read_dir(proc.join("fd")).expect("it runs").flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let inode = |link: PathBuf| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
        let own: Vec<String> = links.filter_map(inode).collect();
        let tables = ["tcp", "tcp6", "udp", "udp6"].map(|table| std::fs::read_to_string(proc.join("net").join(table)));
        let lines = tables.iter().flatten().flat_map(|table| table.lines());
        let is_own =
            |line: &&str| line.split_whitespace().nth(9).is_some_and(|inode| own.iter().any(|own| own == inode));
        lines.filter(is_own).map(str::to_owned).collect()
    }

    /// Waits for the next line of standard output that fits.
    ///
    /// # Panics
    /// There is none.
    pub fn line(&mut self, fits: impl Fn(&str) -> bool) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else { panic!("no such line in {:#?}", self.seen) };
            self.seen.push(line.clone());
            if fits(&line) {
                return line;
            }
        }
    }

    /// Waits for the end of its output, then of itself.
    ///
    /// # Panics
    /// It does not end.
    pub fn end(&mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.seen.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end after {:#?}", self.seen),
            }
        }
        self.process.wait().expect("it was started here")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every file below `dir` with its bytes, to see that nothing was changed.
///
/// # Panics
/// A file cannot be read.
pub fn bytes_below(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut open = vec![dir.to_owned()];
    let mut files = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("the directory can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push((path.clone(), std::fs::read(&path).expect("the file can be read")));
            }
        }
    }
    files.sort();
    files
}

#[expect(clippy::disallowed_methods, reason = "git and sh are where the person who runs the tests has them")]
fn path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into())
}
