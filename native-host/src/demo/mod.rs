//! The tour: a scripted team mends a small repository, with the real tools, the real git, the real extension.
//!
//! Only what the models say is written beforehand ([`content`]). Everything it leads to happens: the tour's own host
//! loads `legion-ext` and `child-guard`, children run in this process, and the end is read from the run directory.

pub mod content;
pub mod narrate;
pub mod report;

mod facts;
mod repo;
mod stage;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host_abi::ops::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::content::{PROMPT, Pace};
use self::narrate::Narrator;
use self::report::Facts;
use self::stage::Stage;
use crate::console::Console;
use crate::env::Env;
use crate::host::{Host, HostError, RunOutcome, SIGNAL_BOUND};
use crate::modes::signals::{Signal, Signals};
use crate::provider::scripted::ScriptedProvider;
use crate::session::event::HostEvent;

pub use repo::{Place, PlaceError};
pub use stage::Look;

/// Between two movements of the lines that move.
const TICK: Duration = Duration::from_millis(120);

/// How the tour goes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it takes place: new or empty. A new temporary directory when absent.
    pub dir: Option<PathBuf>,
    pub pace: Pace,
    pub look: Look,
    /// Where the libraries of legion are, when not beside this program.
    pub lib_dir: Option<PathBuf>,
}

/// How the tour ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every child succeeded and the tests are green.
    Succeeded,
    /// It went to its end, and not everything is as it should be.
    Failed,
    Interrupted(Signal),
}

/// Why there was no tour.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("the tour needs the extension, which did not load: {0}")]
    NoLegion(String),
    #[error("the script of the tour is faulty: {0}")]
    Script(#[from] crate::provider::scripted::script::ScriptError),
}

/// Goes on the tour and tells it on `console`. A signal ends it at once: its children are taken down first.
pub async fn tour(
    options: Options,
    env: Env,
    console: Arc<dyn Console>,
    signals: &mut Signals,
) -> Result<Ending, DemoError> {
    let script = content::script(options.pace)?;
    let place = Place::make(options.dir.as_deref())?;
    let (before, _) = place.run_tests()?;
    let program = env.command_name();
    let stage = Stage::new(options.look, Arc::clone(&console));
    stage.line(&format!("A small repository with faults ({before}): {}", place.repo.display()));
    stage.line(&format!("The task: {PROMPT}\n"));

    let (aside, mut asides) = unbounded_channel();
    let mut builder = Host::builder()
        .env(env)
        .cwd(&place.repo)
        .agent_dir(&place.agent_dir)
        .provider(Arc::new(ScriptedProvider::new(script)))
        .console(Arc::new(Aside(aside)));
    if let Some(dir) = options.lib_dir {
        builder = builder.lib_dir(dir);
    }
    let host = builder.build()?;
    if !host.root().shared.live().tools.iter().any(|tool| tool == "subagent") {
        let reasons: Vec<String> = std::iter::from_fn(|| asides.try_recv().ok()).collect();
        return Err(DemoError::NoLegion(reasons.join("; ")));
    }
    let mut show = Show { narrator: Narrator::default(), stage, events: host.subscribe(), asides };
    let outcome = show.until_ended(&host, signals).await;
    show.rest();
    let ending = match outcome {
        Ok(outcome) => {
            // Its ledger is closed before this process reads the file on its own.
            drop(host);
            let mut facts = facts::gather(&place, before)?;
            (facts.program, facts.answer, facts.error) = (program, outcome.text, outcome.error);
            console.line(Stream::Out, &facts.text());
            if facts.succeeded() { Ending::Succeeded } else { Ending::Failed }
        }
        Err(signal) => {
            let line = format!("\n{}: the children are being taken down; once more ends at once", signal.name());
            console.line(Stream::Err, &line);
            // A second signal does not wait for anyone.
            let _ = signals.race(host.interrupt(signal.name(), SIGNAL_BOUND)).await;
            drop(host);
            let (dir, repo, run) = (place.dir.clone(), place.repo.clone(), facts::run(&place));
            let facts = Facts { program, dir, repo, run, ..Facts::default() };
            console.line(Stream::Out, &facts.places().join("\n"));
            Ending::Interrupted(signal)
        }
    };
    Ok(ending)
}

/// The tour while it goes on.
struct Show {
    narrator: Narrator,
    stage: Stage,
    events: UnboundedReceiver<HostEvent>,
    asides: UnboundedReceiver<String>,
}

impl Show {
    /// Shows what happens until the host has come to its normal end, or a signal came.
    async fn until_ended(&mut self, host: &Host, signals: &mut Signals) -> Result<RunOutcome, Signal> {
        let work = async {
            let outcome = host.run_prompt(PROMPT).await;
            host.finish().await;
            outcome.unwrap_or_else(|error| RunOutcome { error: Some(error.to_string()), ..RunOutcome::default() })
        };
        tokio::pin!(work);
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                signal = signals.next() => return Err(signal),
                Some(event) = self.events.recv() => self.event(&event),
                Some(line) = self.asides.recv() => self.stage.line(&line),
                outcome = &mut work => return Ok(outcome),
                _ = tick.tick() => self.stage.tick(),
            }
        }
    }

    /// Shows what has come and was not shown, and takes the moving lines away.
    fn rest(mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.event(&event);
        }
        while let Ok(line) = self.asides.try_recv() {
            self.stage.line(&line);
        }
        self.stage.close();
    }

    fn event(&mut self, event: &HostEvent) {
        for beat in self.narrator.tell(event) {
            self.stage.show(&beat);
        }
    }
}

/// Brings the host's own lines in among those of the tour.
struct Aside(UnboundedSender<String>);

impl Console for Aside {
    fn line(&self, _: Stream, line: &str) {
        // A tour that is over shows nothing.
        let _ = self.0.send(line.to_owned());
    }
}
