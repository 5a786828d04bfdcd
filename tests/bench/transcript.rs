//! PERF-8: the first read of a transcript, and what a look at it costs afterwards.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use legion_ext::clock;
use legion_ext::session::TranscriptTail;
use serde_json::json;

use crate::Form;
use crate::sheet::{Bar, Grows, Series};
use crate::stats::median;

const MB: f64 = 1e6;

/// Entries that one look finds.
const NEW_ENTRIES: usize = 1;

pub fn measure(form: Form) -> Result<Vec<Series>, String> {
    let sizes = form.pick([10.0, 32.0, 100.0], [10.0, 32.0, 100.0], [0.1, 0.2, 0.4]);
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (mut reads, mut looks, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for size in sizes {
        let path = dir.path().join(format!("{size}.jsonl"));
        let figures = of_size(&path, size, form).map_err(|error| error.to_string())?;
        std::fs::remove_file(&path).map_err(|error| error.to_string())?;
        reads.push((size, figures.read_ms));
        looks.push((size, figures.look_us));
        idle.push((size, figures.idle_us));
    }
    let (size, ms) = reads[2];
    let rate = size / ms * 1e3;
    let series = |work, cost_unit, points: Vec<(f64, f64)>, grows| Series {
        id: "PERF-8",
        work,
        size_unit: "MB",
        cost_unit,
        points,
        grows,
        headline: String::new(),
        bar: None,
    };
    let bar = |text, met| (form != Form::Tiny).then_some(Bar { text, met });
    let ratio = looks[2].1 / looks[0].1;
    Ok(vec![
        Series {
            headline: format!("{rate:.0} MB/s"),
            bar: bar("≥ 300 MB/s", rate >= 300.0),
            ..series("first read of a transcript", "ms", reads, Grows::WithSize)
        },
        Series {
            headline: format!("{:.0} µs on the largest file, {ratio:.1}× the smallest", looks[2].1),
            bar: bar("the new bytes only", ratio <= 2.0),
            ..series("a look that finds one new entry", "µs", looks, Grows::Never)
        },
        Series {
            id: "",
            headline: format!("{:.1} µs on the largest file", idle[2].1),
            ..series("a look that finds nothing", "µs", idle, Grows::Never)
        },
    ])
}

struct Figures {
    read_ms: f64,
    look_us: f64,
    idle_us: f64,
}

fn of_size(path: &Path, megabytes: f64, form: Form) -> std::io::Result<Figures> {
    let mut transcript = Transcript::create(path)?;
    while transcript.bytes < megabytes * MB {
        transcript.entry()?;
    }
    transcript.file.flush()?;
    let mut tail = TranscriptTail::new(path);
    let mut reads = Vec::new();
    for _ in 0..form.repetitions() {
        tail = TranscriptTail::new(path);
        reads.push(milliseconds(|| tail.poll().map(drop))?);
    }
    let looks = form.pick(200, 100, 3);
    let mut found = Vec::new();
    let mut idle = Vec::new();
    for _ in 0..looks {
        (0..NEW_ENTRIES).try_for_each(|_| transcript.entry())?;
        transcript.file.flush()?;
        found.push(milliseconds(|| tail.poll().map(drop))? * 1e3);
        idle.push(milliseconds(|| tail.poll().map(drop))? * 1e3);
    }
    Ok(Figures { read_ms: median(&reads), look_us: median(&found), idle_us: median(&idle) })
}

fn milliseconds(work: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<f64> {
    let begun = clock::instant();
    work()?;
    Ok((clock::instant() - begun).as_secs_f64() * 1e3)
}

/// A session file of answers and tool results, as a long run writes it.
struct Transcript {
    file: BufWriter<std::fs::File>,
    bytes: f64,
    entries: u64,
}

impl Transcript {
    fn create(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        let mut transcript = Self { file: BufWriter::new(file), bytes: 0.0, entries: 0 };
        let time = clock::iso(0);
        transcript.line(&json!({ "type": "session", "version": 3, "id": "bench", "timestamp": time, "cwd": "/" }))?;
        Ok(transcript)
    }

    /// An answer with a call, or its result.
    fn entry(&mut self) -> std::io::Result<()> {
        self.entries += 1;
        let at = self.entries;
        let parent = (at > 1).then(|| format!("{:08x}", at - 1));
        let message = if at % 2 == 1 {
            json!({
                "role": "assistant", "api": "bench", "provider": "bench", "model": "m", "stopReason": "toolUse", "timestamp": 0,
                "content": [
                    { "type": "text", "text": "The next file of the search. ".repeat(12) },
                    { "type": "toolCall", "id": format!("c{at}"), "name": "read", "arguments": { "path": "src/lib.rs" } },
                ],
                "usage": { "input": 1_200, "output": 90, "cacheRead": 8_000, "cacheWrite": 0, "totalTokens": 9_290,
                           "cost": { "input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.0 } },
            })
        } else {
            json!({
                "role": "toolResult", "toolCallId": format!("c{}", at - 1), "toolName": "read", "isError": false, "timestamp": 0,
                "content": [{ "type": "text", "text": "    let next = state.advance(\"event\", now)?;\n".repeat(60) }],
            })
        };
        let id = format!("{at:08x}");
        self.line(
            &json!({ "type": "message", "id": id, "parentId": parent, "timestamp": clock::iso(0), "message": message }),
        )
    }

    fn line(&mut self, json: &serde_json::Value) -> std::io::Result<()> {
        let line = json.to_string();
        self.bytes += line.len() as f64 + 1.0;
        writeln!(self.file, "{line}")
    }
}
