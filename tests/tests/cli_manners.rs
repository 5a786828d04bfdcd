//! How the command line behaves: help, completions, exit codes, colours, pipes.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use nix::pty::openpty;
use tests::legion::World;

const COMMANDS: &[&str] = &["run", "demo", "status", "tree", "show", "mail", "events", "usage", "completions"];

/// CLI-4, part of 11-T19
#[test]
fn everything_has_help() {
    let world = World::new();
    let help = world.run(["--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    assert!(help.out.contains("0 ok, 1 failure, 2 usage, 3 refused, 130 interrupted"), "{}", help.out);
    for command in COMMANDS {
        assert!(help.out.contains(&format!("\n  {command} ")), "{command}: {}", help.out);
        for ask in [vec![*command, "--help"], vec![*command, "-h"], vec!["help", *command]] {
            let help = world.run(&ask);
            assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{ask:?}");
            assert!(help.out.contains("Usage: legion"), "{ask:?}: {}", help.out);
        }
    }
    assert!(world.run(["--version"]).out.starts_with("legion "));
}

/// CLI-2: what is not built is not there.
#[test]
fn what_is_not_built_is_absent() {
    let world = World::new();
    for command in ["watch", "export", "doctor", "rebuild", "prune", "rpc", "cards"] {
        let ended = world.run([command]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{command}");
    }
}

/// 11 bad input, CLI-4, part of 11-T19: usage on standard error, the nearest match, exit code 2.
#[test]
fn a_mistyped_command_line_names_the_nearest_match() {
    let world = World::new();
    for (args, says) in [
        (vec!["statsu"], "'status'"),
        (vec!["demo", "--fats"], "'--fast'"),
        (vec!["tree", "--jsno"], "'--json'"),
        (vec!["run"], "<TASK>"),
        (vec!["show"], "<NODE>"),
        (vec!["completions", "tcl"], "[possible values: "),
        (vec!["run", "x", "--print", "--json"], "cannot be used with"),
        (vec![], "Usage: legion"),
    ] {
        let ended = world.run(&args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(ended.err.contains(says) && ended.err.contains("--help"), "{args:?}: {}", ended.err);
    }
}

/// CLI-4, part of 11-T19
#[test]
fn completions_know_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = world.run(["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{shell}");
        for command in COMMANDS {
            assert!(ended.out.contains(command), "{shell} does not know {command}");
        }
    }
}

/// CLI-4, part of 11-T19: colours on a terminal, none with `NO_COLOR`, none in a pipe.
#[test]
fn colours_are_for_terminals_that_want_them() {
    let world = World::new();
    let on_a_terminal = |no_color: bool, args: &[&str]| {
        let pty = openpty(None, None).unwrap();
        let mut command = world.command(args);
        command.env("TERM", "xterm-256color");
        if no_color {
            command.env("NO_COLOR", "1");
        }
        let (out, err) = (pty.slave.try_clone().unwrap(), pty.slave);
        let mut process = command.stdout(Stdio::from(out)).stderr(Stdio::from(err)).spawn().unwrap();
        // Only the process holds the other end from here on, so reading ends with it.
        drop(command);
        let mut text = Vec::new();
        let mut terminal = File::from(pty.master);
        let mut chunk = [0; 4096];
        // The end of a terminal is an error on some systems.
        while let Ok(count @ 1..) = terminal.read(&mut chunk) {
            text.extend_from_slice(&chunk[..count]);
        }
        (process.wait().unwrap().code(), String::from_utf8_lossy(&text).into_owned())
    };
    let coloured = |text: &str| text.contains("\u{1b}[32m");
    let styled = |text: &str| {
        text.split("\u{1b}[").skip(1).any(|rest| {
            let code: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ';').collect();
            rest[code.len()..].starts_with('m') && code != "0" && !code.is_empty()
        })
    };

    let (code, text) = on_a_terminal(false, &["demo", "--fast", "--dir", "a"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(coloured(&text), "{text:?}");
    let (code, text) = on_a_terminal(true, &["demo", "--fast", "--dir", "b"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(!styled(&text), "{text:?}");
    assert!(text.contains("17 passed, 0 failed"), "{text}");

    assert!(styled(&on_a_terminal(false, &["--help"]).1));
    assert!(!styled(&on_a_terminal(true, &["--help"]).1));
    assert!(!world.run(["--help"]).out.contains('\u{1b}'));
}

/// CLI-4: a reader that goes away early is no failure worth a word.
#[test]
fn a_closed_pipe_is_quiet() {
    let world = World::new();
    let mut process =
        world.command(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    let mut err = String::new();
    process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    process.wait().unwrap();
    assert!(!err.contains("panicked"), "{err}");
}

/// CLI-4, 11-T19 together with the tests above; 130 is the interrupted demo's.
#[test]
fn exit_codes_are_as_documented() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/exit-codes.md")).unwrap();
    for code in ["0", "1", "2", "3", "130"] {
        assert!(page.contains(&format!("\n| {code} | ")), "{code}");
    }
    let world = World::new();
    std::fs::write(world.temp().join("mine"), "x").unwrap();
    std::fs::write(world.home().join("faulty.yaml"), "rules: 3").unwrap();
    for (code, args) in [
        (0, vec!["run", "hello"]),
        (1, vec!["run", "hello", "--cwd", "none"]),
        (1, vec!["run", "hello", "--script", "faulty.yaml"]),
        (1, vec!["run", "hello", "--model", "nobody/nothing"]),
        (1, vec!["status", "none"]),
        (2, vec!["status", "--none"]),
        (3, vec!["demo", "--dir", "tmp"]),
    ] {
        let ended = world.run(&args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert_eq!(ended.err.is_empty(), code == 0, "{args:?}: a failure says why: {}", ended.err);
    }
}

/// DOC-2: the page names every command and every flag.
#[test]
fn the_reference_has_every_command_and_flag() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/commands.md")).unwrap();
    let world = World::new();
    for command in COMMANDS {
        assert!(page.contains(&format!("legion {command}")), "{command}");
        let help = world.run([command, "--help"]).out;
        let flags = help.split_whitespace().map(|word| word.trim_matches([',', '.', '`', '[', ']']));
        for flag in flags.filter(|word| word.starts_with("--") && word.len() > 2 && *word != "--help") {
            assert!(page.contains(&format!("`{flag}")), "{command} {flag}");
        }
    }
}
