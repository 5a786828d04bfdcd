//! The guide for authors of hosts and extensions: what it shows is what the tests compile and run.

use std::{fs, path::Path};

use tests::libraries::library;

#[path = "../examples/smallest_host.rs"]
#[expect(dead_code, reason = "its `main` is for the example's own program")]
mod smallest_host;

/// DOC-2, part of 12-T10: the smallest host runs the smallest extension.
#[test]
fn the_smallest_host_runs_the_smallest_extension() {
    assert_eq!(smallest_host::greet(&library("smallest_ext"), "Ada").unwrap(), "Hello Ada");
}

/// DOC-2
#[test]
fn the_smallest_host_says_what_is_wrong_with_a_library() {
    let error = smallest_host::greet(Path::new("nowhere.so"), "Ada").unwrap_err();
    assert!(error.to_string().starts_with("extension library not found: nowhere.so"), "{error}");
}

/// DOC-2: the guide's code is that of the compiled files, whole.
#[test]
fn the_guide_shows_the_compiled_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let guide = read("docs/writing-a-host.md");
    for path in ["tests/extensions/smallest-ext/src/lib.rs", "tests/examples/smallest_host.rs"] {
        let block = format!("```rust\n{}```\n", read(path));
        assert!(guide.contains(&block), "docs/writing-a-host.md does not show {path} as it is: copy it in");
    }
    assert_eq!(guide.matches("```rust\n").count(), 2, "each block of Rust is one of the compiled files");
}
