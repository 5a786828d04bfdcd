//! Who owns a run: the holder of an exclusive lock on `owner.lock`, which the system takes back at its death (ORC-181).

use std::fs::{File, TryLockError};
use std::io;

use super::files::{RunDir, private_options};
use super::record::Owner;

/// The right to write a run. Dropping it, or the death of the process, gives it back.
#[derive(Debug)]
pub struct OwnerLock {
    /// Holds the lock; closing it releases the lock.
    _file: File,
}

/// Why a run could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the run is held by a living process")]
    Held,
    #[error("failed to lock the run: {0}")]
    Io(#[from] io::Error),
}

impl OwnerLock {
    /// Takes the run if nobody holds it; `recorded` is the owner that its record names. Where the file system has no
    /// locks, that owner's pid and start time decide.
    pub fn try_take(dir: &RunDir, recorded: Option<&Owner>) -> Result<Self, LockError> {
        let file = private_options().read(true).write(true).create(true).truncate(false).open(dir.owner_lock())?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => match recorded {
                Some(owner) if owner_lives(owner) => Err(LockError::Held),
                Some(_) | None => Ok(Self { _file: file }),
            },
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Owner {
    /// This process.
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started_at: process_start_ms(pid).unwrap_or_default() }
    }
}

/// Whether the recorded owner is another living process: its pid lives with the recorded start time (LED-91).
pub fn owner_lives(owner: &Owner) -> bool {
    // Two readings of one start differ by the rounding of the system's clocks.
    const SLACK_MS: i64 = 2000;
    owner.pid != std::process::id()
        && process_start_ms(owner.pid)
            .is_some_and(|started| owner.started_at == 0 || (started - owner.started_at).abs() <= SLACK_MS)
}

/// When a process started, in milliseconds since the epoch; `None` when there is none, or the system does not tell.
#[cfg(target_os = "linux")]
pub fn process_start_ms(pid: u32) -> Option<i64> {
    // Ticks per second as every Linux shows them to programs, whatever the kernel counts by.
    const TICKS_PER_SECOND: i64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command in parentheses may hold blanks; field 22 is the 20th after it. A zombie has ended.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    let ticks: i64 = fields.nth(18)?.parse().ok()?;
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot: i64 = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot * 1000 + ticks * 1000 / TICKS_PER_SECOND)
}

/// When a process started; not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn process_start_ms(_pid: u32) -> Option<i64> {
    None
}
