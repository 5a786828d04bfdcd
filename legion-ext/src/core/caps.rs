//! How much of a result is shown: the sizes of 09 §2.1 and the cut of a long text.

/// Bytes of one tool result (CAP-2).
pub const RESULT_BYTES: usize = 49_152;
/// Lines of one tool result.
pub const RESULT_LINES: usize = 2_000;
/// Bytes of a result that is one view, such as a tree: the rest is for what is said about the call.
pub const VIEW_BYTES: usize = RESULT_BYTES - 1_024;
/// Lines of such a view.
pub const VIEW_LINES: usize = RESULT_LINES - 16;
/// Bytes of all result bodies together.
pub const BODIES_BYTES: usize = 40_960;
/// A body's share is never less than this; what has no room for it is not shown.
pub const BODY_MIN_BYTES: usize = 2_048;
/// A body's share is never more than this.
pub const BODY_MAX_BYTES: usize = 32_768;
/// Bodies that are shown at most.
pub const MAX_BODIES: usize = 20;
/// Default page of `collect` (CAP-5).
pub const PAGE_BYTES: u64 = 32_768;
/// Bytes of `details` (DET-5).
pub const DETAILS_BYTES: usize = 65_536;
/// Characters of a `preview`.
pub const PREVIEW_CHARS: usize = 200;
/// Bytes of a transcript tail (STA-9).
pub const TRANSCRIPT_BYTES: usize = 16_384;
/// A complete body longer than this names its file too (CAP-4).
pub const FULL_OUTPUT_BYTES: usize = 2_048;

/// What one line per child may take, for [`mail_bytes`]: header, progress and decisions of a running child.
const CHILD_LINES_BYTES: usize = 600;

/// Bytes of mail that a blocking call about `targets` children may take (LINE-11, MAIL-30): what their lines leave,
/// less the least share of each body. The first mail is always taken.
pub const fn mail_bytes(targets: usize) -> usize {
    let bodies = if targets < MAX_BODIES { targets } else { MAX_BODIES };
    RESULT_BYTES.saturating_sub(bodies * BODY_MIN_BYTES).saturating_sub(targets.saturating_mul(CHILD_LINES_BYTES))
}

/// How the room left by the lines that are never cut is shared among bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Bodies shown, the first in task order.
    pub shown: usize,
    /// For each of them.
    pub bytes: usize,
    pub lines: usize,
}

/// Shares `room_bytes` and `room_lines` among `bodies` (CAP-2).
pub fn shares(bodies: usize, room_bytes: usize, room_lines: usize) -> Shares {
    let room = room_bytes.min(BODIES_BYTES);
    let shown = bodies.min(room / BODY_MIN_BYTES).min(room_lines / MIN_LINES).min(MAX_BODIES);
    match shown {
        0 => Shares { shown: 0, bytes: 0, lines: 0 },
        _ => Shares { shown, bytes: (room / shown).min(BODY_MAX_BYTES), lines: room_lines / shown },
    }
}

/// Lines that make a body worth showing: three of its head, its cut, and one of its tail.
const MIN_LINES: usize = 5;

/// A text that was too long: `text[..head]` and `text[tail..]` are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub head: usize,
    pub tail: usize,
}

/// Where to cut `text` to keep its first three quarters and its last quarter of `max_bytes` and `max_lines` (CAP-3);
/// `None` when it fits. Cuts fall behind a line end where one is near, and never inside a character.
pub fn cut(text: &str, max_bytes: usize, max_lines: usize) -> Option<Cut> {
    if text.len() <= max_bytes && text.lines().count() <= max_lines {
        return None;
    }
    let tail_bytes = max_bytes / 4;
    let tail_lines = max_lines / 4;
    let head = head_len(text, max_bytes - tail_bytes, max_lines - tail_lines);
    let tail = tail_start(text, tail_bytes, tail_lines).max(head);
    Some(Cut { head, tail })
}

/// Bytes of the longest start of `text` within both bounds, ending behind a line end where one is near.
pub fn head_len(text: &str, max_bytes: usize, max_lines: usize) -> usize {
    let limit = text.floor_char_boundary(max_bytes.min(text.len()));
    let limit = nth_line_end(text[..limit].bytes(), max_lines).unwrap_or(limit);
    if limit == text.len() || text[..limit].ends_with('\n') {
        return limit;
    }
    match text[..limit].rfind('\n') {
        Some(end) if end + 1 > limit / 2 => end + 1,
        Some(_) | None => limit,
    }
}

/// Start of the longest end of `text` within both bounds, behind a line end where one is near.
fn tail_start(text: &str, max_bytes: usize, max_lines: usize) -> usize {
    let limit = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    // A line end that closes the text begins no line.
    let body = text.strip_suffix('\n').unwrap_or(text);
    let limit = match nth_line_end(body.bytes().rev(), max_lines) {
        Some(from_end) => limit.max((body.len() + 1 - from_end).min(text.len())),
        None => limit,
    };
    if limit == 0 || text[..limit].ends_with('\n') {
        return limit;
    }
    match text[limit..].find('\n') {
        Some(end) if end + 1 < (text.len() - limit) / 2 => limit + end + 1,
        Some(_) | None => limit,
    }
}

/// Bytes up to and with the `n`th line end; `None` when there are fewer.
fn nth_line_end(bytes: impl Iterator<Item = u8>, n: usize) -> Option<usize> {
    if n == 0 {
        return Some(0);
    }
    bytes.enumerate().filter(|(_, byte)| *byte == b'\n').nth(n - 1).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests;
