//! The end of a transcript as lines of text (STA-9), read from the end of the file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memrchr;

use super::line::{Block, Line, blocks, text_of};

/// Most bytes of text in one view.
pub const TRANSCRIPT_VIEW_BYTES: usize = 16 * 1024;
/// Most characters of one item.
const ITEM_CHARS: usize = 500;
/// Bytes read at first; doubled at each further read.
const FIRST_READ: u64 = 64 * 1024;

/// The last items of a transcript, oldest first, one line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptView {
    /// Each begins with `user:`, `assistant:`, `tool <name>:`, `result:` or `error:`. Control characters are spaces.
    pub lines: Vec<String>,
    /// Lines among those looked at that could not be read.
    pub unreadable: u64,
}

/// The last `lines` items of the active branch, at most 16 KiB; the file is read only as far back as they reach.
pub fn transcript_tail(path: &Path, lines: usize) -> io::Result<TranscriptView> {
    let mut reader = BackwardLines::open(path)?;
    let mut items: VecDeque<String> = VecDeque::new();
    let mut bytes = 0;
    let mut unreadable = 0;
    let mut expected = Expected::Any;
    while items.len() < lines {
        let Some(bytes_of_line) = reader.next_line()? else {
            break;
        };
        if bytes_of_line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Some(line) = Line::parse(&bytes_of_line) else {
            unreadable += 1;
            // It may have been the parent that is looked for.
            expected = Expected::Any;
            continue;
        };
        if line.kind == "session" || !expected.admits(&line) {
            continue;
        }
        let first = line.id.is_some() && line.parent_id.is_none();
        expected = match &line.parent_id {
            Some(parent) => Expected::Id(parent.clone()),
            None => Expected::Any,
        };
        for item in items_of(&line).into_iter().rev() {
            bytes += item.len() + 1;
            if items.len() == lines || bytes > TRANSCRIPT_VIEW_BYTES {
                return Ok(TranscriptView { lines: items.into(), unreadable });
            }
            items.push_front(item);
        }
        if first {
            break;
        }
    }
    Ok(TranscriptView { lines: items.into(), unreadable })
}

/// The entry that continues the branch backwards.
enum Expected {
    Any,
    Id(Box<str>),
}

impl Expected {
    fn admits(&self, line: &Line<'_>) -> bool {
        match (self, &line.id) {
            (Self::Any, _) | (Self::Id(_), None) => true,
            (Self::Id(expected), Some(id)) => expected == id,
        }
    }
}

fn items_of(line: &Line<'_>) -> Vec<String> {
    let mut items = Vec::new();
    match (&*line.kind, &line.message) {
        ("message", Some(message)) => {
            let content = message.content.map(blocks).unwrap_or_default();
            match &*message.role {
                "user" => items.push(item("user:", &text_of(&content))),
                "assistant" => items.extend(content.iter().filter_map(said)),
                "toolResult" => {
                    let label = if message.is_error == Some(true) { "error:" } else { "result:" };
                    items.push(item(label, &text_of(&content)));
                }
                _ => {}
            }
            if let Some(error) = message.error_message.as_deref().filter(|error| !error.is_empty()) {
                items.push(item("error:", error));
            }
        }
        // What an extension says reaches the model as a user message.
        ("custom_message", _) => {
            items.push(item("user:", &line.content.map(blocks).map(|b| text_of(&b)).unwrap_or_default()))
        }
        _ => {}
    }
    items
}

fn said(block: &Block<'_>) -> Option<String> {
    match &*block.kind {
        "text" => (!block.text.is_empty()).then(|| item("assistant:", &block.text)),
        "toolCall" => {
            let arguments = block.arguments.map(|raw| raw.get()).unwrap_or_default();
            Some(item(&format!("tool {}:", block.name), arguments))
        }
        _ => None,
    }
}

/// One line: white space and control characters become single spaces, so nothing in it can move a cursor.
fn item(label: &str, text: &str) -> String {
    let mut line: String = one_line(label);
    let mut kept = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        line.push(' ');
        for c in word.chars() {
            if kept == ITEM_CHARS {
                line.push('…');
                return line;
            }
            line.push(c);
            kept += 1;
        }
    }
    line
}

fn one_line(label: &str) -> String {
    label.chars().filter(|c| !c.is_control()).collect()
}

/// The lines of a file from the last to the first.
struct BackwardLines {
    file: File,
    /// Start of `held` in the file.
    start: u64,
    /// What was read and not given out yet; it ends where the last line given out began.
    held: Vec<u8>,
    next_read: u64,
}

impl BackwardLines {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let start = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, start, held: Vec::new(), next_read: FIRST_READ })
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = memrchr(b'\n', &self.held) {
                let line = self.held.split_off(end + 1);
                self.held.truncate(end);
                return Ok(Some(line));
            }
            if self.start == 0 {
                return Ok((!self.held.is_empty()).then(|| std::mem::take(&mut self.held)));
            }
            let take = self.next_read.min(self.start);
            self.next_read = take.saturating_mul(2);
            self.start -= take;
            self.file.seek(SeekFrom::Start(self.start))?;
            let mut bytes = Vec::new();
            Read::by_ref(&mut self.file).take(take).read_to_end(&mut bytes)?;
            bytes.append(&mut self.held);
            self.held = bytes;
        }
    }
}
