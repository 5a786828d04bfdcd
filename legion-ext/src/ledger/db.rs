//! Opening the ledger, and the two connections that a process shares per file.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};

use super::BUSY_TIMEOUT_MS;
use super::artifacts::OwedLook;
use super::error::{LResult, LedgerError, is_busy};
use super::schema::{LEGION_DB_USER_VERSION, check_columns, migrate, user_version};
use crate::{clock, context};

/// Statements kept prepared per connection (LED-17).
const STATEMENT_CACHE: usize = 64;
/// Longest pause between two attempts at a locked file; short, so that a busy neighbour cannot starve a writer.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// Who opens the ledger, and so what may be done to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// The root's session: makes the directory and the file, and brings the WAL home at the last close (LED-3, LED-23).
    RootCreate,
    /// Any other session: the file must be there.
    Existing,
    /// A reader outside every session: no pragma that writes, no migration (LED-92).
    ReadOnly,
}

/// Opens the ledger at `path`.
///
/// Sessions of one process share one writing and one reading connection per canonical path; both are closed when the
/// last [`LegionDb`] of that path is dropped (LED-6). Blocks for up to five seconds while another process holds the
/// file, so call it where blocking is allowed.
pub fn open_legion_db(path: &Path, mode: OpenMode) -> LResult<LegionDb> {
    let cannot_open = |reason: String| LedgerError::CannotOpen { path: path.to_owned(), reason };
    if mode == OpenMode::ReadOnly {
        return Ok(LegionDb { shared: Arc::new(Shared::open_read_only(path)?) });
    }
    let mut open = lock(&OPEN);
    if mode == OpenMode::RootCreate && !path.exists() {
        create_private(path).map_err(|error| cannot_open(error.to_string()))?;
    }
    let path = match fs::canonicalize(path) {
        Ok(canonical) => canonical,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(LedgerError::NotFound(path.to_owned()));
        }
        Err(error) => return Err(cannot_open(error.to_string())),
    };
    open.retain(|_, shared| shared.strong_count() > 0);
    let shared = match open.get(&path).and_then(Weak::upgrade) {
        Some(shared) => shared,
        None => {
            let shared = Arc::new(Shared::open(&path)?);
            open.insert(path, Arc::downgrade(&shared));
            shared
        }
    };
    if mode == OpenMode::RootCreate {
        lock(&shared.state).checkpoint_at_close = true;
    }
    Ok(LegionDb { shared })
}

/// What is open in this process, by canonical path.
static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Shared>>>> = LazyLock::new(Mutex::default);

/// A handle on an open ledger; cheap to clone.
///
/// [`Self::read`] and [`Self::write`] must not be called from inside each other's closures: take the [`Conn`] or [`Tx`]
/// that is already there.
#[derive(Clone)]
pub struct LegionDb {
    shared: Arc<Shared>,
}

impl fmt::Debug for LegionDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegionDb").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
    /// Closed before the writer, which as the last connection tidies the WAL away.
    reader: Mutex<Conn>,
    writer: Option<Mutex<Conn>>,
}

#[derive(Default)]
struct State {
    checkpoint_at_close: bool,
    /// Where each consumer's look at its owed results stopped (LED-77).
    owed: HashMap<String, OwedLook>,
}

impl LegionDb {
    /// The file, canonical.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Runs `f` on one snapshot of the ledger. Never waits for a writer, of this process or another.
    pub fn read<T>(&self, f: impl FnOnce(&Conn) -> LResult<T>) -> LResult<T> {
        let conn = lock(&self.shared.reader);
        conn.begin("BEGIN")?;
        let open = OpenTransaction { conn: &conn, committed: false };
        let value = f(&conn)?;
        open.commit()?;
        Ok(value)
    }

    /// Runs `f` in a write transaction: all of it is kept, or nothing (LED-19).
    ///
    /// While another process holds the file it tries again for up to five seconds, so on a runtime worker or the host's
    /// thread use [`Self::write_async`]. Appending many rows in one call costs one commit.
    pub fn write<T>(&self, f: impl FnOnce(&Tx<'_>) -> LResult<T>) -> LResult<T> {
        self.write_within(Duration::from_millis(BUSY_TIMEOUT_MS), f)
    }

    pub(super) fn write_within<T>(&self, patience: Duration, f: impl FnOnce(&Tx<'_>) -> LResult<T>) -> LResult<T> {
        let deadline = clock::instant() + patience;
        let mut pause = Duration::from_millis(1);
        let mut work = f;
        loop {
            match self.try_write(work) {
                Attempt::Done(result) => return result,
                Attempt::Busy(back) => work = back,
            }
            if clock::instant() >= deadline {
                return Err(LedgerError::Busy);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// As [`Self::write`], for async callers: tried once without waiting and, if another process holds the file, again
    /// on a blocking thread while the caller awaits (LED-7). Needs the extension's runtime only in the busy case.
    pub async fn write_async<T, F>(&self, f: F) -> LResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> LResult<T> + Send + 'static,
    {
        let work = match self.try_write(f) {
            Attempt::Done(result) => return result,
            Attempt::Busy(work) => work,
        };
        let db = self.clone();
        match context::spawn_blocking_scoped(move || db.write(work)).await {
            Ok(result) => result,
            Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            // The runtime is going down; the write never began.
            Err(_) => Err(LedgerError::Busy),
        }
    }

    /// One attempt that does not wait for another process. The lock between threads of this process is held only while
    /// a transaction runs, never while one waits.
    fn try_write<T, F: FnOnce(&Tx<'_>) -> LResult<T>>(&self, f: F) -> Attempt<T, F> {
        let Some(writer) = &self.shared.writer else {
            return Attempt::Done(Err(LedgerError::ReadOnly(self.shared.path.clone())));
        };
        let conn = lock(writer);
        match conn.begin_immediate() {
            Ok(()) => {}
            Err(error) if is_busy(&error) => return Attempt::Busy(f),
            Err(error) => return Attempt::Done(Err(error.into())),
        }
        let open = OpenTransaction { conn: &conn, committed: false };
        let tx = Tx { conn: &conn };
        Attempt::Done(f(&tx).and_then(|value| open.commit().map(|()| value)))
    }

    /// Runs `f` with what this process remembers of `consumer`'s owed results.
    pub(super) fn with_owed_look<T>(&self, consumer: &str, f: impl FnOnce(&mut OwedLook) -> LResult<T>) -> LResult<T> {
        let mut state = lock(&self.shared.state);
        f(state.owed.entry(consumer.to_owned()).or_default())
    }

    #[cfg(test)]
    pub(crate) fn statements(&self) -> Vec<StatementRun> {
        let writes = self.shared.writer.iter().flat_map(|writer| lock(writer).log.borrow().clone());
        let reads = lock(&self.shared.reader).log.borrow().clone();
        reads.into_iter().chain(writes).collect()
    }

    #[cfg(test)]
    pub(crate) fn forget_statements(&self) {
        lock(&self.shared.reader).log.borrow_mut().clear();
        if let Some(writer) = &self.shared.writer {
            lock(writer).log.borrow_mut().clear();
        }
    }
}

enum Attempt<T, F> {
    Done(LResult<T>),
    Busy(F),
}

impl Shared {
    fn open(path: &Path) -> LResult<Self> {
        let cannot_open =
            |error: rusqlite::Error| LedgerError::CannotOpen { path: path.to_owned(), reason: error.to_string() };
        let mut conn =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
                .map_err(cannot_open)?;
        conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS)).map_err(cannot_open)?;
        // Until the file is known to be ours, closing it must not write into it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(cannot_open)?;
        let version = user_version(&conn).map_err(cannot_open)?;
        if version > LEGION_DB_USER_VERSION {
            return Err(LedgerError::NewerSchema { path: path.to_owned(), version });
        }
        let mode = wal_mode(&conn).map_err(cannot_open)?;
        require_wal(path, &mode)?;
        conn.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;").map_err(cannot_open)?;
        migrate(&mut conn).map_err(cannot_open)?;
        check_columns(&conn, path).map_err(|error| match error {
            LedgerError::Sql(error) => cannot_open(error),
            other => other,
        })?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(cannot_open)?;
        let reader = open_reader(path).map_err(cannot_open)?;
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::default(),
            reader: Mutex::new(Conn::new(reader)),
            writer: Some(Mutex::new(Conn::new(conn))),
        })
    }

    fn open_read_only(path: &Path) -> LResult<Self> {
        let path = match fs::canonicalize(path) {
            Ok(canonical) => canonical,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LedgerError::NotFound(path.to_owned()));
            }
            Err(error) => {
                return Err(LedgerError::CannotOpen { path: path.to_owned(), reason: error.to_string() });
            }
        };
        let cannot_open =
            |error: rusqlite::Error| LedgerError::CannotOpen { path: path.clone(), reason: error.to_string() };
        let conn = open_looker(&path).map_err(cannot_open)?;
        let version = user_version(&conn).map_err(cannot_open)?;
        if version > LEGION_DB_USER_VERSION {
            return Err(LedgerError::NewerSchema { path, version });
        }
        if version < LEGION_DB_USER_VERSION {
            return Err(LedgerError::OlderSchema { path, version });
        }
        check_columns(&conn, &path)?;
        Ok(Self { path, state: Mutex::default(), reader: Mutex::new(Conn::new(conn)), writer: None })
    }
}

impl Drop for Shared {
    /// Brings the WAL home at the last close of the root's process; a failure costs nothing but a larger WAL (LED-23).
    fn drop(&mut self) {
        let checkpoint = lock(&self.state).checkpoint_at_close;
        if let Some(writer) = self.writer.as_mut().filter(|_| checkpoint) {
            let conn = writer.get_mut().unwrap_or_else(PoisonError::into_inner);
            let quick = conn.raw.busy_timeout(Duration::ZERO);
            if let Err(error) = quick.and_then(|()| conn.raw.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")) {
                tracing::debug!(path = %self.path.display(), %error, "the ledger's last checkpoint was left out");
            }
        }
    }
}

/// A reader that leaves nothing behind. A file without a WAL is open nowhere and whole by itself; read as one that does
/// not change, it gets no `-wal` and `-shm` beside it, and its directory need not be writable. A session that opens it
/// meanwhile writes into a new WAL first.
fn open_looker(path: &Path) -> rusqlite::Result<Connection> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    match path.to_str().filter(|path| path.starts_with('/') && !Path::new(&wal).exists()) {
        Some(path) => {
            let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
        }
        None => open_reader(path),
    }
}

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    Ok(conn)
}

/// Asks for WAL and returns the mode that the file now has.
///
/// Two processes that switch a fresh file at once may see "locked" without SQLite's own waiting, so it is tried again.
fn wal_mode(conn: &Connection) -> rusqlite::Result<String> {
    let deadline = clock::instant() + Duration::from_millis(BUSY_TIMEOUT_MS);
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
            Err(error) if is_busy(&error) && clock::instant() < deadline => thread::sleep(LONGEST_PAUSE),
            answer => return answer,
        }
    }
}

pub(super) fn require_wal(path: &Path, mode: &str) -> LResult<()> {
    if mode.eq_ignore_ascii_case("wal") {
        Ok(())
    } else {
        Err(LedgerError::NotWal { path: path.to_owned(), mode: mode.to_owned() })
    }
}

/// Makes an empty file that only its owner may read, and the directories above it likewise. SQLite gives the files
/// beside it the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A poisoned lock means a panic elsewhere; its transaction was rolled back, so the connection is usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection inside a transaction. Statements are prepared once and kept.
pub struct Conn {
    raw: Connection,
    #[cfg(test)]
    log: std::cell::RefCell<Vec<StatementRun>>,
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").finish_non_exhaustive()
    }
}

/// A statement that ran, for tests that count and explain.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatementRun {
    pub sql: String,
    /// Steps of SQLite's virtual machine, which grow with the rows that were read.
    pub steps: i32,
}

impl Conn {
    fn new(raw: Connection) -> Self {
        raw.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        Self {
            raw,
            #[cfg(test)]
            log: std::cell::RefCell::default(),
        }
    }

    fn begin(&self, sql: &str) -> rusqlite::Result<()> {
        self.raw.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Takes the write lock at once or not at all: waiting is done by the caller, who then holds nothing.
    fn begin_immediate(&self) -> rusqlite::Result<()> {
        self.raw.busy_timeout(Duration::ZERO)?;
        let begun = self.begin("BEGIN IMMEDIATE");
        self.raw.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
        begun
    }

    /// The first row, if there is one.
    pub(super) fn row<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> LResult<Option<T>> {
        let mut statement = self.raw.prepare_cached(sql)?;
        let row = statement.query_row(params, map).optional();
        #[cfg(test)]
        self.note(sql, &statement);
        Ok(row?)
    }

    /// The number that a `SELECT count(*)` or `EXISTS` gives.
    pub(super) fn number(&self, sql: &str, params: impl Params) -> LResult<i64> {
        Ok(self.row(sql, params, |row| row.get(0))?.unwrap_or_default())
    }

    /// Every row.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> LResult<Vec<T>> {
        let mut statement = self.raw.prepare_cached(sql)?;
        let rows = statement.query_map(params, map)?.collect::<Result<Vec<_>, _>>();
        #[cfg(test)]
        self.note(sql, &statement);
        Ok(rows?)
    }

    #[cfg(test)]
    fn note(&self, sql: &str, statement: &rusqlite::Statement<'_>) {
        let steps = statement.reset_status(rusqlite::StatementStatus::VmStep);
        self.log.borrow_mut().push(StatementRun { sql: sql.to_owned(), steps });
    }

    #[cfg(test)]
    pub(crate) fn raw(&self) -> &Connection {
        &self.raw
    }
}

/// A write transaction; reads as a [`Conn`].
#[derive(Debug)]
pub struct Tx<'a> {
    conn: &'a Conn,
}

impl Deref for Tx<'_> {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Tx<'_> {
    /// Runs a statement and returns the number of rows it changed.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> LResult<usize> {
        let mut statement = self.conn.raw.prepare_cached(sql)?;
        let changed = statement.execute(params);
        #[cfg(test)]
        self.conn.note(sql, &statement);
        Ok(changed?)
    }

    /// Inserts a row and returns its id.
    pub(super) fn insert(&self, sql: &str, params: impl Params) -> LResult<i64> {
        self.execute(sql, params)?;
        Ok(self.conn.raw.last_insert_rowid())
    }
}

/// A stored size or count; SQLite has no unsigned numbers, and nothing stores a negative one.
pub(super) fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(|n| u64::try_from(n).unwrap_or_default())
}

/// Rolls back unless it was committed, so that neither an error nor a panic leaves anything half-written.
struct OpenTransaction<'a> {
    conn: &'a Conn,
    committed: bool,
}

impl OpenTransaction<'_> {
    fn commit(mut self) -> LResult<()> {
        self.conn.begin("COMMIT")?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        // A failed COMMIT may have rolled back by itself.
        if !self.committed
            && !self.conn.raw.is_autocommit()
            && let Err(error) = self.conn.begin("ROLLBACK")
        {
            tracing::warn!(%error, "a ledger transaction could not be rolled back");
        }
    }
}
