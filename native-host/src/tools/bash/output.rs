//! Output as it comes, in bounded memory: the end of it as text, all of it in a file once it grows long.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::tools::truncate::{self, Limit, MAX_BYTES, MAX_LINES, Truncation};

/// Text kept in memory before it is cut back to [`KEPT_BYTES`].
const TRIM_AT_BYTES: usize = 4 * MAX_BYTES;
const KEPT_BYTES: usize = 2 * MAX_BYTES;

/// The output of one command.
#[derive(Debug)]
pub struct Output {
    temp_dir: PathBuf,
    /// All bytes until they are in the file.
    raw: Vec<u8>,
    file: Option<(PathBuf, File)>,
    /// The file could not be made or written, for want of space for example.
    file_failed: bool,
    /// Bytes of a character that has not come whole.
    torn: Vec<u8>,
    tail: String,
    tail_starts_at_line: bool,
    line_breaks: usize,
    /// Bytes of the text, of which `tail` is the end.
    bytes: usize,
    last_line_bytes: usize,
}

/// What of the output is shown at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pub truncation: Truncation,
    pub last_line_bytes: usize,
    /// All of the output, when it is not shown whole.
    pub full_output: Option<PathBuf>,
}

impl Output {
    pub fn new(temp_dir: &Path) -> Output {
        Output {
            temp_dir: temp_dir.to_owned(),
            raw: Vec::new(),
            file: None,
            file_failed: false,
            torn: Vec::new(),
            tail: String::new(),
            tail_starts_at_line: true,
            line_breaks: 0,
            bytes: 0,
            last_line_bytes: 0,
        }
    }

    pub fn push(&mut self, chunk: &[u8]) {
        self.torn.extend_from_slice(chunk);
        let whole = self.torn.len() - incomplete_end(&self.torn);
        let text = String::from_utf8_lossy(&self.torn[..whole]).into_owned();
        self.torn.drain(..whole);
        self.push_text(&text);
        self.keep_raw(chunk);
    }

    /// Ends the output: a torn character at its end becomes a replacement character.
    pub fn finish(&mut self) {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.torn)).into_owned();
        self.push_text(&rest);
        self.keep_raw(&[]);
    }

    pub fn snapshot(&self) -> Snapshot {
        let text = match self.tail.split_once('\n') {
            // The first line of the kept tail is a torn one, unless it is all there is.
            Some((_, rest)) if !self.tail_starts_at_line && !rest.is_empty() => rest,
            _ => self.tail.as_str(),
        };
        let shown = truncate::tail(text, MAX_LINES, MAX_BYTES);
        let too_long = self.too_long();
        let by = if self.bytes > MAX_BYTES { Limit::Bytes } else { Limit::Lines };
        let truncation = Truncation {
            truncated: too_long,
            truncated_by: too_long.then(|| shown.truncated_by.unwrap_or(by)),
            total_lines: self.lines(),
            total_bytes: self.bytes,
            ..shown
        };
        let full_output = self.file.as_ref().filter(|_| !self.file_failed).map(|(path, _)| path.clone());
        Snapshot { truncation, last_line_bytes: self.last_line_bytes, full_output }
    }

    fn push_text(&mut self, text: &str) {
        self.bytes += text.len();
        self.tail.push_str(text);
        match text.rfind('\n') {
            None => self.last_line_bytes += text.len(),
            Some(at) => {
                self.line_breaks += text.matches('\n').count();
                self.last_line_bytes = text.len() - at - 1;
            }
        }
        if self.tail.len() > TRIM_AT_BYTES {
            let cut = self.tail.len() - truncate::last_bytes(&self.tail, KEPT_BYTES).len();
            self.tail_starts_at_line = self.tail[..cut].ends_with('\n');
            self.tail.drain(..cut);
        }
    }

    fn keep_raw(&mut self, chunk: &[u8]) {
        if self.file_failed {
            return;
        }
        if self.file.is_none() {
            self.raw.extend_from_slice(chunk);
            if !self.too_long() {
                return;
            }
        }
        let written = match &mut self.file {
            Some((_, file)) => file.write_all(chunk),
            none => new_file(&self.temp_dir).and_then(|(path, mut file)| {
                file.write_all(&std::mem::take(&mut self.raw))?;
                *none = Some((path, file));
                Ok(())
            }),
        };
        self.file_failed = written.is_err();
    }

    fn lines(&self) -> usize {
        self.line_breaks + usize::from(self.last_line_bytes > 0)
    }

    fn too_long(&self) -> bool {
        self.bytes > MAX_BYTES || self.lines() > MAX_LINES
    }
}

/// A new file that only the user can read; never one that somebody put there.
fn new_file(dir: &Path) -> std::io::Result<(PathBuf, File)> {
    let path = dir.join(format!("legion-bash-{}.log", uuid::Uuid::new_v4().simple()));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((path, file))
}

/// How many bytes at the end begin a character that is not whole.
fn incomplete_end(bytes: &[u8]) -> usize {
    let recent = bytes.iter().rev().take(3).enumerate();
    for (back, byte) in recent {
        let length = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if back + 1 < length { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests;
