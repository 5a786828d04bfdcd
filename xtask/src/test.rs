//! `cargo xtask test`: everything that must pass, cheapest first (QLT-2). `.ci/run` calls exactly this.

use std::time::Instant;

use crate::{generate, sh, tidy as rules};

type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: &[Step] = &[
    ("formatting", || sh::cargo(&["fmt", "--all", "--", "--check"])),
    ("tidy", tidy),
    ("clippy", || sh::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("generated files", generate::check),
    // Tests load the extension libraries and start `legion` from the target directory.
    ("build", || sh::cargo(&["build", "--workspace"])),
    (TESTS, tests),
    ("doctests", || sh::cargo(&["test", "--workspace", "--doc"])),
];

const TESTS: &str = "tests";

/// Runs every step until one fails, then says how each went.
pub fn run() -> Result<(), String> {
    let (summary, outcome) = run_steps(STEPS);
    println!("\n==> summary\n{summary}");
    outcome
}

/// The closing lines, and the failure of the step that ended the run.
fn run_steps(steps: &[Step]) -> (String, Result<(), String>) {
    let mut summary = String::new();
    let mut failure = None;
    for (at, (name, step)) in steps.iter().enumerate() {
        if failure.is_some() {
            summary += &format!("  --   {name}\n");
            continue;
        }
        println!("\n==> {}/{} {name}", at + 1, steps.len());
        let started = now();
        let outcome = step();
        let mark = if outcome.is_ok() { "ok" } else { "FAIL" };
        summary += &format!("  {mark:<4} {name} ({:.1} s)\n", seconds(started));
        failure = outcome.err().map(|message| (*name, message));
    }
    let Some((name, message)) = failure else { return (summary, Ok(())) };
    // The runners of tests print their own counts; a step before them did not.
    if steps.iter().take_while(|(step, _)| *step != name).all(|(step, _)| *step != TESTS) && name != TESTS {
        summary += "0 passed, 1 failed\n";
    }
    (summary, Err(format!("{message}\nxtask test: the step `{name}` failed")))
}

/// Fails with every finding, one per line.
pub fn tidy() -> Result<(), String> {
    let findings = rules::check(&sh::root());
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} finding{}", if count == 1 { "" } else { "s" })),
    }
}

fn tests() -> Result<(), String> {
    if sh::has_cargo("nextest") {
        return sh::cargo(&["nextest", "run", "--workspace"]);
    }
    println!("cargo-nextest is not installed; cargo test runs the same tests");
    sh::cargo(&["test", "--workspace", "--tests", "--no-fail-fast"])
}

#[expect(clippy::disallowed_methods, reason = "the duration of a step is shown to a person")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: fn() -> Result<(), String> = || Ok(());
    const BAD: fn() -> Result<(), String> = || Err("why".to_owned());

    /// QLT-2
    #[test]
    fn the_first_failing_step_ends_the_run() {
        let (summary, outcome) = run_steps(&[("a", GOOD), ("b", BAD), (TESTS, || panic!("comes after a failure"))]);
        assert_eq!(outcome, Err("why\nxtask test: the step `b` failed".to_owned()));
        let marks: Vec<_> = summary.lines().map(|line| line.split(" (").next().unwrap_or_default()).collect();
        assert_eq!(marks, ["  ok   a", "  FAIL b", "  --   tests", "0 passed, 1 failed"]);
    }

    /// QLT-2
    #[test]
    fn the_count_is_left_to_the_test_runner_once_it_spoke() {
        for steps in [&[(TESTS, BAD)] as &[Step], &[(TESTS, GOOD), ("doctests", BAD)], &[(TESTS, GOOD)]] {
            assert!(!run_steps(steps).0.contains(" passed, "));
        }
    }
}
