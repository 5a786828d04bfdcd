//! Ids: rules and must-have tests, as the specification defines them, as its lists name them, and as tests prove them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::Finding;
use super::tree::Tree;

const SPEC: &str = "docs/spec";
const RULES: &str = "docs/spec/rules.txt";
const TESTS: &str = "docs/spec/tests.txt";
const OPEN: &str = "docs/spec/open-tests.txt";

/// An id, with what may stand before it (`part of 03-T12` claims nothing) and after it (a range names nothing).
static ID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?<part>\b(?:[Pp]art|half) of )?\b(?:(?<test>\d{2}[a-z]?-T\d+)|(?<rule>[A-Z]{2,6}-\d+[a-z]?))\b(?<range>\s?(?:\.\.|…|–))?")
        .expect("a constant pattern")
});
/// A must-have id in the name of a test function: `queue_05_t3`.
static IN_NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:^|_)(\d{2}[a-z]?)_t(\d+)(?:_|$)").expect("a constant pattern"));
/// A definition in a part of the specification: `**ADM-1**`, `**ORC-24 (G1)**`, `**01-T1 load matrix.**`.
static DEFINED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\*\*(?:(?<test>\d{2}[a-z]?-T\d+) (?<title>[^*]+)\.|(?<rule>[A-Z]{2,6}-\d+[a-z]?)(?: \([^*)]*\))?)\*\*")
        .expect("a constant pattern")
});

pub fn check(root: &Path, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rules = List::read(root, RULES, &mut findings);
    let tests = List::read(root, TESTS, &mut findings);
    let open = List::read(root, OPEN, &mut findings);
    against_parts(root, &rules, &tests, &mut findings);
    let named = named_by_tests(tree, &rules, &tests, &mut findings);
    open_list(&tests, &open, &named, &mut findings);
    findings
}

/// One of the lists beside the specification: an id and a text per line.
struct List {
    path: &'static str,
    /// Id, text and line, in the order of the file.
    rows: Vec<(String, String, usize)>,
    by_id: BTreeMap<String, usize>,
}

impl List {
    fn read(root: &Path, path: &'static str, findings: &mut Vec<Finding>) -> Self {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| {
            findings.push(Finding::new(path, 1, format!("cannot be read: {error}"), "bring the list back"));
            String::new()
        });
        let mut list = Self { path, rows: Vec::new(), by_id: BTreeMap::new() };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (id, rest) = line.split_once(' ').unwrap_or((line, ""));
            if list.by_id.insert(id.to_owned(), list.rows.len()).is_some() {
                findings.push(Finding::new(path, at + 1, format!("`{id}` stands here twice"), "keep one line"));
            }
            list.rows.push((id.to_owned(), rest.trim().to_owned(), at + 1));
        }
        list
    }

    fn text(&self, id: &str) -> Option<&str> {
        self.by_id.get(id).map(|&row| self.rows[row].1.as_str())
    }

    fn is_retired(&self, id: &str) -> bool {
        self.text(id) == Some("retired")
    }
}

/// The lists hold what the parts define in bold, and only that.
fn against_parts(root: &Path, rules: &List, tests: &List, findings: &mut Vec<Finding>) {
    let mut defined: BTreeSet<String> = BTreeSet::new();
    let mut parts: Vec<_> = std::fs::read_dir(root.join(SPEC))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md"))
        .collect();
    parts.sort();
    for part in parts {
        let path = format!("{SPEC}/{part}");
        let text = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        for (at, line) in text.lines().enumerate() {
            for found in DEFINED.captures_iter(line) {
                let (id, list, expected) = match (found.name("test"), found.name("rule")) {
                    (Some(id), _) => (id.as_str(), tests, &found["title"]),
                    (None, Some(id)) => (id.as_str(), rules, part.as_str()),
                    (None, None) => continue,
                };
                let mut report = |what: String, fix: String| findings.push(Finding::new(&path, at + 1, what, fix));
                if !defined.insert(id.to_owned()) {
                    report(format!("defines `{id}` a second time"), "give the new one a new id".to_owned());
                }
                match list.text(id) {
                    Some("retired") => {
                        report(format!("defines `{id}`, which is retired"), "take a new id".to_owned());
                    }
                    Some(text) if text == expected => {}
                    Some(text) => report(
                        format!("defines `{id}`, for which {} says `{text}`", list.path),
                        format!("make both say `{expected}`"),
                    ),
                    None => report(
                        format!("defines `{id}`, which {} lacks", list.path),
                        format!("add the line `{id} {expected}`"),
                    ),
                }
            }
        }
    }
    for list in [rules, tests] {
        for (id, text, line) in &list.rows {
            if text != "retired" && !defined.contains(id) {
                findings.push(Finding::new(
                    list.path,
                    *line,
                    format!("`{id}` is defined in no part"),
                    "define it in bold, or mark it `retired`",
                ));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rule,
    Test,
    /// Less than the whole of a must-have test, which stays open.
    PartOfTest,
}

/// The must-have ids that tests name. Ids that do not exist are findings.
fn named_by_tests(tree: &Tree, rules: &List, tests: &List, findings: &mut Vec<Finding>) -> BTreeMap<String, String> {
    let prefixes: BTreeSet<&str> = rules.by_id.keys().filter_map(|id| Some(id.split_once('-')?.0)).collect();
    let mut named = BTreeMap::new();
    for file in &tree.files {
        for test in &file.facts.tests {
            let mut ids: Vec<(usize, String, Kind)> = Vec::new();
            for (line, text) in &test.docs {
                let only_ids = is_list_of_ids(text);
                for found in ID.captures_iter(text) {
                    let is_range = found.name("range").is_some();
                    if let Some(id) = found.name("test") {
                        if is_range {
                            findings.push(Finding::new(
                                &file.path,
                                *line,
                                format!("a range from `{}` names no test", id.as_str()),
                                "write out each id that this test proves",
                            ));
                        } else {
                            let kind = if found.name("part").is_some() { Kind::PartOfTest } else { Kind::Test };
                            ids.push((*line, id.as_str().to_owned(), kind));
                        }
                    } else if let Some(id) = found.name("rule") {
                        let prefix = id.as_str().split_once('-').map_or("", |(prefix, _)| prefix);
                        // `UTF-8` in a sentence is no id; `AMD-53` in a list of ids is a slip.
                        if prefixes.contains(prefix) || only_ids {
                            ids.push((*line, id.as_str().to_owned(), Kind::Rule));
                        }
                    }
                }
            }
            ids.extend(
                IN_NAME
                    .captures_iter(&test.name)
                    .map(|found| (test.line, format!("{}-T{}", &found[1], &found[2]), Kind::Test)),
            );
            for (line, id, kind) in ids {
                let list = if kind == Kind::Rule { rules } else { tests };
                match list.text(&id) {
                    None => findings.push(Finding::new(
                        &file.path,
                        line,
                        format!("names `{id}`, which {} does not know", list.path),
                        "name the id that is meant",
                    )),
                    Some("retired") => findings.push(Finding::new(
                        &file.path,
                        line,
                        format!("names `{id}`, which is retired"),
                        "name the rule that took its place",
                    )),
                    Some(_) if kind == Kind::Test => {
                        named.entry(id).or_insert_with(|| format!("{}:{line}", file.path));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    named
}

fn is_list_of_ids(text: &str) -> bool {
    let mut words = text.split([',', ' ', '.', ';', ':']).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(|word| ID.find(word).is_some_and(|found| found.len() == word.len()))
}

fn open_list(tests: &List, open: &List, named: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let mut last = None;
    for (id, text, line) in &open.rows {
        let mut report = |what: String, fix: &str| findings.push(Finding::new(open.path, *line, what, fix));
        let issue = text.split(' ').next().unwrap_or_default();
        let number = issue.strip_prefix("issue-").unwrap_or_default();
        if number != "later" && (number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit())) {
            report(format!("`{id}` has no issue"), "write `<id> issue-<n> [reason]`, or `issue-later`");
        }
        let Some(&position) = tests.by_id.get(id) else {
            report(format!("`{id}` is no must-have test"), "take the line out");
            continue;
        };
        if tests.is_retired(id) {
            report(format!("`{id}` is retired"), "take the line out");
        }
        if let Some(test) = named.get(id) {
            report(
                format!("`{id}` is open, and {test} names it"),
                "take the line out: the list only shrinks (`part of <id>` claims nothing)",
            );
        }
        if last.is_some_and(|last| last > position) {
            report(format!("`{id}` is out of order"), "keep the order of tests.txt");
        }
        last = Some(position);
    }
    for (id, _, line) in &tests.rows {
        if !tests.is_retired(id) && !named.contains_key(id) && !open.by_id.contains_key(id) {
            findings.push(Finding::new(
                tests.path,
                *line,
                format!("no test names `{id}`"),
                format!("name it in the doc comment of the test that proves it, or add it to {OPEN}"),
            ));
        }
    }
}
