//! The benchmarks run. What they measure is for `cargo xtask bench`; no test asserts a time.

use std::process::Command;

/// QLT-3, 12-T11: each measure is taken at three sizes and prints how it grows, and the page has them all.
#[test]
fn every_benchmark_prints_its_fit() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("benchmarks.md");
    let output = Command::new(env!("CARGO_BIN_EXE_legion-bench"))
        .args(["--form", "tiny", "--toolchain", "rustc 0"])
        .arg("--out")
        .arg(&page)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));

    let measures = [
        "fan-out, tool call to the last child's first request",
        "fan-out, tool call to the last result",
        "PERF-4  accept all children",
        "PERF-5  a question to an extension and its answer",
        "PERF-6  events by one process",
        "PERF-6  mails by one process",
        "PERF-6  events by four processes on one file",
        "PERF-6  mails by four processes on one file",
        "PERF-8  first read of a transcript",
        "PERF-8  a look that finds one new entry",
    ];
    let page = std::fs::read_to_string(&page).unwrap();
    for measure in measures {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{measure}: ")));
        let line = line.unwrap_or_else(|| panic!("no '{measure}' in {text}"));
        assert_eq!(line.matches(" → ").count(), 3, "{line}");
        let work = measure.split_once("  ").map_or(measure, |(_, work)| work);
        assert!(page.contains(&format!("| {work} | ")), "{work}");
    }
    for line in text.lines() {
        assert!(line.contains("; fit n^"), "{line}");
    }
    #[cfg(target_os = "linux")]
    assert!(page.contains("| memory of all children at work | "), "{page}");
    assert!(!page.contains(dir.path().to_str().unwrap()), "the page names no place of this machine");
}
