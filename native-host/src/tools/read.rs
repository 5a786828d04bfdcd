//! `read`: the text of a file by lines, or an image.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use async_trait::async_trait;
use base64::Engine;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::truncate::{self, Limit, MAX_BYTES, MAX_LINES, Truncation};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, paths};
use crate::session_file::Block;

/// An image above this many bytes is not handed to a model; providers refuse it.
const MAX_IMAGE_BYTES: u64 = 4_500_000;

#[derive(Debug)]
pub struct Read {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    offset: Option<f64>,
    limit: Option<f64>,
}

impl Read {
    pub fn new() -> Read {
        let def = ToolDef {
            name: "read".into(),
            label: "read".into(),
            description: format!(
                "Read a file. Text files and images (jpg, png, gif, webp) are supported; images are attached. Text \
                 is cut to {MAX_LINES} lines or {}KB, whichever comes first. Page through large files with \
                 offset/limit until you have what you need.",
                MAX_BYTES / 1024
            ),
            prompt_snippet: Some("Read a file".into()),
            prompt_guidelines: vec!["Look at files with read, not with cat or sed.".into()],
            parameters: json!({
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": { "type": "string", "description": "File to read (relative or absolute)" },
                    "offset": { "type": "number", "description": "First line to read, counted from 1" },
                    "limit": { "type": "number", "description": "Most lines to read" },
                },
            }),
            ..ToolDef::default()
        };
        Read { def }
    }
}

#[async_trait]
impl Tool for Read {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("read: {error}")),
        };
        let path = paths::resolve_existing(&args.path, &ctx.cwd, ctx.env.home());
        blocking::run(&ctx.cancel, move |cancel| read(&path, &args, cancel)).await
    }
}

fn read(path: &Path, args: &Args, cancel: &CancellationToken) -> Result<ToolOutput, String> {
    let fail = |error: io::Error| format!("Could not read file: {}. {}", args.path, reason(&error));
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if metadata.is_dir() {
        return Err(format!("Could not read file: {}. It is a directory; use ls.", args.path));
    }
    if irregular(path) {
        return Err(format!("Could not read file: {}. It is no regular file.", args.path));
    }
    let mut start = Vec::new();
    File::open(path).map_err(fail)?.take(4_096).read_to_end(&mut start).map_err(fail)?;
    if let Some(mime) = image_type(&start) {
        return image(path, mime, metadata.len()).map_err(fail);
    }
    if start.contains(&0) {
        return Err(format!(
            "{} is a binary file ({}); read shows text and images only.",
            args.path,
            truncate::size(usize::try_from(metadata.len()).unwrap_or(usize::MAX))
        ));
    }
    let wanted = Wanted {
        first: args.offset.map_or(0, |offset| (offset.max(1.0) as usize).saturating_sub(1)),
        count: args.limit.map(|limit| limit.max(0.0) as usize),
    };
    let Some(selected) = select(BufReader::new(File::open(path).map_err(fail)?), wanted, cancel).map_err(fail)? else {
        return Err(blocking::ABORTED.to_owned());
    };
    text(&selected, wanted, args)
}

/// The lines that a call asks for.
#[derive(Clone, Copy)]
struct Wanted {
    /// Counted from 0.
    first: usize,
    count: Option<usize>,
}

/// The selected lines as far as they can be shown, and the sizes of the whole.
struct Selected {
    shown: Truncation,
    first_line_bytes: usize,
    /// Lines of the file, an empty one after the last line break included.
    file_lines: usize,
}

/// Reads the file once, keeping only what can be shown: memory does not grow with the file. `None` when
/// the call was cancelled.
fn select(mut file: impl BufRead, wanted: Wanted, cancel: &CancellationToken) -> io::Result<Option<Selected>> {
    let end = wanted.count.map_or(usize::MAX, |count| wanted.first.saturating_add(count));
    let (mut kept, mut selected_lines, mut selected_bytes, mut first_line_bytes) = (Vec::new(), 0, 0, 0);
    let mut line_number = 0;
    let mut line = Vec::new();
    let file_lines = loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        line.clear();
        // One line may be larger than memory; beyond the limit it is only measured.
        let LineLength { length, had_break } = read_line(&mut file, &mut line, MAX_BYTES + 1)?;
        if (wanted.first..end).contains(&line_number) {
            if selected_lines == 0 {
                first_line_bytes = length;
            }
            // One line more than can be shown is kept, so that the cut is seen as one.
            if kept.len() <= MAX_LINES && selected_bytes <= MAX_BYTES {
                kept.push(String::from_utf8_lossy(&line).into_owned());
            }
            selected_bytes += length + usize::from(selected_lines > 0);
            selected_lines += 1;
        }
        line_number += 1;
        if !had_break {
            break line_number;
        }
    };
    let mut shown = truncate::head(&kept.join("\n"), MAX_LINES, MAX_BYTES);
    if shown.truncated {
        shown.total_lines = selected_lines;
        shown.total_bytes = selected_bytes;
    }
    Ok(Some(Selected { shown, first_line_bytes, file_lines }))
}

/// Bytes of a line, without its line break.
struct LineLength {
    length: usize,
    had_break: bool,
}

/// Reads one line into `line`, its first `keep` bytes at most, and measures all of it.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>, keep: usize) -> io::Result<LineLength> {
    let mut length = 0;
    loop {
        let chunk = file.fill_buf()?;
        if chunk.is_empty() {
            return Ok(LineLength { length, had_break: false });
        }
        let at = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..at.unwrap_or(chunk.len())];
        line.extend_from_slice(&part[..part.len().min(keep.saturating_sub(line.len()))]);
        length += part.len();
        let used = part.len() + usize::from(at.is_some());
        file.consume(used);
        if at.is_some() {
            return Ok(LineLength { length, had_break: true });
        }
    }
}

fn text(selected: &Selected, wanted: Wanted, args: &Args) -> Result<ToolOutput, String> {
    let (first, shown) = (wanted.first + 1, &selected.shown);
    if wanted.first >= selected.file_lines {
        return Err(format!("Offset {first} is beyond the end of the file ({} lines)", selected.file_lines));
    }
    let limit = truncate::size(MAX_BYTES);
    if shown.first_line_exceeds_limit {
        let size = truncate::size(selected.first_line_bytes);
        let hint = format!("sed -n '{first}p' {} | head -c {MAX_BYTES}", args.path);
        let note = format!("[Line {first} is {size}, exceeds {limit} limit. Use bash: {hint}]");
        return Ok(ToolOutput::text(note).with_details(json!({ "truncation": shown })));
    }
    if let Some(by) = shown.truncated_by {
        let last = wanted.first + shown.output_lines;
        let by = if by == Limit::Bytes { format!(" ({limit} limit)") } else { String::new() };
        let total = selected.file_lines;
        let note = format!("[Showing lines {first}-{last} of {total}{by}. Use offset={} to continue.]", last + 1);
        let details = json!({ "truncation": shown });
        return Ok(ToolOutput::text(format!("{}\n\n{note}", shown.content)).with_details(details));
    }
    let end = wanted.count.map_or(selected.file_lines, |count| wanted.first.saturating_add(count));
    if end < selected.file_lines {
        let rest = selected.file_lines - end;
        let note = format!("[{rest} more lines in file. Use offset={} to continue.]", end + 1);
        return Ok(ToolOutput::text(format!("{}\n\n{note}", shown.content)));
    }
    Ok(ToolOutput::text(shown.content.clone()))
}

fn image(path: &Path, mime: &str, bytes: u64) -> io::Result<ToolOutput> {
    let note = format!("Read image file [{mime}]");
    if bytes > MAX_IMAGE_BYTES {
        let size = truncate::size(usize::try_from(bytes).unwrap_or(usize::MAX));
        return Ok(ToolOutput::text(format!("{note}\n[Image omitted: {size} is too large to attach.]")));
    }
    let data = base64::engine::general_purpose::STANDARD.encode(std::fs::read(path)?);
    Ok(ToolOutput { content: vec![Block::text(note), Block::image(data, mime)], ..ToolOutput::default() })
}

/// The media type of an image that models take, by its first bytes.
fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xd8, 0xff, rest @ ..] if rest.first() != Some(&0xf7) => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Whether something stands there that may never answer, such as a pipe or a device.
pub(super) fn irregular(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The system's reason, in a form that models know.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory (ENOENT).".to_owned(),
        io::ErrorKind::PermissionDenied => "Permission denied (EACCES).".to_owned(),
        _ => format!("{error}."),
    }
}
