//! From a command line to the programs it runs: looks through wrappers, shells with `-c`, `eval` and `find -exec`
//! (GUARD-73).

use super::args::{Arg, Takes, leading_options, scan};
use super::split::{MAX_DEPTH, Source, Target, Unsplittable, split};

/// A program run by a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invocation {
    /// Command word and arguments; empty when only redirections remain.
    pub argv: Vec<String>,
    /// Files that redirections of this command open for writing.
    pub targets: Vec<Target>,
    /// The simple command it stands in, as written.
    pub source: Source,
}

impl Invocation {
    /// The last path component of the command word.
    pub fn name(&self) -> &str {
        self.argv.first().map_or("", |word| base_name(word))
    }

    pub fn args(&self) -> &[String] {
        self.argv.get(1..).unwrap_or_default()
    }
}

/// Lists the programs `command` would run, in no promised order. An error means that it cannot be split, or nests
/// too deeply.
pub(super) fn invocations(command: &str) -> Result<Vec<Invocation>, Unsplittable> {
    let mut found = Vec::new();
    collect(command.as_bytes(), 0, &mut found)?;
    Ok(found)
}

fn collect(text: &[u8], depth: usize, found: &mut Vec<Invocation>) -> Result<(), Unsplittable> {
    for command in split(text, depth)? {
        let at = found.len();
        look_through(&command.words, command.depth, &command.source, found)?;
        if command.targets.is_empty() {
            continue;
        }
        // A wrapped text may run nothing of its own, and its redirections count all the same.
        found.insert(at, Invocation { argv: Vec::new(), targets: command.targets, source: command.source });
    }
    Ok(())
}

fn look_through(
    mut words: &[String],
    depth: usize,
    source: &Source,
    found: &mut Vec<Invocation>,
) -> Result<(), Unsplittable> {
    if depth > MAX_DEPTH {
        return Err(Unsplittable);
    }
    while let Some(first) = words.first() {
        if is_expansion(first) && words.len() > 1 {
            // It may expand to nothing, and then the next word is the command, as in `$SUDO rm`.
            words = &words[1..];
            continue;
        }
        match wrapped(base_name(first), &words[1..]) {
            Wrapped::Command(skipped) => words = &words[1 + skipped..],
            Wrapped::Text(text) => return collect(text.as_bytes(), depth + 1, found),
            Wrapped::Nothing => {
                found.push(Invocation { argv: words.to_vec(), targets: Vec::new(), source: source.clone() });
                if base_name(first) == "find" {
                    for run in find_commands(&words[1..]) {
                        look_through(run, depth + 1, source, found)?;
                    }
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

enum Wrapped {
    /// No wrapper, or one that runs nothing.
    Nothing,
    /// The command begins after that many arguments.
    Command(usize),
    /// The arguments hold shell text.
    Text(String),
}

fn wrapped(name: &str, args: &[String]) -> Wrapped {
    let takes = match name {
        "sudo" => Takes {
            short: "ughpCDRrtTU",
            long: &["user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "command-timeout"],
            ..Takes::default()
        },
        "doas" => Takes { short: "uCa", ..Takes::default() },
        "env" => return env(args),
        "command" => return command(args),
        "builtin" | "nohup" | "setsid" => Takes::default(),
        "exec" => Takes { short: "a", ..Takes::default() },
        "nice" => Takes { short: "n", long: &["adjustment"], ..Takes::default() },
        "ionice" => return ionice(args),
        "time" => Takes { short: "fo", long: &["format", "output"], ..Takes::default() },
        "timeout" => Takes { short: "ks", long: &["kill-after", "signal"], ..Takes::default() },
        "stdbuf" => Takes { short: "ioe", long: &["input", "output", "error"], ..Takes::default() },
        "xargs" => Takes {
            short: "InPLsEdaJRS",
            attached: "ile",
            long: &["max-args", "max-procs", "max-chars", "delimiter", "arg-file", "process-slot-var"],
        },
        "parallel" => return parallel(args),
        "sh" | "bash" | "dash" | "zsh" | "ksh" => return shell(args),
        "eval" => return Wrapped::Text(args.join(" ")),
        _ => return Wrapped::Nothing,
    };
    let mut skipped = leading_options(args, takes);
    match name {
        "sudo" => skipped += assignments(&args[skipped..]),
        "timeout" => skipped = (skipped + 1).min(args.len()),
        _ => {}
    }
    Wrapped::Command(skipped)
}

fn env(args: &[String]) -> Wrapped {
    let takes = Takes { short: "uCSP", long: &["unset", "chdir", "split-string"], ..Takes::default() };
    let options = leading_options(args, takes);
    let split_string = scan(&args[..options], takes).find_map(|arg| match arg {
        Arg::Short('S', text) | Arg::Long("split-string", text) => text,
        _ => None,
    });
    // A lone `-` is an option of env.
    let dash = usize::from(args.get(options).is_some_and(|arg| arg == "-"));
    let skipped = options + dash;
    match split_string {
        Some(text) => Wrapped::Text(format!("env {text} {}", args[skipped..].join(" "))),
        None => Wrapped::Command(skipped + assignments(&args[skipped..])),
    }
}

fn assignments(args: &[String]) -> usize {
    args.iter().take_while(|arg| arg.find('=').is_some_and(|at| at > 0)).count()
}

/// `command -v` only looks a name up.
fn command(args: &[String]) -> Wrapped {
    let options = leading_options(args, Takes::default());
    let looks_up = scan(&args[..options], Takes::default()).any(|arg| matches!(arg, Arg::Short('v' | 'V', _)));
    if looks_up { Wrapped::Nothing } else { Wrapped::Command(options) }
}

/// `ionice -p` changes a running process.
fn ionice(args: &[String]) -> Wrapped {
    let takes = Takes { short: "cnpPu", long: &["class", "classdata", "pid", "pgid", "uid"], ..Takes::default() };
    let options = leading_options(args, takes);
    let of_process = scan(&args[..options], takes)
        .any(|arg| matches!(arg, Arg::Short('p' | 'P' | 'u', _) | Arg::Long("pid" | "pgid" | "uid", _)));
    if of_process { Wrapped::Nothing } else { Wrapped::Command(options) }
}

/// GNU parallel joins its words and gives them to a shell.
fn parallel(args: &[String]) -> Wrapped {
    let takes = Takes {
        short: "jPInNLdaSCsE",
        attached: "il",
        long: &[
            "jobs",
            "max-procs",
            "colsep",
            "delimiter",
            "arg-file",
            "sshlogin",
            "joblog",
            "results",
            "timeout",
            "retries",
            "tmpdir",
            "delay",
            "load",
            "memfree",
            "workdir",
            "wd",
            "env",
            "halt",
            "tagstring",
            "basefile",
            "max-args",
            "max-replace-args",
        ],
    };
    let from = leading_options(args, takes);
    let command: Vec<&str> =
        args[from..].iter().map(String::as_str).take_while(|arg| !arg.starts_with(":::")).collect();
    Wrapped::Text(command.join(" "))
}

/// A shell runs text of its command line only with `-c`; a script file is a program like any other.
fn shell(args: &[String]) -> Wrapped {
    let mut runs_text = false;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.strip_prefix(['-', '+']) {
            Some("-") | None => {
                let text = if arg == "--" { rest.next() } else { Some(arg) };
                return match text {
                    Some(text) if runs_text => Wrapped::Text(text.clone()),
                    _ => Wrapped::Nothing,
                };
            }
            Some("-rcfile" | "-init-file") => drop(rest.next()),
            Some(long) if long.starts_with('-') => {}
            Some(cluster) => {
                runs_text |= arg.starts_with('-') && cluster.contains('c');
                if cluster.contains(['o', 'O']) {
                    rest.next();
                }
            }
        }
    }
    Wrapped::Nothing
}

/// The commands behind `-exec`, `-execdir`, `-ok` and `-okdir`.
fn find_commands(args: &[String]) -> impl Iterator<Item = &[String]> {
    let mut rest = args;
    std::iter::from_fn(move || {
        let at = rest.iter().position(|arg| matches!(arg.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"))?;
        let run = &rest[at + 1..];
        let length = run
            .iter()
            .enumerate()
            .position(|(i, arg)| arg == ";" || (arg == "+" && i > 0 && run[i - 1] == "{}"))
            .unwrap_or(run.len());
        rest = &run[length..];
        Some(&run[..length])
    })
}

/// Whether a word is nothing but a parameter or a substitution.
fn is_expansion(word: &str) -> bool {
    word.strip_prefix('$').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$@*#?!-".contains(&byte))
    })
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests;
