//! PERF-4 and the fan-out of twelve: children of the native host with an instant model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use legion_ext::clock;
use native_host::console::MemoryConsole;
use native_host::env::Env;
use native_host::host::Host;
use native_host::session::event::SessionEvent;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Form;
use crate::machine;
use crate::parts;
use crate::provider::Instantly;
use crate::sheet::{Bar, Grows, Series, figure, number};
use crate::stats::median;

/// Longest wait for a fan-out; reached only by a fault.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one fan-out took; milliseconds since the root's tool call, and memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fanout {
    accepted_ms: f64,
    last_request_ms: f64,
    last_result_ms: f64,
    collected_ms: f64,
    /// Above the root alone, while every child waits for its model.
    kb: Option<f64>,
    threads: Option<u64>,
}

pub fn measure(form: Form) -> Result<Vec<Series>, String> {
    let twelve = points(form, &[4, 8, 12])?;
    let many = points(form, &form.pick([100, 316, 1_000], [100, 316, 1_000], [4, 8, 16]))?;
    let largest = many.last().map(|(_, runs)| runs.clone()).unwrap_or_default();
    let count = many.last().map_or(1.0, |(size, _)| *size);
    let accepted = median_of(&largest, |run| Some(run.accepted_ms)).unwrap_or(f64::NAN);
    let each = median_of(&largest, |run| run.kb).map(|kb| kb / count);
    let threads = median_of(&largest, |run| run.threads.map(|threads| threads as f64));

    let ms = |work, points: &[(f64, Vec<Fanout>)], pick: fn(&Fanout) -> f64| Series {
        id: "",
        work,
        size_unit: "children",
        cost_unit: "ms",
        points: points
            .iter()
            .filter_map(|(size, runs)| Some((*size, median_of(runs, |run| Some(pick(run)))?)))
            .collect(),
        grows: Grows::WithSize,
        headline: String::new(),
        bar: None,
    };
    let last = |series: Series, what: &str| {
        let cost = series.points.last().map_or(f64::NAN, |(_, cost)| *cost);
        Series { headline: format!("{what} after {} ms", figure(cost)), ..series }
    };
    let mut all = vec![
        last(
            ms("fan-out, tool call to the last child's first request", &twelve, |run| run.last_request_ms),
            "12 at work",
        ),
        last(ms("fan-out, tool call to the last result", &twelve, |run| run.last_result_ms), "12 done"),
        Series {
            id: "PERF-4",
            headline: format!("{} accepted in {} ms", number(count), figure(accepted)),
            bar: (form != Form::Tiny).then_some(Bar { text: "1,000 in ≤ 1 s", met: accepted <= 1_000.0 }),
            ..ms("accept all children", &many, |run| run.accepted_ms)
        },
        last(ms("tool call to the last result", &many, |run| run.last_result_ms), "the last one done"),
        last(ms("tool call to the parent's request with all results", &many, |run| run.collected_ms), "all read"),
    ];
    if let Some(each) = each {
        let kb = many.iter().filter_map(|(size, runs)| Some((*size, median_of(runs, |run| run.kb)?)));
        all.push(Series {
            id: "PERF-4",
            cost_unit: "KB",
            points: kb.collect(),
            headline: format!("{each:.0} KB each, {} threads in all", threads.unwrap_or(f64::NAN)),
            bar: (form != Form::Tiny).then_some(Bar { text: "≤ 400 KB each", met: each <= 400.0 }),
            ..ms("memory of all children at work", &[], |_| 0.0)
        });
    }
    Ok(all)
}

/// Fan-outs of each size, each in a process of its own; the sizes are interleaved, so that a busy moment of the machine
/// does not fall on one of them.
fn points(form: Form, sizes: &[usize]) -> Result<Vec<(f64, Vec<Fanout>)>, String> {
    let mut points: Vec<(f64, Vec<Fanout>)> = sizes.iter().map(|size| (*size as f64, Vec::new())).collect();
    for _ in 0..form.repetitions() {
        for (size, (_, runs)) in sizes.iter().zip(&mut points) {
            runs.push(parts::run(&["fanout", &size.to_string()])?);
        }
    }
    Ok(points)
}

fn median_of(runs: &[Fanout], pick: impl Fn(&Fanout) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(pick).collect();
    (!values.is_empty()).then(|| median(&values))
}

/// One fan-out, in this process.
pub fn run(children: usize) -> Result<Fanout, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let run = async { tokio::time::timeout(PATIENCE, fan_out(children)).await };
    runtime.block_on(run).unwrap_or_else(|_| Err(format!("{children} children did not end within {PATIENCE:?}")))
}

async fn fan_out(children: usize) -> Result<Fanout, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (cwd, agent_dir) = (dir.path().join("project"), dir.path().join("agent"));
    let settings = json!({ "subagents": {
        "legion": { "maxChildrenPerNode": children, "maxActiveNodes": children },
        "inprocess": { "maxChildrenPerNode": children, "maxActive": children },
    } });
    for made in [&cwd, &agent_dir] {
        std::fs::create_dir_all(made).map_err(|error| error.to_string())?;
    }
    std::fs::write(agent_dir.join("settings.json"), settings.to_string()).map_err(|error| error.to_string())?;

    let model = Arc::new(Instantly::new(children));
    let console = Arc::new(MemoryConsole::default());
    let env = Env::read().map_err(|error| error.to_string())?;
    let host = Host::builder()
        .env(env)
        .cwd(&cwd)
        .agent_dir(&agent_dir)
        .provider(Arc::clone(&model) as _)
        .console(Arc::clone(&console) as _)
        .build()
        .map_err(|error| error.to_string())?;
    let mut events = host.subscribe();
    let last_settled = host.core().runtime.spawn(async move {
        let mut last: Option<Instant> = None;
        let mut settled = 0;
        while let Some(event) = events.recv().await {
            if !event.root && matches!(*event.event, SessionEvent::AgentSettled { .. }) {
                settled += 1;
                last = Some(clock::instant());
                if settled == children {
                    break;
                }
            }
        }
        last
    });
    let before_kb = machine::resident_kb();
    host.run_prompt("Fan out.").await.map_err(|error| error.to_string())?;
    host.finish().await;
    drop(host);
    let last_settled = last_settled.await.map_err(|error| error.to_string())?;
    let notes = model.notes();
    let called = notes.called.ok_or_else(|| missing("launch", &console))?;
    let since = |at: Option<Instant>, what: &str| {
        at.map(|at| (at - called).as_secs_f64() * 1e3).ok_or_else(|| missing(what, &console))
    };
    Ok(Fanout {
        accepted_ms: since(notes.accepted, "acceptance")?,
        last_request_ms: since(notes.last_request, "first request")?,
        last_result_ms: since(last_settled, "result")?,
        collected_ms: since(notes.collected, "collection")?,
        kb: notes.resident_kb.zip(before_kb).map(|(peak, before)| peak.saturating_sub(before) as f64),
        threads: notes.threads,
    })
}

fn missing(what: &str, console: &MemoryConsole) -> String {
    let said = console.lines(host_abi::ops::Stream::Err).join("; ");
    format!("the fan-out came to no {what}: {said}")
}
