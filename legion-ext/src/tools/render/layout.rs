//! How blocks share one result: lines that are never cut first, then mail, then bodies (CAP-2 … CAP-4, LINE-11).

use super::{Shown, items::more_line};
use crate::{
    core::{caps, display, text::clean_block},
    orchestrator::report::{ArtifactRef, ReadMark},
};

/// The lines about one child.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// Never cut.
    pub head: Vec<String>,
    pub body: Option<BodyText<'a>>,
    /// After the body; never cut.
    pub tail: Vec<String>,
}

/// A result's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyText<'a> {
    pub child: &'a str,
    pub text: &'a str,
    pub artifact: Option<&'a ArtifactRef>,
    /// It exists nowhere else, so it is shown as whole as can be (CAP-7).
    pub unsaved: bool,
    pub limits: BodyLimits,
}

/// What a body may take beside its share.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    pub max_bytes: usize,
    /// A complete body longer than this names its file (CAP-4); `None`: every body does.
    pub name_file_above: Option<usize>,
}

/// Everything that one result holds, in order.
#[derive(Debug, Default)]
pub(super) struct Sheet<'a> {
    pub blocks: Vec<Block<'a>>,
    pub trailer: Vec<String>,
    pub mail: Vec<String>,
}

/// The text, and for each block what is shown of its body.
#[derive(Debug, Default)]
pub(super) struct Laid {
    pub text: String,
    /// `None` for a block that was left out or has no body.
    pub shown: Vec<Option<Shown>>,
    pub reads: Vec<ReadMark>,
}

/// Bytes of the line that counts blocks that were left out.
const LEFT_OUT_BYTES: usize = 120;

impl Sheet<'_> {
    /// Lays everything out in what one result holds, less `reserved` bytes.
    pub fn lay_out(&self, reserved: usize) -> Laid {
        let spare = Size { bytes: reserved + LEFT_OUT_BYTES, lines: 2 };
        let around = size(&self.trailer).plus(size(&self.mail)).plus(spare);
        let room = Size { bytes: caps::RESULT_BYTES, lines: caps::RESULT_LINES }.minus(around);
        let (kept, fixed) = self.fitting(room);
        let left = room.minus(fixed);
        let blocks = &self.blocks[..kept];
        let shares = body_shares(blocks, left);

        let mut laid = Laid::default();
        let mut lines: Vec<String> = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            lines.extend_from_slice(&block.head);
            let mut file_lines = Vec::new();
            let shown = block.body.and_then(|body| show(&body, shares[at], &mut lines, &mut file_lines));
            if let (Some(body), Some(shown)) = (block.body, shown) {
                laid.reads.extend(read_mark(&body, shown));
            }
            lines.extend_from_slice(&block.tail);
            lines.append(&mut file_lines);
            laid.shown.push(shown);
        }
        laid.shown.resize(self.blocks.len(), None);
        if kept < self.blocks.len() {
            let left_out = display::plural(self.blocks.len() - kept, "more child", "more children");
            lines.push(format!("… {left_out} left out: ask for them by name, or with action 'status'"));
        }
        lines.extend_from_slice(&self.trailer);
        lines.extend_from_slice(&self.mail);
        laid.text = lines.join("\n");
        laid
    }

    /// How many blocks have room for the lines that are never cut, and what these take. The first always has.
    fn fitting(&self, room: Size) -> (usize, Size) {
        let mut fixed = Size::default();
        for (at, block) in self.blocks.iter().enumerate() {
            let with = fixed.plus(block.fixed());
            if at > 0 && (with.bytes > room.bytes || with.lines > room.lines) {
                return (at, fixed);
            }
            fixed = with;
        }
        (self.blocks.len(), fixed)
    }
}

impl Block<'_> {
    /// What it takes without its body's text.
    fn fixed(&self) -> Size {
        let own = size(&self.head).plus(size(&self.tail));
        let Some(body) = &self.body else { return own };
        // The line that joins head and tail, the name of the file, the call that reads on.
        let mut around = vec!["… 18446744073709551615 bytes omitted …".to_owned()];
        around.extend(body.artifact.map(full_output_line));
        around.push(more_line(body.child, u64::MAX));
        own.plus(size(&around))
    }
}

/// What each block's body may take; `None` where it is not shown. A body without a file comes first, since the rest of
/// a stored one can be read later.
fn body_shares(blocks: &[Block<'_>], room: Size) -> Vec<Option<Size>> {
    let bodies = blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.body?)));
    let (unsaved, saved): (Vec<_>, Vec<_>) =
        bodies.filter(|(_, body)| !body.text.is_empty()).partition(|(_, body)| body.unsaved);
    let plan = caps::shares(unsaved.len() + saved.len(), room.bytes, room.lines);
    let unsaved = &unsaved[..unsaved.len().min(plan.shown)];
    let saved = &saved[..saved.len().min(plan.shown - unsaved.len())];

    let mut shares = vec![None; blocks.len()];
    for (at, body) in saved {
        shares[*at] = Some(Size { bytes: plan.bytes.min(body.limits.max_bytes), lines: plan.lines });
    }
    let left = room.bytes.saturating_sub(saved.len() * plan.bytes);
    for (at, _) in unsaved {
        shares[*at] = Some(Size { bytes: left / unsaved.len(), lines: plan.lines });
    }
    shares
}

/// Puts the body into `lines` as far as its share goes; `None` without a share.
fn show(
    body: &BodyText<'_>,
    share: Option<Size>,
    lines: &mut Vec<String>,
    file_lines: &mut Vec<String>,
) -> Option<Shown> {
    let total = body.text.len() as u64;
    let names_file = |len: usize| body.limits.name_file_above.is_none_or(|limit| len > limit);
    if body.text.is_empty() {
        file_lines.extend(body.artifact.filter(|_| names_file(0)).map(full_output_line));
        return Some(Shown { bytes: 0, total, next_offset: None });
    }
    let Some(share) = share else {
        file_lines.extend(body.artifact.map(full_output_line));
        return None;
    };
    match caps::cut(body.text, share.bytes, share.lines) {
        None => {
            if !body.text.trim().is_empty() {
                lines.push(clean_text(body.text));
            }
            file_lines.extend(body.artifact.filter(|_| names_file(body.text.len())).map(full_output_line));
            Some(Shown { bytes: total, total, next_offset: None })
        }
        Some(caps::Cut { head, tail }) => {
            lines.push(clean_text(&body.text[..head]));
            lines.push(format!("… {} bytes omitted …", tail - head));
            lines.push(clean_text(&body.text[tail..]));
            file_lines.extend(body.artifact.map(full_output_line));
            file_lines.extend(body.artifact.map(|_| more_line(body.child, head as u64)));
            let bytes = (head + body.text.len() - tail) as u64;
            Some(Shown { bytes, total, next_offset: Some(head as u64) })
        }
    }
}

/// What counts as read: all of it, or the head that the printed `more:` goes on from; never a tail (CAP-6).
fn read_mark(body: &BodyText<'_>, shown: Shown) -> Option<ReadMark> {
    let artifact = body.artifact?;
    Some(ReadMark { artifact: artifact.id?, from: 0, to: shown.next_offset.unwrap_or(artifact.bytes) })
}

/// A text as lines: cleaned, and without the line end that joining adds.
fn clean_text(text: &str) -> String {
    clean_block(text.trim_end_matches('\n')).into_owned()
}

/// `  full output: <absolute path> (<size>)`.
pub(super) fn full_output_line(artifact: &ArtifactRef) -> String {
    let path = clean_block(&artifact.path.to_string_lossy()).replace('\n', " ");
    format!("  full output: {path} ({})", display::bytes(artifact.bytes))
}

/// A list that is too long for one result, without its last lines.
pub(super) fn clip(text: &str) -> String {
    if text.len() <= caps::VIEW_BYTES && text.lines().count() <= caps::VIEW_LINES {
        return text.to_owned();
    }
    let kept = caps::head_len(text, caps::VIEW_BYTES - LEFT_OUT_BYTES, caps::VIEW_LINES - 1);
    let left_out = text[kept..].lines().count();
    format!("{}\n… {}", text[..kept].trim_end_matches('\n'), display::plural(left_out, "more line", "more lines"))
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    bytes: usize,
    lines: usize,
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, lines: self.lines + other.lines }
    }

    fn minus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), lines: self.lines.saturating_sub(other.lines) }
    }
}

fn size(lines: &[String]) -> Size {
    let bytes = lines.iter().map(|line| line.len() + 1).sum();
    let lines = lines.iter().map(|line| 1 + line.bytes().filter(|byte| *byte == b'\n').count()).sum();
    Size { bytes, lines }
}
