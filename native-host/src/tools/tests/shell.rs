//! `bash`.

use std::sync::Mutex;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::json;

use super::*;

/// The pid that a command wrote into `file`.
async fn pid_in(place: &Place, file: &str) -> Pid {
    let path = place.cwd.join(file);
    let text = until(|| std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await;
    Pid::from_raw(text.trim().parse().unwrap())
}

/// Waits for a state, bounded.
async fn until<T>(mut state: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(found) = state() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the state did not come");
}

fn alive(pid: Pid) -> bool {
    // A zombie answers signals; it is no live process.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None).is_ok() && !stat.contains(") Z ")
}

async fn gone(pid: Pid) {
    until(|| (!alive(pid)).then_some(())).await;
}

#[tokio::test]
async fn output_and_exit_code_are_told() {
    let place = Place::new();
    let bash = |command: &str| place.call("bash", json!({ "command": command }));
    assert_eq!(bash("echo out; echo err >&2").await.good().lines().count(), 2);
    assert_eq!(bash("true").await.good(), "(no output)");
    assert_eq!(bash("echo x; exit 3").await.bad(), "x\n\n\nCommand exited with code 3");
    assert_eq!(bash("exit 1").await.bad(), "(no output)\n\nCommand exited with code 1");
    assert_eq!(bash("kill -KILL $$").await.bad(), "(no output)\n\nCommand exited with code 137");
    assert_eq!(bash("cat").await.good(), "(no output)", "there is no input to wait for");
    assert_eq!(bash("printf 'a\\xffb\\0c'").await.good(), "a\u{fffd}b\0c");
    assert!(bash("no-such-command").await.bad().ends_with("Command exited with code 127"));
    let ctx = ToolContext { cwd: "/no/such/dir".into(), ..place.context() };
    assert!(
        call("bash", ctx, json!({ "command": "true" }))
            .await
            .bad()
            .starts_with("Working directory does not exist: /no/such/dir")
    );
}

/// NAT-4, SUP-36: a command is told of its session and of nobody's identity
#[tokio::test]
async fn commands_see_the_session_and_no_identity() {
    let place = Place::new();
    let output = place.call("bash", json!({ "command": "env" })).await.good();
    for line in ["PI_SESSION_ID=s-1", "PI_SESSION_FILE=/s.jsonl", "PI_PROVIDER=scripted", "PI_MODEL=echo"] {
        assert!(output.lines().any(|found| found == line), "{line}\n{output}");
    }
    assert!(!output.contains("leaked"), "{output}");
    assert!(output.contains("HOME="));
}

/// NAT-4, 11-T13: a timeout kills the whole group; its text names the seconds as they were given
#[tokio::test]
async fn a_timeout_kills_the_group() {
    let place = Place::new();
    let command = "echo before; sleep 1000 & echo $! > pid; (trap '' TERM; sleep 1000)";
    let output = place.call("bash", json!({ "command": command, "timeout": 1.5 })).await;
    assert_eq!(output.bad(), "before\n\n\nCommand timed out after 1.5 seconds");
    gone(pid_in(&place, "pid").await).await;
    let problem = |timeout: f64| place.call("bash", json!({ "command": "true", "timeout": timeout }));
    assert_eq!(problem(0.0).await.bad(), "Invalid timeout: must be a positive number of seconds");
    assert_eq!(problem(1e10).await.bad(), "Invalid timeout: maximum is 2147483.647 seconds");
    assert_eq!(problem(5.0).await.good(), "(no output)");
}

/// NAT-4, 11-T13: an abort kills the whole group and keeps the output so far; no zombie stays
#[tokio::test]
async fn an_abort_kills_the_group() {
    let place = Place::new();
    let ctx = place.context();
    let cancel = ctx.cancel.clone();
    let running =
        call("bash", ctx, json!({ "command": "echo so far; echo $$ > shell; sleep 1000 & echo $! > pid; wait" }));
    let cancelled = async {
        let pids = (pid_in(&place, "shell").await, pid_in(&place, "pid").await);
        cancel.cancel();
        pids
    };
    let (output, (shell, child)) = tokio::join!(running, cancelled);
    assert_eq!(output.bad(), "so far\n\n\nCommand aborted");
    gone(child).await;
    assert!(!std::path::Path::new(&format!("/proc/{shell}")).exists(), "the shell was reaped");
}

/// A call that is dropped, because its session is torn down, leaves no process
#[tokio::test]
async fn a_dropped_call_kills_the_group() {
    let place = Place::new();
    let mut running = Box::pin(place.call("bash", json!({ "command": "sleep 1000 & echo $! > pid; wait" })));
    let pid = tokio::select! {
        _ = &mut running => panic!("it waits"),
        pid = pid_in(&place, "pid") => pid,
    };
    drop(running);
    gone(pid).await;
}

/// F2: a server that the command leaves in the background with its output does not block the tool, and stays
#[tokio::test]
async fn a_background_server_does_not_block() {
    let place = Place::new();
    let output = place.call("bash", json!({ "command": "echo up; sleep 1000 & echo $! > pid" })).await;
    assert_eq!(output.good(), "up\n");
    let pid = pid_in(&place, "pid").await;
    assert!(alive(pid), "what a finished command left in the background is not killed");
    kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

/// REL-6: the whole of a long output is in a file for this user only
#[tokio::test]
async fn long_output_is_kept_whole_in_a_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let output = place.call("bash", json!({ "command": "seq 100000" })).await;
    let path = PathBuf::from(output.details.as_ref().unwrap()["fullOutputPath"].as_str().unwrap());
    assert!(path.starts_with(place.env.temp_dir()));
    assert!(output.good().ends_with(&format!("Full output: {}]", path.display())));
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(place.call("bash", json!({ "command": "seq 10" })).await.details, None);
}

#[tokio::test]
async fn progress_shows_the_output_so_far() {
    let place = Place::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let progress: ProgressSink = Arc::new(move |output: ToolOutput| sink.lock().unwrap().push(output.good()));
    let ctx = ToolContext { progress: Some(progress), ..place.context() };
    let running = call("bash", ctx, json!({ "command": "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two" }));
    let go = async {
        until(|| seen.lock().unwrap().iter().any(|text| text == "one\n").then_some(())).await;
        place.write("go", "");
    };
    let (output, ()) = tokio::join!(running, go);
    assert_eq!(output.good(), "one\ntwo\n");
}

/// Many commands at once need no thread each
#[tokio::test]
async fn many_commands_run_side_by_side() {
    let place = Place::new();
    let calls = (0..30).map(|number| {
        place.call(
            "bash",
            json!({ "command": format!("echo {number} >> all; while [ $(wc -l < all) -lt 30 ]; do sleep 0.01; done") }),
        )
    });
    for output in futures_util::future::join_all(calls).await {
        output.good();
    }
}
