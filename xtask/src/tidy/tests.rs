//! Planted offences in a small project of its own.

use super::check;
use super::tables::{ANY, MODULES};

/// A project without an offence: `host-abi` and `legion-ext` with a few modules, one rule, two must-have tests.
const CLEAN: &[(&str, &str)] = &[
    ("host-abi/Cargo.toml", "[package]\nname = \"host-abi\"\n[dependencies]\nabi_stable.workspace = true\n"),
    ("host-abi/src/lib.rs", "use abi_stable::std_types::RString;\n"),
    (
        "legion-ext/Cargo.toml",
        "[package]\nname = \"legion-ext\"\n\n[dependencies]\nhost-abi.workspace = true\nrusqlite.workspace = true\n\
         serde.workspace = true\ntokio.workspace = true\n\n[dev-dependencies]\nproptest.workspace = true\n",
    ),
    ("legion-ext/src/lib.rs", "pub mod clock;\npub mod core;\npub mod ledger;\npub mod tools;\n"),
    ("legion-ext/src/clock.rs", "pub fn now() -> std::time::Instant { std::time::Instant::now() }\n"),
    ("legion-ext/src/core/mod.rs", "mod plan;\nuse serde::Serialize;\npub use plan::Plan;\n"),
    ("legion-ext/src/core/plan.rs", "pub struct Plan;\n#[cfg(test)]\nmod tests;\n"),
    (
        "legion-ext/src/core/plan/tests.rs",
        "use crate::ledger::Row;\n/// Keeps the order: ADM-1, 05-T1\n#[test]\nfn order() { let t = std::time::Instant::now(); \
         println!(\"{:?}\", t.elapsed()); }\n",
    ),
    ("legion-ext/src/ledger/mod.rs", "pub struct Row;\nuse rusqlite::Connection;\nuse crate::core::Plan;\n"),
    ("legion-ext/src/tools/mod.rs", "use crate::{core::Plan, ledger::Row};\n"),
    ("docs/spec/05-queue.md", "- **ADM-1** Order.\n- **05-T1 order.** Text.\n- **05-T2 late.** Text.\n"),
    ("docs/spec/rules.txt", "ADM-1 05-queue.md\nADM-2 retired\n"),
    ("docs/spec/tests.txt", "05-T1 order\n05-T2 late\n05-T3 retired\n"),
    ("docs/spec/open-tests.txt", "05-T2 issue-5 needs the queue\n"),
];

/// The findings of the clean project with some files put in place of its own or added.
fn findings(planted: &[(&str, &str)]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in CLEAN.iter().chain(planted) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    check(root.path()).iter().map(ToString::to_string).collect()
}

/// Plants one file, `mod`-declared by `tools` if it lies there, and expects one finding that starts as given.
#[track_caller]
fn finds(path: &str, text: &str, expected: &str) {
    let mut planted = vec![(path, text)];
    let declared = path.strip_prefix("legion-ext/src/tools/").and_then(|name| name.strip_suffix(".rs"));
    let declaration = declared.map(|name| format!("mod {name};\n")).unwrap_or_default();
    if !declaration.is_empty() && path != "legion-ext/src/tools/mod.rs" {
        planted.push(("legion-ext/src/tools/mod.rs", &declaration));
    }
    let found = findings(&planted);
    assert_eq!(found.len(), 1, "{path} with {text:?}: {found:#?}");
    assert!(found[0].starts_with(expected), "{path} with {text:?}:\n found    {}\n expected {expected}", found[0]);
    assert!(found[0].contains("; "), "a finding says what to do: {}", found[0]);
}

const TOOL: &str = "legion-ext/src/tools/x.rs";
const PLAN: &str = "legion-ext/src/core/plan.rs";
const TESTS_OF_PLAN: &str = "legion-ext/src/core/plan/tests.rs";

/// QLT-4
#[test]
fn a_clean_project_has_no_finding() {
    assert_eq!(findings(&[]), Vec::<String>::new());
}

/// 12-T2, QLT-4
#[test]
fn each_kind_of_planted_offence_is_found() {
    let tested = "#[cfg(test)]\nmod tests;\n";
    // Import upwards.
    finds(PLAN, &format!("use crate::tools::X;\n{tested}"), &format!("{PLAN}:1: `core` imports `tools`"));
    // Crates that few may name.
    finds(TOOL, "\nuse abi_stable::RStr;\n", &format!("{TOOL}:2: names `abi_stable`"));
    finds(TOOL, "fn f(c: &rusqlite::Connection) {}\n", &format!("{TOOL}:1: names `rusqlite`"));
    // Clock, environment, processes, bare spawns, prints.
    finds(TOOL, "fn f() { std::time::Instant::now(); }\n", &format!("{TOOL}:1: reads a clock"));
    finds(TOOL, "fn f() { std::env::var(\"HOME\"); }\n", &format!("{TOOL}:1: touches the process environment"));
    finds(TOOL, "use std::process::Command;\n", &format!("{TOOL}:1: starts a process"));
    finds(TOOL, "fn f() { tokio::spawn(async {}); }\n", &format!("{TOOL}:1: spawns bare"));
    finds(TOOL, "fn f() { println!(); }\n", &format!("{TOOL}:1: prints by `println!`"));
    // Forgotten test files: below a module, and below a folder that is no target.
    let forgotten = "legion-ext/src/tools/tests.rs";
    let found = findings(&[(forgotten, "")]);
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{forgotten}:1: test file that nothing compiles")),
        "{found:?}"
    );
    finds("legion-ext/tests/deep/case.rs", "", "legion-ext/tests/deep/case.rs:1: test file that nothing compiles");
    // Ids.
    let test = |doc: &str| format!("/// 05-T1\n/// {doc}\n#[test]\nfn t() {{}}\n");
    finds(TESTS_OF_PLAN, &test("ADM-9"), &format!("{TESTS_OF_PLAN}:2: names `ADM-9`"));
    finds(TESTS_OF_PLAN, &test("05-T9"), &format!("{TESTS_OF_PLAN}:2: names `05-T9`"));
    finds("docs/spec/open-tests.txt", "", "docs/spec/tests.txt:2: no test names `05-T2`");
}

/// QLT-4
#[test]
fn imports_are_seen_in_every_form() {
    for (line, text) in [
        (1, "use crate::{core::Plan, tools};\n"),
        (1, "use super::tools::X;\n"),
        (2, "fn f() {\n    crate::tools::x();\n}\n"),
        (1, "fn f() { let s = format!(\"{}\", crate::tools::x()); }\n"),
        (2, "mod inner {\n    use super::super::tools::X;\n}\n"),
        (1, "macro_rules! m { () => { $crate::tools::x() } }\n"),
    ] {
        let path = "legion-ext/src/ledger/mod.rs";
        finds(path, text, &format!("{path}:{line}: `ledger` imports `tools`"));
    }
}

/// QLT-4
#[test]
fn core_knows_no_crate_no_input_and_no_async() {
    let plan = |line: &str| format!("{line}\n#[cfg(test)]\nmod tests;\n");
    finds(PLAN, &plan("use tokio::sync::Mutex;"), &format!("{PLAN}:1: `core` names the crate `tokio`"));
    finds(PLAN, &plan("fn f(p: &std::fs::File) {}"), &format!("{PLAN}:1: `core` names `std::fs`"));
    finds(PLAN, &plan("async fn f() {}"), &format!("{PLAN}:1: `core` is asynchronous"));
    // A variable that is called like a crate is none.
    assert!(findings(&[(PLAN, &plan("fn f(tokio: u8) -> u8 { tokio }"))]).is_empty());
}

/// QLT-4
#[test]
fn bans_follow_imports_and_renames() {
    for (text, expected) in [
        ("use std::time::{self, Instant as Then};\nfn f() { Then::now(); }\n", "2: reads a clock"),
        ("use std::time;\nfn f() { time::SystemTime::now(); }\n", "2: reads a clock"),
        ("fn f(t: std::time::Instant) { t.elapsed(); }\n", "1: reads a clock"),
        ("fn f(t: std::time::Instant) { vec![t.elapsed()]; }\n", "1: reads a clock"),
        ("use std::env::*;\n", "1: touches the process environment"),
        ("use tokio::task::JoinSet as Set;\n", "1: spawns bare"),
        ("use std::thread;\nfn f() { thread::spawn(|| {}); }\n", "2: spawns bare"),
        ("fn f() { todo!() }\n", "1: leaves `todo!`"),
    ] {
        finds(TOOL, text, &format!("{TOOL}:{expected}"));
    }
    assert!(
        findings(&[("legion-ext/src/tools/mod.rs", "fn f() -> &'static str { std::env::consts::OS }\n")]).is_empty()
    );
    assert!(
        findings(&[("legion-ext/src/tools/mod.rs", "#[cfg(not(test))]\nfn f() { std::env::var(\"A\"); }\n")]).len()
            == 1,
        "`not(test)` is product code"
    );
}

/// QLT-12
#[test]
fn an_ignored_test_is_found_inside_a_macro_too() {
    let path = TESTS_OF_PLAN;
    let text = "proptest! {\n    /// 05-T1\n    #[test]\n    #[ignore = \"slow\"]\n    fn t(n in 0..9) {}\n}\n";
    finds(path, text, &format!("{path}:4: ignores a test"));
}

/// QLT-4
#[test]
fn ids_are_read_from_names_and_docs_but_not_from_ranges_and_prose() {
    let with = |test: &str| findings(&[(TESTS_OF_PLAN, test)]);
    assert!(with("#[test]\nfn order_05_t1() {}\n").is_empty(), "an id in the name");
    assert!(with("/// Text in UTF-8, as 05-T1 says.\n#[tokio::test]\nasync fn t() {}\n").is_empty(), "prose");
    assert!(with("proptest! {\n    /// 05-T1\n    #[test]\n    fn t(n in 0..9) {}\n}\n").is_empty(), "inside a macro");

    let range = with("/// 05-T1..T3\n#[test]\nfn t() {}\n");
    assert!(range[0].contains("no test names `05-T1`") && range[1].contains("a range from `05-T1`"), "{range:#?}");
    let helper = with("/// 05-T1\nfn helper() {}\n#[test]\nfn t() {}\n");
    assert!(helper[0].contains("no test names `05-T1`"), "the doc of a helper proves nothing: {helper:#?}");
    let slip = with("/// 05-T1, AMD-1\n#[test]\nfn t() {}\n");
    assert!(slip[0].contains("names `AMD-1`"), "{slip:#?}");
    let part = with("/// Part of 05-T1, part of 05-T9\n#[test]\nfn t() {}\n");
    assert!(part[0].contains("no test names `05-T1`") && part[1].contains("names `05-T9`"), "{part:#?}");
    let retired = with("/// 05-T1, 05-T3, ADM-2\n#[test]\nfn t() {}\n");
    assert_eq!(retired.iter().filter(|finding| finding.contains("which is retired")).count(), 2, "{retired:#?}");
}

/// QLT-4
#[test]
fn the_open_list_only_shrinks() {
    for (text, line, expected) in [
        ("05-T1 issue-5\n05-T2 issue-5\n", 1, "`05-T1` is open, and legion-ext/src/core/plan/tests.rs:2 names it"),
        ("05-T2\n", 1, "`05-T2` has no issue"),
        ("05-T2 issue-x\n", 1, "`05-T2` has no issue"),
        ("05-T2 issue-later\n05-T2 issue-later\n", 2, "`05-T2` stands here twice"),
        ("05-T2 issue-later\n05-T3 issue-5\n", 2, "`05-T3` is retired"),
        ("05-T2 issue-later\n05-T4 issue-5\n", 2, "`05-T4` is no must-have test"),
    ] {
        finds("docs/spec/open-tests.txt", text, &format!("docs/spec/open-tests.txt:{line}: {expected}"));
    }
    let late = ("docs/spec/tests.txt", "05-T2 late\n05-T1 order\n05-T4 last\n");
    let part = ("docs/spec/05-queue.md", "**ADM-1** **05-T1 order.** **05-T2 late.** **05-T4 last.**\n");
    let found = findings(&[late, part, ("docs/spec/open-tests.txt", "05-T4 issue-5\n05-T2 issue-5\n")]);
    assert!(found.len() == 1 && found[0].contains("`05-T2` is out of order"), "{found:#?}");
}

/// QLT-4
#[test]
fn lists_and_parts_agree() {
    let part = "docs/spec/05-queue.md";
    let rest = "- **05-T1 order.** Text.\n- **05-T2 late.** Text.\n";
    for (text, expected) in [
        ("**ADM-1** **ADM-3 (G1)**\n", "defines `ADM-3`, which docs/spec/rules.txt lacks"),
        ("**ADM-1** **ADM-2**\n", "defines `ADM-2`, which is retired"),
        ("**ADM-1** **ADM-1**\n", "defines `ADM-1` a second time"),
    ] {
        finds(part, &format!("{text}{rest}"), &format!("{part}:1: {expected}"));
    }
    finds(part, rest, "docs/spec/rules.txt:1: `ADM-1` is defined in no part");
    finds(
        "docs/spec/rules.txt",
        "ADM-1 06-other.md\nADM-2 retired\n",
        &format!("{part}:1: defines `ADM-1`, for which docs/spec/rules.txt says `06-other.md`"),
    );
    finds(
        "docs/spec/tests.txt",
        "05-T1 order\n05-T2 later\n05-T3 retired\n",
        &format!("{part}:3: defines `05-T2`, for which docs/spec/tests.txt says `later`"),
    );
}

/// QLT-4
#[test]
fn manifests_keep_the_directions_too() {
    let guard = "child-guard/Cargo.toml";
    let manifest =
        |dependency: &str| format!("[package]\nname = \"child-guard\"\n[dependencies]\n{dependency} = \"1\"\n");
    finds(guard, &manifest("abi_stable"), &format!("{guard}:4: depends on `abi_stable`"));
    finds(guard, &manifest("legion-ext"), &format!("{guard}:4: `child-guard` depends on `legion_ext`"));
    let dev = "[package]\nname = \"child-guard\"\n[dev-dependencies]\nrusqlite = \"1\"\n";
    assert!(findings(&[(guard, dev)]).is_empty(), "tests may look into the ledger");
}

/// QLT-4
#[test]
fn a_file_that_does_not_parse_is_a_finding() {
    finds(TOOL, "fn f( {}\n", &format!("{TOOL}:1: cannot be read"));
}

/// QLT-4
#[test]
fn module_trees_are_walked_through_every_form_of_declaration() {
    let found = findings(&[
        (
            "legion-ext/src/tools/mod.rs",
            "#[path = \"other/place.rs\"]\nmod a;\nmod b { mod c; }\nmod r#type;\ninclude!(\"part.rs\");\n",
        ),
        ("legion-ext/src/tools/other/place.rs", ""),
        ("legion-ext/src/tools/b/c.rs", "mod d;\n"),
        ("legion-ext/src/tools/b/c/d.rs", ""),
        ("legion-ext/src/tools/type.rs", ""),
        ("legion-ext/src/tools/part.rs", ""),
        ("legion-ext/tests/e2e.rs", "mod common;\n"),
        ("legion-ext/tests/common/mod.rs", ""),
        ("legion-ext/tests/big/main.rs", ""),
        ("legion-ext/src/bin/tool/main.rs", ""),
        ("legion-ext/build.rs", ""),
    ]);
    assert_eq!(found, Vec::<String>::new());
}

/// Every import points downwards, except to `process`, which is handed to those who act.
#[test]
fn the_table_of_modules_has_no_cycle() {
    let position = |name: &str| MODULES.iter().position(|(module, _)| *module == name);
    for (at, (module, allowed)) in MODULES.iter().enumerate() {
        for target in allowed.split(' ').filter(|target| !target.is_empty() && *target != ANY && *target != "process") {
            let below =
                position(target).unwrap_or_else(|| panic!("`{module}` may import `{target}`, which is no module"));
            assert!(below > at, "`{module}` may import `{target}`, which stands above it");
        }
    }
}
