//! Cuts long output to what a model's context can take: whole lines, by number and by bytes.

use serde::Serialize;

/// Lines that a tool result holds at most.
pub const MAX_LINES: usize = 2_000;
/// Bytes that a tool result holds at most.
pub const MAX_BYTES: usize = 50 * 1024;
/// Characters (UTF-16 units, as pi counts them) of one line of `grep`.
pub const GREP_LINE_CHARS: usize = 500;

/// The part of a text that is shown, and what the whole was like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Truncation {
    #[serde(skip)]
    pub content: String,
    pub truncated: bool,
    pub truncated_by: Option<Limit>,
    pub total_lines: usize,
    pub total_bytes: usize,
    pub output_lines: usize,
    pub output_bytes: usize,
    /// The shown text starts in the middle of a line.
    pub last_line_partial: bool,
    /// Nothing is shown, since the first line alone is too long.
    pub first_line_exceeds_limit: bool,
    pub max_lines: usize,
    pub max_bytes: usize,
}

/// Which limit cut the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Lines,
    Bytes,
}

/// Keeps the first lines. A first line over the byte limit leaves nothing.
pub fn head(text: &str, max_lines: usize, max_bytes: usize) -> Truncation {
    let lines = lines_of(text);
    if lines.len() <= max_lines && text.len() <= max_bytes {
        return whole(text, lines.len(), max_lines, max_bytes);
    }
    let (kept, by) = fitting(lines.iter().copied(), max_lines, max_bytes);
    let content = lines[..kept].join("\n");
    Truncation {
        truncated: true,
        truncated_by: Some(by),
        output_lines: kept,
        output_bytes: content.len(),
        first_line_exceeds_limit: lines.first().is_some_and(|line| line.len() > max_bytes),
        content,
        ..whole(text, lines.len(), max_lines, max_bytes)
    }
}

/// Keeps the last lines. A last line over the byte limit is cut at its start.
pub fn tail(text: &str, max_lines: usize, max_bytes: usize) -> Truncation {
    let lines = lines_of(text);
    if lines.len() <= max_lines && text.len() <= max_bytes {
        return whole(text, lines.len(), max_lines, max_bytes);
    }
    let (kept, by) = fitting(lines.iter().rev().copied(), max_lines, max_bytes);
    let partial = kept == 0;
    let content = match lines.last() {
        Some(last) if partial => last_bytes(last, max_bytes).to_owned(),
        _ => lines[lines.len() - kept..].join("\n"),
    };
    Truncation {
        truncated: true,
        truncated_by: Some(by),
        output_lines: kept.max(1),
        output_bytes: content.len(),
        last_line_partial: partial,
        content,
        ..whole(text, lines.len(), max_lines, max_bytes)
    }
}

/// The line, cut to [`GREP_LINE_CHARS`] with a mark, and whether it was cut.
pub fn line(text: &str) -> (String, bool) {
    let mut units = 0;
    for (at, char) in text.char_indices() {
        units += char.len_utf16();
        if units > GREP_LINE_CHARS {
            return (format!("{}... [truncated]", &text[..at]), true);
        }
    }
    (text.to_owned(), false)
}

/// A number of bytes for people, such as `50.0KB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{:.1}KB", bytes as f64 / 1024.0),
        _ => format!("{:.1}MB", bytes as f64 / 1_048_576.0),
    }
}

/// The last `max` bytes of `text`, starting at a character.
pub fn last_bytes(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Lines as people count them: a line break at the end begins no further line.
fn lines_of(text: &str) -> Vec<&str> {
    match text {
        "" => Vec::new(),
        _ => text.strip_suffix('\n').unwrap_or(text).split('\n').collect(),
    }
}

/// How many of the lines fit, and the limit that ends them.
fn fitting<'a>(lines: impl Iterator<Item = &'a str>, max_lines: usize, max_bytes: usize) -> (usize, Limit) {
    let (mut kept, mut bytes) = (0, 0);
    for line in lines {
        if kept == max_lines {
            return (kept, Limit::Lines);
        }
        bytes += line.len() + usize::from(kept > 0);
        if bytes > max_bytes {
            return (kept, Limit::Bytes);
        }
        kept += 1;
    }
    // Every line fits and the text does not: only its final line break is over the byte limit.
    (kept, Limit::Bytes)
}

fn whole(text: &str, lines: usize, max_lines: usize, max_bytes: usize) -> Truncation {
    Truncation {
        content: text.to_owned(),
        truncated: false,
        truncated_by: None,
        total_lines: lines,
        total_bytes: text.len(),
        output_lines: lines,
        output_bytes: text.len(),
        last_line_partial: false,
        first_line_exceeds_limit: false,
        max_lines,
        max_bytes,
    }
}
