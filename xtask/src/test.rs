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
    let mut lines = Vec::new();
    for (at, (name, step)) in STEPS.iter().enumerate() {
        println!("\n==> {}/{} {name}", at + 1, STEPS.len());
        let started = now();
        let outcome = step();
        lines.push(format!("  {:<4} {name} ({:.1} s)", if outcome.is_ok() { "ok" } else { "FAIL" }, seconds(started)));
        if let Err(message) = outcome {
            lines.extend(STEPS[at + 1..].iter().map(|(name, _)| format!("  --   {name}")));
            eprintln!("\n{message}");
            println!("\n==> summary\n{}", lines.join("\n"));
            // A runner of the tests prints its own count; before it nothing did.
            if STEPS[..=at].iter().all(|(name, _)| *name != TESTS) {
                println!("0 passed, 1 failed");
            }
            return Err(format!("xtask test: the step `{name}` failed; run it alone, mend it, and start again"));
        }
    }
    println!("\n==> summary\n{}", lines.join("\n"));
    Ok(())
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
    sh::cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
}

#[expect(clippy::disallowed_methods, reason = "the duration of a step is shown to a person")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(started: Instant) -> f64 {
    started.elapsed().as_secs_f64()
}
