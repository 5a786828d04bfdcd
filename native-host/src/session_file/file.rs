//! The file of one session: opening, appending, and the tree of its entries in memory.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use legion_ext::clock;
use serde_json::Value;

use super::context::{Context, context_of};
use super::entry::{Entry, EntryBody, Header, SESSION_VERSION};
use super::message::{Extra, Message, Usage};

/// A session on disk, or in memory only. The file grows by one whole line an entry and is never rewritten.
#[derive(Debug)]
pub struct SessionFile {
    path: Option<PathBuf>,
    header: Header,
    entries: Vec<Entry>,
    /// Position in `entries` by id.
    index: HashMap<String, usize>,
    leaf: Option<String>,
    tail: Tail,
}

/// What the header of a new session says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderSpec {
    pub cwd: PathBuf,
    /// A UUID is made when there is none.
    pub id: Option<String>,
    /// The file of the session that this one comes from.
    pub parent: Option<String>,
}

/// Why a session file cannot be opened or written. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum SessionFileError {
    #[error("not a session file: {}: {reason}; it was left unchanged", .path.display())]
    NotASession { path: PathBuf, reason: String },
    #[error(
        "session file {} has version {found}, this program knows version {SESSION_VERSION}; it was left unchanged{}",
        .path.display(),
        version_hint(*.found)
    )]
    OtherVersion { path: PathBuf, found: u64 },
    #[error("failed to {action} session file {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("session {session} has no entry {id}")]
    NoEntry { session: String, id: String },
}

/// How the bytes of the file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// With a line break: the next entry goes right behind it.
    Whole,
    /// In mid-line, as a process killed in the middle of an append leaves it: the next entry starts with a
    /// line break, so that it never becomes part of the torn line.
    Open,
}

impl SessionFile {
    /// Opens exactly this file (ABI-41). An absent or empty one is begun with `spec`, mode 0600; one with
    /// entries is continued and `spec` has no effect. A file that is no session or has another version is
    /// an error and stays as it is. Opening an existing session changes no byte.
    pub fn open(path: &Path, spec: &HeaderSpec) -> Result<SessionFile, SessionFileError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(io_error("read", path, source)),
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return begin(path, spec, tail_of(&bytes));
        }
        resume(path, &bytes)
    }

    /// Begins a session in `dir`, under pi's name for it: time and id. Missing directories are made.
    pub fn create_in(dir: &Path, spec: &HeaderSpec) -> Result<SessionFile, SessionFileError> {
        let id = spec.id.clone().unwrap_or_else(new_session_id);
        let stamp = clock::iso(clock::now_ms()).replace([':', '.'], "-");
        let spec = HeaderSpec { id: Some(id.clone()), ..spec.clone() };
        SessionFile::open(&dir.join(format!("{stamp}_{id}.jsonl")), &spec)
    }

    /// A session without a file.
    pub fn in_memory(spec: &HeaderSpec) -> SessionFile {
        SessionFile {
            path: None,
            header: new_header(spec),
            entries: Vec::new(),
            index: HashMap::new(),
            leaf: None,
            tail: Tail::Whole,
        }
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// All entries of all branches, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.index.get(id).map(|at| &self.entries[*at])
    }

    /// The entry that the next one will follow; `None` before the first.
    pub fn leaf(&self) -> Option<&str> {
        self.leaf.as_deref()
    }

    /// The entries from the root to the leaf.
    pub fn branch(&self) -> Vec<&Entry> {
        let mut branch = Vec::new();
        let mut next = self.leaf.as_deref();
        while let Some(entry) = next.and_then(|id| self.entry(id)) {
            branch.push(entry);
            // A damaged file can name an entry as its own ancestor; a branch is never longer than the file.
            if branch.len() > self.entries.len() {
                break;
            }
            next = entry.parent_id.as_deref();
        }
        branch.reverse();
        branch
    }

    /// What the model gets to see at the leaf.
    pub fn build_context(&self) -> Context {
        context_of(&self.branch())
    }

    /// Tokens and cost of everything in the file, calls made by tools and summaries included.
    pub fn total_usage(&self) -> Usage {
        let mut total = Usage::default();
        self.entries.iter().filter_map(|entry| entry.body.usage()).for_each(|usage| total.add(usage));
        total
    }

    /// The name that a person gave the session last.
    pub fn name(&self) -> Option<&str> {
        let last = self.entries.iter().rev().find_map(|entry| match &entry.body {
            EntryBody::SessionInfo { name } => Some(name.trim()),
            _ => None,
        });
        last.filter(|name| !name.is_empty())
    }

    /// Appends an entry behind the leaf and makes it the leaf. One `write` of one whole line: a crash
    /// before it loses the entry, one within it leaves a torn line that the next open skips. After an error
    /// the entry is not part of the session.
    pub fn append(&mut self, body: impl Into<EntryBody>) -> Result<&Entry, SessionFileError> {
        let id = self.fresh_id();
        let entry = Entry {
            id: id.clone(),
            parent_id: self.leaf.clone(),
            timestamp: clock::iso(clock::now_ms()),
            body: body.into(),
        };
        if let Some(path) = &self.path {
            let result = append_line(path, &entry, self.tail);
            self.tail = if result.is_ok() { Tail::Whole } else { Tail::Open };
            result.map_err(|source| io_error("append to", path, source))?;
        }
        self.leaf = Some(id.clone());
        self.index.insert(id, self.entries.len());
        self.entries.push(entry);
        Ok(&self.entries[self.entries.len() - 1])
    }

    /// Appends a message; one of an extension becomes a `custom_message` entry.
    pub fn append_message(&mut self, message: Message) -> Result<&Entry, SessionFileError> {
        self.append(message)
    }

    /// Moves the leaf to an earlier entry, or before the first with `None`. Nothing is written.
    pub fn set_leaf(&mut self, id: Option<&str>) -> Result<(), SessionFileError> {
        if let Some(id) = id
            && !self.index.contains_key(id)
        {
            return Err(SessionFileError::NoEntry { session: self.header.id.clone(), id: id.to_owned() });
        }
        self.leaf = id.map(str::to_owned);
        Ok(())
    }

    fn fresh_id(&self) -> String {
        loop {
            let id = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
            if !self.index.contains_key(&id) {
                return id;
            }
        }
    }
}

/// The directory where pi keeps the sessions of a working directory.
pub fn default_session_dir(agent_dir: &Path, cwd: &Path) -> PathBuf {
    let cwd = cwd.to_string_lossy();
    let name = cwd.strip_prefix('/').unwrap_or(&cwd).replace(['/', '\\', ':'], "-");
    agent_dir.join("sessions").join(format!("--{name}--"))
}

fn begin(path: &Path, spec: &HeaderSpec, tail: Tail) -> Result<SessionFile, SessionFileError> {
    if let Some(dir) = path.parent() {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|source| io_error("make the directory of", path, source))?;
    }
    let header = new_header(spec);
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| write_line(file, &header, tail))
        .map_err(|source| io_error("begin", path, source))?;
    Ok(SessionFile { path: Some(path.to_owned()), header, ..SessionFile::in_memory(spec) })
}

fn resume(path: &Path, bytes: &[u8]) -> Result<SessionFile, SessionFileError> {
    let not_a_session = |reason: String| SessionFileError::NotASession { path: path.to_owned(), reason };
    let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first: Value = lines
        .next()
        .and_then(|line| serde_json::from_slice(line).ok())
        .ok_or_else(|| not_a_session("its first line is not JSON".to_owned()))?;
    if first.get("type").and_then(Value::as_str) != Some("session") {
        return Err(not_a_session("its first line is no session header".to_owned()));
    }
    // Files of version 1 have no version field.
    let found = first.get("version").map_or(Some(1), Value::as_u64);
    let found = found.ok_or_else(|| not_a_session("the version in its header is no number".to_owned()))?;
    if found != SESSION_VERSION {
        return Err(SessionFileError::OtherVersion { path: path.to_owned(), found });
    }
    let header: Header =
        serde_json::from_value(first).map_err(|error| not_a_session(format!("its header is incomplete: {error}")))?;

    let mut entries = Vec::new();
    let mut index = HashMap::new();
    // Torn lines and a second header are skipped, as pi does.
    let parsed = lines.filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    for entry in parsed.filter(|entry| entry.body.kind() != "session") {
        index.insert(entry.id.clone(), entries.len());
        entries.push(entry);
    }
    let leaf = entries.last().map(|entry: &Entry| entry.id.clone());
    Ok(SessionFile { path: Some(path.to_owned()), header, entries, index, leaf, tail: tail_of(bytes) })
}

/// Opens the file anew for each entry: thousands of sessions then hold no descriptor, and a file that was
/// deleted meanwhile is an error instead of a write into nowhere.
fn append_line(path: &Path, entry: &Entry, tail: Tail) -> io::Result<()> {
    write_line(OpenOptions::new().append(true).open(path)?, entry, tail)
}

fn write_line(mut file: File, line: &impl serde::Serialize, tail: Tail) -> io::Result<()> {
    let mut bytes = match tail {
        Tail::Whole => Vec::new(),
        Tail::Open => vec![b'\n'],
    };
    serde_json::to_writer(&mut bytes, line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

fn tail_of(bytes: &[u8]) -> Tail {
    if bytes.last().is_none_or(|byte| *byte == b'\n') { Tail::Whole } else { Tail::Open }
}

fn new_header(spec: &HeaderSpec) -> Header {
    Header {
        kind: "session".to_owned(),
        version: SESSION_VERSION,
        id: spec.id.clone().unwrap_or_else(new_session_id),
        timestamp: clock::iso(clock::now_ms()),
        cwd: spec.cwd.to_string_lossy().into_owned(),
        parent_session: spec.parent.clone(),
        extra: Extra::new(),
    }
}

fn new_session_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn version_hint(found: u64) -> &'static str {
    if found < SESSION_VERSION { "; opening it once with pi brings it up to date" } else { "; use a newer program" }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> SessionFileError {
    SessionFileError::Io { action, path: path.to_owned(), source }
}
