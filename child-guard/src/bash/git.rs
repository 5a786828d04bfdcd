//! Which git commands only look (the `git` row of GUARD-74). Everything that is not known to look is refused.

use super::args::{Arg, Takes, leading_options, scan};
use super::verdict::Why;

/// Why `git` with these arguments is refused to a read-only child.
pub(super) fn refusal(args: &[String]) -> Option<Why> {
    let globals = Takes {
        short: "Cc",
        attached: "",
        long: &["git-dir", "work-tree", "namespace", "super-prefix", "config-env", "attr-source"],
    };
    let options = leading_options(args, globals);
    let subcommand = args.get(options)?;
    let rest = &args[options + 1..];
    if !looks(subcommand, rest) {
        return Some(Why::ChangesRepository);
    }
    output(rest).then_some(Why::ChangesFiles)
}

fn looks(subcommand: &str, args: &[String]) -> bool {
    let first = || {
        scan(args, Takes::default()).find_map(|arg| match arg {
            Arg::Operand(operand) => Some(operand),
            Arg::Short(..) | Arg::Long(..) => None,
        })
    };
    match subcommand {
        "status" | "log" | "diff" | "show" | "blame" | "grep" | "ls-files" | "ls-tree" | "ls-remote" | "cat-file"
        | "rev-parse" | "rev-list" | "describe" | "shortlog" | "name-rev" | "merge-base" | "for-each-ref"
        | "show-ref" | "diff-tree" | "diff-index" | "diff-files" | "range-diff" | "cherry" | "check-ignore"
        | "check-attr" | "count-objects" | "version" | "help" => true,
        "branch" => lists_refs(args, "arvliq"),
        "tag" => lists_refs(args, "lniv"),
        "remote" => matches!(first(), None | Some("show" | "get-url")),
        "config" => config_reads(args),
        "stash" | "notes" => matches!(first(), Some("list" | "show")),
        "reflog" => !matches!(first(), Some("expire" | "delete" | "drop" | "write")),
        "worktree" => first() == Some("list"),
        "submodule" => first() == Some("status"),
        _ => false,
    }
}

/// `--output` of the diff family writes a file.
fn output(args: &[String]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--output" || arg.starts_with("--output="))
}

/// `branch` and `tag`: only options that list, and names only as patterns of a listing.
fn lists_refs(args: &[String], letters: &str) -> bool {
    let takes = Takes {
        short: "",
        // `tag -n5` gives a number of lines.
        attached: if letters.contains('n') { "n" } else { "" },
        long: &["sort", "format", "points-at", "contains", "no-contains"],
    };
    let (mut lists, mut names) = (false, false);
    for arg in scan(args, takes) {
        match arg {
            Arg::Short(letter, _) if letters.contains(letter) => {
                lists |= letter == 'l' || letter == 'n' || (letter == 'v' && letters.contains('n'));
            }
            Arg::Long("list" | "contains" | "no-contains" | "merged" | "no-merged" | "points-at" | "verify", _) => {
                lists = true;
            }
            Arg::Long(
                "sort" | "format" | "show-current" | "all" | "remotes" | "verbose" | "color" | "no-color" | "column"
                | "no-column" | "abbrev" | "no-abbrev" | "ignore-case" | "omit-empty" | "quiet",
                _,
            ) => {}
            Arg::Short(..) | Arg::Long(..) => return false,
            Arg::Operand(_) => names = true,
        }
    }
    lists || !names
}

fn config_reads(args: &[String]) -> bool {
    let takes = Takes { short: "ft", attached: "", long: &["file", "blob", "type", "default"] };
    let mut operands = 0;
    for arg in scan(args, takes) {
        match arg {
            Arg::Long("list", _) | Arg::Short('l', _) => return true,
            Arg::Long(name, _) if name.starts_with("get") => return true,
            Arg::Operand("get" | "list") if operands == 0 => return true,
            Arg::Operand(_) => operands += 1,
            Arg::Short(..) | Arg::Long(..) => {}
        }
    }
    false
}
