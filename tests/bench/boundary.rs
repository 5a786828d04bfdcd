//! PERF-5, native: from the host into an extension and back.

use std::time::Instant;

use host_abi::calls::queries::RENDER_MESSAGE;
use legion_ext::clock;
use serde_json::json;
use tests::mini_host::{MiniHost, MiniSession};

use crate::Form;
use crate::sheet::{Bar, Grows, Series, number};
use crate::stats::percentile;

/// Bytes of a payload.
const SIZES: [usize; 3] = [100, 1_000, 10_000];

pub fn measure(form: Form) -> Result<Vec<Series>, String> {
    let session = MiniHost::shared().session("probe_ext");
    let rounds = form.pick(50_000, 20_000, 50);
    let queries: Vec<(f64, Vec<f64>)> =
        SIZES.iter().map(|size| (*size as f64, query(&session, *size, rounds))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let calls = SIZES.iter().map(|size| (*size as f64, runtime.block_on(call(&session, *size, rounds / 10))));
    let calls: Vec<(f64, Vec<f64>)> = calls.collect();
    session.detach();

    let small = &queries[0].1;
    let bar = Bar { text: "≤ 5 µs p50", met: percentile(small, 0.5) <= 5.0 };
    Ok(vec![
        Series {
            id: "PERF-5",
            bar: (form != Form::Tiny).then_some(bar),
            ..series("a question to an extension and its answer", &queries)
        },
        series("a tool call to an extension, a task of its own, and its result", &calls),
    ])
}

fn series(work: &'static str, by_size: &[(f64, Vec<f64>)]) -> Series {
    let (size, small) = &by_size[0];
    let (p50, p99) = (percentile(small, 0.5), percentile(small, 0.99));
    Series {
        id: "",
        work,
        size_unit: "bytes",
        cost_unit: "µs",
        points: by_size.iter().map(|(size, times)| (*size, percentile(times, 0.5))).collect(),
        grows: Grows::WithSize,
        headline: format!("p50 {p50:.1} µs, p99 {p99:.1} µs at {} bytes", number(*size)),
        bar: None,
    }
}

/// Microseconds of each round.
fn query(session: &MiniSession, size: usize, rounds: usize) -> Vec<f64> {
    let payload = json!({ "customType": "bench", "content": "x".repeat(size), "width": 80, "expanded": false });
    let json = payload.to_string();
    let ask = || session.extension.query_json(session.scope, RENDER_MESSAGE, json.clone()).expect("the probe answers");
    timed(rounds, || drop(ask()))
}

async fn call(session: &MiniSession, size: usize, rounds: usize) -> Vec<f64> {
    let text = "x".repeat(size);
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begun = clock::instant();
        session.tool("probe_echo", json!({ "text": text })).await.expect("the probe answers");
        times.push(micros(begun));
    }
    times
}

fn timed(rounds: usize, mut work: impl FnMut()) -> Vec<f64> {
    // The first rounds fill caches.
    (0..rounds / 10).for_each(|_| work());
    (0..rounds)
        .map(|_| {
            let begun = clock::instant();
            work();
            micros(begun)
        })
        .collect()
}

fn micros(begun: Instant) -> f64 {
    (clock::instant() - begun).as_secs_f64() * 1e6
}
