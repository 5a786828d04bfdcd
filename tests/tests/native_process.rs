//! The program `legion run`: exit codes, output, and the end by a signal (HOST-5, CLI-1, CLI-4).

use std::{
    io::{BufRead as _, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tests::libraries::{library, target_dir};

const BOUND: Duration = Duration::from_secs(60);

/// A home of its own, with nothing of this machine in it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().expect("a directory can be made"));
        std::fs::create_dir(home.project()).expect("the home is new");
        home
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn legion(&self, args: &[&str]) -> Command {
        let program = target_dir().join("legion");
        assert!(program.is_file(), "{} is missing: run `cargo xtask test`", program.display());
        let mut command = Command::new(program);
        command.args(args).current_dir(self.project()).env_clear();
        command.env("HOME", self.0.path()).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.legion(args).output().expect("the program starts")
    }

    /// The one session file of the root.
    fn session(&self) -> String {
        let sessions = self.path(".pi/agent/sessions");
        let only = |dir: PathBuf| {
            let mut entries = std::fs::read_dir(dir).expect("the directory is there");
            entries.next().expect("it holds something").expect("it can be read").path()
        };
        std::fs::read_to_string(only(only(sessions))).expect("the session can be read")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the output is text")
}

/// CLI-1, CLI-4, part of 11-T16: without a key, a network or a terminal, the answer is on standard output.
#[test]
fn run_answers_without_key_and_network() {
    let home = Home::new();
    std::fs::write(home.project().join("a.txt"), "real text\n").unwrap();
    let answer = home.run(&["run", "--no-legion", "! cat a.txt"]);
    assert_eq!(answer.status.code(), Some(0), "{}", text(&answer.stderr));
    assert!(text(&answer.stdout).contains("real text"));
    assert_eq!(text(&answer.stderr), "");
    let session = home.session();
    assert!(session.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(session.starts_with("{\"type\":\"session\",\"version\":3,"));
    // The same session goes on.
    let file = home.path("own.jsonl");
    for task in ["first", "second"] {
        home.run(&["run", "-p", "--no-legion", "--session", file.to_str().unwrap(), task]);
    }
    let session = std::fs::read_to_string(file).unwrap();
    assert_eq!(session.matches("\"role\":\"user\"").count(), 2);
}

/// NAT-6: one event a line, the session's header first and the settled event last.
#[test]
fn json_mode_writes_one_event_a_line() {
    let home = Home::new();
    let answer = home.run(&["run", "--json", "--no-legion", "hi"]);
    assert_eq!(answer.status.code(), Some(0));
    let lines: Vec<Value> = text(&answer.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!((kinds[0], kinds[1], *kinds.last().unwrap()), ("session", "agent_start", "agent_settled"));
    assert_eq!(kinds.len(), lines.len());
    let update = lines.iter().find(|line| line["assistantMessageEvent"]["type"] == "text_delta").unwrap();
    assert_eq!(update["message"]["role"], "assistant");
    let end = lines.iter().find(|line| line["type"] == "agent_end").unwrap();
    assert_eq!(end["messages"].as_array().unwrap().len(), 2);
}

/// CLI-4, part of 11-T9: failures are on standard error, with their exit codes.
#[test]
fn failures_have_their_exit_codes() {
    let home = Home::new();
    let script = home.path("script.yaml");
    let with = |content: &str| {
        std::fs::write(&script, content).unwrap();
        home.run(&["run", "--no-legion", "--script", script.to_str().unwrap(), "hi"])
    };
    let failed = with("otherwise: { error: { status: 401, body: bad key } }");
    assert_eq!((failed.status.code(), text(&failed.stdout)), (Some(1), String::new()));
    assert_eq!(text(&failed.stderr), "HTTP 401: bad key\n");
    let faulty = with("otherwise: { txt: hi }");
    assert_eq!(faulty.status.code(), Some(1));
    assert!(text(&faulty.stderr).contains("script.yaml:1"), "{}", text(&faulty.stderr));
    let unknown = home.run(&["run", "--no-legion", "--model", "nobody/x", "hi"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("nobody/x"));
    let usage = home.run(&["run", "--modell", "x", "hi"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).contains("--model"), "{}", text(&usage.stderr));
    std::fs::write(home.path("other.jsonl"), "not a session").unwrap();
    let foreign = home.run(&["run", "--no-legion", "--session", home.path("other.jsonl").to_str().unwrap(), "hi"]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(text(&foreign.stderr).contains("not a session file"));
}

/// A script in which the root makes a child whose bash runs, and then runs a bash of its own. Each writes its
/// process id into a file.
fn two_sleepers(home: &Home, child_gate: Value) -> PathBuf {
    let child = json!({
        "agentId": "root/kid", "name": "kid", "cwd": home.project(), "sessionFile": home.path("kid.jsonl"),
        "extensions": [library("probe_ext")], "tools": ["bash", "probe_gate"],
    });
    let sleep =
        |file: &str| json!({ "tool": "bash", "arguments": { "command": format!("echo $$ > {file}; sleep 1000") } });
    let request =
        |op: &str, input: Value| json!({ "tool": "probe_request", "arguments": { "op": op, "input": input } });
    let script = json!({ "rules": [
        { "match": { "role": "kid" }, "turns": [
            { "calls": [{ "tool": "probe_gate", "arguments": child_gate }] },
            { "calls": [sleep("kid.pid")] },
        ] },
        { "match": { "role": "root", "result": "\"child\":\"(?<child>c[0-9]+)\"" }, "turns": [
            { "calls": [request("child.prompt", json!({ "child": "{{match.child}}", "text": "sleep" }))] },
        ] },
        { "match": { "role": "root" }, "turns": [
            { "calls": [request("child.create", child)] },
            { "calls": [sleep("root.pid")] },
        ] },
    ] });
    let file = home.path("sleepers.json");
    std::fs::write(&file, script.to_string()).expect("the script can be written");
    file
}

/// Waits for a process id in a file.
fn pid_in(path: &Path) -> Pid {
    let begun = legion_ext::clock::instant();
    loop {
        if let Ok(pid) = std::fs::read_to_string(path).unwrap_or_default().trim().parse() {
            return Pid::from_raw(pid);
        }
        assert!(begun.elapsed() < BOUND, "nobody wrote {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait(mut child: Child) -> (Option<i32>, String, String, Duration) {
    let begun = legion_ext::clock::instant();
    loop {
        if let Some(status) = child.try_wait().expect("the program can be waited for") {
            let (mut out, mut err) = (String::new(), String::new());
            child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
            child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
            return (status.code(), out, err, begun.elapsed());
        }
        assert!(begun.elapsed() < BOUND, "the program does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lives(pid: Pid) -> bool {
    // A zombie that waits for a reaper somewhere above is dead.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = state.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    kill(pid, None).is_ok() && state != Some('Z')
}

fn gone(pid: Pid) {
    let begun = legion_ext::clock::instant();
    while lives(pid) {
        assert!(begun.elapsed() < BOUND, "process {pid} lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// HOST-5, part of 11-T3: SIGTERM and SIGINT, in print and json mode, with a child at work: gates awaited, runs
/// ended, transcripts whole, no process left.
#[test]
fn a_signal_ends_everything() {
    let ways =
        [(Signal::SIGTERM, "-p"), (Signal::SIGINT, "-p"), (Signal::SIGTERM, "--json"), (Signal::SIGINT, "--json")];
    for (signal, mode) in ways {
        let home = Home::new();
        let script = two_sleepers(&home, json!({ "gate": "session_shutdown", "hold": 300 }));
        let probe = library("probe_ext");
        let args =
            ["run", mode, "--no-legion", "-e", probe.to_str().unwrap(), "--script", script.to_str().unwrap(), "go"];
        let child = home.legion(&args).spawn().unwrap();
        let sleepers = ["kid.pid", "root.pid"].map(|file| pid_in(&home.project().join(file)));
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let (code, out, err, took) = wait(child);
        assert_eq!(code, Some(130), "{signal} {mode}: {err}");
        assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(9), "{signal} {mode}: {took:?}");
        sleepers.into_iter().for_each(gone);
        for transcript in [home.session(), std::fs::read_to_string(home.path("kid.jsonl")).unwrap()] {
            let last = transcript.lines().last().unwrap();
            assert!(last.contains("\"stopReason\":\"aborted\""), "{signal} {mode}: {last}");
        }
        if mode == "--json" {
            assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{out}");
            assert!(out.lines().last().unwrap().contains("\"agent_settled\""), "{out}");
        }
    }
}

/// HOST-5, part of 11-T3: a gate that never answers is cut off at 10 s; a second signal does not wait for it.
#[test]
fn a_gate_that_never_answers_is_cut_off() {
    let never = json!({ "gate": "session_shutdown", "hold": true });
    let probe = library("probe_ext");
    let start = |home: &Home| {
        let script = two_sleepers(home, never.clone());
        let args = ["run", "--no-legion", "-e", probe.to_str().unwrap(), "--script", script.to_str().unwrap(), "go"];
        let child = home.legion(&args).spawn().unwrap();
        let sleepers = ["kid.pid", "root.pid"].map(|file| pid_in(&home.project().join(file)));
        (child, sleepers)
    };
    let (patient, impatient) = (Home::new(), Home::new());
    let (first, sleepers) = start(&patient);
    let (second, others) = start(&impatient);
    let signal = |child: &Child| kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    signal(&first);
    signal(&second);
    // The second signal comes when the first one is at work: the runs have ended.
    others.into_iter().for_each(gone);
    signal(&second);
    let (code, _, err, took) = wait(second);
    assert_eq!(code, Some(130), "{err}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let (code, _, err, took) = wait(first);
    assert_eq!(code, Some(130), "{err}");
    assert!(took > Duration::from_secs(6) && took < Duration::from_secs(15), "{took:?}");
    sleepers.into_iter().for_each(gone);
}

/// ABI-54, 01-T11 with the tests of `native_gates.rs`: a signal ends a held settling, and no aborted run is asked.
#[test]
fn a_signal_ends_a_held_settling() {
    let home = Home::new();
    let probe = library("probe_ext");
    let script = json!({ "rules": [{ "turns": [
        { "calls": [{ "tool": "probe_gate", "arguments": { "gate": "agent_before_settle", "hold": true } }] },
        { "text": "the answer", },
    ] }] });
    std::fs::write(home.path("s.json"), script.to_string()).unwrap();
    let script = home.path("s.json");
    let args =
        ["run", "--json", "--no-legion", "-e", probe.to_str().unwrap(), "--script", script.to_str().unwrap(), "go"];
    let mut child = home.legion(&args).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // The model loop has ended: the gate is being asked.
    while !line.starts_with("{\"type\":\"agent_end\"") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "the output ended");
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(rest.trim(), "{\"type\":\"agent_settled\",\"aborted\":true}");
}

/// What `/proc` says of a process: resident memory in KiB, and threads.
fn weight(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the key is there");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    (number("VmRSS:"), number("Threads:"))
}

/// Memory and threads of a program with `n` children that all wait for their model.
fn with_children(n: u64) -> (u64, u64) {
    let home = Home::new();
    let request =
        |op: &str, input: Value| json!({ "tool": "probe_request", "arguments": { "op": op, "input": input } });
    let spec = |n: u64| {
        json!({
            "agentId": format!("root/kid-{n}"), "name": format!("kid-{n}"), "cwd": home.project(),
            "sessionFile": home.path(&format!("kid-{n}.jsonl")), "extensions": [library("probe_ext")],
            "extensionScope": { "role": "kid" },
        })
    };
    // Scopes are numbered in the order of creation, the root's is 1.
    let script = json!({ "rules": [
        { "match": { "role": "kid", "request": 1 }, "turns": [
            { "calls": [{ "tool": "bash", "arguments": { "command": "echo $PI_SESSION_ID >> seen" } }] },
        ], "repeat": "all" },
        { "match": { "role": "kid" }, "turns": [{ "text": "done", "untilFile": "go" }] },
        { "match": { "role": "root" }, "turns": [
            { "calls": (0..n).map(|n| request("child.create", spec(n))).collect::<Vec<_>>() },
            { "calls": (0..n).map(|n| request("child.prompt", json!({ "child": format!("c{}", n + 2), "text": "go" }))).collect::<Vec<_>>() },
            { "text": "all done", "untilFile": "go" },
        ] },
    ] });
    std::fs::write(home.path("s.json"), script.to_string()).expect("the script can be written");
    let (probe, script) = (library("probe_ext"), home.path("s.json"));
    let paths = [&probe, &script].map(|path| path.to_str().expect("a plain path"));
    let child = home.legion(&["run", "--no-legion", "-e", paths[0], "--script", paths[1], "go"]).spawn();
    let child = child.expect("the program starts");
    let begun = legion_ext::clock::instant();
    let answered = |n: u64| {
        let transcript = std::fs::read_to_string(home.path(&format!("kid-{n}.jsonl"))).unwrap_or_default();
        transcript.contains("\"role\":\"toolResult\"")
    };
    while !(0..n).all(answered) {
        assert!(begun.elapsed() < BOUND, "not every child came to its second request");
        std::thread::sleep(Duration::from_millis(20));
    }
    let weight = weight(child.id());
    std::fs::write(home.project().join("go"), "").expect("a file can be written");
    let (code, out, err, _) = wait(child);
    assert_eq!((code, out.as_str()), (Some(0), "all done\n"), "{err}");
    weight
}

/// NAT-8, 11-T15: a hundred children that used a tool need no thread each, and at most 40 MB more than one.
#[test]
fn a_hundred_children_fit() {
    let ((one, few), (hundred, many)) = (with_children(1), with_children(100));
    assert!(hundred.saturating_sub(one) <= 40 * 1024, "{one} KiB with one child, {hundred} KiB with a hundred");
    assert!(many.saturating_sub(few) <= 16, "{few} threads with one child, {many} with a hundred");
}

/// The end of a run leaves nothing behind, also a server that a command put into the background.
#[test]
fn the_normal_end_waits_for_the_gates() {
    let home = Home::new();
    let probe = library("probe_ext");
    let script = json!({ "rules": [{ "turns": [
        { "calls": [{ "tool": "probe_gate", "arguments": { "gate": "session_shutdown", "hold": 400 } }] },
        { "text": "the answer" },
    ] }] });
    std::fs::write(home.path("s.json"), script.to_string()).unwrap();
    let begun = legion_ext::clock::instant();
    let script = home.path("s.json");
    let answer =
        home.run(&["run", "--no-legion", "-e", probe.to_str().unwrap(), "--script", script.to_str().unwrap(), "go"]);
    assert_eq!((answer.status.code(), text(&answer.stdout).as_str()), (Some(0), "the answer\n"));
    assert!(begun.elapsed() >= Duration::from_millis(400));
}
