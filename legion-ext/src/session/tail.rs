//! Following a session file: an offset, a half line, and an index of entries for the day the branch changes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::{memchr_iter, memrchr};

use super::branch::{BranchState, FileState, SessionFacts};
use super::line::Line;

/// Bytes asked of the file at a time.
const CHUNK: usize = 1 << 20;

/// What a look at the file brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growth {
    /// Bytes read by this look.
    pub bytes: u64,
    /// Complete lines that were new, damaged ones included.
    pub lines: u64,
    /// The file had been cut or replaced and was read anew.
    pub restarted: bool,
}

/// A session file that is read once and then followed.
///
/// Every method that reads blocks for the read; a file that has not grown costs one look at its metadata. A last line
/// without its line end waits until it is complete.
#[derive(Debug)]
pub struct TranscriptTail {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// Bytes taken from the file so far.
    offset: u64,
    /// The line that has begun; its bytes are the last ones before `offset`.
    half_line: Vec<u8>,
    index: Index,
    file: FileState,
    branch: BranchState,
    /// The last entry is not on the branch that `branch` stands for.
    branch_left: bool,
    facts: SessionFacts,
}

impl TranscriptTail {
    /// Follows `path` from its beginning; nothing is read yet and the file need not be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            identity: None,
            offset: 0,
            half_line: Vec::new(),
            index: Index::default(),
            file: FileState::default(),
            branch: BranchState::default(),
            branch_left: false,
            facts: SessionFacts::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the complete lines read so far say.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// Reads what the file gained since the last look. After an error the next look goes on where this one stopped.
    pub fn poll(&mut self) -> io::Result<Growth> {
        let metadata = std::fs::metadata(&self.path)?;
        let mut growth = Growth::default();
        let identity = file_identity(&metadata);
        if metadata.len() < self.offset || (self.identity.is_some() && self.identity != identity) {
            *self = Self::new(std::mem::take(&mut self.path));
            growth.restarted = true;
        }
        self.identity = identity;
        if metadata.len() == self.offset && !self.branch_left {
            return Ok(growth);
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let result = self.take(&mut file, &mut growth).and_then(|()| self.change_branch(&mut file));
        self.branch.show(&mut self.facts);
        self.facts.parsed.has_content |= growth.bytes > 0;
        result.map(|()| growth)
    }

    fn take(&mut self, file: &mut File, growth: &mut Growth) -> io::Result<()> {
        loop {
            let held = self.half_line.len();
            let read = Read::by_ref(file).take(CHUNK as u64).read_to_end(&mut self.half_line);
            let gained = self.half_line.len() - held;
            self.offset += gained as u64;
            growth.bytes += gained as u64;
            if let Some(last) = memrchr(b'\n', &self.half_line[held..]) {
                let rest = self.half_line.split_off(held + last + 1);
                let lines = std::mem::replace(&mut self.half_line, rest);
                let start = self.offset - (lines.len() + self.half_line.len()) as u64;
                self.add_lines(&lines, start, growth);
            }
            if read? == 0 {
                return Ok(());
            }
        }
    }

    /// `lines` ends with a line end; `start` is its place in the file.
    fn add_lines(&mut self, lines: &[u8], start: u64, growth: &mut Growth) {
        let mut from = 0;
        for end in memchr_iter(b'\n', lines) {
            self.add_line(&lines[from..end], start + from as u64, growth);
            from = end + 1;
        }
    }

    fn add_line(&mut self, bytes: &[u8], offset: u64, growth: &mut Growth) {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        growth.lines += 1;
        let Some(line) = Line::parse(bytes) else {
            self.facts.parsed.damaged_lines += 1;
            return;
        };
        let said = line.said();
        self.file.add(&line, &said, &mut self.facts);
        if line.kind == "session" {
            return;
        }
        let goes_on = self.index.add(&line, Place { offset, len: bytes.len() });
        self.branch_left |= !goes_on;
        if !self.branch_left {
            self.branch.add(&line, &said);
        }
    }

    /// Reads the active branch again, when the last entries are not its continuation.
    fn change_branch(&mut self, file: &mut File) -> io::Result<()> {
        if !self.branch_left {
            return Ok(());
        }
        let mut branch = BranchState::default();
        let mut bytes = Vec::new();
        for place in self.index.branch() {
            bytes.resize(place.len, 0);
            file.seek(SeekFrom::Start(place.offset))?;
            file.read_exact(&mut bytes)?;
            if let Some(line) = Line::parse(&bytes) {
                branch.add(&line, &line.said());
            }
        }
        self.branch = branch;
        self.branch_left = false;
        Ok(())
    }

    /// Takes a last line without its line end as complete, if it can be read, and as damaged otherwise: for a file that
    /// nobody writes any more.
    fn finish(mut self) -> io::Result<SessionFacts> {
        let rest = std::mem::take(&mut self.half_line);
        let start = self.offset - rest.len() as u64;
        self.add_line(&rest, start, &mut Growth::default());
        self.change_branch(&mut File::open(&self.path)?)?;
        self.branch.show(&mut self.facts);
        Ok(self.facts)
    }
}

/// Reads a whole session file that nobody writes any more.
pub fn read_session(path: &Path) -> io::Result<SessionFacts> {
    let mut tail = TranscriptTail::new(path);
    tail.poll()?;
    tail.finish()
}

#[cfg(unix)]
fn file_identity(metadata: &std::fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn file_identity(_: &std::fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// Where a line is in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    len: usize,
}

/// Parents and places of the entries, in file order.
#[derive(Debug, Default)]
struct Index {
    entries: Vec<(Option<usize>, Place)>,
    by_id: HashMap<Box<str>, usize>,
}

impl Index {
    /// Adds an entry and tells whether it goes on from the one before it. One without an id, or whose parent was lost
    /// with a damaged line, counts as doing so.
    fn add(&mut self, line: &Line<'_>, place: Place) -> bool {
        let leaf = self.entries.len().checked_sub(1);
        let parent = match (&line.id, &line.parent_id) {
            (Some(_), None) => None,
            (Some(_), Some(parent)) => self.by_id.get(parent).copied().or(leaf),
            (None, _) => leaf,
        };
        if let Some(id) = &line.id {
            self.by_id.insert(id.clone(), self.entries.len());
        }
        self.entries.push((parent, place));
        parent == leaf
    }

    /// The places of the active branch, oldest first. Parents stand before their children, so the walk ends.
    fn branch(&self) -> Vec<Place> {
        let mut places = Vec::new();
        let mut next = self.entries.len().checked_sub(1);
        while let Some((parent, place)) = next.and_then(|at| self.entries.get(at)) {
            places.push(*place);
            next = *parent;
        }
        places.reverse();
        places
    }
}
