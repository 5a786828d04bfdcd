//! The process of one command. The only place of the tools that starts a process.
//!
//! The shell leads its own process group. Abort and timeout kill the group. A command that leaves something
//! in the background ends when the shell does: its output is read on while it comes, and then let go.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::output::Output;

/// Between two shows of the output so far.
const SHOW_EVERY: Duration = Duration::from_millis(100);

pub struct Command<'a> {
    pub text: &'a str,
    pub cwd: &'a Path,
    /// The whole environment.
    pub vars: Vec<(OsString, OsString)>,
    pub timeout: Option<Duration>,
    pub patience: Patience,
}

/// How long the pipes are read after the shell's end, while something else has them open.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// They are let go when they were silent for so long,
    pub idle: Duration,
    /// and after so long in any case.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { idle: Duration::from_millis(100), longest: Duration::from_secs(2) }
    }
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// `code` is 128 + the signal for a shell that a signal ended. `still_written`: background processes
    /// had not stopped to write when the reading did.
    Exited {
        code: i32,
        still_written: bool,
    },
    Aborted,
    /// `shell` is the exit code of a shell that had ended before.
    TimedOut {
        shell: Option<i32>,
    },
}

/// Runs the command. `show` is called from time to time while output comes.
pub async fn run(
    command: Command<'_>,
    cancel: &CancellationToken,
    output: &mut Output,
    mut show: impl FnMut(&mut Output),
) -> io::Result<Ending> {
    if cancel.is_cancelled() {
        return Ok(Ending::Aborted);
    }
    let Patience { idle: idle_time, longest: longest_time } = command.patience;
    let mut child = tokio::process::Command::new(shell())
        .arg("-c")
        .arg(command.text)
        .current_dir(command.cwd)
        .env_clear()
        .envs(command.vars)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let mut group = Group(child.id());
    let mut stdout = Pipe::new(child.stdout.take());
    let mut stderr = Pipe::new(child.stderr.take());
    let mut deadline = Timer::new(command.timeout);
    let (mut idle, mut longest, mut next_show) = (Timer::new(None), Timer::new(None), Timer::new(None));
    let mut exit: Option<ExitStatus> = None;
    // Why the group was killed; the loop then goes on until the killed processes are gone.
    let mut killed: Option<Ending> = None;
    let mut still_written = false;

    while exit.is_none() || stdout.open() || stderr.open() {
        let read = tokio::select! {
            read = stdout.read(), if stdout.open() => read,
            read = stderr.read(), if stderr.open() => read,
            status = child.wait(), if exit.is_none() => {
                exit = Some(status?);
                idle.set(idle_time);
                if killed.is_none() {
                    longest.set(longest_time);
                }
                continue;
            }
            () = cancel.cancelled(), if killed.is_none() => {
                group.kill();
                killed = Some(Ending::Aborted);
                longest.set(idle_time);
                continue;
            }
            () = deadline.over(), if killed.is_none() => {
                group.kill();
                killed = Some(Ending::TimedOut { shell: exit.map(exit_code) });
                longest.set(idle_time);
                continue;
            }
            () = next_show.over() => {
                next_show.stop();
                show(output);
                continue;
            }
            () = idle.over() => break,
            () = longest.over(), if exit.is_some() => {
                still_written = killed.is_none();
                break;
            }
        };
        if read.is_empty() {
            continue;
        }
        output.push(read);
        next_show.set_if_stopped(SHOW_EVERY);
        if exit.is_some() {
            idle.set(idle_time);
        }
    }
    // What a finished command leaves in the background is meant to stay.
    group.release();
    let code = exit.map_or(-1, exit_code);
    Ok(killed.unwrap_or(Ending::Exited { code, still_written }))
}

fn shell() -> &'static str {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .unwrap_or("sh")
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// The process group of a shell. Dropped before its release, by a session that is torn down, it is killed.
struct Group(Option<u32>);

impl Group {
    fn kill(&self) {
        if let Some(id) = self.0.and_then(|id| i32::try_from(id).ok()) {
            // The group may be gone already.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }

    fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One output pipe; closed after its end or an error.
struct Pipe<T> {
    from: Option<T>,
    buffer: Vec<u8>,
}

impl<T: AsyncRead + Unpin> Pipe<T> {
    fn new(from: Option<T>) -> Pipe<T> {
        Pipe { from, buffer: vec![0; 16 * 1024] }
    }

    fn open(&self) -> bool {
        self.from.is_some()
    }

    /// The next bytes; none when the pipe has just been closed.
    async fn read(&mut self) -> &[u8] {
        let Some(from) = &mut self.from else { return &[] };
        match from.read(&mut self.buffer).await {
            Ok(length) if length > 0 => &self.buffer[..length],
            _ => {
                self.from = None;
                &[]
            }
        }
    }
}

/// A timer that may be stopped; a stopped one is never over.
struct Timer(Option<std::pin::Pin<Box<Sleep>>>);

impl Timer {
    fn new(after: Option<Duration>) -> Timer {
        Timer(after.map(|after| Box::pin(sleep(after))))
    }

    fn set(&mut self, after: Duration) {
        self.0 = Some(Box::pin(sleep(after)));
    }

    fn set_if_stopped(&mut self, after: Duration) {
        if self.0.is_none() {
            self.set(after);
        }
    }

    fn stop(&mut self) {
        self.0 = None;
    }

    async fn over(&mut self) {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
