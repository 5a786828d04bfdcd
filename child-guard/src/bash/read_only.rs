//! The commands that a `read-only` child may not run (GUARD-70 … GUARD-75). The table is GUARD-74; what it does not
//! name is allowed, builds, tests and interpreters among it.

use super::args::{Arg, Takes, scan};
use super::git;
use super::invocation::{Invocation, invocations};
use super::verdict::{ReadOnlyVerdict, Why};

/// Judges a command line for a read-only child, in time linear in its length.
pub fn classify_read_only(command: &str) -> ReadOnlyVerdict {
    let Ok(found) = invocations(command) else { return ReadOnlyVerdict::Unparsable };
    for invocation in found {
        if let Some(why) = refusal(&invocation) {
            return ReadOnlyVerdict::Refuse { command: invocation.source.to_string(), why };
        }
    }
    ReadOnlyVerdict::Allow
}

fn refusal(invocation: &Invocation) -> Option<Why> {
    if let Some(target) = invocation.targets.iter().find(|target| !is_stream(&target.path)) {
        return Some(Why::WritesTo(target.source.to_string()));
    }
    let args = invocation.args();
    // How a scout finds out which tools there are.
    if let [only] = args
        && matches!(only.as_str(), "--version" | "--help")
    {
        return None;
    }
    let files = |changes: bool| changes.then_some(Why::ChangesFiles);
    let packages = |installs: bool| installs.then_some(Why::InstallsPackages);
    match invocation.name() {
        "rm" | "rmdir" | "unlink" | "mv" | "cp" | "mkdir" | "mktemp" | "touch" | "ln" | "link" | "install"
        | "truncate" | "shred" | "dd" | "tee" | "sponge" | "mkfifo" | "mknod" | "chmod" | "chown" | "chgrp"
        | "chattr" | "setfacl" | "patch" | "rsync" | "scp" | "unzip" => Some(Why::ChangesFiles),
        "vi" | "vim" | "nvim" | "nano" | "emacs" | "ed" | "ex" => Some(Why::ChangesFiles),
        "sed" => files(sed_in_place(args)),
        "perl" | "ruby" => files(script_in_place(args)),
        "awk" | "gawk" => files(awk_in_place(args)),
        "sort" => files(sort_writes(args)),
        "tar" => files(!tar_lists(args)),
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "unzstd" => files(!packer_prints(args)),
        "find" => files(
            args.iter().any(|arg| matches!(arg.as_str(), "-delete" | "-fprint" | "-fprint0" | "-fprintf" | "-fls")),
        ),
        "curl" => files(curl_saves(args)),
        "wget" => files(!wget_prints(args)),
        "git" => git::refusal(args),
        "npm" | "pnpm" | "yarn" | "bun" => node_packages(invocation.name(), args),
        "uv" => packages(uv_installs(args)),
        "cargo" => cargo(args),
        "go" => go(args),
        "apt" | "apt-get" | "dnf" | "yum" | "pacman" | "apk" | "brew" => packages(
            !args.is_empty()
                && !matches!(
                    first_operand(args, Takes::default()),
                    Some("list" | "search" | "show" | "info" | "policy")
                ),
        ),
        name if is_numbered(name, "pip") => packages(pip_installs(args)),
        name if is_numbered(name, "python") => match args {
            [module, pip, rest @ ..] if module == "-m" && pip == "pip" => packages(pip_installs(rest)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether writing to `target` leaves no file changed.
fn is_stream(target: &str) -> bool {
    match target.strip_prefix("/dev/") {
        Some("null" | "stdout" | "stderr" | "tty") => true,
        Some(device) => {
            device.strip_prefix("fd/").is_some_and(|fd| !fd.is_empty() && fd.bytes().all(|byte| byte.is_ascii_digit()))
        }
        None => false,
    }
}

/// As [`is_stream`], for programs that take `-` for their standard output.
fn prints(target: Option<&str>) -> bool {
    target.is_some_and(|target| target == "-" || is_stream(target))
}

/// `name`, `name3`, `name3.12`.
fn is_numbered(name: &str, program: &str) -> bool {
    name.strip_prefix(program).is_some_and(|version| version.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
}

fn first_operand(args: &[String], takes: Takes) -> Option<&str> {
    operands(args, takes).next()
}

fn operands(args: &[String], takes: Takes) -> impl Iterator<Item = &str> {
    scan(args, takes).filter_map(|arg| match arg {
        Arg::Operand(operand) => Some(operand),
        Arg::Short(..) | Arg::Long(..) => None,
    })
}

/// Whether `name` is the long option `option` or an abbreviation of it.
fn abbreviates(name: &str, option: &str, shortest: usize) -> bool {
    name.len() >= shortest && option.starts_with(name)
}

fn sed_in_place(args: &[String]) -> bool {
    let takes = Takes { short: "efl", attached: "iI", long: &["expression", "file", "line-length"] };
    scan(args, takes).any(|arg| match arg {
        Arg::Short('i' | 'I', _) => true,
        Arg::Long(name, _) => abbreviates(name, "in-place", 1),
        Arg::Short(..) | Arg::Operand(_) => false,
    })
}

/// perl and ruby: options end at the first operand, which is the script.
fn script_in_place(args: &[String]) -> bool {
    let takes = Takes { short: "eEIMmrC", attached: "iFxDVK", long: &[] };
    scan(args, takes).take_while(|arg| !matches!(arg, Arg::Operand(_))).any(|arg| matches!(arg, Arg::Short('i', _)))
}

fn awk_in_place(args: &[String]) -> bool {
    let takes = Takes { short: "fvFieE", attached: "", long: &["include", "file", "assign", "field-separator"] };
    scan(args, takes).any(|arg| matches!(arg, Arg::Short('i', Some("inplace")) | Arg::Long("include", Some("inplace"))))
}

fn sort_writes(args: &[String]) -> bool {
    let takes = Takes {
        short: "kStTo",
        attached: "",
        long: &["output", "key", "field-separator", "buffer-size", "temporary-directory", "batch-size", "parallel"],
    };
    scan(args, takes).any(|arg| match arg {
        Arg::Short('o', target) => !prints(target),
        Arg::Long(name, target) => abbreviates(name, "output", 1) && !prints(target),
        Arg::Short(..) | Arg::Operand(_) => false,
    })
}

fn tar_lists(args: &[String]) -> bool {
    let takes = Takes {
        short: "fCbTXIHgLVKNF",
        attached: "",
        long: &["file", "directory", "files-from", "exclude-from", "exclude", "use-compress-program", "format"],
    };
    let (mut lists, mut writes) = (false, false);
    let mut mode = |letter: char| match letter {
        't' => lists = true,
        'c' | 'x' | 'r' | 'u' | 'A' => writes = true,
        _ => {}
    };
    // The old style: the first argument is a cluster without its dash.
    let old_style = args.first().filter(|first| !first.starts_with('-'));
    old_style.into_iter().flat_map(|cluster| cluster.chars()).for_each(&mut mode);
    for arg in scan(args, takes) {
        match arg {
            Arg::Short(letter, _) => mode(letter),
            Arg::Long("list", _) => mode('t'),
            Arg::Long(
                "create" | "extract" | "get" | "append" | "update" | "catenate" | "concatenate" | "delete",
                _,
            ) => {
                mode('c');
            }
            Arg::Long(..) | Arg::Operand(_) => {}
        }
    }
    lists && !writes
}

fn packer_prints(args: &[String]) -> bool {
    let takes = Takes { short: "SFMDo", attached: "T", long: &["suffix", "format"] };
    let mut prints = false;
    for arg in scan(args, takes) {
        match arg {
            Arg::Short('o', _) => return false,
            Arg::Short('c' | 'l' | 't', _) => prints = true,
            Arg::Long("stdout" | "to-stdout" | "list" | "test", _) => prints = true,
            Arg::Short(..) | Arg::Long(..) | Arg::Operand(_) => {}
        }
    }
    prints
}

fn curl_saves(args: &[String]) -> bool {
    let takes = Takes { short: "HdXAeubcFTmxwKECDoPQrtUyYz", attached: "", long: &["output"] };
    scan(args, takes).any(|arg| match arg {
        Arg::Short('o', target) | Arg::Long("output", target) => !prints(target),
        Arg::Short('O', _) | Arg::Long("remote-name" | "remote-name-all", _) => true,
        Arg::Short(..) | Arg::Long(..) | Arg::Operand(_) => false,
    })
}

fn wget_prints(args: &[String]) -> bool {
    let takes = Takes { short: "OoaeiBtTwQPUlARDIX", attached: "", long: &["output-document"] };
    let mut saves = true;
    for arg in scan(args, takes) {
        match arg {
            Arg::Short('O', target) | Arg::Long("output-document", target) if prints(target) => saves = false,
            Arg::Short('O', _) | Arg::Long("output-document", _) => return false,
            Arg::Long("spider", _) => saves = false,
            Arg::Short(..) | Arg::Long(..) | Arg::Operand(_) => {}
        }
    }
    !saves
}

fn node_packages(name: &str, args: &[String]) -> Option<Why> {
    let takes = match name {
        "npm" => Takes {
            short: "Cw",
            attached: "",
            long: &["prefix", "workspace", "registry", "cache", "userconfig", "loglevel"],
        },
        "pnpm" => Takes { short: "CF", attached: "", long: &["dir", "filter", "filter-prod", "reporter"] },
        _ => Takes { short: "", attached: "", long: &["cwd"] },
    };
    match first_operand(args, takes) {
        Some("install" | "i" | "ci" | "add" | "remove" | "uninstall" | "update" | "upgrade" | "link" | "publish") => {
            Some(Why::InstallsPackages)
        }
        Some("init") => Some(Why::ChangesFiles),
        // Alone it installs what the project depends on.
        None if name == "yarn" && !args.iter().any(|arg| matches!(arg.as_str(), "-v" | "-h")) => {
            Some(Why::InstallsPackages)
        }
        _ => None,
    }
}

const PIP: Takes = Takes {
    short: "",
    attached: "",
    long: &["proxy", "log", "cache-dir", "python", "timeout", "retries", "exists-action", "trusted-host", "cert"],
};

fn changes_environment(subcommand: &str) -> bool {
    matches!(subcommand, "install" | "uninstall" | "add" | "remove" | "sync")
}

fn pip_installs(args: &[String]) -> bool {
    first_operand(args, PIP).is_some_and(changes_environment)
}

fn uv_installs(args: &[String]) -> bool {
    let takes = Takes {
        short: "p",
        attached: "",
        long: &["directory", "project", "cache-dir", "python", "config-file", "color"],
    };
    operands(args, takes).find(|operand| !matches!(*operand, "pip" | "tool")).is_some_and(changes_environment)
}

fn cargo(args: &[String]) -> Option<Why> {
    let takes = Takes { short: "CZ", attached: "", long: &["color", "config", "manifest-path"] };
    let has = |option: &str| args.iter().any(|arg| arg == option);
    match operands(args, takes).find(|operand| !operand.starts_with('+'))? {
        "install" | "uninstall" | "add" | "remove" | "update" | "publish" => Some(Why::InstallsPackages),
        "fix" | "new" | "init" => Some(Why::ChangesFiles),
        "fmt" if !has("--check") => Some(Why::ChangesFiles),
        "clippy" if has("--fix") => Some(Why::ChangesFiles),
        _ => None,
    }
}

fn go(args: &[String]) -> Option<Why> {
    let mut operands = operands(args, Takes { short: "C", attached: "", long: &[] });
    match operands.next()? {
        "get" | "install" => Some(Why::InstallsPackages),
        "fmt" | "generate" => Some(Why::ChangesFiles),
        "mod" if operands.next() == Some("tidy") => Some(Why::ChangesFiles),
        _ => None,
    }
}
