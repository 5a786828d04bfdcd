//! Keeps `bash` away from `legion.db` (GUARD-60 … GUARD-64): by its name, and by directories that hold it.

use std::path::{Component, Path};

use super::args::{Arg, Takes, scan};
use super::invocation::{Invocation, invocations};

/// Bytes of a pattern for one path component that are looked at.
const LONGEST_PATTERN: usize = 1024;

/// How a command touches the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerHit {
    /// Its text names the ledger.
    Named,
    /// It removes or moves a path, given as written, that holds the ledger.
    Holds(String),
}

/// Judges a command line that would run in `cwd`. `ledger` is the path of the ledger file; without it only the name
/// is looked for. Paths are compared as text.
pub fn classify_ledger(command: &str, cwd: &Path, ledger: Option<&Path>) -> Option<LedgerHit> {
    if names_ledger(command) {
        return Some(LedgerHit::Named);
    }
    let ledger = components(ledger?);
    // What cannot be split does not run either: the shell itself rejects it.
    invocations(command).ok()?.iter().find_map(|invocation| {
        endangered(invocation)
            .into_iter()
            .find(|path| holds(cwd, path, &ledger))
            .map(|path| LedgerHit::Holds(path.to_owned()))
    })
}

fn names_ledger(command: &str) -> bool {
    let names = |text: &str| text.contains("PI_LEGION_DB") || text.to_ascii_lowercase().contains("legion.db");
    let unquoted: String = command.replace("\\\n", "").chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    names(command) || names(&unquoted)
}

/// The paths that a command removes, moves away or empties.
fn endangered(invocation: &Invocation) -> Vec<&str> {
    let args = invocation.args();
    match invocation.name() {
        "rm" | "rmdir" | "shred" | "truncate" => operands(args, Takes::default()),
        "mv" => moved(args),
        "find" => searched_and_removed(args),
        _ => Vec::new(),
    }
}

fn operands(args: &[String], takes: Takes) -> Vec<&str> {
    scan(args, takes)
        .filter_map(|arg| match arg {
            Arg::Operand(operand) => Some(operand),
            Arg::Short(..) | Arg::Long(..) => None,
        })
        .collect()
}

/// The sources of `mv`: a directory may well be the destination.
fn moved(args: &[String]) -> Vec<&str> {
    let takes = Takes { short: "tS", attached: "", long: &["target-directory", "suffix"] };
    let named_destination =
        scan(args, takes).any(|arg| matches!(arg, Arg::Short('t', _) | Arg::Long("target-directory", _)));
    let mut paths = operands(args, takes);
    if !named_destination {
        paths.pop();
    }
    paths
}

/// Where a `find` starts that deletes what it finds, unless it only finds names other than the ledger's.
fn searched_and_removed(args: &[String]) -> Vec<&str> {
    let links = args.iter().take_while(|arg| matches!(arg.as_str(), "-H" | "-L" | "-P")).count();
    let args = &args[links..];
    let starts = args.iter().take_while(|arg| !arg.starts_with(['-', '(', '!'])).count();
    let (starts, expression) = args.split_at(starts);
    let removes = expression.iter().enumerate().any(|(i, arg)| match arg.as_str() {
        "-delete" => true,
        "-exec" | "-execdir" | "-ok" | "-okdir" => expression.get(i + 1).is_some_and(|program| {
            matches!(program.rsplit('/').next(), Some("rm" | "rmdir" | "mv" | "shred" | "truncate"))
        }),
        _ => false,
    });
    if !removes || spares_ledger(expression) {
        return Vec::new();
    }
    if starts.is_empty() { vec!["."] } else { starts.iter().map(String::as_str).collect() }
}

/// Whether every file found has a name that is not the ledger's: a `-name` test that does not match it, in an
/// expression that is one conjunction.
fn spares_ledger(expression: &[String]) -> bool {
    let conjunction =
        !expression.iter().any(|arg| matches!(arg.as_str(), "-o" | "-or" | "!" | "-not" | "," | "(" | ")"));
    conjunction
        && expression.windows(2).any(|pair| {
            matches!(pair[0].as_str(), "-name" | "-iname")
                && !["legion.db", "legion.db-wal", "legion.db-shm", "legion.db-journal"]
                    .iter()
                    .any(|file| matches_pattern(&pair[1].to_ascii_lowercase(), file))
        })
}

/// Whether `path`, seen from `cwd`, is the ledger file or one of the directories above it. `*`, `?` and `[` in it
/// are read as the shell would expand them.
fn holds(cwd: &Path, path: &str, ledger: &[String]) -> bool {
    if path.is_empty() {
        return false;
    }
    let path = components(&cwd.join(path));
    path.len() <= ledger.len() && path.iter().zip(ledger).all(|(pattern, name)| matches_pattern(pattern, name))
}

/// The names of a path with `.` and `..` folded.
fn components(path: &Path) -> Vec<String> {
    let mut folded: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => folded.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(folded.pop()),
            Component::Prefix(prefix) => folded.push(prefix.as_os_str().to_string_lossy().into_owned()),
            Component::RootDir | Component::CurDir => {}
        }
    }
    folded
}

/// Whether a shell pattern for one path component matches `name`. A bracket expression counts as `?`, and a
/// leading dot is matched by a dot only. A pattern longer than any name could need matches nothing, which bounds
/// the work.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    if pattern.len() > LONGEST_PATTERN {
        return false;
    }
    if name.starts_with('.') && pattern.starts_with(['*', '?', '[']) {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                retry = Some((p, n));
                continue;
            }
            Some('?') => {
                p += 1;
                n += 1;
                continue;
            }
            Some('[') if let Some(close) = pattern[p..].iter().skip(2).position(|c| *c == ']') => {
                p += close + 3;
                n += 1;
                continue;
            }
            Some(c) if *c == name[n] => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        let Some((after_star, from)) = retry else { return false };
        (p, n) = (after_star, from + 1);
        retry = Some((after_star, from + 1));
    }
    pattern[p.min(pattern.len())..].iter().all(|c| *c == '*')
}
