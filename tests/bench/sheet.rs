//! Results as lines on the terminal and as a page.

use crate::Form;
use crate::machine::Machine;
use crate::stats::growth;

/// Noise that a fit may have above the growth that is allowed.
const TOLERANCE: f64 = 0.15;

/// One cost at several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The bar's id, or none for a figure without one.
    pub id: &'static str,
    pub work: &'static str,
    /// What is counted, such as `children`.
    pub size_unit: &'static str,
    pub cost_unit: &'static str,
    /// Size and the median of its cost.
    pub points: Vec<(f64, f64)>,
    pub grows: Grows,
    /// The figure that the bar is about.
    pub headline: String,
    pub bar: Option<Bar>,
}

/// What a cost may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grows {
    WithSize,
    /// It is the same at any size.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    pub text: &'static str,
    pub met: bool,
}

impl Series {
    /// For the terminal.
    pub fn line(&self) -> String {
        let bar = self.bar.map(|bar| format!(" (bar {}: {})", bar.text, met(bar.met))).unwrap_or_default();
        let (id, work, fit, headline) = (self.id, self.work, self.fit(), &self.headline);
        format!("{id:<7} {work}: {}; fit {fit}; {headline}{bar}", self.medians(" → ", ", "))
    }

    fn medians(&self, to: &str, and: &str) -> String {
        let points: Vec<String> =
            self.points.iter().map(|(size, cost)| format!("{}{to}{}", number(*size), figure(*cost))).collect();
        format!("{} ({} by {})", points.join(and), self.cost_unit, self.size_unit)
    }

    fn fit(&self) -> String {
        let Some(exponent) = growth(&self.points) else { return "unknown".to_owned() };
        let allowed = match self.grows {
            Grows::WithSize => 1.0,
            Grows::Never => 0.0,
        };
        let word = if exponent <= allowed + TOLERANCE { "ok" } else { "too fast" };
        format!("n^{exponent:.2} {word}")
    }

    fn row(&self) -> String {
        let bar = self.bar.map_or_else(|| " | ".to_owned(), |bar| format!("{} | {}", bar.text, met(bar.met)));
        let (id, work, fit, headline) = (self.id, self.work, self.fit(), &self.headline);
        format!("| {id} | {work} | {} | {fit} | {headline} | {bar} |", self.medians(": ", " · "))
    }
}

const fn met(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

/// The page `docs/benchmarks.md`.
pub fn page(machine: &Machine, form: Form, all: &[Series]) -> String {
    let rows: Vec<String> = all.iter().map(Series::row).collect();
    let form = form.pick("full", "quick", "tiny");
    let Machine { cores, memory, system, toolchain, version } = machine;
    format!(
        "# Benchmarks

Written by `cargo xtask bench` ({form} form); run it to get the figures of your machine. Medians; `fit` is the exponent
of the cost over three sizes, and `ok` means that the cost grows no faster than the work. Bars are those of
[part 12 §3](spec/12-quality.md) of the specification. No test asserts a time.

| Machine | |
| --- | --- |
| cores | {cores} |
| memory | {memory} |
| system | {system} |
| toolchain | {toolchain}, release profile |
| pi-legion | {version} |

| Id | Work | Medians | Fit | Figure | Bar | |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

Children are real sessions of the native host with `legion-ext` and `child-guard` loaded, transcripts on the disk and
rows in the ledger; their model answers at once, and all of them are held at their first request until the last one is
there, so memory is that of all at work. The ledger's writers write one row a transaction. The transcript is read by the
reader that the supervisor uses.
",
        rows = rows.join("\n"),
    )
}

/// Three digits are enough.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => number(value.round()),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A whole number with its thousands set apart.
pub fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let groups: Vec<&str> = (0..digits.len())
        .filter(|at| (digits.len() - at) % 3 == 0 || *at == 0)
        .map(|at| {
            let end = at + if at == 0 && digits.len() % 3 != 0 { digits.len() % 3 } else { 3 };
            &digits[at..end.min(digits.len())]
        })
        .collect();
    format!("{sign}{}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let written: Vec<String> = [0.0, 12.0, 100.0, 1_000.0, 12_345.0, 1_234_567.0, -1_000.0].map(number).to_vec();
        assert_eq!(written, ["0", "12", "100", "1,000", "12,345", "1,234,567", "-1,000"]);
    }

    #[test]
    fn a_fit_says_when_a_cost_grows_too_fast() {
        let series = |exponent: i32, grows| Series {
            id: "PERF-0",
            work: "w",
            size_unit: "things",
            cost_unit: "ms",
            points: [10.0, 100.0, 1000.0].map(|n: f64| (n, n.powi(exponent))).to_vec(),
            grows,
            headline: "h".to_owned(),
            bar: Some(Bar { text: "b", met: true }),
        };
        assert_eq!(series(1, Grows::WithSize).fit(), "n^1.00 ok");
        assert_eq!(series(2, Grows::WithSize).fit(), "n^2.00 too fast");
        assert_eq!(series(1, Grows::Never).fit(), "n^1.00 too fast");
        assert_eq!(
            series(1, Grows::WithSize).line(),
            "PERF-0  w: 10 → 10.0, 100 → 100, 1,000 → 1,000 (ms by things); fit n^1.00 ok; h (bar b: met)"
        );
    }
}
