//! `grep` and `find`.

use serde_json::json;

use super::*;

fn tree() -> Place {
    let place = Place::new();
    place.write(".gitignore", "target/\n*.log\n");
    place.write("src/a.rs", "fn one() {}\nfn two() {}\n// Two\n");
    place.write("src/deep/b.rs", "fn three() {}\r\nlet two = 2;\r\n");
    place.write("target/c.rs", "fn two() {}\n");
    place.write("x.log", "two\n");
    place.write(".hidden/d.rs", "two here\n");
    place.write(".git/e.rs", "two\n");
    place.write("bin.dat", b"two\0two\n");
    place.write("README.md", "a.b two [x]\n");
    place
}

/// NAT-4: ignore files hold, dotfiles are there, git's own files and binaries are not
#[tokio::test]
async fn grep_finds_what_a_person_would() {
    let place = tree();
    let grep = |input| place.call("grep", input);
    assert_eq!(
        grep(json!({ "pattern": "two" })).await.good(),
        ".hidden/d.rs:1: two here\nREADME.md:1: a.b two [x]\nsrc/a.rs:2: fn two() {}\nsrc/deep/b.rs:2: let two = 2;"
    );
    assert_eq!(grep(json!({ "pattern": "fn t.*e", "path": "src" })).await.good(), "deep/b.rs:1: fn three() {}");
    assert_eq!(grep(json!({ "pattern": "a.b two [", "literal": true })).await.good(), "README.md:1: a.b two [x]");
    assert_eq!(
        grep(json!({ "pattern": "TWO", "ignoreCase": true, "glob": "*.rs", "path": "src" })).await.good(),
        "a.rs:2: fn two() {}\na.rs:3: // Two\ndeep/b.rs:2: let two = 2;"
    );
    assert_eq!(grep(json!({ "pattern": "two", "glob": "./src/*.rs" })).await.good(), "src/a.rs:2: fn two() {}");
    assert_eq!(grep(json!({ "pattern": "two", "glob": "!*.rs" })).await.good(), "README.md:1: a.b two [x]");
    assert_eq!(grep(json!({ "pattern": "two", "path": "src/a.rs" })).await.good(), "a.rs:2: fn two() {}");
    assert_eq!(grep(json!({ "pattern": "nowhere" })).await.good(), "No matches found");
    assert!(grep(json!({ "pattern": "(" })).await.bad().starts_with("Invalid pattern: "));
    assert!(grep(json!({ "pattern": "x", "path": "nope" })).await.bad().starts_with("Path not found: "));
}

#[tokio::test]
async fn grep_shows_context_and_says_what_it_left_out() {
    let place = Place::new();
    place.write("f", "1\n2 hit\n3\n4\n5 hit\n6 hit\n7\n");
    let grep = |input| place.call("grep", input);
    assert_eq!(
        grep(json!({ "pattern": "hit", "context": 1 })).await.good(),
        "f-1- 1\nf:2: 2 hit\nf-3- 3\nf-4- 4\nf:5: 5 hit\nf:6: 6 hit\nf-7- 7"
    );
    let output = grep(json!({ "pattern": "hit", "context": 1, "limit": 2 })).await;
    let note = "[2 matches limit reached. Use limit=4 for more, or a narrower pattern]";
    assert_eq!(output.good(), format!("f-1- 1\nf:2: 2 hit\nf-3- 3\nf-4- 4\nf:5: 5 hit\nf-6- 6 hit\n\n{note}"));
    assert_eq!(output.details.unwrap()["matchLimitReached"], 2);
    let output = grep(json!({ "pattern": "hit", "limit": 3 })).await;
    assert_eq!((output.good().lines().count(), output.details), (3, None));

    place.write("f", format!("{}hit\n", "x".repeat(600)));
    let output = grep(json!({ "pattern": "hit" })).await;
    assert!(output.good().contains("... [truncated]\n\n[Some lines were cut to 500 characters"));
    place.write("f", format!("hit {}\n", "x".repeat(400)).repeat(500));
    let output = grep(json!({ "pattern": "hit", "limit": 1000 })).await;
    let text = output.good();
    assert!(text.len() < MAX_BYTES + 200 && text.ends_with("[50.0KB limit reached]"), "{}", text.len());
    assert_eq!(output.details.unwrap()["truncation"]["totalLines"], 500);
}

#[tokio::test]
async fn find_matches_names_and_paths() {
    let place = tree();
    let find = |input| place.call("find", input);
    assert_eq!(find(json!({ "pattern": "*.rs" })).await.good(), ".hidden/d.rs\nsrc/a.rs\nsrc/deep/b.rs");
    assert_eq!(find(json!({ "pattern": "src/*.rs" })).await.good(), "src/a.rs");
    assert_eq!(find(json!({ "pattern": "./src/**/*.rs" })).await.good(), "src/a.rs\nsrc/deep/b.rs");
    assert_eq!(find(json!({ "pattern": "readme*" })).await.good(), "README.md");
    assert_eq!(find(json!({ "pattern": "Readme*" })).await.good(), "No files found matching pattern");
    assert_eq!(find(json!({ "pattern": "deep" })).await.good(), "src/deep/");
    assert_eq!(find(json!({ "pattern": "*.rs", "path": "src" })).await.good(), "a.rs\ndeep/b.rs");
    let absolute = format!("{}/src/*.rs", place.cwd.display());
    assert_eq!(find(json!({ "pattern": absolute })).await.good(), "src/a.rs");
    let output = find(json!({ "pattern": "*.rs", "limit": 1 })).await;
    assert_eq!(output.good(), ".hidden/d.rs\n\n[1 results limit reached. Use limit=2 for more, or a narrower pattern]");
    assert_eq!(output.details.unwrap()["resultLimitReached"], 1);
    assert!(find(json!({ "pattern": "[" })).await.bad().starts_with("Invalid pattern: "));
    assert!(find(json!({ "pattern": "*", "path": "nope" })).await.bad().starts_with("Path not found: "));
    for number in 0..1_200 {
        place.write(&format!("many/{number:04}-{}", "n".repeat(60)), "");
    }
    let text = find(json!({ "pattern": "*", "limit": 5000 })).await.good();
    assert!(text.len() < MAX_BYTES + 200 && text.ends_with("[50.0KB limit reached]"), "{}", text.len());
}
