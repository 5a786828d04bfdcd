//! Where the tour is shown: one line for each thing that happens, and on a terminal one line for each child at work.

use std::collections::HashMap;
use std::sync::Arc;

use host_abi::ops::Stream;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::narrate::{Beat, Kind, Line};
use crate::console::Console;

/// Columns of the names.
const NAME_COLUMNS: usize = 13;

/// Signs of a child at work; the last one stands when it has ended.
const SPINNER: &[&str] = &["◐", "◓", "◑", "◒", "■"];

/// How the tour is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Lines only: for pipes, files and tests.
    Plain,
    /// With the children's lines, which move.
    Live { colour: bool },
}

/// Shows beats as they come.
pub struct Stage {
    console: Arc<dyn Console>,
    live: Option<Live>,
}

struct Live {
    bars: MultiProgress,
    children: HashMap<String, ProgressBar>,
    colour: bool,
}

impl Stage {
    pub fn new(look: Look, console: Arc<dyn Console>) -> Stage {
        let live = match look {
            Look::Plain => None,
            Look::Live { colour } => Some(Live {
                bars: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()),
                children: HashMap::new(),
                colour,
            }),
        };
        Stage { console, live }
    }

    pub fn show(&mut self, beat: &Beat) {
        match (beat, &mut self.live) {
            (Beat::Line(line), _) => self.line(&self.dressed(line)),
            (Beat::Activity { who, text }, None) => self.line(&row("·", who, text)),
            (Beat::Activity { who, text }, Some(live)) => live.bar(who).set_message(text.clone()),
            (Beat::Ended { who, text }, None) => self.line(&row("■", who, &format!("ended: {text}"))),
            (Beat::Ended { who, text }, Some(live)) => live.bar(who).finish_with_message(format!("ended: {text}")),
        }
    }

    /// A line of its own, above what moves.
    pub fn line(&self, line: &str) {
        match &self.live {
            Some(live) if live.bars.println(line).is_ok() => {}
            _ => self.console.line(Stream::Out, line),
        }
    }

    /// Moves what moves.
    pub fn tick(&self) {
        for bar in self.live.iter().flat_map(|live| live.children.values()).filter(|bar| !bar.is_finished()) {
            bar.tick();
        }
    }

    /// Takes the moving lines away; what was said stays.
    pub fn close(&mut self) {
        if let Some(live) = self.live.take() {
            // A terminal that is gone needs no clearing.
            let _ = live.bars.clear();
        }
    }

    fn dressed(&self, line: &Line) -> String {
        let text = row(line.kind.mark(), &line.who, &line.text);
        match (&self.live, colour_of(line.kind)) {
            (Some(Live { colour: true, .. }), Some(code)) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text,
        }
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("live", &self.live.is_some()).finish_non_exhaustive()
    }
}

impl Live {
    fn bar(&mut self, who: &str) -> &ProgressBar {
        self.children.entry(who.to_owned()).or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {prefix} {wide_msg}")
                .expect("the template is a constant")
                .tick_strings(SPINNER);
            bar.set_style(style);
            bar.set_prefix(padded(who));
            bar
        })
    }
}

fn row(mark: &str, who: &str, text: &str) -> String {
    format!("{mark} {} {text}", padded(who))
}

fn padded(who: &str) -> String {
    format!("{who:<NAME_COLUMNS$}")
}

/// SGR code of a kind of line.
const fn colour_of(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Says => Some("1"),
        Kind::Acts => None,
        Kind::Mail => Some("36"),
        Kind::Fault => Some("33"),
        Kind::Good => Some("32"),
        Kind::Bad => Some("31"),
    }
}
