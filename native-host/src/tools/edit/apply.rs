//! Finding and replacing text: pure.
//!
//! Old text is looked for in a *view* of the file: line breaks are plain, and if that is not enough,
//! typographic quotes, dashes and spaces are plain too and spaces at line ends are gone. Every view knows
//! where its characters stand in the file, so the replacement is made in the file itself and everything
//! outside of it keeps its bytes.

use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 4;
const DIFF_TIME: Duration = Duration::from_millis(500);

/// One wanted replacement.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replacement {
    pub old_text: String,
    pub new_text: String,
}

/// The edited file and how it differs.
#[derive(Debug, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// With line numbers, for people.
    pub diff: String,
    /// A unified patch, for programs.
    pub patch: String,
    /// In the new text, counted from 1.
    pub first_changed_line: Option<usize>,
}

/// Makes all replacements, each matched against the original `text`, or none of them. The error is for the
/// model; `path` is the file's name in it.
pub fn apply(text: &str, edits: &[Replacement], path: &str) -> Result<Edited, String> {
    let names = Names { path, single: edits.len() == 1 };
    // Nobody sees a byte order mark, so no old text has it.
    let body_start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let plain = View::plain(&text[body_start..]);
    let mut similar = None;
    let mut places: Vec<(usize, Range<usize>)> = Vec::new();
    for (number, edit) in edits.iter().enumerate() {
        let old = unix_lines(&edit.old_text);
        if old.is_empty() {
            return Err(names.empty(number));
        }
        let range = match plain.find(&old) {
            Found::None => {
                let similar = similar.get_or_insert_with(|| View::lenient(&text[body_start..]));
                similar.find(&View::lenient(&old).text)
            }
            found => found,
        };
        match range {
            Found::None => return Err(names.not_found(number)),
            Found::Many(count) => return Err(names.not_unique(number, count)),
            Found::One(range) => places.push((number, range.start + body_start..range.end + body_start)),
        }
    }
    places.sort_by_key(|(_, range)| range.start);
    if let Some(pair) = places.windows(2).find(|pair| pair[0].1.end > pair[1].1.start) {
        return Err(names.overlap(pair[0].0, pair[1].0));
    }

    let mut new = String::with_capacity(text.len());
    let mut at = 0;
    for (number, range) in places {
        new.push_str(&text[at..range.start]);
        new.push_str(&with_line_ends(&unix_lines(&edits[number].new_text), line_end_at(text, range.start)));
        at = range.end;
    }
    new.push_str(&text[at..]);
    if new == text {
        return Err(names.no_change());
    }
    let (diff, patch, first_changed_line) = differences(&unix_lines(text), &unix_lines(&new), path);
    Ok(Edited { text: new, diff, patch, first_changed_line })
}

/// A text made easier to match, with the way back.
struct View {
    text: String,
    /// In order, without gaps in the view.
    parts: Vec<Part>,
}

/// A stretch of the view and the stretch of the original that it stands for. Either both are equal byte
/// for byte, or the part is one character of the view that is replaced as a whole.
struct Part {
    view: Range<usize>,
    original: Range<usize>,
}

enum Found {
    None,
    /// In the original.
    One(Range<usize>),
    Many(usize),
}

impl View {
    /// CRLF and a lone CR become LF.
    fn plain(original: &str) -> View {
        let mut view = View { text: String::with_capacity(original.len()), parts: Vec::new() };
        let mut rest = 0;
        while let Some(at) = original[rest..].find('\r').map(|at| rest + at) {
            view.keep(original, rest..at);
            let end = if original[at..].starts_with("\r\n") { at + 2 } else { at + 1 };
            view.replace('\n', at..end);
            rest = end;
        }
        view.keep(original, rest..original.len());
        view
    }

    /// Also plain quotes, dashes and spaces, and no spaces at line ends.
    fn lenient(original: &str) -> View {
        let mut view = View { text: String::with_capacity(original.len()), parts: Vec::new() };
        let mut at = 0;
        for line in original.split_inclusive('\n') {
            let content = line.trim_end();
            for (offset, char) in content.char_indices() {
                let range = at + offset..at + offset + char.len_utf8();
                match plain_char(char) {
                    same if same == char => view.keep(original, range),
                    other => view.replace(other, range),
                }
            }
            if line.ends_with('\n') {
                let end = at + line.len();
                let start = if line.ends_with("\r\n") { end - 2 } else { end - 1 };
                view.replace('\n', start..end);
            }
            at += line.len();
        }
        view
    }

    fn keep(&mut self, original: &str, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let start = self.text.len();
        self.text.push_str(&original[range.clone()]);
        match self.parts.last_mut() {
            Some(last) if last.original.end == range.start && last.view.len() == last.original.len() => {
                last.view.end = self.text.len();
                last.original.end = range.end;
            }
            _ => self.parts.push(Part { view: start..self.text.len(), original: range }),
        }
    }

    fn replace(&mut self, char: char, original: Range<usize>) {
        let start = self.text.len();
        self.text.push(char);
        self.parts.push(Part { view: start..self.text.len(), original });
    }

    fn find(&self, old: &str) -> Found {
        let mut hits = self.text.match_indices(old);
        match (old.is_empty(), hits.next()) {
            (true, _) | (_, None) => Found::None,
            (_, Some((at, _))) => match hits.count() {
                0 => Found::One(self.original_start(at)..self.original_end(at + old.len())),
                more => Found::Many(more + 1),
            },
        }
    }

    fn original_start(&self, at: usize) -> usize {
        let part = &self.parts[self.parts.partition_point(|part| part.view.end <= at)];
        part.original.start + if part.view.len() == part.original.len() { at - part.view.start } else { 0 }
    }

    fn original_end(&self, at: usize) -> usize {
        let part = &self.parts[self.parts.partition_point(|part| part.view.end < at)];
        if part.view.len() == part.original.len() {
            part.original.start + (at - part.view.start)
        } else {
            part.original.end
        }
    }
}

fn plain_char(char: char) -> char {
    match char {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{00a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

fn unix_lines(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}

fn with_line_ends(text: &str, line_end: &str) -> String {
    if line_end == "\n" { text.to_owned() } else { text.replace('\n', line_end) }
}

/// How the line at `at` ends, or the one before it where it is the last and has no end.
fn line_end_at(text: &str, at: usize) -> &'static str {
    let line_feed = text[at..].find('\n').map(|offset| at + offset).or_else(|| text[..at].rfind('\n'));
    match line_feed {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        Some(_) => "\n",
        None if text.contains('\r') => "\r",
        None => "\n",
    }
}

fn differences(old: &str, new: &str, path: &str) -> (String, String, Option<usize>) {
    // Beyond the time the diff gets coarser, not wrong; a rewritten file of megabytes must not hold a thread.
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let width = old.lines().count().max(new.lines().count()).max(1).to_string().len();
    let mut lines = Vec::new();
    let mut first = None;
    for (number, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if number > 0 {
            lines.push(format!(" {:width$} ...", ""));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (mark, at) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.old_index()),
            };
            let line = at.unwrap_or_default() + 1;
            lines.push(format!("{mark}{line:>width$} {}", change.value().trim_end_matches('\n')));
        }
    }
    if let Some(op) = diff.ops().iter().find(|op| op.tag() != similar::DiffTag::Equal) {
        first = Some(op.new_range().start + 1);
    }
    let patch = diff.unified_diff().context_radius(CONTEXT_LINES).header(path, path).to_string();
    (lines.join("\n"), patch, first)
}

/// How the errors name the file and the edit.
struct Names<'a> {
    path: &'a str,
    /// There is one edit only, which needs no number.
    single: bool,
}

impl Names<'_> {
    fn empty(&self, number: usize) -> String {
        let edit = if self.single { String::new() } else { format!("edits[{number}].") };
        format!("{edit}oldText must not be empty in {}.", self.path)
    }

    fn not_found(&self, number: usize) -> String {
        let what = if self.single { "the exact text".to_owned() } else { format!("edits[{number}]") };
        format!(
            "Could not find {what} in {}. oldText must match the file exactly, with its spaces and line breaks.",
            self.path
        )
    }

    fn not_unique(&self, number: usize, count: usize) -> String {
        let what = if self.single { "the text".to_owned() } else { format!("edits[{number}]") };
        format!(
            "Found {count} occurrences of {what} in {}; oldText must occur only once. Give more of the text around it.",
            self.path
        )
    }

    fn overlap(&self, first: usize, second: usize) -> String {
        format!("edits[{first}] and edits[{second}] overlap in {}. Make them one edit.", self.path)
    }

    fn no_change(&self) -> String {
        format!("No changes made to {}: the new text equals the old.", self.path)
    }
}

#[cfg(test)]
mod tests;
